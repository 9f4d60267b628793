"""Deviations: errors that all ranges of one image share, which are too long or too short together.

A range is measured as m = d + s (w + w' + e). Its noise, in spreads s, has a part e of its own, and the deviations w
and w' of its two images. Consecutive images are alike, so their deviations are alike, too: w - mean =
`likeness` * (w_before - mean) + noise. If ranges are independent of each other, all w are estimated near 0.
"""

import numpy as np

from mappable.arrays import Floats, Ints

SPREAD, SPREAD_COUNT = 0.2, 20  # prior of the spread of w, in spreads of a range, and its weight in observations
FIRST_SPREAD = 1.0  # start value of the spread of w, large so that a fit finds deviations soon
MEAN_SPREAD = 0.05  # prior spread of the mean of w along drives, in spreads of a range: the error of the calibration
# The same without drives, and if motions lead: there, only ranges may tell the scale. Along drives, 0.5 made winding
# paths straight, as ranges counted as too long. Chosen on routes like those of benchmarks/simulated_ranges.py, with
# seeds 1000 to 1002 (winding) and 300 to 303 (open).
LOOSE_MEAN_SPREAD = 0.5
SHARED = 0.6  # of the longest range: metres after which 1/e of a deviation is left


class Deviations:
    """Deviations w (n,); `before` (n,) is the point before each point in order, or -1; motions may have `led`."""

    def __init__(self, before: Ints, step: float, reach: float, *, led: bool = False) -> None:
        self.later = np.flatnonzero(before >= 0)
        self.before = before[self.later]
        self.likeness = float(np.exp(-step / (SHARED * reach)))
        self.fresh = np.ones(len(before))  # share of the variance that is independent of the point before
        self.fresh[self.later] = 1 - self.likeness**2
        self.mean_spread = MEAN_SPREAD if len(self.later) and not led else LOOSE_MEAN_SPREAD
        self.mean, self.spread = 0.0, FIRST_SPREAD

    def reset(self) -> None:
        """Return to the prior."""
        self.mean, self.spread = 0.0, SPREAD

    def news(self, w: Floats) -> Floats:
        """Return the difference (n,) of each deviation from its prediction by the point before."""
        off = w - self.mean
        news = off.copy()
        news[self.later] -= self.likeness * off[self.before]
        return news

    def costs(self, w: Floats) -> Floats:
        """Return half the squares (n,) of the differences, in units of their variances."""
        costs: Floats = 0.5 * np.square(self.news(w)) / (self.fresh * self.spread**2)
        return costs

    def system(self, w: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the descent direction (n,), the diagonal (n,) of the Hessian, and its entries between neighbors."""
        weight = 1 / (self.fresh * self.spread**2)
        pull = weight * self.news(w)
        gradient, own = -pull, weight.copy()
        gradient[self.before] += self.likeness * pull[self.later]
        own[self.before] += self.likeness**2 * weight[self.later]
        return gradient, own, -self.likeness * weight[self.later]

    def learn(self, w: Floats, variance: Floats | float, rng: np.random.Generator | None = None) -> None:
        """Update mean and spread from deviations with a `variance` (n,): drawn, or the most likely ones without rng."""
        innovation = np.full(len(w), 1.0)
        innovation[self.later] = 1 - self.likeness
        weight = innovation / (self.fresh * self.spread**2)
        precision = float(weight @ innovation) + self.mean_spread**-2
        self.mean += float(weight @ self.news(w) - self.mean * self.mean_spread**-2) / precision
        if rng is not None:
            self.mean += precision**-0.5 * rng.standard_normal()
        squared = float((np.square(self.news(w)) / self.fresh + variance).sum()) + SPREAD_COUNT * SPREAD**2
        count = len(w) + SPREAD_COUNT
        self.spread = float(np.sqrt(squared / (count if rng is None else rng.chisquare(count))))
