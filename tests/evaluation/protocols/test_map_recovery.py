"""The protocol map-recovery on the synthetic street, with few images and repetitions."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from mappable.arrays import Bools, Floats, path_length
from mappable.evaluation import route_methods
from mappable.evaluation.protocols import map_recovery
from mappable.evaluation.protocols.map_recovery import MapRecovery, Method
from mappable.evaluation.route_methods import ORACLE, PRINTED
from mappable.evaluation.scoring import Scoring
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.matrices.sdp import Completed

pytestmark = pytest.mark.medium
RADIUS = 10.0  # metres


@pytest.fixture(scope="module", autouse=True)
def _few() -> Iterator[None]:
    """24 images, and two repetitions."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"IMAGES": 24, "REPETITIONS": 2}.items():
            patch.setattr(map_recovery, name, value)
        yield


@pytest.fixture(scope="module")
def scoring(scoring: Scoring) -> Scoring:
    """The first 160 m of the street."""
    return replace(scoring, setup=replace(scoring.setup, route_length=160.0))


@pytest.fixture(scope="module")
def found(scoring: Scoring) -> MapRecovery:
    return map_recovery.run(scoring)


def rows_of(found: MapRecovery) -> dict[str, Method]:
    return {row.method: row for row in found.methods}


def test_rows_hold_the_errors_of_the_positions(
    scoring: Scoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_recovery, "REPETITIONS", 1)
    found = map_recovery.run(scoring)
    rows = rows_of(found)
    assert (found.sequence, len(found.images)) == ("test-sun", 24)
    np.testing.assert_array_equal(scoring.setup.places.positions[found.images], found.truth)
    way = path_length(scoring.setup.places.positions[scoring.setup.places.sequence == "test-sun"])
    assert found.length == pytest.approx(way[way <= 160.0].max())
    for name, trivial in trivial_rows(found.truth).items():
        assert rows[name].mean == pytest.approx(trivial.rmse)
        assert rows[name].group == "trivial"
    assert set(found.positions) == set(map_recovery.SHOWN.values())
    for method, name in map_recovery.SHOWN.items():
        error = float(np.sqrt(np.square(found.positions[name] - found.truth).sum(axis=1).mean()))
        assert rows[method].mean == pytest.approx(error)
        assert rows[method].percent == pytest.approx(100 * error / found.length)
    assert rows["calibrated ranges"].rigid >= rows["calibrated ranges"].mean  # type: ignore[operator]
    assert rows["calibrated ranges and known positions"].rigid is None


def test_every_method_has_a_row_for_every_repetition(found: MapRecovery) -> None:
    frobenius, trace = "SDP (Frobenius)", "SDP (trace form)"
    ways = [
        (frobenius, ""),
        (trace, ""),
        (frobenius, PRINTED),
        (frobenius, ORACLE),
        (trace, ORACLE),
    ]
    groups: dict[str, list[str]] = {}
    for row in found.methods:
        groups.setdefault(row.group, []).append(row.method)
        assert row.std is not None
    layouts = ("classical MDS", "SMACOF")
    assert groups["paper"] == [
        f"{form}, {layout}{mask}" for form, mask in ways for layout in layouts
    ]
    assert groups["ours"] == ["calibrated ranges", "calibrated ranges, of the mask's pairs alone"]
    known = [rows_of(found)[name].mean for name in groups["ours, known positions"]]
    assert len(known) == 3
    assert max(known) < 0.3 * rows_of(found)["straight line"].mean


def test_the_mask_as_printed(scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_recovery, "REPETITIONS", 1)
    masks, given = [], route_methods.sdp_frobenius

    def watched(squared: Floats, mask: Bools, dimensions: int) -> Completed:
        masks.append((squared, mask))
        return given(squared, mask, dimensions)

    monkeypatch.setattr(route_methods, "sdp_frobenius", watched)
    found = map_recovery.run(scoring)
    squared_metres, mask = masks[2]  # after the chain, and the mask with the chosen threshold
    described = scoring.descriptors[found.images].astype(np.float64)
    pairs = [(i, j) for i in range(24) for j in range(i)]
    scale = RADIUS**2 / 0.9  # r1²/F²
    # Squared metres.
    apart = {(i, j): scale * float(np.square(described[i] - described[j]).sum()) for i, j in pairs}
    kept = [pair for pair in pairs if apart[pair] <= RADIUS**2]
    assert 0 < len(kept) < len(pairs)
    for i, j in pairs:
        assert squared_metres[i, j] == pytest.approx(apart[i, j], rel=1e-3)
        # Which connects parts.
        assert mask[i, j] == mask[j, i] == ((i, j) in kept or (i == j + 1 and mask[i, j]))
    near = [pair for pair in pairs if found.true[pair] <= RADIUS]
    both = len(set(kept) & set(near))
    quality = found.masks["as printed (λD ≤ r1²)"]
    assert quality.per_row == pytest.approx(2 * len(kept) / 24)
    assert quality.precision == pytest.approx(100 * both / len(kept))
    assert quality.recall == pytest.approx(100 * both / len(near))
