"""Compare headings with the course of each visit, and correct a constant offset between visits."""

import math
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Ints
from mappable.places.angles import wrap
from mappable.places.table import Places


@dataclass(frozen=True)
class HeadingRule:
    """When the yaw of a visit is a constant off that of another visit."""

    # That move and have a yaw, at least: with a yaw noise of 60 degrees, the mean errs by 13
    # degrees.
    images: int = 20
    # At least; yaw within 60 degrees of a constant has 0.83, looking around has 0.
    concentration: float = 0.8
    smallest: float = math.radians(10)  # a third of the yaw limit; smaller offsets drop few pairs
    # Beyond a quarter turn, a camera looks to the side or back on purpose.
    largest: float = math.radians(90)


RULE = HeadingRule()


@dataclass(frozen=True)
class HeadingOffset:
    """Yaw minus course of a visit: the circular mean in radians, and its concentration from 0 to 1
    (all are equal).
    """

    mean: float
    concentration: float
    images: int


def heading_offset(places: Places, rows: Ints) -> HeadingOffset:
    """Yaw minus course of the visit with these rows, in the order of travel. Longer steps weigh
    more.
    """
    if len(rows) < 3:
        return HeadingOffset(0.0, 0.0, 0)
    step = places.positions[rows[2:], :2] - places.positions[rows[:-2], :2]
    yaw, length = places.yaw[rows[1:-1]], np.hypot(step[:, 0], step[:, 1])
    usable = (length > 0) & np.isfinite(yaw)
    turned = np.exp(1j * (yaw[usable] - np.arctan2(step[usable, 1], step[usable, 0])))
    total = complex(np.sum(length[usable] * turned))
    return HeadingOffset(
        float(np.angle(total)), abs(total) / max(length[usable].sum(), 1e-12), int(usable.sum())
    )


def with_agreeing_headings(places: Places) -> tuple[Places, str]:
    """The table with the yaw of each visit turned to that of the visit whose yaw is nearest to its
    course.

    Also returns a sentence about what was turned, or about a visit that looks to another side;
    empty if all agree.
    """
    visits = places.sequences()
    offsets = {name: heading_offset(places, rows) for name, rows in visits.items()}
    constant = {
        name: offset.mean
        for name, offset in offsets.items()
        if offset.images >= RULE.images and offset.concentration >= RULE.concentration
    }
    if len(constant) < 2:
        return places, ""
    nearest = min(constant, key=lambda name: abs(constant[name]))
    apart = {name: wrap(mean - constant[nearest]) for name, mean in constant.items()}
    turned = {
        name: angle for name, angle in apart.items() if RULE.smallest < abs(angle) <= RULE.largest
    }
    aside = [name for name, angle in apart.items() if abs(angle) > RULE.largest]
    yaw = places.yaw.copy()
    for name, angle in turned.items():
        yaw[visits[name]] = wrap(yaw[visits[name]] - angle)
    sentences = [
        f"headings of {name} turned by {_degrees(angle)} to match {nearest}"
        for name, angle in turned.items()
    ]
    sentences += [
        f"headings of {name} kept, {_degrees(apart[name])} from {nearest}: another view"
        for name in aside
    ]
    return places.replace(yaw=yaw) if turned else places, "; ".join(sentences)


def _degrees(angle: float) -> str:
    return f"{math.degrees(abs(angle)):.0f} degrees"
