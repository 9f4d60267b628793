"""Rotation matrices of poses, and the yaw of viewing directions."""

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.places.frames import IDENTITY, Vector

# The axes of a frame whose original coordinates are those of a camera (X right, Y down, Z forward):
# x = X, y = Z, z = -Y. The frame is right-handed too.
CAMERA_PLANE: tuple[Vector, Vector, Vector] = ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0))
PLANES = {"xy": IDENTITY, "xz": CAMERA_PLANE}
AXES: dict[str, Vector] = {"x": (1.0, 0.0, 0.0), "z": (0.0, 0.0, 1.0)}
# Horizontal length of a unit vector, below which the yaw is unknown.
MIN_HORIZONTAL = np.sin(np.deg2rad(1.0))


def viewing_yaw(directions: Floats) -> Floats:
    """Yaw of viewing directions (n, 3) of unit length in a frame; NaN within one degree of the
    vertical.
    """
    level = np.hypot(directions[:, 0], directions[:, 1]) >= MIN_HORIZONTAL
    return np.where(level, np.arctan2(directions[:, 1], directions[:, 0]), np.nan)


def are_rotations(matrices: Floats, tolerance: float = 1e-2) -> Bools:
    """Mask of the matrices (n, 3, 3) that are rotations: M M^T is the identity within `tolerance`,
    no reflection.
    """
    with np.errstate(all="ignore"):  # of numbers that are far from a rotation
        deviation: Floats = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max(
            axis=(1, 2)
        )
        determinant: Floats = np.linalg.det(matrices)
    return (deviation <= tolerance) & (determinant > 0)
