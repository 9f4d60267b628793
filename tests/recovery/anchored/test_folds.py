"""Folds: a wrong one is undone, one that cannot be excluded shows in the covariances, with the right odds."""

import numpy as np
import pytest

from anchored_erratic import erratic
from mappable.arrays import Floats
from mappable.recovery.anchored.folds import _groups, _mirrors, evidence, unfold
from mappable.recovery.anchored.loose import overrules, place
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import fit
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, measure, route


def triangle(vague: float | None = None) -> Problem:
    """A point at (3, 4) or (3, -4): 5 m from each of two known points, and by a vague range 4 m from a third."""
    places = [[0.0, 0.0], [6.0, 0.0], [3.0, 8.0]]
    i, j, metres, sigma = [0, 1], [3, 3], [5.0, 5.0], [0.1, 0.1]
    if vague is not None:
        i, j, metres, sigma = [*i, 2], [*j, 3], [*metres, 4.0], [*sigma, vague]
    known = Anchors([0, 1, 2], places, 0.1)
    start = np.array([*places, [3.0, 4.1]])
    return Problem(Ranges(4, i, j, metres, sigma), known, [], None, None, start, 1e3)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_mirror_keeps_the_ranges_on_either_side(dimensions: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, dimensions))
    i, j = np.triu_indices(9, 1)
    through, across = _mirrors(x, i, j, rng, 40, 100.0)
    assert len(through) == 40
    for point, project in zip(through, across, strict=True):
        np.testing.assert_allclose(project @ project, project, atol=1e-9)
        mirrored = x - 2 * (x - point) @ project
        np.testing.assert_allclose(
            np.linalg.norm(mirrored[i] - mirrored[j], axis=1), np.linalg.norm(x[i] - x[j], axis=1)
        )
        assert np.isclose(mirrored, x).all(axis=1).sum() >= 2  # the points that define it
    ranks = np.rint(np.trace(across, axis1=1, axis2=2))
    assert set(ranks.tolist()) == ({1.0} if dimensions == 2 else {1.0, 2.0})


def test_groups_are_what_stiff_ranges_connect() -> None:
    stiff = np.array([[True, True], [False, True], [True, False]])  # of ranges 0-1, 1-2, 2-3 at two mirrors
    labels = _groups(4, np.array([0, 1, 2]), np.array([1, 2, 3]), stiff, np.array([0]), np.array([[True, False]]))
    first, second = labels.T
    assert first[0] == first[1] == first[4] != first[2] == first[3]
    assert second[0] == second[1] == second[2] != second[3]
    assert second[4] not in second[:4]


def test_both_sides_of_two_known_points_are_covered() -> None:
    """With equal odds the mean square of the displacement by 8 m is 32 m²."""
    problem = triangle()
    refined, folds, _ = place(lambda _: problem, [problem.start], np.random.default_rng(0))
    assert [fold.points.tolist() for fold in folds] == [[3]]
    assert folds[0].excess == pytest.approx(0.0, abs=1e-2)
    np.testing.assert_allclose(np.abs(refined.positions[3]), [3.0, 4.0], atol=0.05)
    assert refined.covariances[3, 1, 1] == pytest.approx(32.0, rel=0.02)
    assert refined.covariances[3, 0, 0] < 0.1


@pytest.mark.parametrize("vague", [4.0, 6.0])
def test_odds_are_those_of_the_range_that_tells_the_sides_apart(vague: float) -> None:
    """On the other side the range of 4 m would be 12 m: odds of exp(-(8 / sigma)² / 2)."""
    problem = triangle(vague)
    state = fit(problem, problem.state, rounds=3).state
    problem.noise.noise = 1.0
    _, folds = unfold(problem, state, np.random.default_rng(0))
    assert folds[0].excess == pytest.approx(0.5 * (8 / vague) ** 2, rel=0.15)


def test_evidence_prefers_the_state_with_more_room() -> None:
    """The cost is the same if a sigma is; a matrix 16 times as large costs log(16) / 2 per coordinate more."""
    wide, narrow = triangle(), triangle()
    for problem, noise in ((wide, 4.0), (narrow, 1.0)):
        problem.noise.noise = noise
        problem.look(problem.state)
    matrices = [np.linalg.slogdet(_dense(problem))[1] for problem in (wide, narrow)]
    costs = [float(problem.costs().sum()) for problem in (wide, narrow)]
    assert evidence(wide) - evidence(narrow) == pytest.approx(costs[0] - costs[1] + (matrices[0] - matrices[1]) / 2)


def _dense(problem: Problem) -> Floats:
    """The whole matrix of a problem whose pairs are its ranges."""
    diagonal, coupling, _ = problem.system()
    n, size = diagonal.shape[:2]
    whole = np.zeros((n, size, n, size))
    whole[np.arange(n), :, np.arange(n), :] = diagonal
    for pair, block in zip(zip(problem.ranges.i, problem.ranges.j, strict=True), coupling, strict=True):
        whole[pair[0], :, pair[1]] += block
        whole[pair[1], :, pair[0]] += block.T
    return whole.reshape(n * size, n * size)


def test_a_group_on_the_wrong_side_is_turned_back() -> None:
    """Four points beside a row that leaves its line by 0.3 m; ranges of up to 4 m, give or take 0.05 m."""
    rng = np.random.default_rng(0)
    row = np.column_stack([np.arange(12.0), 0.3 * (-1.0) ** np.arange(12)])
    truth = np.concatenate([row, [[5.0, 1.5], [6.0, 2.5], [5.5, 3.5], [4.5, 2.5]]])
    i, j = np.triu_indices(len(truth), 1)
    apart = np.linalg.norm(truth[i] - truth[j], axis=1)
    near = apart < 4.0
    ranges = Ranges(len(truth), i[near], j[near], apart[near] + 0.05 * rng.standard_normal(near.sum()), 0.05)
    wrong = truth.copy()
    wrong[12:, 1] *= -1
    problem = Problem(
        ranges, Anchors([0, 3, 4, 7, 8, 11], truth[[0, 3, 4, 7, 8, 11]], 0.02), [], None, None, wrong, 1e3
    )
    stuck = fit(problem, problem.state).state
    assert (stuck[12:, 1] < 0).all()
    found, _ = unfold(problem, stuck, rng)
    np.testing.assert_allclose(found[12:, :2], truth[12:], atol=0.3)


@pytest.mark.medium
def test_motion_is_overruled_on_an_erratic_path_and_not_on_a_drive() -> None:
    case = erratic("turns", 2, 102)
    truth = route("open", 120, seed=2, length=200)
    points = np.arange(0, 120, 20)
    drive = measure(truth, NOISES["low"], seed=2), Anchors(points, truth[points], 0.1), truth
    for ranges, known, start, expected in ((case.ranges, case.known, case.truth, True), (*drive, False)):
        problem = Problem(ranges, known, [np.arange(ranges.count)], None, None, start, 1e3)
        loose = Problem(ranges, known, [], None, None, start, 1e3)
        assert overrules(problem, fit(problem, problem.state), loose) is expected
