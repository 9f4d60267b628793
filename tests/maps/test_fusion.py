"""Positions from images, fused with odometry: errors and covariances of made-up drives."""

from typing import Any

import numpy as np
import pytest

from mappable.maps.fusion import fuse

STEP, SHARE, REACH, NOISE = 2.0, 0.4, 10.0, 0.05


def drive(seed: int, images: int, scale: float = 0.0, bend: float = 0.0) -> tuple[Any, Any, Any, Any, Any]:
    """True positions, measured ones with covariances, poses by odometry, and their variances seen from the last one."""
    random = np.random.default_rng(seed)
    heading = random.uniform(0, 2 * np.pi) + np.cumsum(random.normal(0, 0.05, images))
    true = np.cumsum(STEP * np.column_stack([np.cos(heading), np.sin(heading)]), axis=0)
    along = STEP * np.arange(images)
    alike = SHARE * np.exp(-np.abs(along[:, None] - along) / REACH)
    np.fill_diagonal(alike, 1.0)
    axes = np.array([[[np.cos(one), -np.sin(one)], [np.sin(one), np.cos(one)]] for one in heading])
    covariances = axes @ np.diag([1.5**2, 0.75**2]) @ axes.transpose(0, 2, 1)
    errors = np.linalg.cholesky(alike) @ random.normal(size=(images, 2))
    measured = true + np.einsum("nij,nj->ni", np.linalg.cholesky(covariances), errors)
    larger, bent = 1 + scale * random.normal(), bend * random.normal()
    poses = np.zeros((images, 3))
    for n in range(1, images):
        off = axes[n - 1].T @ (true[n] - true[n - 1]) * larger + NOISE * STEP * random.normal(size=2)
        turn = poses[n - 1, 2]
        poses[n, :2] = poses[n - 1, :2] + [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]] @ off
        poses[n, 2] = turn + heading[n] - heading[n - 1] + bent * STEP
    return true, measured, covariances, poses, (images - 1 - np.arange(images)) * (NOISE * STEP) ** 2


@pytest.mark.parametrize(
    ("images", "scale", "bend"), [(24, 0.0, 0.0), (24, 0.03, 0.002), (24, 0.05, 0.005), (6, 0.05, 0.005)]
)
def test_covariances_are_honest_and_odometry_helps(images: int, scale: float, bend: float) -> None:
    squared, fused, alone = [], [], []
    for seed in range(60):
        true, measured, covariances, poses, drift = drive(seed, images, scale, bend)
        position, covariance = fuse(measured, covariances, poses, drift, SHARE, REACH)
        off = position - true[-1]
        squared.append(off @ np.linalg.solve(covariance, off) / 2)
        fused.append(off @ off)
        alone.append(np.square(measured[-1] - true[-1]).sum())
    assert 0.6 < np.mean(squared) < 1.4
    assert np.mean(fused) < 0.8 * np.mean(alone)


def test_a_wrong_position_counts_little() -> None:
    _, measured, covariances, poses, drift = drive(0, 24)
    right = fuse(measured, covariances, poses, drift, SHARE, REACH)[0]
    measured[10] += 100.0
    wrong = fuse(measured, covariances, poses, drift, SHARE, REACH)[0]
    assert np.linalg.norm(wrong - right) < 2.0


def test_images_of_a_standing_camera_do_not_make_it_much_surer() -> None:
    measured, covariances = np.zeros((24, 2)), np.tile(np.eye(2), (24, 1, 1))
    _, covariance = fuse(measured, covariances, np.zeros((24, 3)), np.zeros(24), SHARE, REACH)
    assert covariance[0, 0] > SHARE


def test_without_errors_the_fit_is_exact() -> None:
    true, _, covariances, _, drift = drive(1, 12)
    cos, sin = np.cos(0.7), np.sin(0.7)
    poses = np.column_stack([true @ [[cos, -sin], [sin, cos]] + 5.0, np.zeros(12)])
    position, _ = fuse(true, covariances, poses, drift, SHARE, REACH)
    np.testing.assert_allclose(position, true[-1], atol=1e-6)
