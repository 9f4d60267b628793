"""The linear system of refinement is that of what it minimizes, whatever points are in order and hints are given."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery.anchored.motion import Motion
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.hints import Anchors, Odometry, Turns
from mappable.recovery.ranges import Ranges

COUNT = 13


def some_problem(dimensions: int) -> Problem:
    """Two drives that are not in the order of numbers, landmarks, odometry that is given twice and back, and a turn."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 5, (COUNT, dimensions))
    i, j = np.triu_indices(COUNT, 1)
    some = rng.random(len(i)) < 0.5
    i, j = i[some], j[some]
    ranges = Ranges(COUNT, i, j, np.linalg.norm(truth[i] - truth[j], axis=1) + rng.normal(0, 0.1, len(i)), 0.1)
    begin, end = np.array([0, 0, 3, 9, 8]), np.array([3, 3, 0, 2, 7])
    odometry = Odometry(begin, end, truth[end] - truth[begin], 0.2)
    turns = Turns([7], [0.5], 0.1) if dimensions == 2 else None
    drives = [np.array([3, 0, 7, 2, 9]), np.array([12, 1, 8])]
    start = truth + rng.normal(0, 0.3, truth.shape)
    problem = Problem(ranges, Anchors([0, 5, 11], truth[[0, 5, 11]], 0.5), drives, odometry, turns, start, 30.0)
    assert problem.motion is not None
    problem.motion.measure_steps(start)
    problem.motion.alike = np.where(problem.motion.inside, 0.4, 0.0)
    problem.motion.alike[0] = 0.0
    return problem


def look(problem: Problem, state: Floats) -> None:
    """Look at a state with the directions of travel kept, as the system takes them to be."""
    motion = problem.motion
    assert motion is not None
    along, sideways = motion.along, motion.sideways
    problem.look(state)
    motion.along, motion.sideways = along, sideways
    motion.curvature, before, behind = motion.measure(problem.positions)
    motion.news = motion.surprise(before, behind)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_right_side_is_the_slope_of_the_objective(dimensions: int) -> None:
    problem = some_problem(dimensions)
    state = problem.state + np.random.default_rng(1).normal(0, 0.1, problem.state.shape)
    look(problem, state)
    right = problem.system()[2]
    slopes = np.empty_like(state)
    for at in np.ndindex(state.shape):
        values = []
        for sign in (1, -1):
            aside = state.copy()
            aside[at] += sign * 1e-5
            look(problem, aside)
            values.append(problem.objective())
        slopes[at] = (values[1] - values[0]) / 2e-5
    np.testing.assert_allclose(right, slopes, rtol=1e-4, atol=1e-4 * np.abs(slopes).max())


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_matrix_is_the_change_of_the_right_side_where_all_is_linear(dimensions: int) -> None:
    problem = some_problem(dimensions)
    problem.true = np.zeros(len(problem.ranges))  # only ranges are not linear
    state = problem.state
    look(problem, state)
    diagonal, coupling, right = problem.system()
    aside = np.random.default_rng(1).normal(size=state.shape)
    look(problem, state + aside)
    change = problem.system()[2] - right
    np.testing.assert_allclose(problem.plan.factor(diagonal, coupling).solve(change), -aside, atol=1e-6)


def test_landmarks_without_ranges_between_them_are_no_measure_of_what_is_missing() -> None:
    drive = np.stack([np.arange(20.0), np.zeros(20)], 1)
    drive = np.concatenate([drive, drive[::-1] + np.array([0.0, 2.0])])  # back again beside it, and seen by no range
    i, j = np.triu_indices(40, 1)
    near = (j - i <= 3) & ((i < 20) == (j < 20))
    ranges = Ranges(60, i[near], j[near], np.linalg.norm(drive[i] - drive[j], axis=1)[near], 0.1)
    landmarks = np.random.default_rng(0).uniform(0, 1, (20, 2)) + 100.0
    costs = []
    for there in (landmarks, 1000.0 * landmarks):
        start = np.concatenate([drive, there])
        problem = Problem(ranges, Anchors([0], drive[:1], 0.1), [np.arange(40)], None, None, start, 1e6)
        costs.append(problem.costs()[:40].sum())
    assert costs[0] == pytest.approx(costs[1])


def test_that_a_drive_begins_elsewhere_is_no_turn() -> None:
    drive = np.stack([np.arange(20.0), np.zeros(20)], 1)
    inside = np.ones(38, dtype=bool)
    inside[[18, 19]] = False
    drawn = []
    for there in ([20.0, 0.0], [0.0, 50.0]):
        motion, positions = Motion(np.arange(40), inside, 1.0, 10.0), np.concatenate([drive, drive + there])
        motion.look(positions)
        motion.draw(positions, np.random.default_rng(0))
        drawn.append([motion.begin, motion.end, motion.straight])
    assert drawn[0] == pytest.approx(drawn[1])


def test_points_that_begin_where_the_only_known_one_is_still_have_a_step() -> None:
    """Vague ranges tell no step, and all points begin at one place: the ranges are a better guess than nothing."""
    ranges = Ranges(5, [0, 1, 2, 0], [1, 2, 3, 2], [4.0, 5.0, 4.0, 5.0], 4.0)
    start = np.zeros((5, 2))
    problem = Problem(ranges, Anchors([0], start[:1], 0.1), [np.arange(5)], None, None, start, 100.0)
    assert problem.motion is not None
    assert problem.motion.step == 4.0
    elsewhere = Ranges(5, [0, 1], [2, 3], [4.5, 4.5], 4.0)
    problem = Problem(elsewhere, Anchors([0], start[:1], 0.1), [np.arange(5)], None, None, start, 100.0)
    assert problem.motion is not None
    assert problem.motion.step == 4.5
