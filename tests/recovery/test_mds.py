"""Classical MDS gives exact points back; landmark MDS comes near to them by paths along short ranges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist, squareform

from mappable.arrays import Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.mds import classical_mds, landmark_geodesic_mds
from mappable.recovery.ranges import Ranges

DIMENSIONS = st.sampled_from([2, 3])
SEEDS = st.integers(0, 10_000)


def some_points(seed: int, count: int, dimensions: int) -> Floats:
    return np.random.default_rng(seed).uniform(0, 100, (count, dimensions))


def exact_ranges(points: Floats, radius: float) -> Ranges:
    i, j = KDTree(points).query_pairs(radius, output_type="ndarray").T
    return Ranges(len(points), i, j, np.linalg.norm(points[i] - points[j], axis=1), 0.1)


@given(SEEDS, st.integers(4, 30), DIMENSIONS)
def test_exact_distances_give_the_points_back(seed: int, count: int, dimensions: int) -> None:
    points = some_points(seed, count, dimensions)
    found = classical_mds(squareform(pdist(points)) ** 2, dimensions)
    assert aligned_score(found, points, scale=False).rmse < 1e-6
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-9)


@given(SEEDS, DIMENSIONS)
def test_noisy_distances_give_the_strongest_part_of_the_gram_matrix(
    seed: int, dimensions: int
) -> None:
    noise = np.random.default_rng(seed).normal(0, 5, 120)
    squared = squareform(pdist(some_points(seed, 16, dimensions)) + noise) ** 2
    centering = np.eye(16) - 1 / 16
    left, values, right = np.linalg.svd(-centering @ squared @ centering / 2)
    strongest = np.where(np.sum(left * right.T, axis=0) > 0, values, 0).argsort()[::-1][:dimensions]
    gram = (left[:, strongest] * values[strongest]) @ right[strongest]
    found = classical_mds(squared, dimensions)
    np.testing.assert_allclose(found @ found.T, gram, atol=1e-6)


@given(SEEDS, DIMENSIONS)
def test_all_ranges_and_all_landmarks_are_classical_mds(seed: int, dimensions: int) -> None:
    points = some_points(seed, 15, dimensions)
    found = landmark_geodesic_mds(exact_ranges(points, 1000.0), dimensions, landmarks=15, seed=seed)
    assert aligned_score(found, points, scale=False).rmse < 1e-6


@given(SEEDS, DIMENSIONS)
def test_few_landmarks_suffice_where_all_ranges_are_exact(seed: int, dimensions: int) -> None:
    points = some_points(seed, 30, dimensions)
    found = landmark_geodesic_mds(
        exact_ranges(points, 1000.0), dimensions, landmarks=dimensions + 2, seed=seed
    )
    assert aligned_score(found, points, scale=False).rmse < 1e-4


@pytest.mark.parametrize(("dimensions", "radius"), [(2, 15.0), (3, 30.0)])
def test_paths_along_short_ranges_come_near(dimensions: int, radius: float) -> None:
    points = some_points(0, 1000, dimensions)
    found = landmark_geodesic_mds(exact_ranges(points, radius), dimensions)
    assert aligned_score(found, points).of_gyration < 10


def test_parts_are_laid_out_apart() -> None:
    square = some_points(0, 12, 2)
    whole = exact_ranges(square, 1000.0)
    twice = Ranges(
        26,  # the last two have no range
        np.concatenate([2 * whole.i, 2 * whole.i + 1]),
        np.concatenate([2 * whole.j, 2 * whole.j + 1]),
        np.concatenate([whole.metres, 2 * whole.metres]),
        1.0,
    )
    found = landmark_geodesic_mds(twice, 2)
    for members, size in ((found[0:24:2], 1), (found[1:24:2], 2)):
        assert aligned_score(members, size * square, scale=False).rmse < 1e-6
        np.testing.assert_allclose(members.mean(0), 0, atol=1e-9)
    np.testing.assert_array_equal(found[24:], 0)
