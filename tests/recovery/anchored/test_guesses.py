"""Guesses of turns: which paths are doubted, which routes wind, and random drives that stand for a wrong guess."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery.align import score
from mappable.recovery.anchored.guesses import _shape, _weights, _winds
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.random_drives import random_drives
from mappable.recovery.baselines import interpolated
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges
from route_cases import Case, draw
from simulated_ranges import Kind

COUNT, REACH = 41, 6.0


def arc(bend: float, *, begin: float = 0.0, lasting: float = 60.0) -> Floats:
    """A path of 60 m that turns by `bend` radians over `lasting` metres."""
    angle = bend * np.clip((np.linspace(0, 60, COUNT - 1) - begin) / lasting, 0, 1)
    steps = 60 / (COUNT - 1) * np.stack([np.cos(angle), np.sin(angle)], 1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])


def problem_of(path: Floats) -> Problem:
    """All ranges up to 6 m, and both ends known."""
    i, j = np.triu_indices(len(path), 1)
    apart = np.linalg.norm(path[i] - path[j], axis=1)
    near = apart <= REACH
    ranges = Ranges(len(path), i[near], j[near], apart[near], 0.05)
    return Problem(
        ranges, Anchors([0, len(path) - 1], path[[0, -1]], 0.05), [np.arange(len(path))], None, None, path, 1e6
    )


STRAIGHT, CORNER = arc(0.0), arc(np.pi / 2, begin=20, lasting=9)
BOW, TWISTED = arc(1.5), arc(2.8, begin=20, lasting=30)


def test_bows_and_paths_with_many_turns_are_doubted_and_corners_are_not() -> None:
    problem = problem_of(CORNER)
    found = [_shape(problem, path).strange for path in (STRAIGHT, CORNER, BOW, TWISTED)]
    assert found == [False, False, True, True]


def test_a_route_winds_if_many_paths_are_neither_straight_nor_have_one_corner() -> None:
    problem = problem_of(CORNER)
    straight, corner, bow, twisted = (_shape(problem, path) for path in (STRAIGHT, CORNER, BOW, TWISTED))
    assert _winds([straight, bow, corner, twisted], cut=False)
    assert not _winds([straight, corner, straight, bow], cut=False)
    assert _winds([straight, corner, straight, bow], cut=True)
    assert not _winds([], cut=True)


def test_random_drives_arrive_and_keep_their_steps_nearly() -> None:
    path = np.stack([np.arange(150.0), 5 * np.sin(np.arange(150) / 20)], 1)
    ways = random_drives(path, 10.0, np.random.default_rng(0), 12)
    assert len(ways) == 12
    for way in ways:
        np.testing.assert_allclose(way[[0, -1]], path[[0, -1]], atol=1e-9)
        lengths = np.linalg.norm(np.diff(way, axis=0), axis=1)
        assert (lengths < 1.2 * np.linalg.norm(np.diff(path, axis=0), axis=1)).all()


def test_drives_count_by_their_ranges() -> None:
    """Of straight paths and a corner, the true corner and its mirror image count most, and equally."""
    problem = problem_of(CORNER)
    chord = CORNER[-1] / np.linalg.norm(CORNER[-1])
    mirrored = 2 * np.outer(CORNER @ chord, chord) - CORNER
    weights = _weights(problem, np.arange(COUNT), np.array([CORNER, mirrored, *[STRAIGHT] * 20]))
    assert weights.sum() == pytest.approx(1)
    assert weights[0] == pytest.approx(weights[1])
    assert weights[0] > 2 * weights[2]


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["snaking", pytest.param("wandering", marks=pytest.mark.long)])
def test_covariances_are_honest_on_a_route_that_winds(kind: Kind) -> None:
    truth, ranges, anchors = draw(Case(kind, "mid", 200, 2100, 400.0, anchors=5))
    assert anchors is not None
    recovered = recover_anchored(ranges, anchors)
    assert recovered.covariances is not None
    errors = recovered.positions - truth
    assert np.einsum("na,nab,nb->n", errors, np.linalg.inv(recovered.covariances), errors).mean() / 2 < 1.5
    between = interpolated(len(truth), anchors.points, anchors.positions)
    assert score(recovered.positions, truth).rmse < 1.1 * score(between, truth).rmse
    assert any("winds gently" in sentence for sentence in recovered.undetermined)
