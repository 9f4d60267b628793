"""Quantiles of a distance in metres by feature distance, and intervals with a stated coverage."""

from dataclasses import dataclass, replace

import numpy as np

from mappable.arrays import Floats, Ints, evenly
from mappable.errors import BadInputError
from mappable.maps.conformal import conformal_quantile, in_folds

LEVELS = np.linspace(0.0, 1.0, 101)  # levels of the quantiles that are stored
PAIRS_PER_BIN, MOST_BINS = 150, 8  # smallest number of pairs per bin, and largest number of bins
MOST_RANKS = 1000  # largest number of ranks that are stored, spread evenly over the sorted ones
SIDES = np.linspace(0.05, 0.95, 19)  # choices of `Spread.side`
JUDGED_COVERAGES = (0.5, 0.7, 0.8, 0.9, 0.95)  # coverages that choose the side; a single one would follow chance
LEAST_SIDE = 0.25  # smallest share of an interval's probability on each side of the median
TINY = 1e-9  # added to widths, which are 0 if all values are equal


@dataclass(frozen=True)
class Spread:
    """Quantiles of a quantity by feature distance, interpolated between bins of pairs.

    `ranks` and `sides` belong to single pairs, each judged by a fit without that pair's fold. Rank 0 is the lowest
    quantile and rank 1 the highest. Beyond them, each interquartile range adds 1.
    """

    feature: tuple[float, ...]  # (bins,) feature distances, rising
    quantiles: tuple[tuple[float, ...], ...]  # (bins, levels)
    counts: tuple[int, ...]  # (bins,) number of pairs
    furthest: float  # largest feature distance of a pair
    side: float  # share below the interval, of the probability outside of it
    ranks: tuple[float, ...] = ()  # (m,)
    sides: tuple[float, ...] = ()  # (m,)

    @classmethod
    def fit(cls, feature: Floats, values: Floats, folds: Ints | None = None) -> "Spread":
        """Fit to pairs in order of time, with feature distances (n,) and values of the quantity (n,).

        Each of the `folds` (n,) is ranked by a fit to the other folds. By default, a fold is a stretch of pairs.
        """
        if not len(feature):
            raise BadInputError("there is no pair of images to calibrate on")
        folds = in_folds(len(feature)) if folds is None else folds
        ranks, sides = np.empty(len(feature)), np.empty(len(feature))
        names = np.unique(folds)
        for out in (folds == name for name in names if len(names) > 1):
            others = cls._of(feature[~out], values[~out])
            ranks[out], sides[out] = others._rank(feature[out], values[out]), others.side
        kept = np.argsort(ranks, kind="stable")[evenly(len(ranks), MOST_RANKS)] if len(names) > 1 else np.arange(0)
        found = cls._of(feature, values)
        return replace(found, ranks=tuple(ranks[kept].tolist()), sides=tuple(sides[kept].tolist()))

    @classmethod
    def _of(cls, feature: Floats, values: Floats) -> "Spread":
        """Fit the quantiles alone, without ranks."""
        bins = np.array_split(np.argsort(feature, kind="stable"), min(MOST_BINS, max(1, len(feature) // PAIRS_PER_BIN)))
        quantiles, counts = [np.quantile(values[rows], LEVELS) for rows in bins], [len(rows) for rows in bins]
        return cls(
            feature=tuple(float(np.median(feature[rows])) for rows in bins),
            quantiles=tuple(tuple(own.tolist()) for own in quantiles),
            counts=tuple(counts),
            furthest=float(feature.max()),
            side=_narrowest(quantiles, counts),
        )

    def predict(self, feature: Floats, coverage: float) -> tuple[Floats, Floats, Floats]:
        """The median (n,), and both ends of an interval that contains a new value with a probability of `coverage`.

        Both ends are infinite if there are too few pairs for this coverage.
        """
        if not 0 < coverage < 1:
            raise BadInputError(f"coverage must be between 0 and 1, got {coverage}")
        least, most = ((0.5 - share * coverage) / (1 - coverage) for share in (1 - LEAST_SIDE, LEAST_SIDE))
        ranks, sides = np.array(self.ranks), np.clip(self.sides, least, most)
        wide = conformal_quantile(np.maximum(1 - ranks / sides, (ranks - sides) / (1 - sides)), coverage)
        low, high = (self._value(feature, float(end)) for end in _ends(np.clip(self.side, least, most), wide))
        middle = self._value(feature, 0.5)
        return middle, np.minimum(low, middle), np.maximum(high, middle)

    def _value(self, feature: Floats, rank: float) -> Floats:
        """The quantity (n,) at a rank."""
        if np.isinf(rank):
            return np.full(len(feature), rank)
        quantiles = np.array(self.quantiles)
        within = np.array([np.interp(rank, LEVELS, own) for own in quantiles])
        beyond = (rank - np.clip(rank, 0.0, 1.0)) * _range(quantiles)
        values: Floats = np.interp(feature, self.feature, within + beyond)
        return values

    def _rank(self, feature: Floats, values: Floats) -> Floats:
        """The ranks (n,) of values (n,): the inverse of `_value`."""
        quantiles = np.array(self.quantiles)
        place = np.interp(feature, self.feature, np.arange(len(quantiles)))
        first = place.astype(np.int64)
        part = (place - first)[:, None]
        own = (1 - part) * quantiles[first] + part * quantiles[np.minimum(first + 1, len(quantiles) - 1)]
        within = np.array([np.interp(value, row, LEVELS) for value, row in zip(values, own, strict=True)])
        ranks: Floats = within + (values - np.clip(values, own[:, 0], own[:, -1])) / _range(own)
        return ranks


def _narrowest(quantiles: list[Floats], counts: list[int]) -> float:
    """The side with the narrowest intervals: mean width over pairs, then geometric mean over coverages."""
    widths = np.zeros(len(SIDES))
    for coverage in JUDGED_COVERAGES:
        ends = [[np.interp(end, LEVELS, own) for end in _ends(SIDES, coverage)] for own in quantiles]
        widths += np.log(np.average(np.ptp(ends, axis=1), axis=0, weights=counts) + TINY)
    return float(SIDES[widths.argmin()])


def _range(quantiles: Floats) -> Floats:
    """Interquartile ranges (n,) of quantiles (n, levels)."""
    lower, upper = np.searchsorted(LEVELS, [0.25, 0.75])
    apart: Floats = quantiles[:, upper] - quantiles[:, lower] + TINY
    return apart


def _ends(side: Floats, wide: float) -> tuple[Floats, Floats]:
    """The ranks at both ends of an interval with the share `wide`; above 1, they lie beyond all ranks."""
    return side * (1 - wide), side + wide * (1 - side)
