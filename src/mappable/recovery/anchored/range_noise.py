"""The noise of ranges: the likelihood of a measured range, given the true distance.

The model avoids two effects that would make a map too small:

- A range is measured as m = d + s(d) e, where the spread s depends on the true distance d. With the spread s(m) of the
  measured distance, ranges that are too short would count more. If the stated spreads do not follow from the measured
  distances, they count as they are.
- Ranges are kept up to a longest range. Of pairs about that far apart, only those measured too short are kept.
"""

from copy import copy

import numpy as np
from scipy.special import log_ndtr

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges

BINS = 30  # groups of ranges by length, in which the spread is measured
LEAST_RANGES = 100  # needed to learn how the spread depends on the distance, and the longest range
LEAST_WEIGHT = 0.05  # smallest variance of a kept range, in squared spreads
FALSE = 0.01, 100  # prior share of false ranges, and its weight in observations
EXACT = 1e-5  # of the longest range: smallest spread
MOST_FALSE = 0.2  # largest share of false ranges
ROUGH, EVEN = 0.01, 3.0  # of the standard deviation, and of even steps: largest difference of neighbors, see `_follows`
NOISE_COUNT = 20  # weight of the stated spreads, in observations


class RangeNoise:
    """Noise model: spreads are `noise` times the stated ones, and a share `false` of the ranges is false."""

    def __init__(self, ranges: Ranges, unlimited: Bools | None = None) -> None:
        self.metres, self.noise, self.false = ranges.metres, 1.0, FALSE[0]
        self.longest = float(self.metres.max(initial=0.0)) or float(ranges.sigma.max(initial=1.0))
        self.stated = np.maximum(ranges.sigma, EXACT * self.longest)
        self.limit = np.full(len(ranges), np.inf)
        self.at, self.spread_at = np.array([0.0]), np.array([1.0])
        if len(ranges) >= LEAST_RANGES:
            order = np.argsort(self.metres, kind="stable")
            if _follows(self.stated[order]):
                groups = np.array_split(order, BINS)
                self.at = np.array([self.metres[group].mean() for group in groups])
                self.spread_at = np.array([self.stated[group].mean() for group in groups])
            limit = self.longest if unlimited is None else float(self.metres[~unlimited].max(initial=0.0))
            self.limit = np.where(self.metres <= limit, limit, np.inf)
        self.for_measured = np.interp(self.metres, self.at, self.spread_at)

    def only(self, some: Ints) -> "RangeNoise":
        """Return the model of some ranges only."""
        part = copy(self)
        part.metres, part.stated, part.limit = self.metres[some], self.stated[some], self.limit[some]
        part.for_measured = self.for_measured[some]
        return part

    def look(self, distances: Floats, shifts: Floats) -> None:
        """Evaluate the model at these true distances (edges,), with deviations `shifts` (edges,) in spreads."""
        spread = self.noise * self.stated * np.interp(distances, self.at, self.spread_at) / self.for_measured
        off = (self.metres - distances) / spread - shifts
        room = (self.limit - distances) / spread - shifts
        self.log_share = log_ndtr(room)  # logarithm of the share of such pairs that is kept
        missed = np.exp(-0.5 * np.square(room) - self.log_share) / np.sqrt(2 * np.pi)
        finite = np.where(np.isfinite(room), room, 0.0)
        self.spread = spread
        self.pull = (off + missed) / spread  # slope of the log likelihood
        self.variance = np.clip(
            1 - finite * missed - np.square(missed), LEAST_WEIGHT, 1.0
        )  # of kept ranges, in spreads²
        self.weight = self.variance / np.square(spread)  # expected curvature of the log likelihood
        self.squared = np.square(off + missed)
        self.log_likelihood = -0.5 * np.square(off) - np.log(spread * np.sqrt(2 * np.pi)) - self.log_share

    def chances(self, doubt: Floats | float = 0.0) -> Floats:
        """Return the probability (edges,) that a range is true; `doubt` is its variance in squared spreads."""
        true, false = self._both()
        chance: Floats = np.exp(true - 0.5 * doubt - np.logaddexp(true - 0.5 * doubt, false))
        return chance

    def costs(self) -> Floats:
        """Return the negative log likelihood (edges,) of each range, summed over the cases true and false."""
        costs: Floats = -np.logaddexp(*self._both())
        return costs

    def _both(self) -> tuple[Floats, float]:
        """Return log likelihoods of a true range that is kept, and of a false range.

        That a range is kept at all makes it more likely that its points are near.
        """
        return np.log1p(-self.false) + self.log_likelihood + self.log_share, float(np.log(self.false / self.longest))

    def learn(self, true: Floats, doubt: Floats | float, rng: np.random.Generator | None = None) -> None:
        """Update the noise and the share of false ranges from weights `true`: drawn, or the most likely without rng."""
        count, trues = len(true), float(true.sum())
        squared = float(true @ (self.squared + np.square(self.variance) * doubt))
        usual = max(float(true @ self.variance), 1e-9)  # value of `squared` if the noise is right
        share = self.noise**2 * squared / usual * trues + NOISE_COUNT
        falses, others = count - trues + FALSE[0] * FALSE[1], trues + (1 - FALSE[0]) * FALSE[1]
        if rng is None:
            self.noise = float(np.sqrt(share / (trues + NOISE_COUNT)))
            self.false = falses / (falses + others)
        else:
            self.noise = float(np.sqrt(share / rng.chisquare(trues + NOISE_COUNT)))
            self.false = float(rng.beta(falses, others))
        self.false = min(self.false, MOST_FALSE)


def _follows(spreads: Floats) -> bool:
    """Return whether spreads, ordered by measured distance, are a function of it: neighbors then hardly differ."""
    usual = float(np.median(np.abs(np.diff(spreads))))
    return bool(usual <= ROUGH * spreads.std() + EVEN * np.ptp(spreads) / len(spreads))


class PlainNoise(RangeNoise):
    """Normal noise of the stated spreads, with no false ranges: a sum of squares."""

    def look(self, distances: Floats, shifts: Floats) -> None:
        """Evaluate the model at these distances (edges,)."""
        off = (self.metres - distances) / self.stated
        self.spread, self.pull, self.weight = self.stated, off / self.stated, self.stated**-2.0
        self.variance, self.squared = np.ones(len(off)), np.square(off)
        self.log_likelihood, self.log_share = -0.5 * self.squared, np.zeros(len(off))
