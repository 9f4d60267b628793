"""Answers of one method to all queries, counted: found, confident, correct, and intervals that hold."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Answers:
    """What one method answers to the queries (n,): positions, and intervals of the distance to the
    landmark it names.

    `absent_confident` (m,) are its answers to images that are not on the map.
    """

    errors: Floats
    to_landmark: Floats  # true distance
    distance: Floats  # stated distance; the next two are its interval
    low: Floats
    high: Floats
    confident: Bools
    absent_confident: Bools

    @property
    def held(self) -> Bools:
        """Whether each interval contains the true distance; False without an interval."""
        return (self.low <= self.to_landmark) & (self.to_landmark <= self.high)


@dataclass(frozen=True)
class Counts:
    """Counts of queries for one method; `median` and `width` are in the unit."""

    queries: int
    found: int  # within the positive radius
    median: float  # error
    confident: int
    right: int  # confident queries that are within the positive radius
    intervals: int  # stated intervals
    held: int  # intervals that contain the true distance
    width: float | None  # mean width of the intervals

    @property
    def percent(self) -> float:
        """Percent of the queries that are found."""
        return 100 * self.found / self.queries


def count(answers: Answers, radius: float, which: Ints) -> Counts:
    """Counts of the answers to some queries."""
    errors, confident, held = answers.errors[which], answers.confident[which], answers.held[which]
    width = (answers.high - answers.low)[which]
    stated = np.isfinite(width)
    return Counts(
        queries=len(errors),
        found=int((errors <= radius).sum()),
        median=float(np.median(errors)),
        confident=int(confident.sum()),
        right=int((confident & (errors <= radius)).sum()),
        intervals=int(stated.sum()),
        held=int(held.sum()),
        width=float(width[stated].mean()) if stated.any() else None,
    )


def percent(part: int, whole: int) -> float | None:
    """The percentage of a part; None of nothing."""
    return 100 * part / whole if whole else None
