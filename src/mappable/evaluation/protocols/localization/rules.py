"""Rules for which answers to accept: the map's own probabilities, beside plain rules that a user would write."""

import numpy as np

from mappable.arrays import Floats, Floats32
from mappable.maps.believed import SURE_ALONE, placed
from mappable.maps.drive_model import Followed, Looks, believe_alone, first_to_second, follow, look_at
from mappable.maps.locate import Locator

TOP = 10  # landmarks whose spread on the ground is a rule
SINGLE, SEQUENCE = "ours, single images", "ours, sequence"
FEATURE, RATIO, SPREAD = "feature distance", "ratio of first to second", f"spread of the top {TOP}"
RULES = (SINGLE, SEQUENCE, FEATURE, RATIO, SPREAD)


def sureness(locator: Locator, descriptors: Floats32) -> dict[str, Floats]:
    """How sure each rule is of each image (n,) of one drive, by descriptors (n, D) in order; the higher the surer."""
    model, at = locator.calibration.drive, locator.positions
    looks = look_at(locator.map.store, descriptors)
    return {
        SINGLE: _single(locator, descriptors, looks),
        SEQUENCE: placed(locator, looks, follow(model, locator.layout, looks, descriptors))[2],
        FEATURE: -np.sqrt(looks.squared[:, 0]),
        RATIO: -first_to_second(looks, at, model.radius),
        SPREAD: -spread_of_top(looks, at),
    }


def _single(locator: Locator, descriptors: Floats32, looks: Looks) -> Floats:
    """What `confident` of single images goes by: the probability of the place, or its odds, first of those near enough.

    A map that was calibrated by its landmarks' own visit has the probability of its model of drives, others have odds.
    """
    calibration = locator.calibration
    if calibration.source == "train":
        mass = placed(locator, looks, Followed(believe_alone(calibration.drive, locator.layout, looks)))[2]
        ratio = first_to_second(looks, locator.positions, calibration.drive.radius)
        return np.where(mass >= SURE_ALONE, -ratio, -ratio - 1.0)
    seen = locator.look(*locator.nearest(descriptors, locator.map.encoder))
    near = (seen.matched <= calibration.threshold) & (np.sqrt(seen.evidence.nearest) <= calibration.retrieved.furthest)
    return np.where(near, seen.place, seen.place - np.ptp(seen.place) - 1.0)


def spread_of_top(looks: Looks, positions: Floats) -> Floats:
    """Variance on the ground (n,), in squares of the unit, of the nearest landmarks, weighted by how near each is.

    A weight falls by e for each deviation that a landmark is farther by feature, in squared distances.
    """
    top = min(TOP, looks.rows.shape[1])
    weight = np.exp((looks.squared[:, :1] - looks.squared[:, :top]) / looks.deviation[:, None])
    weight /= weight.sum(1, keepdims=True)
    points = positions[looks.rows[:, :top]]
    middle = (weight[:, :, None] * points).sum(1, keepdims=True)
    variance: Floats = (weight * np.square(points - middle).sum(2)).sum(1)
    return variance
