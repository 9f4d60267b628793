"""Angles: radians, counter-clockwise from +x (east), wrapped to (-pi, pi]."""

from typing import overload

import numpy as np

from mappable.arrays import Floats


@overload
def wrap(angle: float) -> float: ...
@overload
def wrap(angle: Floats) -> Floats: ...
def wrap(angle: float | Floats) -> float | Floats:
    """Wrap angles in radians to (-pi, pi].

    Angles in this range stay bit-identical. NaN (unknown) and infinity (an error that callers
    detect) stay too.

    >>> round(wrap(3 * np.pi / 2), 6)
    -1.570796
    """
    given = np.asarray(angle, dtype=np.float64)
    outside = (np.abs(given) > np.pi) & np.isfinite(given) | (given == -np.pi)
    wrapped = np.pi - np.mod(np.pi - np.where(outside, given, 0.0), 2 * np.pi)
    # Rounding can produce -pi, which is excluded.
    wrapped = np.where(wrapped <= -np.pi, np.pi, wrapped)
    result = np.where(outside, wrapped, given)
    return result if np.ndim(angle) else float(result)


@overload
def yaw_from_compass(heading: float) -> float: ...
@overload
def yaw_from_compass(heading: Floats) -> Floats: ...
def yaw_from_compass(heading: float | Floats) -> float | Floats:
    """Convert a heading in radians, clockwise from north, to yaw, counter-clockwise from east.

    >>> yaw_from_compass(np.pi / 2)  # a compass heading of 90 degrees is east
    0.0
    """
    return wrap(np.pi / 2 - heading)


def interpolate_yaw(start: Floats, end: Floats, fraction: Floats) -> Floats:
    """The yaw at `fraction` between `start` and `end` along the shorter arc, also across the seam
    at +-pi.
    """
    return wrap(start + fraction * wrap(end - start))
