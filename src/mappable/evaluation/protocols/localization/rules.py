"""Rules for accepting answers: the map's own probabilities, and plain rules that a user would write."""

import numpy as np

from mappable.arrays import Floats, Floats32
from mappable.maps.believed import SURE_ALONE, placed
from mappable.maps.drive_model import Followed, believe_alone, follow
from mappable.maps.locate import Locator
from mappable.maps.looks import Looks, first_to_second, look_at

TOP = 10  # nearest landmarks whose spread on the ground is one of the rules
SINGLE, SEQUENCE = "ours, single images", "ours, sequence"
FEATURE, RATIO, SPREAD = "feature distance", "ratio of first to second", f"spread of the top {TOP}"
RULES = (SINGLE, SEQUENCE, FEATURE, RATIO, SPREAD)


def sureness(locator: Locator, descriptors: Floats32) -> dict[str, Floats]:
    """The score of each rule for each image (n,) of one drive, from descriptors (n, D) in order; higher is surer."""
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
    """The score behind `confident` for single images: the ratio rule, or the odds of the place.

    A map that was calibrated with its landmarks' own visit uses the ratio rule. Images whose place is likely rank
    before all others. Other maps use the odds; images within the thresholds rank before all others.
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
    """Variance (n,) of the positions of the nearest landmarks, in squares of the unit, weighted by feature distance.

    The weight of a landmark falls by a factor e per deviation of its squared feature distance above the nearest one.
    """
    top = min(TOP, looks.rows.shape[1])
    weight = np.exp((looks.squared[:, :1] - looks.squared[:, :top]) / looks.deviation[:, None])
    weight /= weight.sum(1, keepdims=True)
    points = positions[looks.rows[:, :top]]
    middle = (weight[:, :, None] * points).sum(1, keepdims=True)
    variance: Floats = (weight * np.square(points - middle).sum(2)).sum(1)
    return variance
