"""Relative motions: slopes against differences, dead reckoning, noise and drift."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.relative import Relative, covered, inverse_jacobian, log_pose, reckon, rotations
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges

COUNT = 5


def motions(k: int, seed: int = 0) -> tuple[Motions, Floats, Floats]:
    """A loop of small motions with full covariances, and poses that nearly fit."""
    rng = np.random.default_rng(seed)
    d = 3 if k == 2 else 6
    frames = (
        rotations(rng.normal(size=COUNT)) if k == 2 else Rotation.from_rotvec(rng.normal(size=(COUNT, 3))).as_matrix()
    )
    positions = rng.normal(size=(COUNT, k))
    i, j = np.array([0, 1, 2, 3, 4]), np.array([1, 2, 3, 4, 0])
    square = rng.normal(size=(COUNT, d, d))
    back = frames[i].transpose(0, 2, 1)
    metres = np.einsum("mab,mb->ma", back, positions[j] - positions[i]) + rng.normal(0, 0.1, (COUNT, k))
    small = rng.normal(0, 0.1, (COUNT, d - k))
    turned = back @ frames[j] @ (rotations(small[:, 0]) if k == 2 else Rotation.from_rotvec(small).as_matrix())
    noise = square @ square.transpose(0, 2, 1) * 0.05 + np.eye(d) * 0.1
    return Motions(i, j, metres, turned, noise), positions, frames


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("plain", [True, False])
def test_the_slope_of_the_cost_is_its_difference(k: int, plain: bool) -> None:
    given, positions, frames = motions(k)
    known, ranges = Anchors([0], positions[:1], 0.3), Ranges(COUNT, [0], [2], [1.0], 0.2)
    problem = Problem(ranges, known, [], None, None, positions, 100.0, Relative(given, frames), plain=plain)
    problem.true = np.zeros(1)
    state = problem.state + np.random.default_rng(1).normal(0, 0.01, problem.state.shape)
    problem.look(state)
    slope = problem.system()[2]
    for row in range(len(state)):
        for column in range(state.shape[1]):
            step = np.zeros_like(state)
            step[row, column] = 1e-6
            values = []
            for sign in (1, -1):
                problem.look(state + sign * step)
                values.append(problem._costs().sum())
            expected = (values[1] - values[0]) / 2e-6
            assert slope[row, column] == pytest.approx(expected, rel=1e-4, abs=1e-4 * np.abs(slope).max())


def test_the_logarithm_of_a_pose_is_that_of_its_matrix() -> None:
    from scipy.linalg import logm

    turn, off = Rotation.from_rotvec([[0.3, -0.2, 0.5]]).as_matrix(), np.array([[1.0, 2.0, 3.0]])
    whole = np.eye(4)
    whole[:3, :3], whole[:3, 3] = turn[0], off[0]
    expected = np.real(logm(whole))
    found = log_pose(turn, off)[0]
    np.testing.assert_allclose(found[:3], expected[:3, 3], atol=1e-9)
    np.testing.assert_allclose(found[3:], [expected[2, 1], expected[0, 2], expected[1, 0]], atol=1e-9)
    flat = log_pose(rotations(np.array([0.7])), np.array([[1.0, 0.5]]))[0]
    whole = np.eye(3)
    whole[:2, :2], whole[:2, 2] = rotations(np.array([0.7]))[0], [1.0, 0.5]
    np.testing.assert_allclose(flat[:2], np.real(logm(whole))[:2, 2], atol=1e-9)
    np.testing.assert_allclose(inverse_jacobian(np.zeros((1, 6)))[0], np.eye(6))


@pytest.mark.parametrize("k", [2, 3])
def test_dead_reckoning_follows_motions_both_ways(k: int) -> None:
    given, _, _ = motions(k)
    some = given.where(np.array([0, 1, 3]))
    found = reckon(some, COUNT)
    assert found.parts[0] == found.parts[1] == found.parts[2] != found.parts[3] == found.parts[4]
    np.testing.assert_allclose(found.positions[1], some.metres[0])
    np.testing.assert_allclose(found.positions[2], some.metres[0] + some.rotations[0] @ some.metres[1])
    backward = Motions([1], [0], some.metres[:1], some.rotations[:1], some.covariance[:1])
    np.testing.assert_allclose(reckon(backward, 2).positions[1], -some.rotations[0].T @ some.metres[0])
    assert covered(some, [np.arange(COUNT)], COUNT).tolist() == [True, True, False, True, False]
