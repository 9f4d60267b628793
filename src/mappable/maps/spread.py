"""Quantiles of the true distance at a feature distance, and intervals that hold at any coverage."""

from dataclasses import dataclass, replace

import numpy as np

from mappable.arrays import Floats, Ints, evenly
from mappable.errors import BadInputError
from mappable.maps.conformal import conformal_quantile, in_folds

LEVELS = np.linspace(0.0, 1.0, 101)  # of the quantiles that are kept
A_BIN = 150  # pairs that a bin holds at least, and bins there are at most
MOST = 8
KEPT = 1000  # ranks at most, evenly among the sorted ones
SIDES = np.linspace(0.05, 0.95, 19)  # choices of `Spread.side`
JUDGED = (0.5, 0.7, 0.8, 0.9, 0.95)  # coverages by whose widths it is chosen: one coverage alone follows chance
INSIDE = 0.25  # of an interval's share, at least, lies on either side of the median
NARROW = 1e-9  # added to ranges of values, which may all be the same


@dataclass(frozen=True)
class Spread:
    """Quantiles (bins, levels) of a quantity, at feature distances (bins,) that rise; `counts` are pairs in each bin.

    Between two bins quantiles are interpolated; `furthest` is the largest feature distance that was seen. `side` is the
    share of what an interval leaves out that lies below it. `ranks` and `sides` (m,) are of pairs by a fit without
    them: a rank of 0 is the lowest quantile, 1 the highest, and beyond them each range between the quartiles adds 1.
    """

    feature: tuple[float, ...]
    quantiles: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...]
    furthest: float
    side: float
    ranks: tuple[float, ...] = ()
    sides: tuple[float, ...] = ()

    @classmethod
    def fit(cls, feature: Floats, values: Floats, folds: Ints | None = None) -> "Spread":
        """Of pairs with feature distances (n,), and the quantity (n,), in order of time.

        Each of the `folds` (n,) is ranked by a fit to the others; by default a fold is a stretch of pairs.
        """
        if not len(feature):
            raise BadInputError("there is no pair to calibrate by")
        folds = in_folds(len(feature)) if folds is None else folds
        ranks, sides = np.empty(len(feature)), np.empty(len(feature))
        names = np.unique(folds)
        for out in (folds == name for name in names if len(names) > 1):
            others = cls._of(feature[~out], values[~out])
            ranks[out], sides[out] = others._rank(feature[out], values[out]), others.side
        kept = np.argsort(ranks, kind="stable")[evenly(len(ranks), KEPT)] if len(names) > 1 else np.arange(0)
        found = cls._of(feature, values)
        return replace(found, ranks=tuple(ranks[kept].tolist()), sides=tuple(sides[kept].tolist()))

    @classmethod
    def _of(cls, feature: Floats, values: Floats) -> "Spread":
        """The quantiles alone."""
        bins = np.array_split(np.argsort(feature, kind="stable"), min(MOST, max(1, len(feature) // A_BIN)))
        quantiles, counts = [np.quantile(values[rows], LEVELS) for rows in bins], [len(rows) for rows in bins]
        return cls(
            feature=tuple(float(np.median(feature[rows])) for rows in bins),
            quantiles=tuple(tuple(own.tolist()) for own in quantiles),
            counts=tuple(counts),
            furthest=float(feature.max()),
            side=_narrowest(quantiles, counts),
        )

    def predict(self, feature: Floats, coverage: float) -> tuple[Floats, Floats, Floats]:
        """The median (n,), and the ends of an interval that holds a new value with a probability of `coverage`.

        Both ends are infinite if there are too few pairs for this coverage.
        """
        if not 0 < coverage < 1:
            raise BadInputError(f"a coverage is between 0 and 1, not {coverage}")
        least, most = ((0.5 - share * coverage) / (1 - coverage) for share in (1 - INSIDE, INSIDE))
        ranks, sides = np.array(self.ranks), np.clip(self.sides, least, most)
        wide = conformal_quantile(np.maximum(1 - ranks / sides, (ranks - sides) / (1 - sides)), coverage)
        low, high = (self._value(feature, float(end)) for end in _ends(np.clip(self.side, least, most), wide))
        middle = self._value(feature, 0.5)
        return middle, np.minimum(low, middle), np.maximum(high, middle)

    def _value(self, feature: Floats, rank: float) -> Floats:
        """The quantity (n,) of one rank."""
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
    """The side with the narrowest intervals: the least geometric mean over coverages of the mean over pairs."""
    widths = np.zeros(len(SIDES))
    for coverage in JUDGED:
        ends = [[np.interp(end, LEVELS, own) for end in _ends(SIDES, coverage)] for own in quantiles]
        widths += np.log(np.average(np.ptp(ends, axis=1), axis=0, weights=counts) + NARROW)
    return float(SIDES[widths.argmin()])


def _range(quantiles: Floats) -> Floats:
    """Between the quartiles (n,) of quantiles (n, levels)."""
    lower, upper = np.searchsorted(LEVELS, [0.25, 0.75])
    apart: Floats = quantiles[:, upper] - quantiles[:, lower] + NARROW
    return apart


def _ends(side: Floats, wide: float) -> tuple[Floats, Floats]:
    """The ranks between which a share `wide` lies; above 1, all ranks and a part beyond them."""
    return side * (1 - wide), side + wide * (1 - side)
