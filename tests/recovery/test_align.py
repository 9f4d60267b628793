"""Alignment: what was moved is moved back, with and without scale and mirror, in 2-D and 3-D; and the scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.align import align, aligned_score

DIMENSIONS = st.sampled_from([2, 3])
SEEDS = st.integers(0, 10_000)


def path(seed: int, dimensions: int, count: int = 20) -> Floats:
    walk: Floats = np.random.default_rng(seed).normal(size=(count, dimensions)).cumsum(0)
    return walk


def moved(points: Floats, seed: int, *, scale: float, mirror: bool) -> Floats:
    """The points somewhere else, turned by a random rotation."""
    random = np.random.default_rng(seed)
    turn = Rotation.random(rng=random).as_matrix()
    if points.shape[1] == 2:
        angle = random.uniform(0, 2 * np.pi)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn = turn @ np.diag([-1.0 if mirror else 1.0] + [1.0] * (points.shape[1] - 1))
    there: Floats = scale * points @ turn.T + random.normal(0, 100, points.shape[1])
    return there


@given(SEEDS, DIMENSIONS, st.floats(0.01, 100), st.booleans())
def test_what_was_moved_turned_scaled_and_mirrored_comes_back(
    seed: int, dimensions: int, scale: float, mirror: bool
) -> None:
    truth = path(seed, dimensions)
    points = moved(truth, seed + 1, scale=scale, mirror=mirror)
    found = align(points, truth)
    np.testing.assert_allclose(found(points), truth, atol=1e-6)
    assert found.scale == pytest.approx(1 / scale)
    assert (np.linalg.det(found.rotation) < 0) == mirror
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(dimensions), atol=1e-9)


@given(SEEDS, DIMENSIONS)
def test_without_scale_the_motion_is_rigid(seed: int, dimensions: int) -> None:
    truth = path(seed, dimensions)
    points = moved(2 * truth, seed + 1, scale=1.0, mirror=True)
    assert align(points, truth, scale=False).scale == 1.0
    spread = np.sqrt(np.square(truth - truth.mean(0)).sum(1).mean())
    # Twice as large is once too far out.
    assert aligned_score(points, truth, scale=False).rmse == pytest.approx(spread)
    assert aligned_score(points, truth).rmse == pytest.approx(0, abs=1e-6)


@given(SEEDS, st.booleans())
def test_noisy_points_in_space_are_turned_as_scipy_turns_them(seed: int, mirror: bool) -> None:
    truth = path(seed, 3)
    points = moved(truth, seed + 1, scale=1.0, mirror=mirror) + np.random.default_rng(seed).normal(
        0, 0.1, truth.shape
    )
    wanted, centered = truth - truth.mean(0), points - points.mean(0)
    best = min(Rotation.align_vectors(wanted, sign * centered)[1] for sign in (1.0, -1.0))
    assert aligned_score(points, truth, scale=False).rmse == pytest.approx(
        best / np.sqrt(len(truth)), rel=1e-6
    )


@pytest.mark.parametrize(
    ("points", "truth", "part"),
    [
        (np.zeros((3, 2)), np.zeros((4, 2)), "(3, 2) and true points (4, 2)"),
        (np.zeros((3, 2)), np.zeros((3, 3)), "(3, 3)"),
        (np.zeros(3), np.zeros(3), "(n, 2) or (n, 3)"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "(0, 2)"),
        (np.full((3, 2), np.nan), np.zeros((3, 2)), "not a finite number"),
        (np.zeros((3, 2)), np.zeros((3, 2)), "length 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(points: Floats, truth: Floats, part: str) -> None:
    with pytest.raises(BadInputError) as refused:
        aligned_score(points, truth)
    assert part in str(refused.value)


def test_without_mirror_a_mirrored_figure_stays_apart() -> None:
    points = np.random.default_rng(0).uniform(-5, 5, (12, 2))
    move = align(points * [-1, 1], points, scale=False, mirror=False)
    assert np.linalg.det(move.rotation) == pytest.approx(1.0)
    assert np.abs(move(points * [-1, 1]) - points).max() > 1.0
    turned = align(points @ [[0.0, 1.0], [-1.0, 0.0]] + 3, points, mirror=False)
    np.testing.assert_allclose(turned(points @ [[0.0, 1.0], [-1.0, 0.0]] + 3), points, atol=1e-9)
