"""The reader of Boreas, on trees written as its reference describes them. One row of poses is real."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.readers import read_places
from mappable.places.table import Places

HEADER = "GPSTime,easting,northing,altitude,vel_east,vel_north,vel_up,roll,pitch,heading,angvel_z,angvel_y,angvel_x"
DOCUMENTED = "t,x,y,z,vx,vy,vz,r,p,y,wz,wy,wx"
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


def notes(places: Places) -> dict[str, tuple[str, ...]]:
    return {note.text: note.items for note in places.notes}


def test_the_test_s_own_angles_make_the_pose_of_the_reference():
    """The set's reference says that the rotation is roll times pitch times yaw, with passive matrices."""
    for yaw in (-2.5, 0.0, 1.1):
        roll, pitch, turn = angles_of(yaw)
        pose = passive(roll, 0) @ passive(pitch, 1) @ passive(turn, 2)
        assert np.arctan2(pose[1, 2], pose[0, 2]) == pytest.approx(yaw)
        assert pose[2, 1] < -0.9  # y of the camera points down


@pytest.mark.parametrize("header", [HEADER, DOCUMENTED])
def test_images_have_the_pose_with_their_time(tmp_path, header):
    places = read_places("boreas", write_drive(tmp_path, header=header).parent)
    number = np.arange(6)
    np.testing.assert_allclose(places.x, 2.5 * number, rtol=0, atol=1e-9)
    np.testing.assert_allclose(places.y, number / 3, rtol=0, atol=1e-9)
    np.testing.assert_allclose(places.z, 1 + number / 7, rtol=0, atol=1e-9)
    np.testing.assert_allclose(places.yaw, 0.3 * number, atol=1e-9)
    assert places.time.tolist() == [1000 * (START + one * 100_001) for one in range(6)]
    assert places.unit == "m"
    assert set(places.sequence) == {"boreas-2021-01-26-11-22"}
    assert set(places.condition) == {"snow"}
    assert places.path[0] == f"boreas-2021-01-26-11-22/camera/{START}.png"
    assert places.notes == ()
    assert len(read_places("boreas", tmp_path / "boreas-2021-01-26-11-22")) == 6


def test_a_real_row_looks_where_the_car_drives(tmp_path):
    drive = write_drive(tmp_path, "boreas-2021-09-02-11-42")
    (drive / "applanix/camera_poses.csv").write_text(f"{HEADER}\n{REAL}\n")
    (drive / "camera/1630597336927721.png").touch()
    place = read_places("boreas", tmp_path)
    east, north = (float(word) for word in REAL.split(",")[4:6])
    assert place.yaw[0] == pytest.approx(
        np.arctan2(north, east), abs=0.15
    )  # the car turns, and the camera is ahead of it


def test_spacing_keeps_an_image_per_so_many_metres(tmp_path):
    write_drive(tmp_path, count=40)
    places = read_places("boreas", tmp_path, spacing=10.0)
    assert np.diff(places.x).min() >= 9
    assert len(places) == 10


def test_what_is_missing_is_noted(tmp_path):
    write_drive(tmp_path)
    (tmp_path / f"boreas-2021-01-26-11-22/camera/{START}.png").unlink()
    (tmp_path / "boreas-2021-01-26-11-22/camera/1611678999999999.png").touch()
    (tmp_path / "boreas-2021-01-26-11-22/camera/readme.txt").touch()
    (tmp_path / "boreas-2021-02-09-12-55/camera").mkdir(parents=True)
    found = notes(read_places("boreas", tmp_path))
    assert found == {
        "images have no pose": ("boreas-2021-01-26-11-22/1611678999999999.png",),
        "drives have poses without an image": ("boreas-2021-01-26-11-22: 1 of 6",),
        "files are not named <microseconds>.png": ("boreas-2021-01-26-11-22/readme.txt",),
        "drives have no applanix/camera_poses.csv and were left out": ("boreas-2021-02-09-12-55",),
    }


def test_the_protocol_splits_by_date_and_region(tmp_path):
    for name in ("2020-12-01-13-26", "2021-10-15-12-35", "2021-09-14-20-00", "2021-08-05-13-34"):
        drive = write_drive(tmp_path, f"boreas-{name}")
        lines = [f"{START + n * 100_001},0,{100 * n},0,0,0,0,-1.5,0,0,0,0,0" for n in range(6)]
        (drive / "applanix/camera_poses.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    places = read_places("boreas", tmp_path, protocol="seasons")
    assert "boreas-2021-08-05-13-34" not in places.sequence
    south = places.y < 325
    assert set(zip(places.sequence[south], places.split[south], places.role[south], strict=True)) == {
        ("boreas-2020-12-01-13-26", "train", ""),
        ("boreas-2021-10-15-12-35", "calibration", ""),
        ("boreas-2021-09-14-20-00", "test", ""),
    }
    assert set(zip(places.sequence[~south], places.split[~south], places.role[~south], strict=True)) == {
        ("boreas-2020-12-01-13-26", "", "reference"),
        ("boreas-2021-09-14-20-00", "", "query"),
    }
    assert len(notes(places)["of the 11 drives of the protocol are missing"]) == 8


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,2,3", "row 3: 3 values, expected at least 13"),
        (f"{START + 1},nan,0,0,0,0,0,0,0,0,0,0,0", "row 3: column 'x' is 'nan'"),
        (f"{START + 1},0,0,0,0,0,0,400,0,0,0,0,0", "row 3: column 'roll' is '400'"),
        ("soon,0,0,0,0,0,0,0,0,0,0,0,0", "row 3: column 't' is 'soon'"),
        (f"{START - 5},0,0,0,0,0,0,0,0,0,0,0,0", f"row 3: column 't' is '{START - 5}'"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, words):
    file = write_drive(tmp_path) / "applanix/camera_poses.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], row, *lines[3:]]))
    with pytest.raises(BadInputError) as caught:
        read_places("boreas", tmp_path)
    assert f"camera_poses.csv, {words}" in str(caught.value)


def test_folders_that_are_not_boreas_are_refused(tmp_path):
    with pytest.raises(BadInputError, match="no drive found"):
        read_places("boreas", tmp_path)
    file = write_drive(tmp_path) / "applanix/camera_poses.csv"
    file.write_text(HEADER)
    with pytest.raises(BadInputError, match=r"camera_poses\.csv: no rows"):
        read_places("boreas", tmp_path)
    with pytest.raises(BadInputError, match="spacing is -1"):
        read_places("boreas", tmp_path, spacing=-1)
