"""Rotations, against scipy's and closed forms."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.places.frames import Frame
from mappable.places.rotations import (
    CAMERA_PLANE,
    are_rotations,
    viewing_yaw,
)


def test_yaw_counts_counter_clockwise_from_x():
    directions = np.array(
        [[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0.6, 0, 0.8]], dtype=float
    )
    assert viewing_yaw(directions) == pytest.approx([0, np.pi / 2, np.pi, -np.pi / 2, 0])


def test_the_camera_plane_is_right_handed_and_leads_back():
    assert np.linalg.det(np.array(CAMERA_PLANE)) == pytest.approx(1)
    frame = Frame("camera", axes=CAMERA_PLANE)
    right, down, forward = np.eye(3)
    assert frame.from_original(np.array([right, down, forward])).tolist() == [
        [1, 0, 0],
        [0, 0, -1],
        [0, 1, 0],
    ]
    points = np.array([[1.5, -2.5, 3.5]])
    assert frame.to_original(frame.from_original(points)).tolist() == points.tolist()


def test_mirrors_scalings_and_shears_are_no_rotations():
    turn = Rotation.from_euler("xyz", [0.1, 0.2, 0.3]).as_matrix()
    shear = np.eye(3)
    shear[0, 1] = 0.02
    matrices = np.array([turn, -turn, turn * 1.02, shear, np.zeros((3, 3)), turn + 1e-4])
    assert are_rotations(matrices, 1e-2).tolist() == [True, False, False, False, False, True]
