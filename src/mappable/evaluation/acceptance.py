"""Which answers to accept: the map's own confidence beside plain rules that a user would write."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.evaluation.metrics import average_precision
from mappable.localization.map import Map

TOP = 10  # nearest landmarks whose spread on the ground is one of the rules
SEARCHED = 200  # nearest landmarks among which the second place is looked for
SINGLE, SEQUENCE = "ours, single images", "ours, sequence"
FEATURE, RATIO, SPREAD = "feature distance", "ratio of first to second", f"spread of the top {TOP}"
RULES = (SINGLE, SEQUENCE, FEATURE, RATIO, SPREAD)


@dataclass(frozen=True)
class RuleCounts:
    """A rule for accepting answers, counted over all images, on the map or not.

    `average_precision` is over all thresholds of the rule; its recall is over correct answers.
    """

    average_precision: float
    answers: int
    accepted: int
    wrong: int  # accepted answers that are wrong

    @property
    def false_discovery(self) -> float | None:
        """Percent of accepted answers that are wrong; None if the rule accepts nothing."""
        return 100 * self.wrong / self.accepted if self.accepted else None


def sureness(opened: Map, descriptors: Floats32) -> dict[str, Floats]:
    """The score of each rule for each image (n,) of one drive, from descriptors (n, D) in order;
    higher is surer.
    """
    positions, model = opened.landmarks.places.positions, opened.model
    rows, squared = opened.landmarks.store.nearest(descriptors, min(len(positions), SEARCHED))
    return {
        SINGLE: opened.answers(model.single(descriptors), "single").mass,
        SEQUENCE: opened.answers(model.drive(descriptors), "drive").mass,
        FEATURE: -np.sqrt(squared[:, 0]),
        RATIO: -first_to_second(rows, squared, positions, opened.calibration.radius),
        SPREAD: -spread_of_top(rows, squared, positions),
    }


def first_to_second(rows: Ints, squared: Floats32, positions: Floats, radius: float) -> Floats:
    """Feature distance to the nearest landmark over that to the nearest one at another place (n,)."""
    away = np.linalg.norm(positions[rows] - positions[rows[:, :1]], axis=2) > 2 * radius
    second = np.where(away.any(1), squared[np.arange(len(rows)), away.argmax(1)], squared[:, -1])
    ratio: Floats = np.sqrt(squared[:, 0] / np.maximum(second, 1e-12))
    return ratio


def spread_of_top(rows: Ints, squared: Floats32, positions: Floats) -> Floats:
    """Variance (n,) of the positions of the nearest landmarks, in squares of the unit, weighted by
    feature distance.

    The weight of a landmark falls by a factor e per deviation of its squared feature distance above
    the nearest one.
    """
    deviation = np.maximum(squared.std(axis=1, keepdims=True), 1e-9)
    weight = np.exp((squared[:, :1] - squared[:, :TOP]) / deviation)
    weight /= weight.sum(1, keepdims=True)
    points = positions[rows[:, :TOP]]
    middle = (weight[:, :, None] * points).sum(1, keepdims=True)
    variance: Floats = (weight * np.square(points - middle).sum(2)).sum(1)
    return variance


def count_rules(
    scores: Mapping[str, Floats], right: Mapping[str, Bools], confident: Mapping[str, Bools]
) -> dict[str, RuleCounts]:
    """Counts by rule, from the score and the correctness of each answer (n,).

    `right` and `confident` are of single images and of the sequence. Ours accept confident answers.
    Each plain rule accepts its surest answers, as many as ours for single images, and their
    positions are those of single images.
    """
    counted = {}
    for name, score in scores.items():
        rule = SEQUENCE if name == SEQUENCE else SINGLE
        accepted = confident[rule]
        if name not in confident:
            accepted = np.zeros(len(score), dtype=bool)
            accepted[np.argsort(-score, kind="stable")[: int(confident[SINGLE].sum())]] = True
        wrong = int((accepted & ~right[rule]).sum())
        counted[name] = RuleCounts(
            average_precision(score, right[rule]), len(score), int(accepted.sum()), wrong
        )
    return counted
