"""The reader of EuRoC folders, on trees written as its description says."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.readers.registry import read_places

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
