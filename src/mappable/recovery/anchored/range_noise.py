"""The noise of ranges: the likelihood of a measured range, given the true distance.

Two things would make a map too small if they were left out. A range is measured as m = d + s(d) e, its spread s being
that of the true distance d; with the spread stated for the measured one, s(m), those measured too short would count
more. And of the pairs about as far apart as the longest range that is kept, only those measured too short are there.
"""

import numpy as np
from scipy.special import log_ndtr

from mappable.arrays import Bools, Floats
from mappable.recovery.ranges import Ranges

BINS = 30
LEAST_RANGES = 100  # of which to learn how the spread follows from the distance, and where ranges end
LEAST_WEIGHT = 0.05
FALSE = 0.01, 100  # share of false ranges to expect, and how many observations that is worth
EXACT = 1e-5  # of the longest range: no spread is smaller
MOST_FALSE = 0.2  # share: with more, ranges would be no measurement
NOISE_COUNT = 20  # observations that the stated spreads are worth


class RangeNoise:
    """Ranges with spread `noise` times the one stated, of which a share `false` says nothing about the distance."""

    def __init__(self, ranges: Ranges, unlimited: Bools | None = None) -> None:
        self.metres, self.noise, self.false = ranges.metres, 1.0, FALSE[0]
        self.longest = float(self.metres.max(initial=0.0)) or float(ranges.sigma.max(initial=1.0))
        self.stated = np.maximum(ranges.sigma, EXACT * self.longest)
        self.limit = np.full(len(ranges), np.inf)
        self.at, self.spread_at = np.array([0.0]), np.array([1.0])
        if len(ranges) >= LEAST_RANGES:
            groups = np.array_split(np.argsort(self.metres, kind="stable"), BINS)
            self.at = np.array([self.metres[group].mean() for group in groups])
            self.spread_at = np.array([self.stated[group].mean() for group in groups])
            limit = self.longest if unlimited is None else float(self.metres[~unlimited].max(initial=0.0))
            self.limit = np.where(self.metres <= limit, limit, np.inf)
        self.for_measured = np.interp(self.metres, self.at, self.spread_at)

    def look(self, distances: Floats, shifts: Floats) -> None:
        """Take the noise as it is at these true distances (edges,), all shifted by so many spreads (edges,)."""
        spread = self.noise * self.stated * np.interp(distances, self.at, self.spread_at) / self.for_measured
        off = (self.metres - distances) / spread - shifts
        room = (self.limit - distances) / spread - shifts
        self.log_share = log_ndtr(room)  # of such pairs that is kept
        missed = np.exp(-0.5 * np.square(room) - self.log_share) / np.sqrt(2 * np.pi)
        finite = np.where(np.isfinite(room), room, 0.0)
        self.spread = spread
        self.pull = (off + missed) / spread  # slope of the log likelihood
        self.variance = np.clip(1 - finite * missed - np.square(missed), LEAST_WEIGHT, 1.0)  # of those kept, in spreads
        self.weight = self.variance / np.square(spread)  # expected curvature of the log likelihood
        self.squared = np.square(off + missed)
        self.log_likelihood = -0.5 * np.square(off) - np.log(spread * np.sqrt(2 * np.pi)) - self.log_share

    def chances(self, doubt: Floats | float = 0.0) -> Floats:
        """That each range is true; `doubt` is the variance of its distance, in squared spreads."""
        true, false = self._both()
        chance: Floats = np.exp(true - 0.5 * doubt - np.logaddexp(true - 0.5 * doubt, false))
        return chance

    def costs(self) -> Floats:
        """The negative logarithm of the likelihood of each range, be it true or false."""
        costs: Floats = -np.logaddexp(*self._both())
        return costs

    def _both(self) -> tuple[Floats, float]:
        """Log likelihoods of being there and true, and false; that there is a range speaks for points that are near."""
        return np.log1p(-self.false) + self.log_likelihood + self.log_share, float(np.log(self.false / self.longest))

    def learn(self, true: Floats, doubt: Floats | float, rng: np.random.Generator | None = None) -> None:
        """The noise, and the share of false ranges, given which are true: drawn, or without rng the likeliest."""
        count, trues = len(true), float(true.sum())
        squared = float(true @ (self.squared + np.square(self.variance) * doubt))
        usual = max(float(true @ self.variance), 1e-9)  # what that is, if the noise is right
        share = self.noise**2 * squared / usual * trues + NOISE_COUNT
        falses, others = count - trues + FALSE[0] * FALSE[1], trues + (1 - FALSE[0]) * FALSE[1]
        if rng is None:
            self.noise = float(np.sqrt(share / (trues + NOISE_COUNT)))
            self.false = falses / (falses + others)
        else:
            self.noise = float(np.sqrt(share / rng.chisquare(trues + NOISE_COUNT)))
            self.false = float(rng.beta(falses, others))
        self.false = min(self.false, MOST_FALSE)
