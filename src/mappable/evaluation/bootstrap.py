"""Block bootstrap: confidence intervals of means over queries whose errors are correlated.

Neighboring images of a route see the same things, so a hundred of them are not a hundred
independent trials. The bootstrap therefore draws whole stretches of the route instead of single
queries. In the same way, a thousand queries of one training run are not a thousand trials of its
method. With several runs, the bootstrap draws runs as well.
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
        """True if the whole interval is above 0. For a difference of two methods: the first is
        better.
        """
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
    """The percentile interval of the mean of `values` (queries,), drawing blocks of queries with
    replacement.

    `blocks` (queries,) holds the block number of each query. With values (runs, queries), runs are
    drawn too; with three runs, the interval then reaches about as far as the most distant run. To
    compare two methods on the same queries, pass the differences of their values run by run: this
    is the paired bootstrap. If their runs do not match, pass the values of the other method as
    `minus` (its runs, queries), whose runs are drawn separately. The same seed and blocks give the
    same draws for any values.

    >>> right = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    >>> block_bootstrap(right, route_blocks(np.arange(8.0), 2.0), seed=0)
    Interval(mean=0.625, low=0.25, high=1.0)
    """
    blocks = np.asarray(blocks)
    methods = [
        np.atleast_2d(np.asarray(one, dtype=np.float64))
        for one in (values, minus)
        if one is not None
    ]
    if not blocks.size or any(
        one.shape[1:] != blocks.shape or not np.isfinite(one).all() for one in methods
    ):
        raise BadInputError(f"expected a finite value for each of the {len(blocks):,} queries")
    names, number = np.unique(blocks, return_inverse=True)
    if len(names) == 1:
        raise BadInputError(
            f"all {len(blocks):,} queries are in one block, expected two blocks or more"
        )
    times = _times(seed, Purpose.BOOTSTRAP, 0, len(names), draws)
    drawn = times @ np.bincount(number)
    mean, means = 0.0, np.zeros(draws)
    for which, (sign, runs) in enumerate(zip((1.0, -1.0), methods, strict=False)):
        of_runs = (
            times @ np.stack([np.bincount(number, run) for run in runs], axis=1) / drawn[:, None]
        )
        shares = _times(seed, Purpose.BOOTSTRAP_RUNS, which, len(runs), draws) / len(runs)
        means += sign * (of_runs * shares).sum(axis=1)
        mean += sign * float(runs.mean())
    low, high = np.quantile(means, [(1.0 - probability) / 2.0, (1.0 + probability) / 2.0])
    return Interval(mean, float(low), float(high))


@lru_cache(maxsize=4)
def _times(seed: int, purpose: Purpose, which: int, count: int, draws: int) -> Ints:
    """How often each block, or run, occurs in each draw; cached, because many means use the same
    draws.
    """
    times: Ints = generator(seed, purpose, which).multinomial(
        count, np.full(count, 1.0 / count), size=draws
    )
    return times


def route_blocks(along: Floats, length: float) -> Ints:
    """The block of each query, from its position `along` (queries,) the route: stretches of
    `length` from the first.

    >>> route_blocks(np.array([1250.0, 1269.0, 1270.0, 1621.0]), 20.0)
    array([ 0,  0,  1, 18])
    """
    along = np.asarray(along, dtype=np.float64)
    if not 0.0 < length < np.inf:
        raise BadInputError(f"block length must be above 0, got {length:g}")
    blocks: Ints = np.floor((along - along.min()) / length).astype(np.int64)
    return blocks
