"""Neighbors: near and far places against a loop over all pairs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.places.frames import Frame
from mappable.places.neighbors import find_neighbors
from mappable.places.table import Places

FRAMES = (Frame("a"), Frame("b"))


def table(xyz: Any, frame: Any = "a", yaw: Any = None, dimensions: Any = 2) -> Places:
    xyz = np.array(xyz, dtype=float).reshape(-1, 3)
    names = [frame] * len(xyz) if isinstance(frame, str) else frame
    return Places(
        path=[f"{row}.jpg" for row in range(len(xyz))],
        **dict(zip("xyz", xyz.T, strict=True)),
        yaw=yaw,
        frame=names,
        sequence=names,
        frames=FRAMES,
        dimensions=dimensions,
    )


@st.composite
def tables(draw: st.DrawFn, dimensions: int) -> Places:
    """Places on a coarse grid, whose distances are exact, so that "at most" is put to the test."""
    grid, turn = st.integers(-3, 3), st.integers(-8, 8).map(lambda eighth: eighth * math.pi / 8)
    rows = draw(
        st.lists(
            st.tuples(grid, grid, grid, turn | st.just(math.nan), st.sampled_from("ab")),
            max_size=40,
        )
    )
    yaw, frame = [row[3] for row in rows], [row[4] for row in rows]
    return table([row[:3] for row in rows], frame, yaw, dimensions)


def are_neighbors(
    first: Places, i: int, second: Places, j: int, radius: float, max_yaw: float | None
) -> bool:
    if first.frame[i] != second.frame[j]:
        return False
    axes = "xyz"[: first.dimensions]
    if sum((getattr(first, axis)[i] - getattr(second, axis)[j]) ** 2 for axis in axes) > radius**2:
        return False
    if max_yaw is None:
        return True
    cosine = math.cos(first.yaw[i] - second.yaw[j])  # NaN where a yaw is unknown
    return cosine > math.cos(max_yaw)


# Between the multiples of 22.5 degrees that the yaws differ by, so that no rounding decides.
MAX_YAWS = st.none() | st.sampled_from([11.0, 30.0, 50.0, 100.0, 170.0]).map(math.radians)


@pytest.mark.medium
@pytest.mark.parametrize("dimensions", [2, 3])
@given(data=st.data())
def test_neighbors_are_those_of_a_loop_over_all_pairs(dimensions: int, data: st.DataObject) -> None:
    places = data.draw(tables(dimensions))
    radius, max_yaw = float(data.draw(st.integers(0, 5))), data.draw(MAX_YAWS)
    found = find_neighbors(places, radius, max_yaw=max_yaw)
    count = range(len(places))
    expected = [
        [j for j in count if i != j and are_neighbors(places, i, places, j, radius, max_yaw)]
        for i in count
    ]
    assert [rows.tolist() for rows in found] == expected
    assert found.counts.tolist() == [len(rows) for rows in expected]
    assert len(found) == len(places)


def test_yaw_is_compared_round_the_circle_and_must_differ_by_less() -> None:
    places = table([(0, 0, 0)] * 4, yaw=[math.pi - 0.25, -math.pi + 0.25, 0.0, math.nan])
    assert [rows.tolist() for rows in find_neighbors(places, 1.0, max_yaw=0.51)] == [
        [1],
        [0],
        [],
        [],
    ]
    assert [rows.tolist() for rows in find_neighbors(places, 1.0, max_yaw=0.49)] == [[], [], [], []]
    exact = table([(0, 0, 0)] * 2, yaw=[0.0, 0.5])
    assert find_neighbors(exact, 1.0, max_yaw=0.5).counts.tolist() == [0, 0]
    assert find_neighbors(exact, 1.0, max_yaw=math.nextafter(0.5, 1)).counts.tolist() == [1, 1]
