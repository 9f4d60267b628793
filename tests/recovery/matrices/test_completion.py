"""Completion by s-stress: exact on problems that have one answer, and what it goes down by."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score
from mappable.recovery.matrices.completion import (
    Completed,
    NotConvergedError,
    _value_and_gradient,
    geodesics,
    s_stress,
    squared_distances_of,
)
from mappable.recovery.matrices.mask import observed, oracle_mask
from mappable.recovery.unanchored.mds import classical_mds
from simulated_ranges import NOISES, measure, route


def check(completed: Completed, points: Floats, tolerance: float) -> None:
    """All squared distances to within `tolerance` of the largest, and the points to within as much of their spread."""
    truth = squared_distances_of(points)
    np.testing.assert_allclose(completed.squared_distances, truth, atol=tolerance * truth.max())
    assert aligned_score(completed.positions, points, scale=False).of_gyration < 100 * tolerance


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("count", [12, 20])
def test_complete_distances_are_met_exactly(problem: Any, count: int, dimensions: int) -> None:
    points, squared, mask = problem(count, dimensions, 1.0)
    completed = s_stress(squared, mask, dimensions)
    check(completed, points, 1e-9)
    assert aligned_score(classical_mds(squared, dimensions), points, scale=False).of_gyration < 1e-9


@pytest.mark.parametrize(("count", "dimensions", "kept"), [(20, 2, 0.6), (20, 3, 0.6), (16, 2, 0.6), (20, 2, 0.5)])
def test_exact_distances_that_are_masked_are_found_again(
    problem: Any, count: int, dimensions: int, kept: float
) -> None:
    points, squared, mask = problem(count, dimensions, kept)
    check(s_stress(squared, mask, dimensions), points, 1e-5)


def test_s_stress_finds_points_of_which_six_in_ten_distances_are_masked_out(problem: Any) -> None:
    for dimensions in (2, 3):
        points, squared, mask = problem(20, dimensions, 0.4)
        check(s_stress(squared, mask, dimensions), points, 1e-5)


def test_the_slope_of_the_s_stress_is_that_of_differences(problem: Any) -> None:
    points, squared, mask = problem(8, 3, 1.0)
    ranges = observed(squared, mask, 3)
    start = points + np.random.default_rng(0).normal(size=points.shape)

    def value(flat: Floats) -> float:
        at = flat.reshape(points.shape)
        return sum(
            float((np.sum((at[i] - at[j]) ** 2) - squared[i, j]) ** 2) for i in range(8) for j in range(i + 1, 8)
        )

    found, slope = _value_and_gradient(start.ravel(), start.shape, ranges.i, ranges.j, np.square(ranges.metres))
    assert found == pytest.approx(value(start.ravel()))
    np.testing.assert_allclose(slope, approx_fprime(start.ravel(), value), rtol=1e-3, atol=1e-3 * np.abs(slope).max())


@pytest.mark.medium
def test_s_stress_keeps_the_lowest_of_its_starts_and_follows_from_the_seed() -> None:
    truth = route("loop", 60, seed=0)
    ranges = measure(truth, NOISES["mid"], seed=0, radius=40.0)
    squared = np.square(ranges.graph.toarray())
    mask = oracle_mask(squared, 1600.0) & (squared > 0)

    def stress(completed: Completed) -> float:
        residual = (completed.squared_distances - squared)[mask]
        return float(residual @ residual)

    one, several, again = (s_stress(squared, mask, 2, starts=starts, seed=3, iterations=3000) for starts in (1, 4, 4))
    assert stress(several) <= stress(one)
    np.testing.assert_array_equal(several.positions, again.positions)
    with pytest.raises(BadInputError, match=r"starts.*0"):
        s_stress(squared, mask, 2, starts=0)


def test_paths_go_through_points_at_the_same_place() -> None:
    squared = squared_distances_of(np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 4.0]]))
    chain = np.abs(np.subtract.outer(range(4), range(4))) <= 1
    assert geodesics(observed(squared, chain, 2))[0].tolist() == [0.0, 9.0, 9.0, 49.0]


def test_bad_input_is_refused(refused: Any) -> None:
    for values, kept, sentence in refused:
        with pytest.raises(BadInputError, match=sentence):
            s_stress(values, kept, 2)


def test_what_did_not_converge_is_no_number(problem: Any) -> None:
    _, squared, mask = problem(20, 2, 0.5)
    with pytest.raises(NotConvergedError, match=r"did not converge in 3 steps"):
        s_stress(squared, mask, 2, iterations=3)
