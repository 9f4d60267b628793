"""Headings: the direction in which an image looks, from the directions of the landmarks that look like it."""

import numpy as np

from mappable.arrays import Floats, Floats32, Ints
from mappable.places.angles import wrap


def headings_at(
    yaw: Floats,
    positions: Floats,
    rows: Ints,
    squared: Floats | Floats32,
    at: Floats,
    *,
    radius: float,
    temperature: float,
) -> Floats:
    """Headings (n,) of images located `at` (n, k): a mean over landmarks within `radius`; NaN if there is none.

    `rows` (n, c) are the landmarks nearest to each image by feature, at `squared` distances (n, c). A landmark at
    squared distance s has the weight exp(-s / T) with the `temperature` T. `yaw` and `positions` are of all landmarks.
    """
    near = np.linalg.norm(positions[rows] - at[:, None], axis=2) <= radius
    near &= np.isfinite(yaw[rows])
    known = near.any(1)
    farther = np.where(near, squared, np.inf)
    with np.errstate(invalid="ignore"):
        weight = np.exp((farther.min(1, keepdims=True) - farther) / temperature)
    weight = np.where(near, weight, 0.0)
    angles = np.where(near, yaw[rows], 0.0)
    headings: Floats = np.arctan2((weight * np.sin(angles)).sum(1), (weight * np.cos(angles)).sum(1))
    return np.where(known, headings, np.nan)


def mean_angle(angles: Floats, weight: Floats) -> float:
    """The weighted mean of angles (n,), in radians."""
    return float(np.arctan2(weight @ np.sin(angles), weight @ np.cos(angles)))


def angle_errors(first: Floats, second: Floats) -> Floats:
    """Absolute differences of angles (n,), in radians from 0 to pi; without those that are not known."""
    errors: Floats = np.abs(wrap(first - second))
    return errors[np.isfinite(errors)]
