"""Bags of ROS 1 and ROS 2, written by rosbags' own writers: topics, positions in time, cameras, lenses, odometry."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyproj import Geod
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from bag_writer import START, BagWriter, Kind, noise
from mappable.cli.app import app
from mappable.errors import BadInputError, MappableError
from mappable.places.bag_logs import read_bag_odometry
from mappable.places.odometry import load_odometry
from mappable.places.readers import read_places
from mappable.places.ros_images import raw_pixels
from mappable.places.table import Places

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
        writer.add_compressed("/cam/image/compressed", START + number * 2 * TENTH + TENTH // 4, noise(number))
    return writer


def notes(places: Places) -> dict[str, tuple[str, ...]]:
    return {note.text: note.items for note in places.notes}


def listed(places: Places, words: str) -> tuple[str, ...]:
    found = [note.items for note in places.notes if words in note.text]
    assert len(found) == 1, [note.text for note in places.notes]
    return found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_positions_lie_between_the_poses_and_images_are_the_camera_s_own_bytes(tmp_path: Path, kind: Kind) -> None:
    writer = drive(kind)
    sent = writer.add_compressed("/cam/image/compressed", START + 20 * TENTH - TENTH, noise(99), "PNG")
    bag = writer.write(tmp_path, "monday")
    places = read_places("rosbag", bag, spacing=0)
    seconds = np.array([*(0.2 * np.arange(10) + 0.025), 1.9])
    np.testing.assert_allclose(places.x, seconds, rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.y, 2 - 0.5 * seconds, rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.z, 0.5, rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.yaw, 0, atol=1e-12)
    assert (places.time - START).tolist() == [n * 2 * TENTH + TENTH // 4 for n in range(10)] + [19 * TENTH]
    assert set(places.sequence) == {"monday"}
    assert places.unit == "m"
    assert places.path[-1] == f"monday-frames/{START + 19 * TENTH}.png"
    assert places.files[-1].read_bytes() == sent
    assert read_places("rosbag", tmp_path, spacing=0) == places


@pytest.mark.parametrize("kind", ["sqlite3", "mcap"])
def test_the_storage_file_of_a_ros_2_bag_may_be_the_root(tmp_path: Path, kind: Kind) -> None:
    bag = drive(kind).write(tmp_path, "monday")
    file = next(file for file in bag.iterdir() if file.suffix in (".db3", ".mcap"))
    assert len(read_places("rosbag", file, spacing=0)) == 10


def test_spacing_counts_metres_along_the_track(tmp_path: Path) -> None:
    bag = drive().write(tmp_path, "monday")
    places = read_places("rosbag", bag, spacing=0.5)
    assert np.diff(places.x).min() > 0.35
    assert len(places) == 5
    assert len(list((tmp_path / "monday-frames").glob("*.jpg"))) == 5


def test_a_second_run_writes_nothing_and_another_bag_may_not_use_the_folder(tmp_path: Path) -> None:
    bag = drive().write(tmp_path, "monday")
    first = read_places("rosbag", bag, spacing=0)
    first.files[3].unlink()
    before = {file: file.stat().st_mtime_ns for file in first.files if file.exists()}
    assert read_places("rosbag", bag, spacing=0) == first
    assert first.files[3].exists()
    assert {file: file.stat().st_mtime_ns for file in before} == before
    other = drive(images=5).write(tmp_path / "other", "monday")
    (tmp_path / "monday-frames").rename(tmp_path / "other/monday-frames")
    assert "monday-frames" in refused(other, spacing=0)


def colors(width: int = 6, height: int = 4) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).integers(0, 255, (height, width, 3), dtype=np.uint8)


def packed(encoding: str, pixels: np.ndarray[Any, Any]) -> bytes:
    """The bytes of a picture in an encoding, written out pixel by pixel."""
    out = bytearray()
    for row in pixels.tolist():
        for red, green, blue in row:
            one = {"rgb8": (red, green, blue), "bgr8": (blue, green, red), "rgba8": (red, green, blue, 9)}
            one |= {"bgra8": (blue, green, red, 9), "mono8": (red,), "mono16": (77, red), "8UC3": (blue, green, red)}
            out += bytes(one[encoding])
    return bytes(out)


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "bgra8", "8UC3", "mono8", "mono16"])
def test_every_encoding_gives_the_colors_that_were_sent(encoding: str) -> None:
    pixels = colors()
    writer = BagWriter("sqlite3")
    writer.add_image("/image", START, packed(encoding, pixels), encoding, (6, 4))
    found = raw_pixels(writer.messages[0][2])
    expected = np.repeat(pixels[:, :, :1], 3, axis=2) if encoding.startswith("mono") else pixels
    assert np.array_equal(found, expected)


def test_rows_may_be_padded() -> None:
    pixels, writer = colors(), BagWriter("sqlite3")
    lines = np.pad(np.frombuffer(packed("rgb8", pixels), np.uint8).reshape(4, 18), ((0, 0), (0, 6)))
    writer.add_image("/image", START, lines.tobytes()[:-6], "rgb8", (6, 4), step=24)
    assert np.array_equal(raw_pixels(writer.messages[0][2]), pixels)


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_a_bayer_mosaic_of_one_color_is_that_color(pattern: str) -> None:
    color, writer = {"r": 200, "g": 120, "b": 40}, BagWriter("sqlite3")
    mosaic = np.array([[color[pattern[2 * (row % 2) + column % 2]] for column in range(6)] for row in range(4)])
    writer.add_image("/image", START, mosaic.astype(np.uint8).tobytes(), f"bayer_{pattern}8", (6, 4))
    assert np.array_equal(raw_pixels(writer.messages[0][2]), np.full((4, 6, 3), (200, 120, 40)))


@pytest.mark.parametrize("encoding", ["yuv422", "yuv422_yuy2"])
def test_yuv_images_keep_their_color(encoding: str) -> None:
    y, u, v = Image.new("RGB", (1, 1), (180, 90, 60)).convert("YCbCr").getpixel((0, 0))
    quad = (u, y, v, y) if encoding == "yuv422" else (y, u, y, v)
    writer = BagWriter("sqlite3")
    writer.add_image("/image", START, bytes(quad) * 12, encoding, (6, 4))
    found = raw_pixels(writer.messages[0][2]).astype(int)
    assert np.abs(found - (180, 90, 60)).max() <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_raw_images_become_jpeg_files(tmp_path: Path, kind: Kind) -> None:
    writer = BagWriter(kind)
    for number in range(3):
        writer.add_pose("/pose", START + number * TENTH, (number, 0, 0))
        writer.add_image("/image", START + number * TENTH, noise(number).tobytes(), "rgb8", (32, 24))
    places = read_places("rosbag", writer.write(tmp_path, "run"), spacing=0)
    for number, file in enumerate(places.files):
        assert np.abs(np.asarray(Image.open(file)).astype(int) - noise(number)).mean() < 4


def test_the_transform_tree_places_the_camera_and_turns_it(tmp_path: Path) -> None:
    """The robot turns left at 1 rad/s; its camera is 0.3 m ahead, 0.1 m to the left, and looks 30 degrees right."""
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
    """The robot drives along x of odom, which lies turned and shifted in the map; the map learns that after 0.25 s."""
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


def test_a_joint_between_robot_and_camera_is_noted(tmp_path: Path) -> None:
    writer = drive("ros1")
    for number in range(5):
        turn = Rotation.from_euler("z", 0.3 * number) * FORWARD
        writer.add_transform(START + number, "base_link", "camera_optical", (0, 0, 1), turn.as_quat(), "/tf")
    places = read_places("rosbag", writer.write(tmp_path, "run"), spacing=0)
    assert listed(places, "transform trees do not give") == ("run.bag: camera_optical on base_link",)
    np.testing.assert_allclose(places.yaw, 0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_fixes_of_several_bags_share_one_frame_in_metres(tmp_path: Path, kind: Kind) -> None:
    for day, shift in (("monday", 0.0), ("tuesday", 0.001)):
        writer = BagWriter(kind)
        for number in range(4):
            writer.add_fix("/fix", START + number * 10 * TENTH, 51.75 + 1e-4 * number, -1.25 + shift)
            writer.add_compressed("/image", START + number * 10 * TENTH, noise(number))
        writer.add_fix("/fix", START + 35 * TENTH, math.nan, math.nan, status=-1)
        writer.write(tmp_path, day)
    places = read_places("rosbag", tmp_path, spacing=0, heading="course")
    assert list(places.sequences()) == ["monday", "tuesday"]
    assert {frame.crs for frame in places.frames.values()} == {"EPSG:32630"}
    _, _, metres = Geod(ellps="WGS84").inv(-1.25, 51.75, -1.25 + 0.001, 51.75)
    assert abs(places.positions[4] - places.positions[0])[0] == pytest.approx(metres, rel=1e-3)
    assert len(listed(places, "no position")) == 2
    assert places.z == pytest.approx([12.5] * 8)
    np.testing.assert_allclose(np.rad2deg(places.yaw), 90, atol=2)


def test_bags_have_own_frames_unless_the_user_states_that_they_share_one(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        drive("ros1", 3).write(tmp_path, day)
    assert set(read_places("rosbag", tmp_path).frame) == {"monday", "tuesday"}
    assert set(read_places("rosbag", tmp_path, frame="hall").frame) == {"hall"}


@pytest.mark.parametrize("kind", KINDS)
def test_odometry_is_kept_with_its_covariance(tmp_path: Path, kind: Kind) -> None:
    writer = drive(kind)
    for number in range(8):
        turn = Rotation.from_euler("z", 0.2 * number).as_quat()
        writer.add_odometry("/odom", START + number * TENTH, (number, -number, 3), turn, variance=0.25 * (number > 3))
    bag = writer.write(tmp_path, "run")
    places = read_places("rosbag", bag)
    kept = load_odometry(places.root / "run-frames/odometry.parquet")
    np.testing.assert_array_equal(read_bag_odometry(bag).pose, kept.pose)
    with pytest.raises(BadInputError, match="/nowhere"):
        read_bag_odometry(bag, "/nowhere")
    assert (kept.time - START).tolist() == [number * TENTH for number in range(8)]
    steps = np.arange(8)
    np.testing.assert_allclose(kept.pose, np.column_stack([steps, -steps, 0.2 * steps]), atol=1e-9)
    assert np.isnan(kept.covariance[:4]).all()
    assert kept.covariance[4:].tolist() == [[0.25, 0, 0.25, 0.25]] * 4


@pytest.mark.parametrize("kind", ["ros1", "mcap"])
def test_camera_info_undistorts(tmp_path: Path, kind: Kind) -> None:
    """A picture of concentric rings, drawn through the lens by the test's own formula, becomes rings again."""
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
            "/cam/image_raw", START + number * TENTH, rings(x * factor, y * factor).tobytes(), "rgb8", size
        )
    bag = writer.write(tmp_path, "run")
    inner = (slice(8, 40), slice(8, 56))
    found = np.asarray(Image.open(read_places("rosbag", bag).files[0])).astype(int)
    assert np.abs(found - rings(x, y))[inner].mean() < 5
    as_sent = read_places("rosbag", bag, undistort=False, frames=tmp_path / "as-sent").files[0]
    assert np.abs(np.asarray(Image.open(as_sent)).astype(int) - rings(x, y))[inner].mean() > 10


def test_a_header_without_a_time_counts_with_the_time_of_recording(tmp_path: Path) -> None:
    writer = drive()
    writer.add_image("/raw", START + 5 * TENTH, noise(1).tobytes(), "rgb8", (32, 24), stamp=0)
    places = read_places("rosbag", writer.write(tmp_path, "run"), image_topic="/raw")
    assert places.x == pytest.approx([0.5])
    assert listed(places, "no time in their header") == ("run/0",)


def test_times_may_go_back_and_repeat(tmp_path: Path) -> None:
    writer = drive(images=4)
    writer.messages += [writer.messages[-3], writer.messages[-1]]
    writer.messages = [(START + order, *one[1:]) for order, one in enumerate(writer.messages)]
    places = read_places("rosbag", writer.write(tmp_path, "run"), spacing=0)
    assert len(places) == 4
    assert listed(places, "have the time of another") == ("run/4", "run/5")


def test_images_in_a_gap_and_outside_are_listed(tmp_path: Path) -> None:
    writer = BagWriter("ros1")
    for second in (0, 1, 9, 10):
        writer.add_pose("/pose", START + second * 10**9, (second, 0, 0))
    for second in range(-1, 12):
        writer.add_compressed("/image", START + second * 10**9, noise(1))
    places = read_places("rosbag", writer.write(tmp_path, "run"), spacing=0)
    assert places.x.tolist() == [0, 1, 9, 10]
    assert len(listed(places, "in a gap")) == 1
    assert len(listed(places, "outside their track")) == 2


# Errors: one sentence that names the file, the topic and the value.


def refused(root: Path, **options: Any) -> str:
    with pytest.raises(BadInputError) as caught:
        read_places("rosbag", root, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_topics_that_do_not_exist_or_are_several(tmp_path: Path) -> None:
    writer = drive("ros1")
    writer.add_pose("/slam/pose", START, (0, 0, 0))
    writer.add_pose("/goal_pose", START, (9, 9, 0))
    writer.add_compressed("/back/image", START, noise(1))
    bag = writer.write(tmp_path, "run")
    assert "/back/image, /cam/image/compressed" in refused(bag)
    assert "/pose, /slam/pose" in refused(bag, image_topic="/back/image")
    assert "'/front'" in refused(bag, image_topic="/front")
    assert "geometry_msgs" in refused(bag, image_topic="/pose")
    only_images = BagWriter("mcap")
    only_images.add_compressed("/image", START, noise(1))
    assert "no pose topic" in refused(only_images.write(tmp_path, "bare"))


def test_positions_that_are_no_numbers(tmp_path: Path) -> None:
    writer = drive("ros1", 3)
    writer.messages = [one for one in writer.messages if one[1] != "/pose"]
    for number in range(4):
        writer.add_pose("/pose", START + number * TENTH, (math.nan, 0, 0))
    assert "topic /pose: none of 4 messages" in refused(writer.write(tmp_path, "nan"))
    writer = drive("ros1", 3)
    writer.add_pose("/pose", START + 9 * TENTH, (1, 0, 0), (0, 0, 3, 4))
    assert "topic /pose, message 6: the quaternion 0 0 3 4 has length 5" in refused(writer.write(tmp_path, "turn"))


@pytest.mark.parametrize(
    ("encoding", "size", "words"),
    [
        ("rgb8", (1 << 31, 1 << 31), "pixels"),
        ("rgb8", (32, 4000), "bytes"),
        ("32FC1", (32, 24), "encoding is '32FC1'"),
        ("bayer_xyzw8", (32, 24), "xyzw"),
    ],
)
def test_images_of_absurd_size_or_kind(tmp_path: Path, encoding: str, size: tuple[int, int], words: str) -> None:
    writer = BagWriter("ros1")
    for number in range(2):
        writer.add_pose("/pose", START + number * TENTH, (number, 0, 0))
        writer.add_image("/image", START + number * TENTH, noise(1).tobytes(), encoding, size, step=96)
    text = refused(writer.write(tmp_path, "run"))
    assert "run.bag, topic /image, message 0" in text
    assert words in text


def test_topics_without_messages(tmp_path: Path) -> None:
    writer = drive("ros1", 3)
    writer.messages = [one for one in writer.messages if one[1] == "/pose"]
    assert "no image topic" in refused(writer.write(tmp_path, "blind"))
    writer = drive("ros1", 3)
    writer.messages = [one for one in writer.messages if one[1] != "/pose"]
    assert "no pose topic" in refused(writer.write(tmp_path, "lost"))


def test_a_damaged_compressed_image_names_its_message(tmp_path: Path) -> None:
    writer = drive("mcap")
    writer.add_bytes("/depth", START, b"\x00" * 40, "16UC1; compressedDepth png")
    writer.add_bytes("/broken", START, b"\x00" * 40, "webp")
    bag = writer.write(tmp_path, "run")
    assert "topic /depth, message 0: format" in refused(bag, image_topic="/depth")
    assert "topic /broken, message 0" in refused(bag, image_topic="/broken")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_a_half_copied_bag_is_named(tmp_path: Path, kind: Kind, share: float) -> None:
    bag = drive(kind).write(tmp_path, "run")
    file = bag if bag.is_file() else next(one for one in bag.iterdir() if one.suffix in (".db3", ".mcap"))
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    assert str(bag) in refused(bag)


def test_a_clock_that_was_set_back_is_refused(tmp_path: Path) -> None:
    writer = drive("ros1", 50)
    for number in range(50):
        writer.add_pose("/pose", START + number * TENTH, (900 + number, 0, 0))
    # A bag yields its messages in the order of recording, whatever their headers say.
    writer.messages = [(START + order, *one[1:]) for order, one in enumerate(writer.messages)]
    assert "topic /pose, message 100: has the time" in refused(writer.write(tmp_path, "run"))


def test_without_the_package_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bag = drive("ros1", 3).write(tmp_path, "run")
    monkeypatch.setitem(sys.modules, "rosbags.rosbag1", None)
    with pytest.raises(MappableError, match=r"rosbags.*mappable\[ros\]"):
        read_places("rosbag", bag)


def test_a_folder_without_bags(tmp_path: Path) -> None:
    assert "no bag" in refused(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert "'.txt'" in refused(tmp_path / "notes.txt")


def test_the_command_line_lists_topics_and_converts(tmp_path: Path) -> None:
    bag, run = drive("mcap").write(tmp_path, "monday"), CliRunner().invoke
    shown = run(app, ["convert", "rosbag", str(bag), "--list"])
    assert shown.exit_code == 0, shown.output
    assert "/cam/image/compressed" in shown.output
    assert "sensor_msgs/msg/CompressedImage" in shown.output
    assert run(app, ["convert", "rosbag", str(bag)]).exit_code == 2
    done = run(app, ["convert", "rosbag", str(bag), str(tmp_path / "out"), "--size", "16x12", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["places"] == 9
