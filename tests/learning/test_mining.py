"""Hard-negative mining: the nearest descriptors among the negatives in the cache, against a loop."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.learning.mining import FeatureCache
from slow_losses import squared_distance

PLACES, DIMENSIONS = 30, 8


@pytest.fixture
def cache() -> FeatureCache:
    """Unit descriptors of every place whose row is not divisible by 3."""
    rows = torch.tensor([row for row in range(PLACES) if row % 3])
    return FeatureCache(rows, descriptors(len(rows)))


def descriptors(count: int) -> Tensor:
    points = np.random.default_rng(1).normal(size=(count, DIMENSIONS))
    return torch.tensor(points / np.linalg.norm(points, axis=1, keepdims=True), dtype=torch.float32)


def by_row(cache: FeatureCache) -> dict[int, list[float]]:
    return dict(zip(cache.rows.tolist(), cache.features.tolist(), strict=True))


def test_squared_distances_are_those_of_a_loop(cache: FeatureCache) -> None:
    anchors, at = torch.tensor([4, 29, 1]), by_row(cache)
    expected = [
        [squared_distance(at[anchor], vector) for vector in at.values()]
        for anchor in anchors.tolist()
    ]
    np.testing.assert_allclose(cache.squared_distances(anchors), expected, atol=1e-6)


def test_squared_distances_are_never_negative_nor_in_half_precision() -> None:
    twins = torch.nn.functional.normalize(torch.ones(4, 1000) + 1e-4 * torch.arange(1000), dim=1)
    cache = FeatureCache(torch.arange(4), twins)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        distances = cache.squared_distances(torch.arange(4))
    assert distances.dtype == torch.float32
    assert distances.min() >= 0
    assert distances.max() < 1e-5


def test_the_hardest_negatives_are_the_nearest_in_a_loop(cache: FeatureCache) -> None:
    anchors = torch.tensor([2, 7, 28])
    negatives = torch.tensor(np.random.default_rng(2).random((3, PLACES)) < 0.6)
    rows, found = cache.hardest(anchors, negatives, 4)
    at = by_row(cache)
    for anchor, mask, hard in zip(anchors.tolist(), negatives.tolist(), rows.tolist(), strict=True):
        candidates = [row for row in at if mask[row]]
        nearest = sorted(candidates, key=lambda row: squared_distance(at[anchor], at[row]))
        assert hard == nearest[:4]
    assert found.tolist() == [4, 4, 4]


def test_too_few_negatives_in_the_cache_leave_the_anchor_itself(cache: FeatureCache) -> None:
    negatives = torch.zeros(2, PLACES, dtype=torch.bool)
    negatives[0, [3, 5, 6, 8]] = True  # the cache contains 5 and 8
    rows, found = cache.hardest(torch.tensor([1, 2]), negatives, 3)
    assert found.tolist() == [2, 0]
    assert sorted(rows[0, :2].tolist()) == [5, 8]
    assert rows[0, 2] == 1
    assert rows[1].tolist() == [2, 2, 2]
