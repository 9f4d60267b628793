"""The reader of Boreas, on trees written as its reference describes them. One row of poses is real."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.readers.registry import read_places

HEADER = "GPSTime,easting,northing,altitude,vel_east,vel_north,vel_up,roll,pitch,heading,angvel_z,angvel_y,angvel_x"

START = 1611678158447226

# A row of boreas-2021-09-02-11-42 (Burnett et al., Boreas, CC BY 4.0), where the car drives to the east.
REAL = (
    "1630597336927721,623423.9960784467,4848820.661481018,153.52352833113878,0.8430962679446712,0.08408283095708821,"
    "0.018296636935513134,1.8034241877766366,-1.3647277512080687,-0.2534326113670768,0.02211332130954749,"
    "0.10378154316247004,-0.009303862219951695"
)


def passive(angle: float, axis: int) -> np.ndarray[Any, Any]:
    """Barfoot's rotation matrix about an axis, written out: it turns the coordinate system, not the vector."""
    first, second = [one for one in range(3) if one != axis]
    matrix = np.eye(3)
    sign = -1 if axis == 1 else 1
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[first, second], matrix[second, first] = sign * np.sin(angle), -sign * np.sin(angle)
    return matrix


def angles_of(yaw: float, pitch: float = 0.05) -> tuple[float, float, float]:
    """Roll, pitch and yaw, as the set stores them, of a camera that looks along `yaw`, a little down."""
    forward = np.array([np.cos(yaw) * np.cos(pitch), np.sin(yaw) * np.cos(pitch), -np.sin(pitch)])
    right = np.array([np.sin(yaw), -np.cos(yaw), 0])
    pose = np.column_stack([right, np.cross(forward, right), forward])  # from camera to world
    middle = np.arcsin(-pose[0, 2])
    return float(np.arctan2(pose[1, 2], pose[2, 2])), float(middle), float(np.arctan2(pose[0, 1], pose[0, 0]))


def write_drive(
    root: Path, name: str = "boreas-2021-01-26-11-22", count: int = 6, north: float = 0.0, header: str = HEADER
) -> Path:
    drive = root / name
    (drive / "camera").mkdir(parents=True)
    (drive / "applanix").mkdir()
    lines = [header]
    for number in range(count):
        time = START + number * 100_001
        roll, pitch, yaw = angles_of(0.3 * number)
        place = f"{2.5 * number!r},{north + number / 3!r},{1 + number / 7!r}"
        lines.append(f"{time},{place},1,2,3,{roll!r},{pitch!r},{yaw!r},0,0,0")
        (drive / f"camera/{time}.png").touch()
    (drive / "applanix/camera_poses.csv").write_text("\n".join(lines) + "\n")
    return drive


def test_the_test_s_own_angles_make_the_pose_of_the_reference():
    """The set's reference says that the rotation is roll times pitch times yaw, with passive matrices."""
    for yaw in (-2.5, 0.0, 1.1):
        roll, pitch, turn = angles_of(yaw)
        pose = passive(roll, 0) @ passive(pitch, 1) @ passive(turn, 2)
        assert np.arctan2(pose[1, 2], pose[0, 2]) == pytest.approx(yaw)
        assert pose[2, 1] < -0.9  # y of the camera points down


def test_a_real_row_looks_where_the_car_drives(tmp_path):
    drive = write_drive(tmp_path, "boreas-2021-09-02-11-42")
    (drive / "applanix/camera_poses.csv").write_text(f"{HEADER}\n{REAL}\n")
    (drive / "camera/1630597336927721.png").touch()
    place = read_places("boreas", tmp_path)
    east, north = (float(word) for word in REAL.split(",")[4:6])
    assert place.yaw[0] == pytest.approx(
        np.arctan2(north, east), abs=0.15
    )  # the car turns, and the camera is ahead of it
