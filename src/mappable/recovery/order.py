"""Whether the ranges of a drive know its order: is an image nearer to the next than to any other, beyond chance?"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from mappable.arrays import Floats, Ints
from mappable.recovery.ranges import Ranges

SHUFFLES = 99  # orders at random to compare with
BY_CHANCE = 95  # of these, that the true order must beat


@dataclass(frozen=True)
class Order:
    """What ranges say about the order of points; all numbers are from 0 to 1."""

    share: float  # of all pairs that have a range
    following: float  # the same, of pairs of a point and the next
    shorter: float  # probability that the range to the next is shorter than that of another pair; 1/2 for equal ones
    by_chance: float  # what `shorter` exceeds in one of 20 random orders

    @property
    def score(self) -> float:
        """How near `shorter` is to what so many ranges could show at best: 0 for shuffled points, 1 is perfect."""
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
        wanted = first * count + second
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        own: Floats = np.where(keys[at] == wanted, ranks[at], absent)
        beaten = own.sum() - len(own) * (len(own) + 1) / 2
        return 1.0 - float(beaten) / (len(own) * (pairs - len(own)))

    random = np.random.default_rng(seed)
    chance = np.sort([shorter(random.permutation(count)) for _ in range(SHUFFLES)])[BY_CHANCE - 1]
    following = float(np.count_nonzero(ranges.j - ranges.i == 1) / (count - 1))
    return Order(len(ranges) / pairs, following, shorter(np.arange(count)), float(chance))
