"""SMACOF: the stress never rises, exact distances are met, and sigmas count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.smacof import smacof, sparse_smacof

DIMENSIONS = st.sampled_from([2, 3])
SEEDS = st.integers(0, 10_000)


def random_ranges(seed: int, count: int, share: float) -> Ranges:
    """Any lengths, which need not fit any points, between a share of all pairs; some are 0."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(count, 1)
    kept = rng.random(len(i)) < share
    kept[0] = True
    metres = rng.uniform(0, 10, kept.sum()) * (rng.random(kept.sum()) < 0.9)
    return Ranges(count, i[kept], j[kept], metres, rng.uniform(0.01, 3, kept.sum()))


@given(
    SEEDS,
    st.integers(2, 25),
    DIMENSIONS,
    st.floats(0.05, 1),
    st.sampled_from(["spread", "line", "one place"]),
)
def test_the_stress_never_rises(
    seed: int, count: int, dimensions: int, share: float, start: str
) -> None:
    ranges = random_ranges(seed, count, share)
    points = np.random.default_rng(seed).normal(0, 10, (count, dimensions))
    points[:, 1:] *= start == "spread"
    points *= start != "one place"
    scaled = sparse_smacof(ranges, points, steps=50, tolerance=0)
    assert (np.diff(scaled.stresses) <= 0).all()
    assert np.isfinite(scaled.points).all()
    lengths = np.linalg.norm(scaled.points[ranges.i] - scaled.points[ranges.j], axis=1)
    assert scaled.stress == pytest.approx(
        np.square((lengths - ranges.metres) / ranges.sigma).sum(), rel=1e-6, abs=1e-9
    )


@pytest.mark.medium
@given(SEEDS, DIMENSIONS)
def test_exact_distances_are_met_from_nearby(seed: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 100, (15, dimensions))
    scaled = smacof(
        squareform(pdist(points)),
        points + rng.normal(0, 3, points.shape),
        steps=1000,
        tolerance=1e-9,
    )
    assert aligned_score(scaled.points, points, scale=False).rmse < 1e-3


@pytest.mark.medium
@given(SEEDS, DIMENSIONS)
def test_dense_and_sparse_are_the_same(seed: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    distances = squareform(rng.uniform(0.5, 2, 66))
    start = rng.normal(size=(12, dimensions))
    i, j = np.triu_indices(12, 1)
    dense = smacof(distances, start)
    sparse = sparse_smacof(Ranges(12, i, j, distances[i, j], 1.0), start)
    np.testing.assert_allclose(dense.points, sparse.points, atol=1e-9)


@pytest.mark.medium
@given(SEEDS, DIMENSIONS, st.floats(0.3, 1))
def test_steps_are_those_of_the_formula_whose_stress_never_rises(
    seed: int, dimensions: int, share: float
) -> None:
    """V⁺ B(X) X by dense matrices, one step in four plain and the others twice as far, with no look
    at the stress.
    """
    ranges = random_ranges(seed, 9, share)
    weights, wanted = np.zeros((9, 9)), np.zeros((9, 9))
    weights[ranges.i, ranges.j], wanted[ranges.i, ranges.j] = ranges.sigma**-2, ranges.metres
    weights, wanted = weights + weights.T, wanted + wanted.T
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    points = np.random.default_rng(seed).normal(0, 10, (9, dimensions))
    start, stresses = points.copy(), []
    for step in range(9):
        apart = squareform(pdist(points)) + np.eye(9)
        stresses.append(float((weights * np.square(apart - np.eye(9) - wanted)).sum() / 2))
        # Points without ranges may coincide.
        pull = -weights * wanted / np.where(apart > 0, apart, 1.0)
        guttman = inverse @ (np.diag(-pull.sum(1)) + pull) @ points
        points = guttman if step % 4 == 0 else 2 * guttman - points
    assert (np.diff(stresses) <= 1e-9 * stresses[0]).all()
    if len(np.unique(ranges.parts)) == 1:
        found = sparse_smacof(ranges, start, steps=8, tolerance=0).stresses
        nothing = 1e-20 * stresses[0]  # which a tree of ranges comes to at once
        # It may end early, where nothing is gained.
        assert found[-1] - min(stresses) <= 1e-9 * stresses[-1] + nothing
        np.testing.assert_allclose(found, stresses[: len(found)], rtol=1e-6, atol=nothing)


def test_parts_do_not_touch_each_other() -> None:
    one = random_ranges(0, 10, 0.8)
    start = np.random.default_rng(0).normal(size=(21, 2))
    both = Ranges(
        21,
        np.append(one.i, one.i + 10),
        np.append(one.j, one.j + 10),
        np.tile(one.metres, 2),
        np.tile(one.sigma, 2),
    )
    options = {"steps": 20, "tolerance": 0.0}
    together, alone = (
        sparse_smacof(both, start, **options).points,
        sparse_smacof(one, start[:10], **options).points,
    )
    np.testing.assert_allclose(together[:10] - together[0], alone - alone[0], atol=1e-9)
