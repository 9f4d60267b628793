"""Errors that all ranges of one image share: too long or too short together.

A range is measured as m = d + s (w + w' + e): of its noise, in spreads s, a part e is its own, and the others are the
deviations w of the two images. An image is like the one before it, so w is like that of the one before: w - mean =
`likeness` * (w_before - mean) + noise. Where ranges are independent of each other, all w come out near 0.
"""

import numpy as np

from mappable.arrays import Floats, Ints

SPREAD, SPREAD_COUNT = 0.2, 20  # of w, in spreads of a range, to expect, and how many observations that is worth
FIRST_SPREAD = 1.0  # to begin with, so that a fit finds them soon
MEAN_SPREAD = 0.5  # of the mean of w, likewise: what calibration may be off by
SHARED = 0.6  # of the longest range: metres after which 1/e is left of a deviation


class Deviations:
    """Deviations w (n,), of which some points have a point `before` them in order, and others -1."""

    def __init__(self, before: Ints, step: float, reach: float) -> None:
        self.later = np.flatnonzero(before >= 0)
        self.before = before[self.later]
        self.likeness = float(np.exp(-step / (SHARED * reach)))
        self.fresh = np.ones(len(before))  # share of the variance that is not that of the one before
        self.fresh[self.later] = 1 - self.likeness**2
        self.mean, self.spread = 0.0, FIRST_SPREAD

    def reset(self) -> None:
        """Forget what was drawn."""
        self.mean, self.spread = 0.0, SPREAD

    def news(self, w: Floats) -> Floats:
        """By how much each deviates from what the one before makes expect."""
        off = w - self.mean
        news = off.copy()
        news[self.later] -= self.likeness * off[self.before]
        return news

    def costs(self, w: Floats) -> Floats:
        """Half the squares (n,), in units of their variances."""
        costs: Floats = 0.5 * np.square(self.news(w)) / (self.fresh * self.spread**2)
        return costs

    def system(self, w: Floats) -> tuple[Floats, Floats, Floats]:
        """The gradient (n,) to descend by, the diagonal (n,) of the curvature, and what couples two in order."""
        weight = 1 / (self.fresh * self.spread**2)
        pull = weight * self.news(w)
        gradient, own = -pull, weight.copy()
        gradient[self.before] += self.likeness * pull[self.later]
        own[self.before] += self.likeness**2 * weight[self.later]
        return gradient, own, -self.likeness * weight[self.later]

    def learn(self, w: Floats, variance: Floats | float, rng: np.random.Generator | None = None) -> None:
        """Mean and spread of deviations that are known up to a `variance` (n,): drawn, or without rng the likeliest."""
        innovation = np.full(len(w), 1.0)
        innovation[self.later] = 1 - self.likeness
        weight = innovation / (self.fresh * self.spread**2)
        precision = float(weight @ innovation) + MEAN_SPREAD**-2
        self.mean += float(weight @ self.news(w) - self.mean * MEAN_SPREAD**-2) / precision
        if rng is not None:
            self.mean += precision**-0.5 * rng.standard_normal()
        squared = float((np.square(self.news(w)) / self.fresh + variance).sum()) + SPREAD_COUNT * SPREAD**2
        count = len(w) + SPREAD_COUNT
        self.spread = float(np.sqrt(squared / (count if rng is None else rng.chisquare(count))))
