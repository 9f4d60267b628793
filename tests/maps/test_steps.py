"""How far a camera moved, by feature distance."""

from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.steps import Steps
from mappable.maps.store import squared_between


def test_means_are_those_of_all_pairs(town: Any) -> None:
    positions, seen = town.drive[0][:120], town.drive[1][:120]
    steps = Steps.fit(seen, positions)
    squared = squared_between(seen, seen)
    metres = np.linalg.norm(positions[:, None] - positions, axis=2)
    for at in (4.0, 8.0, 20.0):
        near = np.abs(metres - at) < 0.5
        assert np.interp(at, steps.metres, steps.mean) == pytest.approx(squared[near].mean(), rel=0.1)
    assert list(steps.mean) == sorted(steps.mean)
    assert steps.reach(0.5) < steps.reach(0.9)


def test_a_second_visit_does_not_count(town: Any) -> None:
    """Images of another visit, less alike at one place, follow the first visit."""
    positions, seen = town.drive[0][:120], town.drive[1][:120]
    changed = seen + np.random.default_rng(0).normal(scale=0.05, size=seen.shape)
    changed /= np.linalg.norm(changed, axis=1, keepdims=True)
    once = Steps.fit(seen, positions)
    twice = Steps.fit(np.concatenate([seen, changed.astype(np.float32)]), np.concatenate([positions, positions]))
    both = Steps.fit(np.concatenate([changed.astype(np.float32)] * 2), np.concatenate([positions, positions]))
    assert once.mean[1] < twice.mean[1] < both.mean[1] + 0.05
    assert twice.mean[1] < 0.75 * squared_between(seen, changed.astype(np.float32)).diagonal().mean() + 0.5


@pytest.mark.parametrize("every", [2, 5, 10])
def test_the_usual_step_of_a_drive(town: Any, every: int) -> None:
    """Of a drive with 1 m from one image to the next, thinned, one step in ten missing."""
    steps = Steps.fit(town.known[1], town.known[0])
    kept = np.delete(np.arange(0, 400, every), np.arange(5, 400 // every, 10))
    seen, at = town.drive[1][kept], town.drive[0][kept]
    squared = np.square(np.diff(seen, axis=0)).sum(1).astype(np.float64)
    truly = np.median(np.linalg.norm(np.diff(at, axis=0), axis=1))
    assert 0.6 * truly < steps.usual(squared, 0.5) < 1.6 * truly


def test_likelihoods_are_densities(town: Any) -> None:
    steps = Steps.fit(town.known[1], town.known[0])
    squared = np.linspace(-2, 6, 4001)
    sums = steps.likelihood(squared, np.array([0.0, 3.0, 50.0])).sum(0) * 0.002
    assert sums == pytest.approx(np.sqrt(2 * np.pi), rel=2e-3)


def test_too_few_pairs(town: Any) -> None:
    with pytest.raises(BadInputError, match="10 pairs"):
        Steps.fit(town.drive[1][:5], town.drive[0][:5])
