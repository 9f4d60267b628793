"""Block bootstrap: confidence intervals of means over queries whose errors are correlated.

Neighbouring images of a route see the same things, so that a hundred of them are not a hundred independent trials.
Whole stretches of the route are drawn instead of single queries. Nor are a thousand queries of one training run a
thousand trials of its method: where there are several runs, they are drawn as well.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.randomness import Purpose, generator


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval, from `low` to `high`."""

    mean: float
    low: float
    high: float

    @property
    def above_zero(self) -> bool:
        """True if all of it is; of a difference between two methods: the first is better."""
        return self.low > 0.0


def block_bootstrap(
    values: Floats,
    blocks: Ints,
    *,
    seed: int,
    minus: Floats | None = None,
    draws: int = 10_000,
    probability: float = 0.95,
) -> Interval:
    """The percentile interval of the mean of `values` (queries,), where blocks of queries are drawn with replacement.

    `blocks` (queries,) has the number of each query's block. Of values (runs, queries) runs are drawn, too, so that of
    three runs the interval reaches about as far as the one that is farthest off. For two methods on the same queries
    give the differences of their values, run by run: that is the paired bootstrap. Where their runs have nothing in
    common, give those of the other method as `minus` (its runs, queries), which are drawn by themselves. The same seed
    and blocks give the same draws, whatever the values.

    >>> right = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    >>> block_bootstrap(right, route_blocks(np.arange(8.0), 2.0), seed=0)
    Interval(mean=0.625, low=0.25, high=1.0)
    """
    blocks = np.asarray(blocks)
    methods = [np.atleast_2d(np.asarray(one, dtype=np.float64)) for one in (values, minus) if one is not None]
    for one in methods:
        _check(one, blocks, draws, probability)
    names, number = np.unique(blocks, return_inverse=True)
    if len(names) == 1:
        raise BadInputError(f"all {len(blocks):,} queries are in one block, but blocks are drawn among several")
    times = _times(seed, Purpose.BOOTSTRAP, 0, len(names), draws)
    drawn = times @ np.bincount(number)
    mean, means = 0.0, np.zeros(draws)
    for which, (sign, runs) in enumerate(zip((1.0, -1.0), methods, strict=False)):
        of_runs = times @ np.stack([np.bincount(number, run) for run in runs], axis=1) / drawn[:, None]
        shares = _times(seed, Purpose.BOOTSTRAP_RUNS, which, len(runs), draws) / len(runs)
        means += sign * (of_runs * shares).sum(axis=1)
        mean += sign * float(runs.mean())
    low, high = np.quantile(means, [(1.0 - probability) / 2.0, (1.0 + probability) / 2.0])
    return Interval(mean, float(low), float(high))


@lru_cache(maxsize=4)
def _times(seed: int, purpose: Purpose, which: int, count: int, draws: int) -> Ints:
    """How often each of the blocks, or runs, comes in each of the draws; many means are taken of the same ones."""
    times: Ints = generator(seed, purpose, which).multinomial(count, np.full(count, 1.0 / count), size=draws)
    return times


def route_blocks(along: Floats, length: float) -> Ints:
    """The block of each query, by its position `along` (queries,) the route: stretches of `length`, from the first on.

    >>> route_blocks(np.array([1250.0, 1269.0, 1270.0, 1621.0]), 20.0)
    array([ 0,  0,  1, 18])
    """
    along = np.asarray(along, dtype=np.float64)
    if not 0.0 < length < np.inf:
        raise BadInputError(f"the length of blocks is {length:g}, but must be above 0")
    if along.ndim != 1 or not len(along):
        raise BadInputError(f"positions along a route are one number a query, not {_shape(along)} of them")
    if not np.isfinite(along).all():
        query = int(np.flatnonzero(~np.isfinite(along))[0])
        raise BadInputError(f"the position of query {query} is {along[query]}, but must be a number")
    blocks: Ints = np.floor((along - along.min()) / length).astype(np.int64)
    return blocks


def _check(values: Floats, blocks: Ints, draws: int, probability: float) -> None:
    if values.ndim != 2 or not values.size:
        raise BadInputError(f"values are one number a query, or a row of them a run, not {_shape(values)} of them")
    if blocks.shape != values.shape[1:]:
        raise BadInputError(f"there are values of {values.shape[1]:,} queries, but {_shape(blocks)} blocks")
    if not np.isfinite(values).all():
        row, query = (int(at) for at in np.argwhere(~np.isfinite(values))[0])
        raise BadInputError(f"the value of query {query} is {values[row, query]}, but must be a number")
    if draws < 1:
        raise BadInputError(f"draws is {draws}, but must be at least 1")
    if not 0.0 < probability < 1.0:
        raise BadInputError(f"probability is {probability:g}, but must be between 0 and 1")


def _shape(array: Floats | Ints) -> str:
    return " x ".join(f"{length:,}" for length in array.shape) or "one"
