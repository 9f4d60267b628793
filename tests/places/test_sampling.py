"""Farthest-point sampling beside an independent slow computation, and its promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mappable.places.sampling import farthest_points

GRID = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 25), st.integers(1, 3)),
    elements=st.integers(-4, 4).map(float),  # many ties and positions that coincide
)


def by_brute_force(positions: np.ndarray, count: int, first: int) -> list[int]:
    chosen = [first]
    while len(chosen) < count:
        best, best_distance = -1, -1.0
        for row in range(len(positions)):
            distance = min(
                sum((a - b) ** 2 for a, b in zip(positions[row], positions[one], strict=True))
                for one in chosen
            )
            if row not in chosen and distance > best_distance:
                best, best_distance = row, distance
        chosen.append(best)
    return chosen


def covering_radius(positions: np.ndarray, chosen: np.ndarray) -> float:
    return float(
        np.linalg.norm(positions[:, None] - positions[chosen][None], axis=2).min(axis=1).max()
    )


@pytest.mark.medium
@given(GRID, st.integers(0, 5), st.data())
def test_each_point_is_the_first_of_the_farthest(
    positions: np.ndarray, seed: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(positions)))
    chosen = farthest_points(positions, count, seed)
    assert chosen.tolist() == by_brute_force(positions, count, int(chosen[0]))


@pytest.mark.medium
@given(GRID, st.integers(0, 5))
def test_fewer_points_are_a_prefix_and_more_never_cover_worse(
    positions: np.ndarray, seed: int
) -> None:
    everything = farthest_points(positions, len(positions), seed)
    assert sorted(everything.tolist()) == list(range(len(positions)))
    radii = []
    for count in range(1, len(positions) + 1):
        chosen = farthest_points(positions, count, seed)
        assert chosen.tolist() == everything[:count].tolist()
        radii.append(covering_radius(positions, chosen))
    assert radii == sorted(radii, reverse=True)
    assert radii[-1] == 0
