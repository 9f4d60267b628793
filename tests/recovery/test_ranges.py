"""Ranges: pairs in order, their graph and its parts, and one sentence for each thing that can be wrong."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges, ranges_of_matrix


@st.composite
def pair_lists(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, float]]]:
    """How many points there are, and distinct pairs of them in any order and direction, with their
    metres.
    """
    count = draw(st.integers(2, 12))
    pairs = [(a, b) for a in range(count) for b in range(a)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True))
    return count, [(*draw(st.permutations(pair)), draw(st.floats(0, 100))) for pair in chosen]


def made(count: int, pairs: list[tuple[int, int, float]]) -> Ranges:
    i, j, metres = (list(column) for column in zip(*pairs, strict=True)) if pairs else ([], [], [])
    return Ranges(count, i, j, metres, 0.5)


def as_set(ranges: Ranges) -> set[tuple[int, int, float]]:
    return set(zip(ranges.i.tolist(), ranges.j.tolist(), ranges.metres.tolist(), strict=True))


# Pairs


@given(pair_lists())
def test_pairs_are_kept_once_sorted_and_the_smaller_number_first(given_: tuple[int, Any]) -> None:
    count, pairs = given_
    ranges = made(count, pairs)
    assert len(ranges) == len(pairs)
    assert as_set(ranges) == {(min(i, j), max(i, j), metres) for i, j, metres in pairs}
    keys = list(zip(ranges.i.tolist(), ranges.j.tolist(), strict=True))
    assert keys == sorted(keys)
    assert all(i < j for i, j in keys)


@pytest.mark.medium
@given(pair_lists(), st.data())
def test_those_among_some_points_are_numbered_as_the_points_are_given(
    given_: tuple[int, Any], data: st.DataObject
) -> None:
    ranges = made(*given_)
    points = data.draw(st.lists(st.integers(0, ranges.count - 1), unique=True, min_size=1))
    some = ranges.among(np.array(points))
    assert some.count == len(points)
    back = {(*sorted((points[i], points[j])), metres) for i, j, metres in as_set(some)}
    assert back == {row for row in as_set(ranges) if row[0] in points and row[1] in points}


# Their graph


@pytest.mark.medium
@given(pair_lists())
def test_the_graph_is_symmetric_and_holds_the_metres(given_: tuple[int, Any]) -> None:
    ranges = made(*given_)
    dense = ranges.graph.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(dense[ranges.i, ranges.j], ranges.metres)
    assert ranges.graph is ranges.graph


@pytest.mark.medium
@given(pair_lists())
def test_parts_are_those_of_a_search_from_point_to_point(given_: tuple[int, Any]) -> None:
    """Even pairs of no distance hold a part together."""
    ranges = made(*given_)
    parts = ranges.parts
    label = list(range(ranges.count))
    for i, j, _ in as_set(ranges):
        old, new = label[i], label[j]
        label = [new if one == old else one for one in label]
    for a in range(ranges.count):
        for b in range(ranges.count):
            assert (label[a] == label[b]) == (parts[a] == parts[b])
    sizes = np.bincount(parts)
    assert (np.diff(sizes) <= 0).all()  # the largest is 0


# What is refused


@pytest.mark.parametrize(
    ("count", "i", "j", "metres", "sigma", "part"),
    [
        (0, [], [], [], 1.0, "0 points"),
        (3, [0, 1], [1], [1.0, 2.0], 1.0, "same length"),
        (3, [0.5], [1], [1.0], 1.0, "integers"),
        (
            3,
            [0, 1],
            [1, 3],
            [1.0, 2.0],
            1.0,
            "range 1 (points 1 and 3, 2 m, sigma 1 m): points must be between 0 and 2",
        ),
        (3, [-1], [1], [1.0], 1.0, "between 0 and 2"),
        (3, [1], [1], [1.0], 1.0, "two different points"),
        (
            3,
            [0],
            [1],
            [np.nan],
            1.0,
            "range 0 (points 0 and 1, nan m, sigma 1 m): metres must be a finite number",
        ),
        (3, [0], [1], [np.inf], 1.0, "finite number"),
        (3, [0], [1], [-2.0], 1.0, "must be 0 or more"),
        (3, [0], [1], [1.0], 0.0, "sigma must be above 0"),
        (3, [0], [1], [1.0], np.nan, "sigma"),
        (3, [0, 1], [1, 0], [1.0, 1.0], 1.0, "points 0 and 1 occurs more than once"),
    ],
)
def test_what_cannot_be_a_range_is_named(
    count: int, i: Any, j: Any, metres: Any, sigma: Any, part: str
) -> None:
    with pytest.raises(BadInputError) as refused:
        Ranges(count, i, j, metres, sigma)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


# Out of a matrix


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_matrix_of_squared_distances_becomes_metres_by_its_scale(dimensions: int) -> None:
    points = np.random.default_rng(0).normal(size=(6, dimensions))
    squared = np.square(points[:, None] - points).sum(2)
    ranges = ranges_of_matrix(squared / 25, 25.0, squared < 2)
    np.testing.assert_allclose(
        ranges.metres, np.linalg.norm(points[ranges.i] - points[ranges.j], axis=1)
    )
    assert len(ranges) == (np.triu(squared < 2, 1)).sum()
    own = ranges_of_matrix(squared, 1.0, squared < 2, sigma=0.1 + squared)
    np.testing.assert_allclose(own.sigma, 0.1 + np.square(own.metres))


@pytest.mark.parametrize(
    ("squared", "mask", "scale", "part"),
    [
        (np.zeros((2, 3)), np.ones((2, 3)), 1.0, "square, got 2 x 3"),
        (np.zeros((3, 3)), np.ones((2, 2)), 1.0, "mask"),
        (np.zeros((3, 3)), np.ones((3, 3)), 0.0, "scale must be above 0, got 0.0"),
        (
            np.full((3, 3), np.nan),
            np.ones((3, 3)),
            1.0,
            "[0, 1] is nan, which is not a finite number",
        ),
        (-np.ones((3, 3)), np.ones((3, 3)), 1.0, "is negative"),
        (
            np.arange(9.0).reshape(3, 3),
            np.ones((3, 3)),
            1.0,
            "[0, 1] is 1.0, which differs from its mirror image",
        ),
    ],
)
def test_what_cannot_be_a_matrix_of_distances_is_named(
    squared: Any, mask: Any, scale: float, part: str
) -> None:
    with pytest.raises(BadInputError) as refused:
        ranges_of_matrix(squared, scale, mask.astype(bool))
    assert part in str(refused.value)
