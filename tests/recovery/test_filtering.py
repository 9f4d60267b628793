"""The filter of false ranges: independent ones go, true ones stay, and nothing is torn that need not be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_noise import learned_profile, measure_learned
from mappable.arrays import Bools, Floats
from mappable.recovery.filtering import common_neighbor_filter, common_neighbors
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, Kind, measure, route

SEEDS = st.integers(0, 10_000)


def true_ones(ranges: Ranges, positions: Floats) -> Bools:
    lengths = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    near: Bools = np.abs(lengths - ranges.metres) < 5 * ranges.sigma + 2
    return near


@given(SEEDS, st.integers(2, 30), st.floats(0.05, 1))
def test_common_neighbors_are_counted(seed: int, count: int, share: float) -> None:
    i, j = np.triu_indices(count, 1)
    kept = np.random.default_rng(seed).random(len(i)) < share
    ranges = Ranges(count, i[kept], j[kept], np.ones(kept.sum()), 1.0)
    near: list[set[int]] = [set() for _ in range(count)]
    for one, two in zip(ranges.i.tolist(), ranges.j.tolist(), strict=True):
        near[one].add(two)
        near[two].add(one)
    wanted = [
        len(near[one] & near[two])
        for one, two in zip(ranges.i.tolist(), ranges.j.tolist(), strict=True)
    ]
    assert common_neighbors(ranges).tolist() == wanted


@pytest.mark.medium
@pytest.mark.parametrize(
    ("kind", "count", "noise"), [("loop", 400, "mid"), ("open", 400, "high"), ("city", 1000, "low")]
)
@pytest.mark.parametrize("outliers", [0.0, 0.01, 0.05])
def test_independent_false_ranges_go_and_true_ones_stay(
    kind: Kind, count: int, noise: str, outliers: float
) -> None:
    for seed in range(3):
        positions = route(kind, count, seed=seed, length=1000.0 if kind == "city" else 672.0)
        ranges = measure(positions, NOISES[noise], seed=seed, missing=0.1, outliers=outliers)
        kept, true = common_neighbor_filter(ranges), true_ones(ranges, positions)
        assert kept[true].mean() > 0.98
        far = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1) > 30
        assert not kept[far].any()
        # What is left lies within a few ranges' reach.
        assert (kept & ~true).sum() <= 0.06 * (~true).sum() + 2
        assert ranges.where(kept).parts.max() == 0


@pytest.mark.medium
@given(SEEDS, st.sampled_from([(0.6, 1), (0.6, 2), (0.6, 3), (0.1, 4), (0.1, 6)]))
def test_a_chain_is_never_torn(seed: int, chain: tuple[float, int]) -> None:
    """Images in order with ranges to the next few, some of which are missing: whatever hung
    together still does.
    """
    missing, reach = chain
    rng = np.random.default_rng(seed)
    i = np.repeat(np.arange(60), reach)
    j = i + np.tile(np.arange(1, reach + 1), 60)
    kept = (j < 60) & (rng.random(len(i)) >= missing)
    ranges = Ranges(60, i[kept], j[kept], 6.0 * (j - i)[kept], 0.5)
    filtered = common_neighbor_filter(ranges)
    assert ranges.where(filtered).parts.max() == ranges.parts.max()


def test_parts_that_only_a_false_range_joins_come_apart() -> None:
    positions = route("loop", 400, seed=0)
    one = measure(positions, NOISES["mid"], seed=0)
    joined = Ranges(
        800,
        np.concatenate([one.i, one.i + 400, [100]]),
        np.concatenate([one.j, one.j + 400, [600]]),
        np.concatenate([one.metres, one.metres, [5.0]]),
        0.5,
    )
    kept = common_neighbor_filter(joined)
    assert not kept[(joined.i == 100) & (joined.j == 600)].any()
    assert joined.where(kept).parts.max() == 1


@pytest.mark.medium
def test_where_images_deviate_together_false_ranges_go_in_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    positions = route("city", 4000, seed=1, length=4000.0)
    ranges = measure_learned(positions, learned_profile(), seed=1, missing=0.1)
    false = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1) > 40
    assert false.mean() > 0.05
    kept = common_neighbor_filter(ranges)
    assert kept[~false].mean() > 0.85
    assert (kept & false).sum() <= 3
    monkeypatch.setattr("mappable.recovery.filtering.ROUNDS", 2)
    assert (common_neighbor_filter(ranges) & false).sum() > 10
