"""Bags of ROS 1 and ROS 2, written by rosbags' own writers: topics, positions in time, cameras, lenses, odometry."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from bag_writer import START, BagWriter, Kind, noise
from mappable.cli.app import app
from mappable.errors import BadInputError
from mappable.odometry import read_track
from mappable.places.table import Places
from mappable.readers.registry import read_places
from mappable.readers.ros_images import raw_pixels
from mappable.tables import read_table

pytestmark = pytest.mark.medium  # every image is flushed to the disk

KINDS: tuple[Kind, ...] = ("ros1", "sqlite3", "mcap")

TENTH = 10**8

# A camera's axes (z forward, x right) on a robot (x forward, y left).
FORWARD = Rotation.from_matrix(np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]]))


def drive(kind: Kind = "sqlite3", images: int = 10) -> BagWriter:
    """Poses every 0.1 s at 1 m/s to the east; images half-way between them."""
    writer = BagWriter(kind)
    for number in range(2 * images):
        writer.add_pose("/pose", START + number * TENTH, (0.1 * number, 2 - 0.05 * number, 0.5))
    for number in range(images):
        writer.add_compressed(
            "/cam/image/compressed", START + number * 2 * TENTH + TENTH // 4, noise(number)
        )
    return writer


def notes(places: Places) -> dict[str, tuple[str, ...]]:
    return {note.text: note.items for note in places.notes}


ORDERS: dict[str, list[int]] = {
    "rgb8": [0, 1, 2],
    "bgr8": [2, 1, 0],
    "rgba8": [0, 1, 2, 0],
    "bgra8": [2, 1, 0, 0],
}
# Of mono16, the second byte is the high one.
ORDERS |= {"8UC3": [2, 1, 0], "mono8": [0], "mono16": [1, 0]}


@pytest.mark.parametrize("encoding", ORDERS)
def test_every_encoding_gives_the_colors_that_were_sent(encoding: str) -> None:
    pixels, writer = (
        np.random.default_rng(5).integers(0, 255, (4, 6, 3), dtype=np.uint8),
        BagWriter("sqlite3"),
    )
    data = np.ascontiguousarray(pixels[:, :, ORDERS[encoding]]).tobytes()
    writer.add_image("/image", START, data, encoding, (6, 4))
    expected = np.repeat(pixels[:, :, :1], 3, axis=2) if encoding.startswith("mono") else pixels
    assert np.array_equal(raw_pixels(writer.messages[0][2]), expected)


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_a_bayer_mosaic_of_one_color_is_that_color(pattern: str) -> None:
    color, writer = {"r": 200, "g": 120, "b": 40}, BagWriter("sqlite3")
    mosaic = np.array(
        [[color[pattern[2 * (row % 2) + column % 2]] for column in range(6)] for row in range(4)]
    )
    writer.add_image(
        "/image", START, mosaic.astype(np.uint8).tobytes(), f"bayer_{pattern}8", (6, 4)
    )
    assert np.array_equal(raw_pixels(writer.messages[0][2]), np.full((4, 6, 3), (200, 120, 40)))


def test_the_transform_tree_places_the_camera_and_turns_it(tmp_path: Path) -> None:
    """The robot turns left at 1 rad/s; its camera is 0.3 m ahead, 0.1 m to the left, and looks 30
    degrees right.
    """
    writer = BagWriter("ros1")
    right = Rotation.from_euler("z", -30, degrees=True)
    writer.add_transform(START, "base_link", "mast", (0.3, 0, 0), right.as_quat())
    inside = right.inv().apply((0, 0.1, 0.8))
    writer.add_transform(START, "mast", "camera_optical", inside, FORWARD.as_quat())
    for number in range(11):
        turn = Rotation.from_euler("z", 0.1 * number)
        writer.add_odometry("/odom", START + number * TENTH, (5, 7, 0), turn.as_quat())
        writer.add_image("/image", START + number * TENTH, noise(0).tobytes(), "rgb8", (32, 24))
    places = read_places("rosbag", writer.write(tmp_path, "run"), spacing=0)
    angle = 0.1 * np.arange(11)
    np.testing.assert_allclose(places.yaw, angle - math.radians(30), atol=1e-9)
    np.testing.assert_allclose(places.x, 5 + 0.3 * np.cos(angle) - 0.1 * np.sin(angle), atol=1e-6)
    np.testing.assert_allclose(places.y, 7 + 0.3 * np.sin(angle) + 0.1 * np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(places.z, 0.8, atol=1e-6)
    assert "drifts" in " ".join(notes(places))


@pytest.mark.parametrize("kind", KINDS)
def test_transforms_can_be_the_positions(tmp_path: Path, kind: Kind) -> None:
    """The robot drives along x of odom, which lies turned and shifted in the map; the map learns
    that after 0.25 s.
    """
    writer = BagWriter(kind)
    quarter = Rotation.from_euler("z", 90, degrees=True).as_quat()
    writer.add_transform(START, "base_link", "camera_optical", (0, 0, 1), FORWARD.as_quat())
    for number in range(10):
        time = START + number * TENTH
        writer.add_transform(time, "odom", "base_link", (number, 0, 0), (0, 0, 0, 1), "/tf")
        if number % 3 == 0 and number:
            writer.add_transform(time - TENTH // 2, "map", "odom", (10, 20, 0), quarter, "/tf")
        writer.add_image("/image", time, noise(number).tobytes(), "rgb8", (32, 24))
    bag = writer.write(tmp_path, "run")
    places = read_places("rosbag", bag, pose_topic="/tf", spacing=0)
    np.testing.assert_allclose(places.x, 10, rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.y, 20 + np.arange(3, 10), rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.yaw, np.pi / 2, atol=1e-9)
    np.testing.assert_allclose(places.z, 1, rtol=0, atol=1e-6)
    assert len(read_places("rosbag", bag, pose_topic="/tf", world="odom", spacing=0)) == 10
    assert "do not lead from base_link to earth" in refused(bag, pose_topic="/tf", world="earth")
    assert "does not move in base_link" in refused(bag, pose_topic="/tf", world="base_link")


@pytest.mark.parametrize("kind", KINDS)
def test_odometry_is_kept_with_its_covariance(tmp_path: Path, kind: Kind) -> None:
    writer = drive(kind)
    for number in range(8):
        turn = Rotation.from_euler("z", 0.2 * number).as_quat()
        writer.add_odometry(
            "/odom",
            START + number * TENTH,
            (number, -number, 3),
            turn,
            variance=0.25 * (number > 3),
        )
    bag = writer.write(tmp_path, "run")
    places = read_places("rosbag", bag)
    file = places.root / "run-frames/odometry.parquet"
    track, steps = read_track(file), np.arange(8)
    np.testing.assert_allclose(track.seconds, (START + steps * TENTH) / 1e9)
    np.testing.assert_allclose(track.positions, np.column_stack([steps, -steps]), atol=1e-9)
    np.testing.assert_allclose(np.arctan2(*track.frames[:, ::-1, 0].T), 0.2 * steps, atol=1e-9)
    covariance = read_table(file).at([0, 7])
    assert [covariance.columns[name] for name in ("xx", "xy", "yy", "yaw_yaw")] == [
        ["", "0.25"],
        ["", "0.0"],
        ["", "0.25"],
        ["", "0.25"],
    ]


@pytest.mark.parametrize("kind", ["ros1", "mcap"])
def test_camera_info_undistorts(tmp_path: Path, kind: Kind) -> None:
    """A picture of concentric rings, drawn through the lens by the test's own formula, becomes
    rings again.
    """
    size, focal, k1 = (64, 48), 60.0, -0.4
    row, column = np.mgrid[:48, :64]

    def rings(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        wave = 127 + 90 * np.sin(18 * np.hypot(x, y))
        return np.repeat(wave[..., None], 3, axis=2).round().astype(np.uint8)

    x, y = (column - 32) / focal, (row - 24) / focal
    bent = np.hypot(x, y)
    straight = bent.copy()
    for _ in range(50):  # invert r (1 + k1 r^2) by fixed-point steps
        straight = bent / (1 + k1 * straight**2)
    factor = np.where(bent > 0, straight / np.where(bent > 0, bent, 1), 1)
    writer = BagWriter(kind)
    writer.add_camera_info("/cam/camera_info", START, size, focal, (k1, 0, 0, 0, 0))
    for number in range(2):
        writer.add_pose("/pose", START + number * TENTH, (number, 0, 0))
        writer.add_image(
            "/cam/image_raw",
            START + number * TENTH,
            rings(x * factor, y * factor).tobytes(),
            "rgb8",
            size,
        )
    bag = writer.write(tmp_path, "run")
    inner = (slice(8, 40), slice(8, 56))
    found = np.asarray(Image.open(read_places("rosbag", bag).files[0])).astype(int)
    assert np.abs(found - rings(x, y))[inner].mean() < 5
    as_sent = read_places("rosbag", bag, undistort=False, frames=tmp_path / "as-sent").files[0]
    assert np.abs(np.asarray(Image.open(as_sent)).astype(int) - rings(x, y))[inner].mean() > 10


def refused(root: Path, **options: Any) -> str:
    with pytest.raises(BadInputError) as caught:
        read_places("rosbag", root, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_command_line_lists_topics_and_converts(tmp_path: Path) -> None:
    bag, run = drive("mcap").write(tmp_path, "monday"), CliRunner().invoke
    shown = run(app, ["convert", "auto", str(bag)])
    assert shown.exit_code == 0, shown.output
    assert "/cam/image/compressed" in shown.output
    assert "sensor_msgs/msg/CompressedImage" in shown.output
    done = run(
        app, ["convert", "rosbag", str(bag), str(tmp_path / "out"), "--size", "16x12", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["places"] == 9
