"""Angles: radians, counter-clockwise from +x (east), wrapped to (-pi, pi]."""

from typing import overload

import numpy as np

from mappable.arrays import Floats


@overload
def wrap(angle: float) -> float: ...
@overload
def wrap(angle: Floats) -> Floats: ...
def wrap(angle: float | Floats) -> float | Floats:
    """Bring angles in radians into (-pi, pi]; those already there stay exactly as they are, and so do NaN (unknown)
    and infinity (nonsense, for others to refuse).

    >>> round(wrap(3 * np.pi / 2), 6)
    -1.570796
    """
    given = np.asarray(angle, dtype=np.float64)
    outside = (np.abs(given) > np.pi) & np.isfinite(given) | (given == -np.pi)
    wrapped = np.pi - np.mod(np.pi - np.where(outside, given, 0.0), 2 * np.pi)
    wrapped = np.where(wrapped <= -np.pi, np.pi, wrapped)  # rounding can reach the open end
    result = np.where(outside, wrapped, given)
    return result if np.ndim(angle) else float(result)


@overload
def yaw_from_compass(heading: float) -> float: ...
@overload
def yaw_from_compass(heading: Floats) -> Floats: ...
def yaw_from_compass(heading: float | Floats) -> float | Floats:
    """Yaw (counter-clockwise from east) of a heading in radians clockwise from north.

    >>> yaw_from_compass(np.pi / 2)  # a compass says 90 degrees for east
    0.0
    """
    return wrap(np.pi / 2 - heading)


def interpolate_yaw(start: Floats, end: Floats, fraction: Floats) -> Floats:
    """The yaw `fraction` of the way from `start` to `end` along the shorter arc, so that the +-pi seam is no jump."""
    return wrap(start + fraction * wrap(end - start))
