"""The block bootstrap: its draws against a loop, the coverage of its interval, and its errors."""

import numpy as np
import pytest

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.evaluation.bootstrap import block_bootstrap, route_blocks


@pytest.fixture
def route() -> tuple[Floats, Ints]:
    """Values of 95 queries that are similar within blocks of 10; the last block is half as long."""
    random = np.random.default_rng(0)
    blocks = route_blocks(np.arange(95.0), 10.0)
    return random.normal(size=10)[blocks] + 0.1 * random.normal(size=95), blocks


def loop_bootstrap(values: Floats, blocks: Ints, draws: int) -> tuple[float, float]:
    """The interval from drawing blocks one after another, with separate random numbers."""
    random, names = np.random.default_rng(1), np.unique(blocks)
    means = []
    for _ in range(draws):
        drawn = [values[blocks == name] for name in random.choice(names, len(names))]
        means.append(float(np.concatenate(drawn).mean()))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


# What it computes


@pytest.mark.medium
def test_the_interval_equals_a_loop_over_draws(route: tuple[Floats, Ints]) -> None:
    found = block_bootstrap(*route, seed=0)
    assert found.mean == pytest.approx(route[0].mean())
    assert (found.low, found.high) == pytest.approx(loop_bootstrap(*route, draws=10_000), abs=0.03)


@pytest.mark.medium
def test_several_runs_are_drawn_too(route: tuple[Floats, Ints]) -> None:
    values, blocks = route
    runs = np.stack([values - 0.2, values, values + 0.3])
    found, one = block_bootstrap(runs, blocks, seed=0), block_bootstrap(values, blocks, seed=0)
    assert found.mean == pytest.approx(runs.mean())
    random, names, means = np.random.default_rng(1), np.unique(blocks), []
    for _ in range(10_000):
        rows = np.concatenate(
            [np.flatnonzero(blocks == name) for name in random.choice(names, len(names))]
        )
        means.append(float(runs[random.choice(3, 3)][:, rows].mean()))
    assert (found.low, found.high) == pytest.approx(
        tuple(np.quantile(means, [0.025, 0.975])), abs=0.03
    )
    assert found.low < one.low
    assert found.high > one.high


@pytest.mark.medium
def test_methods_with_unmatched_runs_are_compared_with_random_runs(
    route: tuple[Floats, Ints],
) -> None:
    hard, blocks = route
    first, second = np.stack([hard + 1.0, hard + 1.2]), np.stack([hard, hard + 0.1, hard + 0.5])
    found = block_bootstrap(first, blocks, seed=0, minus=second)
    assert found.mean == pytest.approx(first.mean() - second.mean())
    random, means = np.random.default_rng(1), []
    for _ in range(10_000):  # the route is the same for both, so blocks make no difference here
        means.append(
            np.mean(random.choice([1.0, 1.2], 2)) - np.mean(random.choice([0.0, 0.1, 0.5], 3))
        )
    assert (found.low, found.high) == pytest.approx(
        tuple(np.quantile(means, [0.025, 0.975])), abs=0.01
    )
    one = block_bootstrap(hard + 1.0, blocks, seed=0, minus=hard)
    assert (one.low, one.high) == pytest.approx((1.0, 1.0))
    with pytest.raises(BadInputError, match=r"finite value"):
        block_bootstrap(hard, blocks, seed=0, minus=np.arange(3.0))


def test_only_the_paired_bootstrap_separates_methods_that_fail_on_the_same_stretches(
    route: tuple[Floats, Ints],
) -> None:
    hard, blocks = route
    better = hard + 0.05 + 0.01 * np.random.default_rng(3).normal(size=len(hard))
    alone, beside = block_bootstrap(better, blocks, seed=0), block_bootstrap(hard, blocks, seed=0)
    assert alone.low < beside.high
    assert block_bootstrap(better - hard, blocks, seed=0).above_zero
    assert not block_bootstrap(hard - better, blocks, seed=0).above_zero


@pytest.mark.medium
def test_the_block_interval_has_its_stated_coverage_and_an_interval_over_queries_does_not() -> None:
    """40 stretches of 20 queries each; each stretch has its own probability of a correct match, 0.5
    on average.
    """
    random, blocks = np.random.default_rng(4), route_blocks(np.arange(800.0), 20.0)
    by_blocks, by_queries, trials = 0, 0, 200
    for trial in range(trials):
        chance = random.beta(2.0, 2.0, 40)[blocks]
        right = (random.random(800) < chance).astype(float)
        found = block_bootstrap(right, blocks, seed=trial, draws=500)
        by_blocks += found.low <= 0.5 <= found.high
        # 800 blocks take longer to draw than 40, and few trials show how far this one is off.
        if trial % 5 == 0:
            alone = block_bootstrap(right, np.arange(800), seed=trial, draws=200)
            by_queries += alone.low <= 0.5 <= alone.high
    assert 0.90 <= by_blocks / trials <= 0.99
    assert by_queries / (trials / 5) < 0.8


# Blocks along a route


# Errors


@pytest.mark.parametrize(
    ("values", "blocks"),
    [
        ([1.0, 0.0, 1.0], [0, 1]),
        ([], []),
        ([1.0, np.nan], [0, 1]),
        ([[1.0, 1.0], [np.inf, 1.0]], [0, 1]),
        ([1.0, 1.0], [4, 4]),
    ],
)
def test_values_and_blocks_that_do_not_match_raise(values: Floats, blocks: Ints) -> None:
    with pytest.raises(BadInputError):
        block_bootstrap(np.array(values), np.array(blocks), seed=0)
