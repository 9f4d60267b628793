"""Stretches that only look alike are thrown out whole; places that the route comes back to are kept whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.arrays import Bools, Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.closures import closure_filter
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, Kind, measure, route


def with_likeness(
    positions: Floats,
    noise: str,
    seed: int,
    first: int,
    second: int,
    count: int = 9,
    *,
    backwards: bool = False,
) -> Ranges:
    """True ranges, and between two stretches of some points those that there would be if they were
    the same street.
    """
    rng = np.random.default_rng(seed)
    true = measure(positions, NOISES[noise], seed=seed, missing=0.1)
    i, j = (axis.ravel() for axis in np.meshgrid(np.arange(count), np.arange(count), indexing="ij"))
    along = np.hypot(
        np.linalg.norm(positions[first + i] - positions[first + j], axis=1), rng.uniform(0, 3)
    )
    metres = np.abs(along + NOISES[noise].sigma(along) * rng.standard_normal(len(along)))
    seen = (metres <= 10) & (rng.random(len(metres)) >= 0.1)
    other = second + (count - 1 - j if backwards else j)
    return Ranges(
        true.count,
        np.concatenate([true.i, (first + i)[seen]]),
        np.concatenate([true.j, other[seen]]),
        np.concatenate([true.metres, metres[seen]]),
        np.concatenate([true.sigma, NOISES[noise].sigma(metres)[seen]]),
    )


def false_ones(ranges: Ranges, positions: Floats) -> Bools:
    far: Bools = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1) > 25
    return far


@pytest.mark.parametrize("noise", ["low", "mid"])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_stretch_that_looks_like_another_is_thrown_out(noise: str, backwards: bool) -> None:
    thrown = []
    for seed in range(8):
        positions = route("loop", 400, seed=seed)
        ranges = with_likeness(
            positions, noise, seed, 60 + 10 * seed, 200 + 10 * seed, backwards=backwards
        )
        kept, false = closure_filter(ranges), false_ones(ranges, positions)
        assert kept[~false].all()
        assert len(set(kept[false].tolist())) == 1  # all or none
        thrown.append(not kept[false].any())
    # The farther the two seem beside each other, the less there is to go by.
    assert sum(thrown) >= 6


@pytest.mark.medium
@pytest.mark.parametrize("share", [0.01, 0.05])
def test_the_simulators_aliased_ranges_do_no_harm(share: float) -> None:
    clean, aliased = [], []
    for seed in range(8):
        positions = route("loop", 400, seed=seed)
        for scores, amount in ((clean, 0.0), (aliased, share)):
            ranges = measure(
                positions, NOISES["mid"], seed=seed, missing=0.1, outliers=0.01, aliased=amount
            )
            scores.append(aligned_score(recover(ranges).positions, positions).of_length)
    assert np.median(aliased) < 1.1 * np.median(clean)


@pytest.mark.medium
@pytest.mark.parametrize(("kind", "count"), [("loop", 400), ("city", 1000), ("open", 400)])
@pytest.mark.parametrize("noise", ["low", "mid", "high"])
def test_places_that_the_route_comes_back_to_are_kept(kind: Kind, count: int, noise: str) -> None:
    for seed in range(6):
        positions = route(kind, count, seed=seed, length=1000.0 if kind == "city" else 672.0)
        assert closure_filter(measure(positions, NOISES[noise], seed=seed, missing=0.1)).all()


@given(st.integers(0, 1000), st.integers(1, 40), st.floats(0, 1))
def test_any_ranges_are_fine(seed: int, count: int, share: float) -> None:
    """Without order, or too few: nothing can be said, and nothing is thrown out that is not a
    cluster.
    """
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(count, 1)
    chosen = rng.random(len(i)) < share
    ranges = Ranges(count, i[chosen], j[chosen], rng.uniform(0, 10, chosen.sum()), 1.0)
    kept = closure_filter(ranges)
    assert kept.shape == (len(ranges),)
    assert kept[(ranges.j - ranges.i) <= 2].all()
