"""Test whether ranges agree with the order of a drive: is each image nearer to the next than to other images?"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges

SHUFFLES = 99  # random orders to compare with
BY_CHANCE = 95  # the true order must beat this many of them
NEAR = 5  # points are far apart in order if their numbers differ by more than this (or more, if ranges reach farther)
FEW_RANGES = 20  # with fewer ranges between points far apart in order, none is treated as false


@dataclass(frozen=True)
class Order:
    """How well ranges agree with the order of points; all numbers are from 0 to 1."""

    share: float  # share of all pairs that have a range
    following: float  # share of the pairs of consecutive points that have a range
    shorter: float  # probability that the range to the next point is shorter than that of another pair; ties count half
    by_chance: float  # `shorter` exceeds this in one of 20 random orders
    false: float  # estimated share of false ranges, from the ranges between points far apart in order

    @property
    def score(self) -> float:
        """Return `shorter`, scaled by the best value these ranges allow: 0 for shuffled points, 1 is perfect."""
        return (2 * self.shorter - 1) / self.following if self.following else 0.0


def order_of(ranges: Ranges, seed: int = 0) -> Order:
    """Compare the ranges between consecutive points with those of all other pairs; needs at least 3 points.

    This is the Mann-Whitney statistic. A pair without a range counts as farther than all pairs with a range. Its level
    by chance is measured on the same ranges, with the points in random orders.
    """
    count, pairs = ranges.count, ranges.count * (ranges.count - 1) // 2
    absent = len(ranges) + (pairs - len(ranges) + 1) / 2  # mean rank of the pairs without a range
    ranks, keys = rankdata(ranges.metres), ranges.i * count + ranges.j

    def shorter(order: Ints) -> float:
        first, second = np.minimum(order[:-1], order[1:]), np.maximum(order[:-1], order[1:])
        at, known = _find(keys, first * count + second)
        own: Floats = np.where(known, ranks[at], absent)
        beaten = own.sum() - len(own) * (len(own) + 1) / 2
        return 1.0 - float(beaten) / (len(own) * (pairs - len(own)))

    random = np.random.default_rng(seed)
    chance = np.sort([shorter(random.permutation(count)) for _ in range(SHUFFLES)])[BY_CHANCE - 1]
    following = float(np.count_nonzero(ranges.j - ranges.i == 1) / (count - 1))
    return Order(len(ranges) / pairs, following, shorter(np.arange(count)), float(chance), _false_share(ranges, keys))


def _false_share(ranges: Ranges, keys: Ints) -> float:
    """Estimate the share of false ranges from the ranges between points far apart in order.

    If a drive revisits a place, in the same or the opposite direction, the neighbors of both points have ranges, too.
    False ranges are scattered instead. So the correlation between neighboring pairs, divided by the share of
    consecutive pairs with a range, estimates the share of true ranges. Fewer than `FEW_RANGES` ranges count as true.
    """
    count, apart = ranges.count, ranges.j - ranges.i
    shares = np.bincount(apart, minlength=count)[1:] / np.arange(count - 1, 0, -1)
    falls = np.flatnonzero(shares < shares[0] / 2)
    near = min(max(NEAR, 2 * int(falls[0] + 1)), count // 2) if len(falls) else count // 2
    far, possible = apart > near, (count - near) * (count - near - 1) // 2
    share = np.count_nonzero(far) / possible
    if np.count_nonzero(far) < FEW_RANGES or share == 1:
        return 0.0
    i, j = ranges.i[far], ranges.j[far]

    def correlation(way: int) -> float:
        """Correlate having a range at (i, j) with having one at (i + 1, j + way) and (i - 1, j - way)."""
        beside = 0.0
        for step in (1, -1):
            first, second = i + step, j + way * step
            inside = (first >= 0) & (first < count) & (second >= 0) & (second < count)
            beside += float(np.mean(inside & _find(keys, first * count + second)[1])) / 2
        return (beside - share) / (1 - share)

    true = max(correlation(1), correlation(-1)) / max(shares[0], 1 / count)
    return float(np.count_nonzero(far) / len(ranges) * (1 - np.clip(true, 0.0, 1.0)))


def _find(keys: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Find positions of `wanted` in ascending `keys`, and which of them are there at all."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
