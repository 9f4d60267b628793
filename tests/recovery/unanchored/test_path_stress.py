"""Points fitted to paths from landmarks: the same as weighted SMACOF on these pairs, and the stress falls."""

import numpy as np
import pytest

from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.mds import landmark_geodesic_mds
from mappable.recovery.unanchored.path_stress import fit_paths
from mappable.recovery.unanchored.smacof import sparse_smacof
from simulated_ranges import NOISES, measure, route


@pytest.mark.parametrize("dimensions", [2, 3])
def test_as_by_smacof_on_the_same_pairs(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of two landmarks occur twice in the stress, so their variance is half."""
    monkeypatch.setattr("mappable.recovery.unanchored.path_stress.TOLERANCE", 1e-9)
    monkeypatch.setattr("mappable.recovery.unanchored.path_stress.STEPS", 2000)
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 10, (20, dimensions))
    chosen = np.array([3, 7, 11, 16, 19])
    apart = np.linalg.norm(points[chosen][:, None] - points[None], axis=2)
    noise = rng.uniform(0.9, 1.1, (20, 20))
    paths = apart * (noise + noise.T)[chosen] / 2  # the same both ways
    start = points + rng.normal(0, 0.5, points.shape)
    pairs = {
        (min(i, j), max(i, j)): paths[row, j] for row, i in enumerate(chosen.tolist()) for j in range(20) if i != j
    }
    i, j = np.array(list(pairs)).T
    metres = np.array(list(pairs.values()))
    both = np.isin(i, chosen) & np.isin(j, chosen)
    ranges = Ranges(20, i, j, metres, metres / np.where(both, np.sqrt(2), 1))
    wanted = sparse_smacof(ranges, start, steps=5000, tolerance=1e-12).points
    found = fit_paths(chosen, paths, start)
    assert aligned_score(found, wanted, scale=False).rmse < 1e-3


def test_all_points_are_landmarks_or_lie_in_one_place() -> None:
    points = np.random.default_rng(0).uniform(0, 10, (6, 2))
    paths = np.linalg.norm(points[:, None] - points[None], axis=2)
    found = fit_paths(np.arange(6), paths, points + 0.1)
    assert aligned_score(found, points, scale=False).rmse < 1e-6
    assert np.isfinite(fit_paths(np.array([0, 1]), np.zeros((2, 4)), np.zeros((4, 2)))).all()


@pytest.mark.medium
def test_a_city_comes_out_better() -> None:
    plain, fitted = [], []
    for seed in range(3):
        positions = route("city", 1500, seed=seed, length=1500.0)
        ranges = measure(positions, NOISES["mid"], seed=seed)
        for scores, fit in ((plain, False), (fitted, True)):
            points = landmark_geodesic_mds(ranges, 2, fitted=fit)
            scores.append(aligned_score(points, positions, scale=False).of_length)
    assert np.median(fitted) < 0.8 * np.median(plain)
