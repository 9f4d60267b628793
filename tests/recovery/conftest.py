"""What tests of completion share: problems that have one answer, and such as have none."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from mappable.arrays import Bools, Floats

Problem = tuple[Floats, Floats, Bools]


def _problem(count: int, dimensions: int, kept: float, seed: int = 0) -> Problem:
    rng = np.random.default_rng([seed, count, dimensions])
    points = rng.uniform(-50, 50, (count, dimensions))
    pairs = np.triu(rng.random((count, count)) < kept, 1)
    mask: Bools = pairs | pairs.T | np.eye(count, dtype=bool)
    return points, np.where(mask, squareform(pdist(points, "sqeuclidean")), np.nan), mask


@pytest.fixture
def problem() -> Callable[..., Problem]:
    """Random points, their squared distances (those masked out are not even numbers) and a mask."""
    return _problem


@pytest.fixture
def refused() -> list[tuple[Floats, Bools, str]]:
    """Squared distances and masks that cannot be, and what is said of them."""
    _, squared, mask = _problem(6, 2, 1.0)
    lopsided = squared.copy()
    lopsided[0, 1] += 1.0
    return [
        (lopsided, mask, "differs from its mirror image"),
        (-squared, mask, "is negative"),
        (np.full((6, 6), np.nan), mask, "is not a finite number"),
        (squared, np.eye(6, dtype=bool), "keeps no pair of points at all"),
        (squared[:2, :2], mask[:2, :2], "at least 3"),
    ]
