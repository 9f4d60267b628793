"""Metrics of the protocols, as plain functions on arrays; percentages are from 0 to 100.

An error is the plain (not squared) distance between the true and the found position of a query.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from mappable.arrays import Bools, Floats, Floats32

WIDE_RADIUS = 0.25  # of the extent: so wide a radius makes nearly any answer correct


@dataclass(frozen=True)
class MeanStd:
    """Mean and standard deviation (divided by n - 1) of some numbers; the deviation of a single
    number is None.
    """

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


def spread(numbers: Sequence[float]) -> MeanStd:
    """Mean and standard deviation of one number or more.

    >>> print(spread([70.0, 72.0]), spread([70.0]))
    71.00 ± 1.41 70.00
    """
    return MeanStd(
        float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    )


def percent_within(errors: Floats, radius: float) -> float:
    """The percentage of queries (one or more) with an error of at most the radius (`<=`; the
    authors' code has `<`).

    >>> percent_within(np.array([0.5, 1.0, 1.5, 8.0]), 1.0)
    50.0
    """
    return float(100.0 * np.mean(np.asarray(errors, dtype=np.float64) <= radius))


def tolerance_curve(errors: Floats, tolerances: Floats) -> Floats:
    """The percentage of queries (one or more) within each of the tolerances (`<=`).

    >>> tolerance_curve(np.array([0.5, 1.0, 1.5, 8.0]), np.array([0.0, 1.0, 10.0]))
    array([  0.,  50., 100.])
    """
    within = np.searchsorted(
        np.sort(np.asarray(errors, dtype=np.float64)), tolerances, side="right"
    )
    percent: Floats = 100.0 * within / len(errors)
    return percent


def recall_at(positives: Bools, has_positive: Bools, counts: Sequence[int]) -> dict[str, float]:
    """The percentage of queries that have a positive among the `count` landmarks nearest by
    feature, for each count.

    `positives` (queries, N) marks which of the N nearest landmarks, nearest first, are within the
    positive radius. `has_positive` (queries,) marks queries with a positive among all landmarks.
    The literature counts queries without any positive as failures, or leaves them out. Here they
    are left out, so a perfect encoder scores 100 on any map. If no query has a positive, all values
    are 0.

    >>> nearest = np.array([[False, True], [True, False], [False, False]])
    >>> recall_at(nearest, np.array([True, True, False]), (1, 2))
    {'1': 50.0, '2': 100.0}
    """
    counted = positives[has_positive]
    return {
        str(count): float(100.0 * counted[:, :count].any(axis=1).sum() / max(len(counted), 1))
        for count in counts
    }


def pearson(first: Floats | Floats32, second: Floats | Floats32) -> float | None:
    """Pearson's correlation (pairs,); None for fewer than 3 pairs, or if all values of one side are
    equal.
    """
    if len(first) < 3 or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return None
    return float(np.corrcoef(np.asarray(first, dtype=np.float64), second)[0, 1])


def spearman(first: Floats | Floats32, second: Floats | Floats32) -> float | None:
    """Spearman's correlation (pairs,): Pearson's of the ranks."""
    return pearson(rankdata(first), rankdata(second)) if len(first) else None


def average_precision(score: Floats, right: Bools) -> float:
    """Average precision, from 0 to 1, of accepting the answers with the highest score first.

    Precision is the share of accepted answers that are correct, recall the share of correct answers
    that are accepted. Equal scores are accepted together.

    >>> average_precision(np.array([0.9, 0.8, 0.7]), np.array([True, False, True]))
    0.8333333333333333
    """
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))  # the last of equal scores
    hits = np.cumsum(right[order])[last]
    recall = hits / max(int(right.sum()), 1)
    return float(np.sum(np.diff(recall, prepend=0.0) * hits / (last + 1)))


def chance(metres: Floats, radius: float) -> float:
    """The percentage of queries that a random landmark finds, from distances (queries, landmarks)
    on the ground.

    >>> chance(np.array([[1.0, 9.0], [9.0, 9.0]]), 5.0)
    25.0
    """
    return float(100.0 * np.mean(metres <= radius))


def wide_radius(positions: Floats, radius: float) -> bool:
    """Whether the radius is above a quarter of the extent of the positions (n, 2 or 3), the
    diagonal of their box.
    """
    return bool(radius > WIDE_RADIUS * np.linalg.norm(np.ptp(positions, axis=0)))
