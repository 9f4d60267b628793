"""The semidefinite programs: exact on problems that have one answer, and what is refused."""

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score, score
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.hints import Anchors
from mappable.recovery.matrices.mask import connect
from mappable.recovery.matrices.sdp import Completed, sdp_frobenius, sdp_trace
from mappable.recovery.mds import classical_mds
from simulated_ranges import NOISES, measure, route

LARGE = 100.0  # a kappa that holds points together so firmly that exact distances are met exactly


def squared_distances_of(points: Floats) -> Floats:
    squared: Floats = squareform(pdist(points, "sqeuclidean"))
    return squared


def off(completed: Completed, points: Floats) -> float:
    """The greatest error of a squared distance, relative to the greatest of these."""
    truth = squared_distances_of(points)
    return float(np.abs(completed.squared_distances - truth).max() / truth.max())


def gram(completed: Completed) -> Floats:
    """The Gram matrix (n, n) of the points about their centre."""
    half = -0.5 * (completed.squared_distances - completed.squared_distances.mean(0))
    centered: Floats = half - half.mean(1, keepdims=True)
    return centered


def loop(count: int) -> tuple[Floats, Floats, Bools]:
    """A loop, of which distances up to about three steps are measured, not quite exactly."""
    truth = route("loop", count, seed=2)
    ranges = measure(truth, NOISES["mid"], seed=2, radius=3.4 * 672 / count)
    squared: Floats = np.square(ranges.graph.toarray())
    return truth, squared, squared > 0


# Exact problems


@pytest.mark.parametrize(("count", "dimensions"), [(10, 2), (12, 3)])
def test_complete_distances_give_the_points_and_agree_with_classical_mds(
    problem: Any, count: int, dimensions: int
) -> None:
    points, squared, mask = problem(count, dimensions, 1.0)
    by_mds = classical_mds(squared, dimensions)
    for completed in (
        sdp_trace(squared, mask, dimensions),
        sdp_frobenius(squared, mask, dimensions),
    ):
        assert off(completed, points) < 1e-3
        assert aligned_score(completed.positions, points, scale=False).of_gyration < 0.1
        assert aligned_score(completed.positions, by_mds, scale=False).of_gyration < 0.1


@pytest.mark.medium
@pytest.mark.parametrize(("count", "dimensions", "kept"), [(12, 2, 0.7), (14, 3, 0.8)])
def test_exact_distances_that_are_masked_are_found_again_by_both_forms(
    problem: Any, count: int, dimensions: int, kept: float
) -> None:
    points, squared, mask = problem(count, dimensions, kept)
    assert off(sdp_trace(squared, mask, dimensions, kappa=LARGE), points) < 1e-5
    assert off(sdp_frobenius(squared, mask, dimensions), points) < 1e-3


@pytest.mark.medium
def test_both_forms_agree_on_a_masked_problem(problem: Any) -> None:
    _, squared, mask = problem(12, 2, 0.7)
    one, other = sdp_trace(squared, mask, 2, kappa=LARGE), sdp_frobenius(squared, mask, 2)
    np.testing.assert_allclose(
        one.squared_distances, other.squared_distances, atol=2e-3 * np.nanmax(squared)
    )


# Noisy ones


@pytest.mark.medium
def test_the_trace_form_unfolds_a_loop_better_than_the_plain_form() -> None:
    truth, squared, mask = loop(40)
    unfolded, plain = sdp_trace(squared, mask, 2), sdp_frobenius(squared, mask, 2)
    assert unfolded.gap is not None
    assert plain.gap is not None
    assert max(unfolded.gap, plain.gap) < 1e-6
    assert aligned_score(unfolded.positions, truth).rmse < 1.5 * trivial_rows(truth)["circle"].rmse
    assert (
        aligned_score(unfolded.positions, truth).rmse < aligned_score(plain.positions, truth).rmse
    )
    flat, other = (np.linalg.eigvalsh(gram(one)) for one in (unfolded, plain))
    assert flat[-2:].sum() > 0.98 * flat.sum()  # though nothing asked for two dimensions
    assert other[-2:].sum() < 0.98 * other.sum()


# Known points


@pytest.mark.parametrize("solve", [sdp_trace, sdp_frobenius])
def test_distances_between_known_points_are_met_and_the_map_is_in_their_coordinates(
    solve: Any,
) -> None:
    truth, squared, mask = loop(40)
    points = np.arange(0, 40, 4)
    found = solve(squared, connect(mask), 2, known=Anchors(points, truth[points], 0.5))
    corner = found.squared_distances[np.ix_(points, points)]
    np.testing.assert_allclose(corner, squared_distances_of(truth[points]), rtol=1e-3, atol=1.0)
    alone = aligned_score(solve(squared, connect(mask), 2).positions, truth).rmse
    assert score(found.positions, truth).rmse < 0.7 * alone


def test_known_points_connect_what_the_mask_does_not(problem: Any) -> None:
    points, squared, mask = problem(10, 2, 1.0)
    mask[:5, 5:] = mask[5:, :5] = False
    known = np.array([0, 1, 2, 5, 6, 7])
    found = sdp_frobenius(squared, mask, 2, known=Anchors(known, points[known], 0.1))
    assert score(found.positions, points).rmse < 0.1


# What is refused


@pytest.mark.parametrize("complete", [sdp_frobenius, sdp_trace])
def test_bad_input_is_refused(problem: Any, refused: Any, complete: Any) -> None:
    _, squared, mask = problem(6, 2, 1.0)
    parts = mask.copy()
    parts[:3, 3:] = parts[3:, :3] = False
    for values, kept, sentence in (
        *refused,
        (squared[:3], mask[:3], "square, got 3 x 6"),
        (
            squared,
            mask[:5, :5],
            r"the mask has shape \(5, 5\), but the matrix of distances \(6, 6\)",
        ),
        (squared, parts, "leaves 2 parts that no pair connects"),
        (np.zeros((6, 6)), mask, "all distances that the mask keeps are 0"),
    ):
        with pytest.raises(BadInputError, match=sentence):
            complete(values, kept, 2)
    with pytest.raises(BadInputError, match=r"2.*3.*dimensions.*1"):
        complete(squared, mask, 1)


# Solutions


def optimum(squared: Floats, mask: Bools, kappa: float | None) -> float:
    """What cvxpy's Clarabel finds: the greatest value of the trace form, or of the Frobenius form
    without kappa.
    """
    cvxpy: Any = importlib.import_module("cvxpy")
    gram, ones = cvxpy.Variable(squared.shape, PSD=True), np.ones((len(squared), 1))
    diagonal = cvxpy.reshape(cvxpy.diag(gram), (len(squared), 1), order="C")
    off = cvxpy.multiply(
        mask.astype(float), diagonal @ ones.T + ones @ diagonal.T - 2 * gram - squared
    )
    gain = (
        -cvxpy.sum_squares(off)
        if kappa is None
        else cvxpy.trace(gram) - kappa * cvxpy.norm(off, "fro")
    )
    problem = cvxpy.Problem(cvxpy.Maximize(gain), [gram @ ones == 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an accuracy below 1e-8, which is not asked for
        return float(problem.solve(solver=cvxpy.CLARABEL))


@pytest.mark.medium
@pytest.mark.parametrize("count", [20, 30])
def test_both_forms_reach_the_optimum_that_another_solver_finds(count: int) -> None:
    _, metres, mask = loop(count)
    squared = metres / metres.max()
    mask = mask | np.eye(count, dtype=bool)
    trace, plain = sdp_trace(squared, mask, 2, kappa=30.0), sdp_frobenius(squared, mask, 2)
    off = [
        float(np.linalg.norm(np.where(mask, one.squared_distances - squared, 0.0)))
        for one in (trace, plain)
    ]
    value = float(np.trace(gram(trace))) - 30.0 * off[0]
    assert value == pytest.approx(optimum(squared, mask, 30.0), rel=1e-4)
    assert -(off[1] ** 2) == pytest.approx(optimum(squared, mask, None), rel=1e-3, abs=1e-7)


@pytest.mark.medium
def test_a_chain_like_mask_is_solved_to_the_optimum() -> None:
    """68 images about 10 m apart: 3,000 steps of SCS were 131 m off, where the optimum is near a
    straight line.
    """
    truth = route("open", 68, seed=2)
    ranges = measure(truth, NOISES["mid"], seed=2, radius=1.7 * 672 / 68)
    squared = np.square(ranges.graph.toarray())
    mask = connect(squared > 0)
    squared = np.where(squared > 0, squared, squared_distances_of(truth))
    found = sdp_trace(squared, mask, 2)
    assert found.gap is not None
    assert found.gap < 1e-6
    line = trivial_rows(truth)["straight line"].rmse
    assert aligned_score(found.positions, truth).rmse == pytest.approx(line, rel=0.05)
