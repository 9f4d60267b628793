"""The reader of EuRoC folders, on trees written as its description says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.readers import read_places

START = 1403636579763555584
FORWARD = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])  # axes of a camera that looks along x of its body
MOUNTED = np.block([[FORWARD, np.array([[0.2], [0.1], [0.5]])], [np.zeros((1, 3)), np.ones((1, 1))]])


def write(folder: Path, sensor: bool = True, truth: str = "state_groundtruth_estimate0") -> Path:
    """A body on a circle, turning; 20 poses a second, and images half-way between them."""
    (folder / "mav0/cam0/data").mkdir(parents=True)
    (folder / "mav0" / truth).mkdir()
    poses, images = ["#timestamp, p_RS_R_x [m], p_RS_R_y [m], …"], ["#timestamp [ns],filename"]
    for number in range(9):
        x, y, z, w = Rotation.from_euler("z", 0.2 * number).as_quat().tolist()
        poses.append(f"{START + number * 50_000_000},{number},{-number},1.5,{w!r},{x!r},{y!r},{z!r},0,0,0,0,0,0,0,0,0")
    for number in range(8):
        time = START + number * 50_000_000 + 25_000_000
        images.append(f"{time},{time}.png")
        (folder / f"mav0/cam0/data/{time}.png").touch()
    (folder / "mav0" / truth / "data.csv").write_text("\n".join(poses) + "\n")
    (folder / "mav0/cam0/data.csv").write_text("\r\n".join(images) + "\r\n")
    if sensor:
        data = ", ".join(repr(float(value)) for value in MOUNTED.ravel())
        text = f"sensor_type: camera\nT_BS:\n  cols: 4\n  rows: 4\n  data: [{data}]\nrate_hz: 20\n"
        (folder / "mav0/cam0/sensor.yaml").write_text(text)
    return folder


@pytest.mark.parametrize("truth", ["state_groundtruth_estimate0", "mocap0"])
def test_the_camera_is_placed_by_its_mounting(tmp_path, truth):
    places = read_places("euroc", write(tmp_path / "MH_01", truth=truth).parent)
    angle, number = 0.2 * (np.arange(8) + 0.5), np.arange(8) + 0.5
    np.testing.assert_allclose(places.yaw, angle, atol=1e-9)
    # Positions are linear between poses that are 0.2 rad apart, so they are off the circle of the mounting by 1 mm.
    np.testing.assert_allclose(places.x, number + 0.2 * np.cos(angle) - 0.1 * np.sin(angle), atol=2e-3)
    np.testing.assert_allclose(places.y, -number + 0.2 * np.sin(angle) + 0.1 * np.cos(angle), atol=2e-3)
    np.testing.assert_allclose(places.z, 2.0, atol=1e-9)
    assert places.time[0] == START + 25_000_000
    assert set(places.frame) == set(places.sequence) == {"MH_01"}
    assert places.notes == ()
    assert set(read_places("euroc", tmp_path, frame="hall").frame) == {"hall"}


def test_without_a_mounting_the_pose_of_the_body_is_used(tmp_path):
    places = read_places("euroc", write(tmp_path / "a", sensor=False))
    np.testing.assert_allclose(places.x, np.arange(8) + 0.5, rtol=0, atol=1e-6)
    assert "sensor.yaml" in " ".join(note.text for note in places.notes)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("cam0/sensor.yaml", "T_BS: [1", "sensor.yaml: no T_BS"),
        ("cam0/sensor.yaml", "T_BS: {data: [1, 2]}", "sensor.yaml: no T_BS"),
        ("cam0/sensor.yaml", f"T_BS: {{data: {[2.0] * 16}}}", "sensor.yaml: T_BS is not a pose"),
        ("cam0/data.csv", "#a,b\n1\n", "data.csv, row 2: 1 values"),
        ("cam0/data.csv", "#a,b\nsoon,a.png\n", "data.csv, row 2: column 'time' is 'soon'"),
        ("state_groundtruth_estimate0/data.csv", "#\n", "data.csv: no rows"),
        ("state_groundtruth_estimate0/data.csv", "1,0,0,nan,1,0,0,0\n", "row 1: column 'z' is 'nan'"),
        ("state_groundtruth_estimate0/data.csv", "1,0,0,0,3,0,4,0\n", "has length 5"),
    ],
)
def test_damaged_files_are_named(tmp_path, name: str, text: str, words: Any):
    (write(tmp_path) / "mav0" / name).write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_places("euroc", tmp_path)
    assert words in str(caught.value)


def test_a_folder_without_mav0(tmp_path):
    with pytest.raises(BadInputError, match="no folder mav0"):
        read_places("euroc", tmp_path)
