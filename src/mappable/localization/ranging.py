"""Ranges for recovery: metres between images, or from images to landmarks."""

import numpy as np
from scipy.stats import spearmanr

from mappable.arrays import Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.localization.map import Map
from mappable.maps.calibration import Calibration
from mappable.maps.growth import Growth
from mappable.maps.store import squared_between
from mappable.places.pixels import Images
from mappable.places.table import Places
from mappable.recovery.order import Order, order_of
from mappable.recovery.ranges import Ranges

# Smallest number of images whose order tests the ranges; fewer may look ordered by chance.
FEWEST_JUDGED = 10
# Smallest score of the order: consecutive images have a range half again as often as other pairs.
LEAST_ORDER = 1 / 3
# Largest share of false ranges, as estimated. On the same drives, the share is 0.20 to 0.76 at
# night and in rain, which become balls. It is up to 0.14 by day, loops included, and 0.2 on three
# laps of a made-up circle within reach.
MOST_FALSE = 0.25
# Share of the largest feature distance that gives a range. A drive stands still if most of its
# pairs are below it.
STILL_SHARE = 2 / 3  # images 2 m apart are at 0.7
# Smallest correlation of feature distance and number of images between, for a drive that moves on
# slowly. It is 0.4 to 0.9 on drives of 40 m, and 0.1 if all images look alike.
LEAST_CORRELATION = 0.3
BATCH = 1024  # images whose distances to all others are computed together


def ranges_of_images(
    opened: Map, places: Places, images: Images | None = None, *, ordered: bool = True
) -> Ranges:
    """Ranges between images, by the calibration of a map; raise if an image cannot be read. See
    `ranges_between`.
    """
    check_metric(opened.landmarks.unit)
    descriptors = opened.encoder.embed(places if images is None else images)
    return ranges_between(opened.calibration, descriptors, ordered=ordered)


def check_metric(unit: str) -> None:
    """Raise if the unit of a map is not metres."""
    if unit != "m":
        raise BadInputError(f"ranges need a map in metres, but the unit of this map is {unit}")


def ranges_between(
    calibration: Calibration, descriptors: Floats32, *, ordered: bool = True
) -> Ranges:
    """Ranges in metres between those of the images (n, D) that are near enough by feature.

    Some ranges are false: in calibration, at most a fifth of the longest ones. `ordered` images are
    the images of one drive in order. The function then raises if the ranges know no more about this
    order than chance, or if too many are false.
    """
    if len(descriptors) < 2:
        raise BadInputError("ranges need at least two images")
    found = []
    for start in range(0, len(descriptors), BATCH):
        feature = np.sqrt(squared_between(descriptors[start : start + BATCH], descriptors[start:]))
        first, second = np.nonzero(np.triu(feature <= _growth(calibration).valid, 1))
        found.append((first + start, second + start, feature[first, second].astype(np.float64)))
    i, j, near = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not len(near):
        raise BadInputError(
            "no two images are near enough by feature to estimate their distance: take images"
            " closer together"
        )
    ranges = Ranges(len(descriptors), i, j, *metres_of(calibration, near))
    if (
        ordered
        and ranges.count >= FEWEST_JUDGED
        and not _small(ranges.count, j - i, near / _growth(calibration).valid)
    ):
        _check_order(order_of(ranges))
    return ranges


def _small(count: int, between: Ints, near: Floats) -> bool:
    """Whether a drive is small: it stands still or moves on slowly, so most of its pairs have a
    range.

    `between` is the number of images from one image of a pair to the other. `near` are feature
    distances, as shares of the largest one that gives a range.
    """
    pairs = count * (count - 1) / 2
    if 2 * len(near) < pairs:
        return False
    return bool(
        2 * np.count_nonzero(near <= STILL_SHARE) > pairs
        or spearmanr(near, between).statistic >= LEAST_CORRELATION
    )


def _check_order(order: Order) -> None:
    """Raise if ranges do not reflect the order of a drive; a recovery from them would be a ball."""
    if order.score >= LEAST_ORDER and order.false <= MOST_FALSE:
        return
    far = order.following < 0.5
    remedy = (
        "take images closer together"
        if far
        else "use an encoder that was trained on images like these"
    )
    raise BadInputError(
        f"the images do not show how far apart they are. {100 * order.share:.1f} % of all pairs and"
        f" {100 * order.following:.1f} % of consecutive pairs have a range, and about"
        f" {100 * order.false:.0f} % of ranges are false: {remedy}, and keep their order"
    )


def metres_of(calibration: Calibration, feature: Floats) -> tuple[Floats, Floats]:
    """Metres between two images by their feature distance (not squared), and standard deviations in
    metres.
    """
    return _growth(calibration).predict(feature)


def _growth(calibration: Calibration) -> Growth:
    if calibration.growth is None:
        raise BadInputError("the map cannot give ranges: no two of its images show the same place")
    return calibration.growth
