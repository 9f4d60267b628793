"""Test whether ranges agree with the order of a drive: they should join neighbors more often than other images."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Ints
from mappable.recovery.ranges import Ranges

# Points are far apart in order if their numbers differ by more than this (or more, if ranges reach
# farther)
NEAR = 5
FEW_RANGES = 20  # with fewer ranges between points far apart in order, none is treated as false


@dataclass(frozen=True)
class Order:
    """How well ranges agree with the order of points; all shares are from 0 to 1."""

    share: float  # share of all pairs that have a range
    following: float  # share of the pairs of consecutive points that have a range
    steps: int  # number of pairs of consecutive points
    # Estimated share of false ranges, from the ranges between points far apart in order.
    false: float

    @property
    def score(self) -> float:
        """Return 0 if consecutive points have ranges no more often than others by chance, and 1 if
        only they have.
        """
        by_chance = self.share + 2 * np.sqrt(self.share * (1 - self.share) / self.steps)
        if self.following <= by_chance or self.share == 1:
            return 0.0
        return float((self.following - by_chance) / (self.following * (1 - self.share)))


def order_of(ranges: Ranges) -> Order:
    """Compare consecutive points with all other pairs; needs at least 3 points."""
    count = ranges.count
    following = float(np.mean(np.isin(np.arange(count - 1), ranges.i[ranges.j - ranges.i == 1])))
    return Order(
        2 * len(ranges) / (count * (count - 1)), following, count - 1, _false_share(ranges)
    )


def _false_share(ranges: Ranges) -> float:
    """Estimate the share of false ranges from the ranges between points far apart in order.

    If a drive revisits a place, in the same or the opposite direction, the neighbors of both points
    have ranges, too. False ranges are scattered instead. So the correlation between neighboring
    pairs, divided by the share of consecutive pairs with a range, estimates the share of true
    ranges.
    """
    count, apart, keys = ranges.count, ranges.j - ranges.i, ranges.i * ranges.count + ranges.j
    shares = np.bincount(apart, minlength=count)[1:] / np.arange(count - 1, 0, -1)
    falls = np.flatnonzero(shares < shares[0] / 2)
    near = min(max(NEAR, 2 * int(falls[0] + 1)), count // 2) if len(falls) else count // 2
    far, possible = apart > near, (count - near) * (count - near - 1) // 2
    share = np.count_nonzero(far) / possible
    if np.count_nonzero(far) < FEW_RANGES or share == 1:
        return 0.0
    i, j = ranges.i[far], ranges.j[far]

    def correlation(way: int) -> float:
        """Correlation of "a range joins i and j" with "one joins i + 1 and j + way, or i - 1 and j
        - way".
        """
        beside = np.mean([_has_range(keys, count, i + step, j + way * step) for step in (1, -1)])
        return (float(beside) - share) / (1 - share)

    true = max(correlation(1), correlation(-1)) / max(shares[0], 1 / count)
    return float(np.count_nonzero(far) / len(ranges) * (1 - np.clip(true, 0.0, 1.0)))


def _has_range(keys: Ints, count: int, first: Ints, second: Ints) -> Bools:
    inside: Bools = (first >= 0) & (first < count) & (second >= 0) & (second < count)
    return inside & np.isin(first * count + second, keys)
