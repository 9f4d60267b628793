"""The semidefinite programs: exact on problems that have one answer, and what is refused."""

import builtins
from typing import Any

import numpy as np
import pytest

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.matrices import sdp
from mappable.recovery.matrices.completion import Completed, s_stress, squared_distances_of
from mappable.recovery.matrices.sdp import sdp_frobenius, sdp_trace
from mappable.recovery.unanchored.mds import classical_mds
from simulated_ranges import NOISES, measure, route

LARGE = 100.0  # a kappa that holds points together so firmly that exact distances are met exactly


def off(completed: Completed, points: Floats) -> float:
    """The greatest error of a squared distance, relative to the greatest of these."""
    truth = squared_distances_of(points)
    return float(np.abs(completed.squared_distances - truth).max() / truth.max())


def gram(completed: Completed) -> Floats:
    """The Gram matrix (n, n) of the points about their centre."""
    half = -0.5 * (completed.squared_distances - completed.squared_distances.mean(0))
    centred: Floats = half - half.mean(1, keepdims=True)
    return centred


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
    for completed in (sdp_trace(squared, mask, dimensions), sdp_frobenius(squared, mask, dimensions, iterations=5000)):
        assert off(completed, points) < 1e-3
        assert aligned_score(completed.positions, points, scale=False).of_gyration < 0.1
        assert aligned_score(completed.positions, by_mds, scale=False).of_gyration < 0.1


@pytest.mark.medium
@pytest.mark.parametrize(("count", "dimensions", "kept"), [(12, 2, 0.7), (14, 3, 0.8)])
def test_exact_distances_that_are_masked_are_found_again_by_both_forms(
    problem: Any, count: int, dimensions: int, kept: float
) -> None:
    points, squared, mask = problem(count, dimensions, kept)
    assert off(sdp_trace(squared, mask, dimensions, kappa=LARGE, tolerance=1e-7), points) < 1e-5
    assert off(sdp_frobenius(squared, mask, dimensions, tolerance=1e-7, iterations=5000), points) < 1e-3


@pytest.mark.medium
def test_all_completions_agree_on_a_masked_problem(problem: Any) -> None:
    _, squared, mask = problem(12, 2, 0.7)
    found = [
        sdp_trace(squared, mask, 2, kappa=LARGE, tolerance=1e-7),
        sdp_frobenius(squared, mask, 2, tolerance=1e-7, iterations=5000),
        s_stress(squared, mask, 2),
    ]
    for one in found:
        np.testing.assert_allclose(one.squared_distances, found[-1].squared_distances, atol=2e-3 * np.nanmax(squared))


# Noisy ones


@pytest.mark.medium
def test_the_trace_form_unfolds_a_loop_that_the_plain_form_crumples() -> None:
    truth, squared, mask = loop(40)
    unfolded, plain = sdp_trace(squared, mask, 2), sdp_frobenius(squared, mask, 2, iterations=2000)
    assert unfolded.converged
    assert not plain.converged
    assert aligned_score(unfolded.positions, truth).rmse < 1.5 * trivial_rows(truth)["circle"].rmse
    assert aligned_score(unfolded.positions, truth).rmse < aligned_score(plain.positions, truth).rmse
    flat, crumpled = (np.linalg.eigvalsh(gram(one)) for one in (unfolded, plain))
    assert flat[-2:].sum() > 0.98 * flat.sum()  # though nothing asked for two dimensions
    assert crumpled[-2:].sum() < 0.9 * crumpled.sum()


def test_completions_do_not_depend_on_the_unit_of_distances() -> None:
    _, squared, mask = loop(30)
    metres, millimetres = sdp_trace(squared, mask, 2), sdp_trace(1e6 * squared, mask, 2)
    np.testing.assert_allclose(1e6 * metres.squared_distances, millimetres.squared_distances, rtol=1e-6)


def test_kappa_is_raised_where_distances_are_so_uneven_that_the_rule_is_too_little() -> None:
    along = np.cumsum(10.0 ** np.random.default_rng(0).uniform(-1.5, 0.5, 12))
    points = np.stack([along, np.zeros(12)], 1)
    chain = np.abs(np.subtract.outer(range(12), range(12))) <= 1
    squared = squared_distances_of(points)
    with pytest.raises(BadInputError, match=r"kappa.*1"):
        sdp_trace(squared, chain, 2, kappa=1.0)
    assert aligned_score(sdp_trace(squared, chain, 2, iterations=3000).positions, points).of_length < 5.0
    with pytest.raises(BadInputError, match=r"kappa.*0"):
        sdp_trace(squared, chain, 2, kappa=0.0)


# What is refused


@pytest.mark.parametrize("complete", [sdp_frobenius, sdp_trace])
def test_bad_input_is_refused(problem: Any, refused: Any, complete: Any) -> None:
    _, squared, mask = problem(6, 2, 1.0)
    parts = mask.copy()
    parts[:3, 3:] = parts[3:, :3] = False
    for values, kept, sentence in (
        *refused,
        (squared[:3], mask[:3], "is square, not 3 x 6"),
        (squared, mask[:5, :5], r"the mask is \(5, 5\), but the matrix of distances \(6, 6\)"),
        (squared, parts, "leaves 2 parts that no pair connects"),
        (np.zeros((6, 6)), mask, "all distances that the mask keeps are 0"),
    ):
        with pytest.raises(BadInputError, match=sentence):
            complete(values, kept, 2)
    with pytest.raises(BadInputError, match=r"2.*3.*dimensions.*1"):
        complete(squared, mask, 1)


def test_too_many_points_are_told_what_to_use_instead(problem: Any) -> None:
    many = np.ones((151, 151))
    with pytest.raises(BadInputError, match=r"150 points.*151"):
        sdp_trace(many, many > 0, 2)
    _, squared, mask = problem(6, 2, 1.0)
    with pytest.raises(BadInputError, match=r"5 points.*6"):
        sdp_frobenius(squared, mask, 2, limit=5)


def test_without_cvxpy_it_is_said_how_to_install_it(problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *others: Any, **named: Any) -> Any:
        if name == "cvxpy":
            raise ImportError(name)
        return original(name, *others, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    _, squared, mask = problem(6, 2, 1.0)
    with pytest.raises(BadInputError, match=r"needs cvxpy and scs; install them with: pip install 'mappable\[sdp\]'"):
        sdp.sdp_trace(squared, mask, 2)
