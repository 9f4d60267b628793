"""Rotations of poses, from which the yaw of a view is taken."""

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.places.frames import IDENTITY, Vector

# The axes of a frame over camera coordinates (X right, Y down, Z forward): x = X, y = Z, z = -Y, right-handed too.
CAMERA_PLANE: tuple[Vector, Vector, Vector] = ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0))
PLANES = {"xy": IDENTITY, "xz": CAMERA_PLANE}
AXES: dict[str, Vector] = {"x": (1.0, 0.0, 0.0), "z": (0.0, 0.0, 1.0)}
VERTICAL = np.sin(np.deg2rad(1.0))  # a view whose horizontal part is shorter than this has no direction on the map


def viewing_yaw(directions: Floats) -> Floats:
    """Yaw of viewing directions (n, 3) of unit length in a frame; NaN where one is within a degree of the vertical."""
    level = np.hypot(directions[:, 0], directions[:, 1]) >= VERTICAL
    return np.where(level, np.arctan2(directions[:, 1], directions[:, 0]), np.nan)


def are_rotations(matrices: Floats, tolerance: float) -> Bools:
    """Which matrices (n, 3, 3) are orthonormal within `tolerance` in every entry of M M^T, and no mirror images."""
    off: Floats = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    proper: Floats = np.linalg.det(matrices)
    return (off <= tolerance) & (proper > 0)
