"""The other side of a way between two known points: two modes whose odds are known."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import Refined, fit
from mappable.recovery.anchored.sides import (
    Side,
    _turned,
    _ways,
    _width,
    draw_sides,
    other_sides,
    relieved,
)
from mappable.recovery.hints import Anchors, Odometry
from mappable.recovery.ranges import Ranges

COUNT, HEIGHT = 21, 8.0


def bow(odometry: Odometry | None = None) -> tuple[Problem, Floats]:
    """A way of 30 m that leaves the line between its known ends by 8 m, with ranges up to 6 m; it has no other ends.

    Mirrored at that line all ranges stay as they are.
    """
    part = np.linspace(0, 1, COUNT)
    truth = np.column_stack([30 * part, HEIGHT * np.sin(np.pi * part)])
    i, j = np.triu_indices(COUNT, 1)
    apart = np.linalg.norm(truth[i] - truth[j], axis=1)
    near = apart < 6.0
    ranges = Ranges(COUNT, i[near], j[near], apart[near], 0.05)
    known = Anchors([0, COUNT - 1], truth[[0, -1]], 0.05)
    return Problem(ranges, known, [np.arange(COUNT)], odometry, None, truth, 1e6), truth


def test_turning_keeps_the_ends_and_all_distances() -> None:
    positions = np.random.default_rng(0).normal(size=(6, 3))
    turned = _turned(positions)
    np.testing.assert_allclose(turned[[0, -1]], positions[[0, -1]], atol=1e-9)
    np.testing.assert_allclose(
        np.linalg.norm(turned[:, None] - turned, axis=2), np.linalg.norm(positions[:, None] - positions, axis=2)
    )
    np.testing.assert_allclose(_turned(turned), positions, atol=1e-9)
    flat = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, -1.0], [4.0, 0.0]])
    np.testing.assert_allclose(_turned(flat), flat * [1.0, -1.0])
    assert _width(flat) == pytest.approx(2.0)


def test_a_gap_that_lies_far_from_its_known_end_is_fitted_again() -> None:
    problem, _ = bow()
    fitted = fit(problem, problem.state)
    assert relieved(problem, fitted) is fitted
    moved = fitted.state.copy()
    moved[:, 0] += np.linspace(0, 3, COUNT)
    problem.look(moved)
    problem.true = problem.noise.chances()  # most ranges count as false
    again = relieved(problem, Refined(moved, fitted.covariances, fitted.noise, problem.true))
    np.testing.assert_allclose(again.positions, fitted.positions, atol=0.05)


def test_two_sides_that_nothing_tells_apart_are_equally_likely() -> None:
    problem, _ = bow()
    fitted = fit(problem, problem.state)
    sides = other_sides(problem, fitted.state)
    assert len(sides) == 1
    assert sides[0].points.tolist() == list(range(COUNT))
    assert sides[0].odds == pytest.approx(1.0, abs=0.08)
    np.testing.assert_allclose(sides[0].state[:, :2], fitted.positions * [1.0, -1.0], atol=0.1)


@pytest.mark.parametrize("sigma", [8.0, 16.0])
def test_the_odds_of_the_other_side_are_those_of_what_tells_them_apart(sigma: float) -> None:
    """A vague way to the middle of the bow speaks against the other side by (2 * 8 m / sigma)² / 2."""
    middle = COUNT // 2
    vague = Odometry([0], [middle], [[15.0, HEIGHT]], sigma)
    problem, _ = bow(vague)
    fitted = fit(problem, problem.state)
    side = other_sides(problem, fitted.state)[0]
    assert side.excess == pytest.approx(0.5 * (2 * HEIGHT / sigma) ** 2, rel=0.1)
    assert side.odds == pytest.approx(np.exp(-0.5 * (2 * HEIGHT / sigma) ** 2), abs=0.08)


def test_a_side_that_is_out_of_the_question_is_none() -> None:
    problem, _ = bow(Odometry([0], [COUNT // 2], [[15.0, HEIGHT]], 0.5))
    assert not other_sides(problem, fit(problem, problem.state).state)


def test_sides_are_drawn_by_their_chances_and_apart_from_each_other() -> None:
    """3,000 draws, 4.5 standard errors of each of the four outcomes."""
    state = np.zeros((6, 3))
    one = Side(np.array([0, 1, 2]), np.ones((3, 3)), float(np.log(3)))  # 1 in 4
    two = Side(np.array([3, 4, 5]), np.full((3, 3), 2.0), 0.0)  # 1 in 2
    rng, draws = np.random.default_rng(0), 3000
    found = np.zeros((2, 2))
    for drawn in draw_sides(state, [one, two], draws, rng):
        found[int(drawn[1, 0] == 1.0), int(drawn[4, 0] == 2.0)] += 1 / draws
    expected = np.outer([0.75, 0.25], [0.5, 0.5])
    assert (np.abs(found - expected) < 4.5 * np.sqrt(expected * (1 - expected) / draws)).all()
    assert not state.any()
    assert found[1].sum() == pytest.approx(0.25, abs=1 / draws)  # as often as its probability


def test_each_turn_of_a_path_can_go_to_the_other_side() -> None:
    """Two left turns of 90 degrees: besides the mirror image, there are three ways that arrive at the same point."""
    bends = np.zeros(60)
    bends[10:20] = bends[40:50] = np.pi / 20
    heading = np.cumsum(bends)
    path = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], 1), axis=0)
    ways = _ways(path, 10.0, np.random.default_rng(0))
    assert len(ways) >= 2
    for way in ways:
        np.testing.assert_allclose(way[[0, -1]], path[[0, -1]], atol=1e-9)
