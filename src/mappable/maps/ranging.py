"""Ranges for recovery: metres between images, or from images to landmarks."""

from statistics import NormalDist

import numpy as np
from scipy.stats import spearmanr

from mappable.arrays import Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.maps.calibration import Calibration
from mappable.maps.store import squared_between
from mappable.recovery.order import Order, order_of
from mappable.recovery.ranges import Ranges

JUDGED = 10  # images from which on the order of a drive tests its ranges; with fewer, chance may look like order
# Chosen on drives of a real race track and of the demo, every 1st to 16th image, encoder off the shelf: the score of
# the order is at most 0.1 where all images look alike and ranges draw a ball, and 0.37 or more where they draw a shape.
KNOWS_ORDER = 1 / 3
# Share of false ranges, as estimated, on the same drives: 0.20 to 0.76 at night and in rain, which become balls; up to
# 0.14 by day, loops included, and 0.2 on three laps of a made-up circle within reach.
MOST_FALSE = 0.25
STILL = 2 / 3  # of the farthest feature distance that tells metres; images 2 m apart are at 0.7
# Correlation of feature distance and images between: 0.4 to 0.9 on drives of 40 m, 0.1 where all look alike.
GROWS = 0.3
BLOCK = 1024  # images whose distances to all others are computed at a time


def check_metric(unit: str) -> None:
    """Raise if a map knows no metres."""
    if unit != "m":
        raise BadInputError(f"ranges are in metres, but this map knows distances in {unit} only")


def ranges_between(calibration: Calibration, descriptors: Floats32, *, ordered: bool = True) -> Ranges:
    """Ranges between those of the images (n, D) that are near enough by feature for that to tell metres.

    Some of them are false: a fifth at most of the farthest, as calibration saw it. If images are `ordered`, they are
    those of one drive. Ranges that know no more of its order than chance are refused. So is a set with too
    many false ranges.
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
    ranges = Ranges(len(descriptors), i, j, *metres_of(calibration, near))
    if ordered and ranges.count >= JUDGED and not _small(ranges.count, j - i, near / calibration.pairs_valid):
        _check_order(order_of(ranges))
    return ranges


def _small(count: int, between: Ints, near: Floats) -> bool:
    """Whether a drive stays within reach of the ranges: it stands still, or moves on slowly.

    Most of its pairs have a range then. Feature distances are `near`, over the farthest that tells metres.
    """
    pairs = count * (count - 1) / 2
    if 2 * len(near) < pairs:
        return False
    return bool(2 * np.count_nonzero(near <= STILL) > pairs or spearmanr(near, between).statistic >= GROWS)


def _check_order(order: Order) -> None:
    """Raise if ranges do not know the order of a drive: all that could be drawn by them is a ball."""
    if order.score >= KNOWS_ORDER and order.shorter > order.by_chance and order.false <= MOST_FALSE:
        return
    far = order.following < 0.5
    remedy = "take images closer together" if far else "use an encoder that was trained on images like these"
    raise BadInputError(
        f"the images do not tell how far apart they are: {100 * order.share:.1f} % of all pairs have a range,"
        f" {100 * order.following:.1f} % of consecutive ones, and about {100 * order.false:.0f} % of ranges are false;"
        f" {remedy}, and keep their order"
    )


def metres_of(calibration: Calibration, feature: Floats) -> tuple[Floats, Floats]:
    """The metres between two images by their feature distance (not squared), and standard deviations."""
    if calibration.pairs is None:
        raise BadInputError("no two images that the map was calibrated by are of one place: ranges are not known")
    reach = calibration.response.reach
    metres, low, high = calibration.pairs.predict(feature, calibration.coverage)
    low, high = np.maximum(low, 0.0), np.minimum(high, reach)  # it is of pairs within reach
    width = 2 * NormalDist().inv_cdf(0.5 + calibration.coverage / 2)
    return metres, np.maximum((high - low) / width, 1e-3 * reach)
