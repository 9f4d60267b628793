"""Metrics of the protocols, as plain functions on arrays; percentages are from 0 to 100.

An error is the plain distance between where a query is and where it was found to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from mappable.arrays import Bools, Floats, Floats32, evenly


@dataclass(frozen=True)
class Spread:
    """The mean of some numbers and their standard deviation (of n numbers, by n - 1); None for a single number."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


def spread(numbers: Sequence[float]) -> Spread:
    """Of at least one number.

    >>> print(spread([70.0, 72.0]), spread([70.0]))
    71.00 ± 1.41 70.00
    """
    return Spread(float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None)


@dataclass(frozen=True)
class Correlation:
    """Of feature and geometric distances: plain, squared, and plain ones of pairs at most a radius apart."""

    plain: float | None
    squared: float | None
    within_positive: float | None
    within_negative: float | None


def percent_within(errors: Floats, radius: float) -> float:
    """The share of queries, at least one, with an error of at most the radius: `<=`; the authors' code has `<`.

    >>> percent_within(np.array([0.5, 1.0, 1.5, 8.0]), 1.0)
    50.0
    """
    return float(100.0 * np.mean(np.asarray(errors, dtype=np.float64) <= radius))


def tolerance_curve(errors: Floats, tolerances: Floats) -> Floats:
    """The percentage of queries, at least one, within each of the tolerances (`<=`).

    >>> tolerance_curve(np.array([0.5, 1.0, 1.5, 8.0]), np.array([0.0, 1.0, 10.0]))
    array([  0.,  50., 100.])
    """
    within = np.searchsorted(np.sort(np.asarray(errors, dtype=np.float64)), tolerances, side="right")
    percent: Floats = 100.0 * within / len(errors)
    return percent


def recall_at(positives: Bools, has_positive: Bools, counts: Sequence[int]) -> dict[str, float]:
    """The percentage of queries that have a positive among the `count` landmarks nearest by feature, for each count.

    `positives` (queries, N) says which of the N nearest, the nearest first, are within the positive radius. The field
    counts queries without any positive in two ways: as failures, or not at all. Here they do not count, so that a
    perfect encoder has 100 on any map: `has_positive` (queries,) says which have one among all landmarks. Where none
    has, all of it is 0.

    >>> nearest = np.array([[False, True], [True, False], [False, False]])
    >>> recall_at(nearest, np.array([True, True, False]), (1, 2))
    {'1': 50.0, '2': 100.0}
    """
    counted = positives[has_positive]
    return {str(count): float(100.0 * counted[:, :count].any(axis=1).sum() / max(len(counted), 1)) for count in counts}


def correlations(
    feature: Floats | Floats32, metres: Floats | Floats32, positive_radius: float, negative_radius: float
) -> tuple[Correlation, Correlation]:
    """Pearson's and Spearman's correlation of feature and geometric distance, both plain (pairs,).

    None where there are fewer than 3 pairs or one of the two distances is the same for all. Spearman's goes by ranks,
    so that squaring changes nothing.
    """
    feature, metres = np.asarray(feature, dtype=np.float64), np.asarray(metres, dtype=np.float64)
    ranks = _rank_correlation(feature, metres)
    pearson, spearman = [], []
    for radius in (positive_radius, negative_radius):
        near = metres <= radius
        pearson.append(_correlation(feature[near], metres[near]))
        spearman.append(ranks if near.all() else _rank_correlation(feature[near], metres[near]))
    return (
        Correlation(_correlation(feature, metres), _correlation(feature**2, metres**2), *pearson),
        Correlation(ranks, ranks, *spearman),
    )


def interval_scores(low: Floats, high: Floats, truth: Floats) -> tuple[float, float] | tuple[None, None]:
    """The percentage of intervals, ends included, that the truth is in, and their mean width; None of no intervals.

    >>> interval_scores(np.array([0.0, 2.0]), np.array([1.0, 5.0]), np.array([1.0, 6.0]))
    (50.0, 2.0)
    """
    if not len(truth):
        return None, None
    return float(100.0 * np.mean((low <= truth) & (truth <= high))), float(np.mean(high - low))


def precision_recall(
    score: Floats, right: Bools, possible: int, most: int = 200
) -> tuple[Floats, Floats, Floats, float]:
    """Thresholds, precision and recall of accepting answers by a score, and the average precision, all from 0 to 1.

    The score is a feature distance: answers with one of at most the threshold are accepted, so that equal ones are
    accepted together. Thresholds ascend. Precision is the share of accepted answers that are right, recall the right
    ones among them over `possible`, the queries that could be answered rightly. The average precision is the area below
    the steps, each of them as high as the precision at its right end; of long curves `most` points are given, the ends
    among them, but the area is that of the whole.

    >>> precision_recall(np.array([0.1, 0.2, 0.3]), np.array([True, False, True]), 2)
    (array([0.1, 0.2, 0.3]), array([1.        , 0.5       , 0.66666667]), array([0.5, 0.5, 1. ]), 0.8333333333333333)
    """
    order = np.argsort(score, kind="stable")
    thresholds = np.asarray(score, dtype=np.float64)[order]
    last = np.flatnonzero(np.diff(thresholds, append=np.inf))  # of equal ones
    hits = np.cumsum(right[order])[last]
    precision, recall = hits / (last + 1), hits / max(possible, 1)
    average = float(np.sum(np.diff(recall, prepend=0.0) * precision))
    shown = evenly(len(last), most, nearest=True)
    return thresholds[last][shown], precision[shown], recall[shown], average


def _correlation(first: Floats, second: Floats) -> float | None:
    if len(first) < 3 or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _rank_correlation(first: Floats, second: Floats) -> float | None:
    return _correlation(rankdata(first), rankdata(second)) if len(first) else None
