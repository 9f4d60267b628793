"""Whether the ranges of a drive know its order: is an image nearer to the next than to any other, beyond chance?"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges

SHUFFLES = 99  # orders at random to compare with
BY_CHANCE = 95  # of these, that the true order must beat
NEAR = 5  # points between: more are far apart in order
FEW = 20  # ranges between such that tell nothing


@dataclass(frozen=True)
class Order:
    """What ranges say about the order of points; all numbers are from 0 to 1."""

    share: float  # of all pairs that have a range
    following: float  # the same, of pairs of a point and the next
    shorter: float  # probability that the range to the next is shorter than that of another pair; 1/2 for equal ones
    by_chance: float  # what `shorter` exceeds in one of 20 random orders
    false: float  # share of the ranges that are false, as far as points far apart in order tell

    @property
    def score(self) -> float:
        """How near `shorter` is to the best that these ranges could show: 0 for shuffled points, 1 is perfect."""
        return (2 * self.shorter - 1) / self.following if self.following else 0.0


def order_of(ranges: Ranges, seed: int = 0) -> Order:
    """Compare the ranges between consecutive points with those between all others; at least 3 points.

    A pair without a range counts as farther than all pairs with one. This is the statistic of Mann and Whitney; what it
    is by chance is measured on the same ranges with the points in random orders.
    """
    count, pairs = ranges.count, ranges.count * (ranges.count - 1) // 2
    absent = len(ranges) + (pairs - len(ranges) + 1) / 2  # their mean rank
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
    """Estimate the share of false ranges by those between points far apart in order.

    Where a drive comes back, the points next to both are near each other, too, along it or against it; false ranges
    are scattered. So the correlation of neighbours, over the share of consecutive pairs with a range, is about the
    share that is true. Fewer than `FEW` such ranges count as true.
    """
    count, apart = ranges.count, ranges.j - ranges.i
    shares = np.bincount(apart, minlength=count)[1:] / np.arange(count - 1, 0, -1)
    falls = np.flatnonzero(shares < shares[0] / 2)
    near = min(max(NEAR, 2 * int(falls[0] + 1)), count // 2) if len(falls) else count // 2
    far, possible = apart > near, (count - near) * (count - near - 1) // 2
    share = np.count_nonzero(far) / possible
    if np.count_nonzero(far) < FEW or share == 1:
        return 0.0
    i, j = ranges.i[far], ranges.j[far]

    def correlation(way: int) -> float:
        """Of ranges of (i, j) with those of (i + 1, j + way) and (i - 1, j - way)."""
        beside = 0.0
        for step in (1, -1):
            first, second = i + step, j + way * step
            inside = (first >= 0) & (first < count) & (second >= 0) & (second < count)
            beside += float(np.mean(inside & _find(keys, first * count + second)[1])) / 2
        return (beside - share) / (1 - share)

    true = max(correlation(1), correlation(-1)) / max(shares[0], 1 / count)
    return float(np.count_nonzero(far) / len(ranges) * (1 - np.clip(true, 0.0, 1.0)))


def _find(keys: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Where these are among rising keys, and which are there at all."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
