"""Count three methods to locate queries: found, confident and correct, intervals that contain the true distance.

Also count the rules for accepting answers: how many answers each rule accepts, and how many accepted ones are wrong.
"""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.evaluation.metrics import precision_recall
from mappable.evaluation.protocols.localization.compute import Localization
from mappable.evaluation.protocols.localization.rules import SEQUENCE, SINGLE

NEAREST, REFINED, DRIVE = "nearest", "refined", "sequence"


@dataclass(frozen=True)
class WayCounts:
    """Counts of queries; `median` is the median error in the unit. Without a calibration no query is confident."""

    queries: int
    found: int  # within the positive radius
    median: float
    confident: int
    right: int  # confident queries that are within the positive radius
    intervals: int  # stated intervals
    held: int  # intervals that contain the true distance

    @property
    def percent(self) -> float:
        """Percent of the queries that are found."""
        return 100 * self.found / self.queries


def count_ways(found: Localization, radius: float) -> dict[str, WayCounts]:
    """Counts by method: at the nearest landmark, refined, and as a drive; the last two need a calibration."""
    single = found.confident, found.low, found.high, found.to_landmark
    drive = found.sequence_confident, found.sequence_low, found.sequence_high, found.sequence_distance
    ways = {NEAREST: (found.top1, single), REFINED: (found.refined, single), DRIVE: (found.sequence, drive)}
    known = {name: way for name, way in ways.items() if np.isfinite(way[0]).all()}
    return {name: _count(errors, radius, *stated) for name, (errors, stated) in known.items()}


def _count(errors: Floats, radius: float, confident: Bools, low: Floats, high: Floats, truth: Floats) -> WayCounts:
    near = errors <= radius
    return WayCounts(
        queries=len(errors),
        found=int(near.sum()),
        median=float(np.median(errors)),
        confident=int(confident.sum()),
        right=int((near & confident).sum()),
        intervals=int(np.isfinite(low).sum()),
        held=int(((low <= truth) & (truth <= high)).sum()),
    )


def best_way(ways: dict[str, WayCounts]) -> str:
    """The name of the method that finds the most queries; the simplest of equal ones."""
    return max(ways, key=lambda name: ways[name].found)


@dataclass(frozen=True)
class RuleCounts:
    """A rule for accepting answers. `average_precision` is over all thresholds; its recall is over correct answers."""

    average_precision: float
    answers: int  # images on the map or not
    accepted: int
    wrong: int  # accepted answers that are wrong

    @property
    def false_discovery(self) -> float | None:
        """Percent of accepted answers that are wrong; None if the rule accepts nothing."""
        return 100 * self.wrong / self.accepted if self.accepted else None


def count_rules(found: Localization, radius: float) -> dict[str, RuleCounts]:
    """Counts by rule. Ours accept `confident` answers; each plain rule accepts as many answers as the first of ours.

    An answer is correct if its position is within the radius. Answers about images that are not on the map are wrong.
    """
    nowhere = np.zeros(len(found.absent), dtype=bool)
    sure = {
        SINGLE: np.concatenate([found.confident, found.absent_confident]),
        SEQUENCE: np.concatenate([found.sequence_confident, found.absent_sequence_confident]),
    }
    counted = {}
    for name, score in found.rules.items():
        errors = found.sequence if name == SEQUENCE else found.refined
        right = np.concatenate([errors <= radius, nowhere])
        accepted = sure.get(name)
        if accepted is None:
            accepted = np.zeros(len(score), dtype=bool)
            accepted[np.argsort(-score, kind="stable")[: int(sure[SINGLE].sum())]] = True
        average = precision_recall(-score, right, int(right.sum()))[3]
        counted[name] = RuleCounts(average, len(score), int(accepted.sum()), int((accepted & ~right).sum()))
    return counted
