"""Metrics of the protocols, as plain functions on arrays; percentages are from 0 to 100.

An error is the plain (not squared) distance between the true and the found position of a query.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import rankdata

from mappable.arrays import Bools, Floats, Floats32, evenly

MOST_RADII = 10  # how far metres may reach, in positive radii
LARGEST_ERROR = 0.2  # median relative error up to which metres reach
FEWEST_TO_CALIBRATE = 20  # pairs of images


@dataclass(frozen=True)
class MeanStd:
    """Mean and standard deviation (divided by n - 1) of some numbers; the deviation of a single number is None."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


def spread(numbers: Sequence[float]) -> MeanStd:
    """Mean and standard deviation of one number or more.

    >>> print(spread([70.0, 72.0]), spread([70.0]))
    71.00 ± 1.41 70.00
    """
    return MeanStd(float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None)


@dataclass(frozen=True)
class Correlation:
    """Correlations of feature and geometric distances: plain, squared, and plain for pairs within each radius."""

    plain: float | None
    squared: float | None
    within_positive: float | None
    within_negative: float | None


def percent_within(errors: Floats, radius: float) -> float:
    """The percentage of queries (one or more) with an error of at most the radius (`<=`; the authors' code has `<`).

    >>> percent_within(np.array([0.5, 1.0, 1.5, 8.0]), 1.0)
    50.0
    """
    return float(100.0 * np.mean(np.asarray(errors, dtype=np.float64) <= radius))


def tolerance_curve(errors: Floats, tolerances: Floats) -> Floats:
    """The percentage of queries (one or more) within each of the tolerances (`<=`).

    >>> tolerance_curve(np.array([0.5, 1.0, 1.5, 8.0]), np.array([0.0, 1.0, 10.0]))
    array([  0.,  50., 100.])
    """
    within = np.searchsorted(np.sort(np.asarray(errors, dtype=np.float64)), tolerances, side="right")
    percent: Floats = 100.0 * within / len(errors)
    return percent


def recall_at(positives: Bools, has_positive: Bools, counts: Sequence[int]) -> dict[str, float]:
    """The percentage of queries that have a positive among the `count` landmarks nearest by feature, for each count.

    `positives` (queries, N) marks which of the N nearest landmarks, nearest first, are within the positive radius.
    `has_positive` (queries,) marks queries with a positive among all landmarks. The literature counts queries without
    any positive as failures, or leaves them out. Here they are left out, so a perfect encoder scores 100 on any map.
    If no query has a positive, all values are 0.

    >>> nearest = np.array([[False, True], [True, False], [False, False]])
    >>> recall_at(nearest, np.array([True, True, False]), (1, 2))
    {'1': 50.0, '2': 100.0}
    """
    counted = positives[has_positive]
    return {str(count): float(100.0 * counted[:, :count].any(axis=1).sum() / max(len(counted), 1)) for count in counts}


def correlations(
    feature: Floats | Floats32, metres: Floats | Floats32, positive_radius: float, negative_radius: float
) -> tuple[Correlation, Correlation]:
    """Pearson's and Spearman's correlation of feature and geometric distance, both plain, not squared (pairs,).

    A value is None if there are fewer than 3 pairs, or if one of the two distances is constant. Spearman's uses ranks,
    so squaring changes nothing.
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


def reach_of_metres(feature: Floats | Floats32, metres: Floats, radius: float) -> float | None:
    """Distance on the ground up to which feature distances, calibrated in metres, err by less than 20 %.

    `feature` and `metres` (images, images) are distances between the images of a sequence, in order. The pairs of the
    first half give the median feature distance by distance on the ground, made to increase. Feature distances of the
    second half are read back from it. They give the median of the relative error, for distances of `radius` / 2 to
    10 `radius`, in steps of `radius` / 2. The result is the end of the last step before the error exceeds 20 %, or 0.
    None: too few pairs.
    """
    middle = len(feature) // 2
    pairs = []
    for half in (slice(0, middle), slice(middle, None)):
        upper = np.triu_indices(len(metres[half]), 1)
        far, near = np.asarray(feature, dtype=np.float64)[half, half][upper], metres[half, half][upper]
        kept = near <= MOST_RADII * radius
        pairs.append((far[kept], near[kept]))
    (known, at), (asked, truth) = pairs
    if min(len(known), len(asked)) < FEWEST_TO_CALIBRATE:
        return None
    number = np.floor(at / (radius / 4)).astype(int)
    bins = np.unique(number)
    medians = [float(np.median(known[number == one])) for one in bins]
    rising = isotonic_regression(medians, weights=np.bincount(number)[bins]).x
    # A tiny slope makes the plateaus increase, so that the inverse exists.
    found = np.interp(asked, rising + 1e-9 * np.arange(len(bins)), (bins + 0.5) * radius / 4)
    reach = 0.0
    for low in radius * np.arange(0.5, MOST_RADII, 0.5):
        own = (truth >= low) & (truth < low + radius / 2)
        if not own.any() or np.median(np.abs(found[own] - truth[own]) / truth[own]) >= LARGEST_ERROR:
            break
        reach = float(low + radius / 2)
    return reach


def interval_scores(low: Floats, high: Floats, truth: Floats) -> tuple[float, float] | tuple[None, None]:
    """The percentage of intervals that contain the truth (ends included), and the mean width; None if there are none.

    >>> interval_scores(np.array([0.0, 2.0]), np.array([1.0, 5.0]), np.array([1.0, 6.0]))
    (50.0, 2.0)
    """
    if not len(truth):
        return None, None
    return float(100.0 * np.mean((low <= truth) & (truth <= high))), float(np.mean(high - low))


def precision_recall(
    score: Floats, right: Bools, possible: int, most: int = 200
) -> tuple[Floats, Floats, Floats, float]:
    """Thresholds, precision, recall and average precision (all from 0 to 1) of accepting answers by a score.

    The score is a feature distance. Answers with a score of at most the threshold are accepted, so equal scores are
    accepted together. Thresholds ascend. Precision is the share of accepted answers that are correct. Recall is the
    number of accepted correct answers over `possible`, the number of queries that have a correct answer. The average
    precision is the area below the steps; the height of a step is the precision at its right end. A long curve is
    reduced to `most` points, including both ends, but the area is always that of the full curve.

    >>> precision_recall(np.array([0.1, 0.2, 0.3]), np.array([True, False, True]), 2)
    (array([0.1, 0.2, 0.3]), array([1.        , 0.5       , 0.66666667]), array([0.5, 0.5, 1. ]), 0.8333333333333333)
    """
    order = np.argsort(score, kind="stable")
    thresholds = np.asarray(score, dtype=np.float64)[order]
    last = np.flatnonzero(np.diff(thresholds, append=np.inf))  # the last of equal scores
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
