"""Quantiles of the true distance at a feature distance, and intervals of any coverage."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError

LEVELS = 101  # quantiles that are kept
A_BIN = 150  # pairs that a bin holds at least, and bins there are at most
MOST = 8


@dataclass(frozen=True)
class Spread:
    """Quantiles (bins, LEVELS) of a quantity, at feature distances (bins,) that rise; `counts` are pairs in each bin.

    Between two bins quantiles are interpolated; `furthest` is the largest feature distance that was seen.
    """

    feature: tuple[float, ...]
    quantiles: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...]
    furthest: float

    @classmethod
    def fit(cls, feature: Floats, values: Floats) -> "Spread":
        """Of pairs with feature distances (n,), and the quantity (n,)."""
        if not len(feature):
            raise BadInputError("there is no pair to calibrate by")
        bins = np.array_split(np.argsort(feature, kind="stable"), min(MOST, max(1, len(feature) // A_BIN)))
        levels = np.linspace(0.0, 1.0, LEVELS)
        return cls(
            feature=tuple(float(np.median(feature[rows])) for rows in bins),
            quantiles=tuple(tuple(np.quantile(values[rows], levels).tolist()) for rows in bins),
            counts=tuple(len(rows) for rows in bins),
            furthest=float(feature.max()),
        )

    def predict(self, feature: Floats, coverage: float) -> tuple[Floats, Floats, Floats]:
        """The median (n,), and the ends of the shortest interval that holds a share `coverage` of what was measured."""
        if not 0 < coverage < 1:
            raise BadInputError(f"a coverage is between 0 and 1, not {coverage}")
        ends = np.array([self._shortest(number, coverage) for number in range(len(self.counts))])
        middle = np.array(self.quantiles)[:, LEVELS // 2]
        low, high = (np.interp(feature, self.feature, column) for column in ends.T)
        return np.interp(feature, self.feature, middle), low, high

    def _shortest(self, number: int, coverage: float) -> tuple[float, float]:
        """The ends in one bin; so much wider as a sample of that size asks for."""
        quantiles = np.array(self.quantiles[number])
        held = min(LEVELS - 1, int(np.ceil(coverage * (1 + 1 / self.counts[number]) * (LEVELS - 1))))
        first = int(np.argmin(quantiles[held:] - quantiles[: LEVELS - held]))
        return float(quantiles[first]), float(quantiles[first + held])
