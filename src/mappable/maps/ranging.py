"""Ranges for recovery: metres between images, or from images to landmarks."""

from statistics import NormalDist

import numpy as np

from mappable.arrays import Floats, Floats32
from mappable.errors import BadInputError
from mappable.maps.calibration import Calibration
from mappable.maps.store import squared_between
from mappable.recovery.ranges import Ranges

BLOCK = 1024  # images whose distances to all others are computed at a time


def check_metric(unit: str) -> None:
    """Raise if a map knows no metres."""
    if unit != "m":
        raise BadInputError(f"ranges are in metres, but this map knows distances in {unit} only")


def ranges_between(calibration: Calibration, descriptors: Floats32) -> Ranges:
    """Ranges between those of the images (n, D) that are near enough by feature for that to tell metres.

    Some of them are false: a fifth at most of the farthest, as calibration saw it.
    """
    if len(descriptors) < 2:
        raise BadInputError("ranges need at least two images")
    found = []
    for start in range(0, len(descriptors), BLOCK):
        feature = np.sqrt(squared_between(descriptors[start : start + BLOCK], descriptors[start:]))
        first, second = np.nonzero(np.triu(feature <= calibration.pairs_valid, 1))
        found.append((first + start, second + start, feature[first, second].astype(np.float64)))
    i, j, near = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not len(near):
        raise BadInputError("no two of the images are near enough by feature to tell their distance")
    return Ranges(len(descriptors), i, j, *metres_of(calibration, near))


def metres_of(calibration: Calibration, feature: Floats) -> tuple[Floats, Floats]:
    """The metres between two images by their feature distance (not squared), and standard deviations."""
    if calibration.pairs is None:
        raise BadInputError("no two images that the map was calibrated by are of one place: ranges are not known")
    reach = calibration.response.reach
    metres, low, high = calibration.pairs.predict(feature, calibration.coverage)
    low, high = np.maximum(low, 0.0), np.minimum(high, reach)  # it is of pairs within reach
    width = 2 * NormalDist().inv_cdf(0.5 + calibration.coverage / 2)
    return metres, np.maximum((high - low) / width, 1e-3 * reach)
