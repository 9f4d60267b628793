"""Maps in memory, beside plain arrays and dictionaries; what does not fit together is refused by name."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mappable.errors import BadInputError
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

Describe = Callable[..., tuple[Places, NDArray[np.float32]]]
CRS = "EPSG:32632"


def ids(some: Landmarks) -> list[str]:
    return list(some.places.place_id)


@pytest.mark.medium
@given(
    st.lists(st.tuples(st.sampled_from(["add", "merge", "remove"]), st.integers(1, 4)), max_size=6),
    st.data(),
)
def test_after_any_changes_a_map_finds_what_a_plain_table_has(
    described: Describe, changes: list[tuple[str, int]], data: st.DataObject
) -> None:
    places, vectors = described(3)
    built = Landmarks.build(places, vectors, "e")
    plain = dict(zip(places.place_id, zip(places.positions, vectors, strict=True), strict=True))
    for number, (change, count) in enumerate(changes, 1):
        if change == "remove":
            gone = data.draw(st.permutations(sorted(plain)))[: min(count, len(plain) - 1)]
            built = built.remove(gone)
            plain = {place_id: held for place_id, held in plain.items() if place_id not in gone}
        else:
            places, vectors = described(count, first=10 * number)
            more = Landmarks.build(places, vectors, "e")
            built = built.add(places, vectors, "e") if change == "add" else built.merge(more)
            plain |= dict(
                zip(places.place_id, zip(places.positions, vectors, strict=True), strict=True)
            )
    assert ids(built) == list(plain)
    positions, held = (np.stack(parts) for parts in zip(*plain.values(), strict=True))
    np.testing.assert_array_equal(built.places.positions, positions)
    np.testing.assert_array_equal(built.store.take(np.arange(len(built))), held)
    assert not built.estimated.any()
    queries = described(4, first=900)[1]
    squared = np.square(queries[:, None] - held).sum(axis=2)
    rows, distances = built.store.nearest(queries, len(plain))
    np.testing.assert_array_equal(rows, np.argsort(squared, axis=1, kind="stable"))
    np.testing.assert_allclose(distances, np.sort(squared, axis=1), rtol=1e-5)


def test_half_precision_takes_half_the_room_and_ranks_alike(described: Describe) -> None:
    places, vectors = described(60)
    whole, half = (
        Landmarks.build(places, vectors, "e", storage=storage) for storage in ("float32", "float16")
    )
    queries = described(20, first=500)[1]
    found, squared = half.store.nearest(queries, 5)
    wanted, exact = whole.store.nearest(queries, 5)
    np.testing.assert_array_equal(found[:, 0], wanted[:, 0])
    np.testing.assert_allclose(squared, exact, atol=2e-3)
    grown = half.add(*described(1, first=70), "e")
    assert grown.storage == half.storage == "float16"
    assert grown.store.take(np.arange(3)).dtype == np.float32
    np.testing.assert_array_equal(grown.store.take(np.arange(60)), vectors.astype(np.float16))


def test_estimated_landmarks_keep_their_covariance(described: Describe) -> None:
    measured = Landmarks.build(*described(2), "e")
    covariance = np.stack([np.diag([1.0, 4.0]), np.full((2, 2), np.nan)])
    built = measured.add(*described(2, first=5), "e", covariance)
    assert built.estimated.tolist() == [False, False, True, False]
    np.testing.assert_array_equal(built.covariance[2], np.diag([1.0, 4.0]))
    assert built.remove(["0.jpg", "6.jpg"]).estimated.tolist() == [False, True]
    for spoilt, problem in (
        (covariance[:1], r"covariances have shape \(1, 2, 2\), expected \(2, 2, 2\)"),
        (-covariance, r"the covariance of place 0 \('5\.jpg'\) is not positive definite"),
        (np.where(np.isnan(covariance), np.inf, covariance), "place 1 .* is not positive definite"),
    ):
        with pytest.raises(BadInputError, match=problem):
            measured.add(*described(2, first=5), "e", spoilt)


def test_places_of_another_origin_are_brought_to_the_map(described: Describe) -> None:
    own = Landmarks.build(
        *described(2, frames=Frame("utm", crs=CRS, origin=(1000.0, 2000.0, 0.0))), "e"
    )
    places, vectors = described(
        2, first=5, frames=Frame("utm", crs=CRS, origin=(1010.0, 1999.0, 0.0))
    )
    joined = own.add(places, vectors, "e")
    np.testing.assert_array_equal(joined.places.positions, [[0, 0], [1, 0], [15, -1], [16, -1]])
    assert joined.frame == own.frame


def test_what_does_not_belong_into_a_map_is_refused_by_name(described: Describe) -> None:
    places, vectors = described(3)
    built = Landmarks.build(places, vectors, "e")

    def refused(
        problem: str, places: Places, vectors: NDArray[np.float32], encoder: str = "e"
    ) -> None:
        with pytest.raises(BadInputError, match=problem):
            built.add(places, vectors, encoder)
        if encoder == "e":
            with pytest.raises(BadInputError, match=problem):
                built.merge(Landmarks.build(places, vectors, encoder))

    refused(
        "encoder f made the descriptors, but the map needs encoder e", *described(1, first=5), "f"
    )
    refused(
        "the map has frame 'town', but the added landmarks have frame 'b'",
        *described(1, first=5, frames=Frame("b")),
    )
    refused(
        "has unit 'm', but the added landmarks have unit",
        *described(1, first=5, frames=Frame("town", "frames")),
    )
    refused(
        "has dimensions 2, but the added landmarks have dimensions 3",
        *described(1, first=5, z=[0.0], dimensions=3),
    )
    refused("the map already has a landmark '2.jpg'", *described(3, first=2))
    refused(
        "frame 'town' has two definitions",
        *described(1, first=5, frames=Frame("town", origin=(1.0, 0.0, 0.0))),
    )
    short = described(1, first=5)[1][:, :7]
    short /= np.linalg.norm(short)
    refused(
        "has descriptor length 8, but the added landmarks have descriptor length 7",
        described(1, first=5)[0],
        short,
    )
    with pytest.raises(BadInputError, match="encoder f"):
        built.check_encoder("f")
    with pytest.raises(BadInputError, match=r"landmark.*'x'"):
        built.remove(["0.jpg", "x"])
    with pytest.raises(BadInputError, match=r"3.*landmarks"):
        built.remove(ids(built))
