"""Landmarks beside independent slow computations."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.maps.choosing import greedy_landmarks, sequential_landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

STEPS = st.lists(
    st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(-1, 1)), min_size=1, max_size=30
)


def table(positions: np.ndarray, **columns: Any) -> Places:
    paths = [f"{row}.jpg" for row in range(len(positions))]
    x, y, z = positions.T if positions.shape[1] == 3 else (*positions.T, None)
    return Places(path=paths, x=x, y=y, z=z, **({"frames": Frame("town")} | columns))


def test_greedy_landmarks_are_nested_and_spread() -> None:
    places = table(np.random.default_rng(0).uniform(0, 100, (500, 2)))
    chosen = greedy_landmarks(places, 40, seed=3)
    assert chosen.tolist()[:10] == greedy_landmarks(places, 10, seed=3).tolist()
    apart = np.linalg.norm(places.positions[:, None] - places.positions[chosen], axis=2)
    between = np.linalg.norm(places.positions[chosen][:, None] - places.positions[chosen], axis=2)
    # Farther apart than any place from them.
    assert apart.min(axis=1).max() <= between[~np.eye(40, dtype=bool)].min()


@given(STEPS, st.sampled_from([1.0, math.sqrt(2), 2.5, 4.0]), st.sampled_from([2, 3]))
def test_each_sequential_landmark_is_the_first_that_is_far_from_the_last(
    steps: list[tuple[int, int, int]], spacing: float, dimensions: int
) -> None:
    positions = np.cumsum(np.array(steps, dtype=np.float64), axis=0)
    chosen = sequential_landmarks(table(positions, dimensions=dimensions), spacing)
    assert chosen[0] == 0
    last = positions[0, :dimensions]
    for row, position in enumerate(positions[:, :dimensions]):
        far = math.dist(position, last) >= spacing
        assert far == (row in chosen[1:])
        last = position if far else last


def test_a_sequence_is_followed_in_time_order_if_it_has_times() -> None:
    along = np.column_stack([[4.0, 0.0, 2.0], np.zeros(3)])
    assert sequential_landmarks(table(along, time=[4, 0, 2]), 2.0).tolist() == [1, 2, 0]


def test_each_of_several_sequences_is_followed_on_its_own() -> None:
    along = np.column_stack([[0.0, 0.0, 3.0, 3.0, 4.0, 9.0], np.zeros(6)])
    places = table(along, sequence=["day", "night", "day", "night", "day", "night"])
    assert sequential_landmarks(places, 3.0).tolist() == [0, 2, 1, 3, 5]


def test_what_cannot_be_is_refused() -> None:
    places = table(np.zeros((3, 2)))
    for count in (0, 4):
        with pytest.raises(BadInputError, match=rf"{count}.*3"):
            greedy_landmarks(places, count)
    for spacing in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BadInputError, match="spacing"):
            sequential_landmarks(places, spacing)
    with pytest.raises(BadInputError, match="no places"):
        sequential_landmarks(places[[]], 1.0)
    towns = table(
        np.zeros((2, 2)), frames=[Frame("a"), Frame("b")], frame=["a", "b"], sequence=["a", "b"]
    )
    for choose in (greedy_landmarks, sequential_landmarks):
        with pytest.raises(BadInputError, match="a, b"):
            choose(towns, 1)
