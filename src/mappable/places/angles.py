"""Angles: radians, counter-clockwise from +x (east), wrapped to (-pi, pi]."""

from typing import overload

import numpy as np

from mappable.arrays import Floats


@overload
def wrap(angle: float) -> float: ...
@overload
def wrap(angle: Floats) -> Floats: ...
def wrap(angle: float | Floats) -> float | Floats:
    """Bring angles in radians into (-pi, pi]; NaN (unknown) stays NaN.

    >>> round(wrap(3 * np.pi / 2), 6)
    -1.570796
    """
    wrapped = np.pi - np.mod(np.pi - np.asarray(angle, dtype=np.float64), 2 * np.pi)
    return wrapped if np.ndim(angle) else float(wrapped)


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
