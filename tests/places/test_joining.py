"""Joining tables: what moves (paths, origins), what stays (ids, rows) and what cannot be joined."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.joining import concatenate
from mappable.places.table import NO_TIME, Places


def table(root: str, *names: str, **changes: Any) -> Places:
    columns: dict[str, Any] = {"path": names, "x": np.arange(len(names)), "y": np.zeros(len(names))}
    return Places(**(columns | {"frames": Frame("town"), "root": root} | changes))


def test_rows_follow_in_order_with_all_their_columns() -> None:
    first = table(
        "/d", "a.jpg", time=[5], yaw=[0.25], condition="sun", split="train", sequence="one"
    )
    second = table("/d", "b.jpg", "c.jpg", z=[1.0, math.nan], role="query", sequence="two")
    joined = concatenate([first, second])
    assert joined.path.tolist() == ["a.jpg", "b.jpg", "c.jpg"]
    assert joined.time.tolist() == [5, NO_TIME, NO_TIME]
    assert joined.condition.tolist() == ["sun", "", ""]
    assert joined.split.tolist() == ["train", "", ""]
    assert joined.role.tolist() == ["", "query", "query"]
    assert joined.sequence.tolist() == ["one", "two", "two"]
    assert joined.yaw[0] == 0.25
    assert joined.z[1] == 1.0
    assert np.isnan(joined.z[[0, 2]]).all()
    assert joined[:1] == first
    assert joined[1:] == second


def test_roots_become_their_common_folder_and_files_stay_the_same() -> None:
    tables = [table("/d/one", "a.jpg"), table("/d/two/deep", "a.jpg"), table("/d", "x/a.jpg")]
    joined = concatenate(tables)
    assert joined.root == Path("/d")
    assert joined.path.tolist() == ["one/a.jpg", "two/deep/a.jpg", "x/a.jpg"]
    assert joined.files == [file for one in tables for file in one.files]


def test_ids_stay_unless_two_tables_share_one_that_is_a_path() -> None:
    apart = concatenate([table("/d/one", "a.jpg"), table("/d/two", "a.jpg", place_id=["my own"])])
    assert apart.place_id.tolist() == ["a.jpg", "my own"]
    shared = concatenate(
        [
            table("/d/one", "a.jpg"),
            table("/d/two", "a.jpg"),
            table("/d/3", "b.jpg", place_id=["own"]),
        ]
    )
    assert shared.place_id.tolist() == ["one/a.jpg", "two/a.jpg", "own"]


ORIGINS = st.tuples(*[st.integers(-(10**7), 10**7).map(float)] * 3)
QUARTER_TURN = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))


@pytest.mark.medium
@given(ORIGINS, ORIGINS, st.booleans())
def test_origins_are_unified_and_original_coordinates_stay(
    first_origin: tuple[float, float, float],
    second_origin: tuple[float, float, float],
    turned: bool,
) -> None:
    axes = {"axes": QUARTER_TURN} if turned else {}
    first = table(
        "/d", "a.jpg", frames=Frame("utm", crs="EPSG:32632", origin=first_origin, **axes), z=[2.0]
    )
    second = table(
        "/d", "b.jpg", "c.jpg", frames=Frame("utm", crs="EPSG:32632", origin=second_origin, **axes)
    )
    joined = concatenate([first, second])
    assert joined.frames == first.frames
    assert (joined.x[0], joined.y[0], joined.z[0]) == (first.x[0], first.y[0], 2.0)
    assert np.isnan(joined.z[1:]).all()
    before = second.frames["utm"].to_original(second.positions)
    after = joined.frames["utm"].to_original(joined.positions[1:])
    assert after[:, :2] == pytest.approx(before[:, :2], abs=1e-6)


def test_tables_of_different_dimensions_or_decodings_are_refused() -> None:
    flat, tall = table("/d", "a.jpg"), table("/d", "b.jpg", z=[0.0], dimensions=3)
    with pytest.raises(BadInputError, match=r"2 and 3 dimensions"):
        concatenate([flat, tall])
    assert concatenate([tall]).dimensions == 3
    raw = table("/d", "b.jpg", decoding=RawDecoding("GBRG"))
    with pytest.raises(BadInputError, match="different raw decodings"):
        concatenate([flat, raw])
    assert concatenate(
        [raw, table("/d", "c.jpg", decoding=RawDecoding("GBRG"))]
    ).decoding == RawDecoding("GBRG")
