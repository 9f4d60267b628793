"""The reader of TUM RGB-D folders and trajectories, on trees written as the benchmark's archives unpack."""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from mappable.errors import BadInputError
from mappable.places.readers import read_places
from mappable.places.table import Places

# The camera's axes (x right, y down, z forward) in a room with z up, for a camera that looks along +x (east).
LOOKING_EAST = Rotation.from_matrix(np.array([[0, -1, 0], [0, 0, -1], [1, 0, 0]]).T)
LEVEL = "0.5 -0.5 0.5 -0.5"  # the same as a quaternion
HEADER = "# color images\n# file: 'rgbd_dataset_freiburg1_xyz.bag'\n# timestamp filename\n"
TRAJECTORY_HEADER = "# ground truth trajectory\n# file: 'x.bag'\n# timestamp tx ty tz qx qy qz qw\n"


def write_folder(
    folder: Path, poses: Sequence[str], images: Sequence[str], trajectory: str = "groundtruth.txt"
) -> None:
    """A folder whose images, named by their times, are listed in rgb.txt."""
    (folder / "rgb").mkdir(parents=True)
    for time in images:
        (folder / "rgb" / f"{time}.png").write_bytes(b"not opened by the reader")
    lines = "".join(f"{time} rgb/{time}.png\n" for time in images)
    (folder / "rgb.txt").write_text(HEADER + lines)
    (folder / trajectory).write_text(TRAJECTORY_HEADER + "".join(f"{pose}\n" for pose in poses))


def pose(time: str, position: Sequence[float], rotation: Rotation = LOOKING_EAST, style: str = ".6f") -> str:
    return " ".join([time, *(f"{value:{style}}" for value in (*position, *rotation.as_quat()))])


def turned(degrees: float, about: str = "z") -> Rotation:
    return Rotation.from_euler(about, degrees, degrees=True) * LOOKING_EAST


def notes(places: Places) -> dict[str, tuple[str, ...]]:
    return {note.text: note.items for note in places.notes}


def test_the_test_camera_looks_east_with_its_top_up():
    assert LOOKING_EAST.apply([0, 0, 1]) == pytest.approx([1, 0, 0])
    assert LOOKING_EAST.apply([0, -1, 0]) == pytest.approx([0, 0, 1])
    given_as_text = Rotation.from_quat([float(word) for word in LEVEL.split()])
    assert (given_as_text.inv() * LOOKING_EAST).magnitude() == pytest.approx(0, abs=1e-12)


def test_positions_and_yaws_lie_between_the_poses(tmp_path):
    room = tmp_path / "rgbd_dataset_freiburg1_xyz"
    poses = [pose("1305031102.10", (1, 2, 3), turned(0)), pose("1305031102.20", (2, 4, 2), turned(40))]
    write_folder(room, poses, ["1305031102.125000", "1305031102.200000"])
    places = read_places("tum", room)
    assert places.positions == pytest.approx(np.array([[1.25, 2.5], [2, 4]]))
    assert places.z == pytest.approx([2.75, 2])
    assert np.rad2deg(places.yaw) == pytest.approx([10, 40], abs=1e-3)
    assert places.unit == "m"
    assert places.notes == ()


def test_paths_ids_and_names_are_the_same_for_a_folder_and_for_one_above_it(tmp_path):
    write_folder(tmp_path / "fr1_desk", [f"1 0 0 0 {LEVEL}"], ["1"])
    inside, above = read_places("tum", tmp_path / "fr1_desk"), read_places("tum", tmp_path)
    assert inside.path.tolist() == ["rgb/1.png"]
    assert above.path.tolist() == ["fr1_desk/rgb/1.png"]
    for places in (inside, above):
        assert places.place_id.tolist() == ["fr1_desk/1"]
        assert places.sequence.tolist() == places.frame.tolist() == ["fr1_desk"]
        assert places.files[0].is_file()


def test_several_folders_are_sequences_in_frames_of_their_own(tmp_path):
    for name in ("fr1_desk", "fr2_desk"):
        write_folder(tmp_path / name, [f"1 0 0 0 {LEVEL}", f"1.1 1 0 0 {LEVEL}"], ["1", "1.05"])
    places = read_places("tum", tmp_path)
    assert places.sequence.tolist() == places.frame.tolist() == ["fr1_desk"] * 2 + ["fr2_desk"] * 2
    assert sorted(places.frames) == ["fr1_desk", "fr2_desk"]


def test_folders_without_a_trajectory_or_without_images_are_noted(tmp_path):
    for name in ("a", "b", "c"):
        write_folder(tmp_path / name, [f"1 0 0 0 {LEVEL}"], ["1"])
    (tmp_path / "b" / "groundtruth.txt").unlink()
    (tmp_path / "c" / "rgb.txt").unlink()
    (tmp_path / "c" / "rgb").rename(tmp_path / "c" / "depth")
    (tmp_path / "notes").mkdir()
    places = read_places("tum", tmp_path)
    assert places.sequence.tolist() == ["a"]
    assert notes(places) == {
        "folders have no groundtruth.txt": ("b",),
        "folders have none of: rgb.txt, rgb, images": ("c",),
    }


def test_a_folder_without_any_trajectory_is_refused(tmp_path):
    with pytest.raises(BadInputError, match=r"groundtruth\.txt.*folder"):
        read_places("tum", tmp_path)
    write_folder(tmp_path / "room", [], [])
    with pytest.raises(BadInputError, match=r"groundtruth\.txt.*poses"):
        read_places("tum", tmp_path)


def test_a_file_is_refused_as_root(tmp_path):
    write_folder(tmp_path / "room", [f"1 0 0 0 {LEVEL}"], ["1"])
    with pytest.raises(BadInputError, match=r"file.*groundtruth\.txt"):
        read_places("tum", tmp_path / "room" / "groundtruth.txt")


@pytest.mark.parametrize("folder", ["rgb", "images"])
def test_without_a_list_images_are_found_by_their_times(tmp_path, folder):
    write_folder(tmp_path, [f"10 0 0 0 {LEVEL}", f"10.1 1 0 0 {LEVEL}"], ["10.000000", "10.05"])
    (tmp_path / "rgb.txt").unlink()
    (tmp_path / "rgb").rename(tmp_path / folder)
    for name in ("cover.png", "1e1.png", "1403636579763555584.png", "notes.md", ".10.png"):
        (tmp_path / folder / name).touch()
    places = read_places("tum", tmp_path)
    assert places.path.tolist() == [f"{folder}/10.000000.png", f"{folder}/10.05.png"]
    assert places.x == pytest.approx([0, 0.5])
    assert notes(places) == {
        "image names are not times in seconds": (
            f"{folder}/1403636579763555584.png",
            f"{folder}/1e1.png",
            f"{folder}/cover.png",
        )
    }


def test_the_trajectory_and_the_images_can_be_named(tmp_path):
    write_folder(tmp_path, [f"10 7 0 0 {LEVEL}"], ["10"], trajectory="CameraTrajectory.txt")
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "10.0.jpg").touch()
    (tmp_path / "left.txt").write_text("10 left/10.0.jpg\n")
    for images in ("left", "left.txt"):
        places = read_places("tum", tmp_path, trajectory="CameraTrajectory.txt", images=images)
        assert places.path.tolist() == ["left/10.0.jpg"]
        assert places.x.tolist() == [7]
    with pytest.raises(BadInputError, match=r"1.*right\.txt"):
        read_places("tum", tmp_path, trajectory="CameraTrajectory.txt", images="right.txt")


def test_images_outside_the_trajectory_or_in_a_gap_are_noted(tmp_path):
    poses = [f"{time} 0 0 0 {LEVEL}" for time in ("10", "10.1", "11", "11.1")]
    write_folder(tmp_path / "room", poses, ["9.999999", "10", "10.05", "10.5", "11", "11.1", "11.100001"])
    places = read_places("tum", tmp_path / "room")
    assert places.path.tolist() == [f"rgb/{time}.png" for time in ("10", "10.05", "11", "11.1")]
    assert notes(places) == {
        "images are outside the trajectory": ("rgb/9.999999.png", "rgb/11.100001.png"),
        "images are in a gap of more than 0.2 s in the trajectory": ("rgb/10.5.png (0.9 s)",),
    }
    patient = read_places("tum", tmp_path / "room", max_gap_s=1.0)
    assert len(patient) == 5


def test_a_gap_of_just_the_allowed_length_is_no_gap(tmp_path):
    write_folder(tmp_path / "room", [f"10 0 0 0 {LEVEL}", f"10.2 1 0 0 {LEVEL}"], ["10.1"])
    assert read_places("tum", tmp_path / "room", max_gap_s=0.2).x == pytest.approx([0.5])


def test_a_quaternion_that_is_not_quite_of_length_1_is_made_so(tmp_path):
    rotation = Rotation.from_euler("zx", [50, 20], degrees=True)
    words = " ".join(f"{value:.9f}" for value in 1.02 * rotation.as_quat())
    write_folder(tmp_path / "robot", [f"1 0 0 0 {words}"], ["1"])
    forward = rotation.apply([1, 0, 0])
    expected = np.arctan2(forward[1], forward[0])
    assert read_places("tum", tmp_path / "robot", looking="x").yaw == pytest.approx([expected], abs=1e-7)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_a_gap_that_is_not_positive_is_refused(tmp_path, value):
    write_folder(tmp_path / "room", [f"1 0 0 0 {LEVEL}"], ["1"])
    with pytest.raises(BadInputError, match=r"max_gap_s.*0"):
        read_places("tum", tmp_path / "room", max_gap_s=value)


def test_camera_coordinates_lie_in_the_plane_of_x_and_z(tmp_path):
    left = Rotation.from_euler("y", -30, degrees=True)  # about the axis that points down
    write_folder(tmp_path / "slam", [pose("1", (1, 2, 3), left)], ["1"])
    places = read_places("tum", tmp_path / "slam", plane="xz")
    assert (places.x[0], places.y[0], places.z[0]) == (1, 3, -2)
    assert np.rad2deg(places.yaw) == pytest.approx([120], abs=1e-4)
    assert places.frames["slam"].to_original(np.array([[1.0, 3.0, -2.0]])).tolist() == [[1, 2, 3]]


def test_a_robots_body_looks_along_its_x_axis(tmp_path):
    write_folder(tmp_path / "robot", [pose("1", (0, 0, 0), Rotation.from_euler("z", 50, degrees=True))], ["1"])
    assert np.rad2deg(read_places("tum", tmp_path / "robot", looking="x").yaw) == pytest.approx([50], abs=1e-4)


def test_a_camera_that_looks_down_has_no_yaw_and_is_noted(tmp_path):
    write_folder(tmp_path / "room", [pose("1", (0, 0, 0), turned(90, about="y")), pose("2", (0, 0, 0))], ["1", "2"])
    places = read_places("tum", tmp_path / "room")
    assert np.isnan(places.yaw).tolist() == [True, False]
    assert notes(places) == {"images look straight up or down, so their yaw is unknown": ("rgb/1.png",)}


def test_poses_out_of_order_are_sorted_and_noted(tmp_path):
    poses = [f"{time} {10 * float(time)} 0 0 {LEVEL}" for time in ("1", "1.3", "1.1", "1.2", "1.4")]
    write_folder(tmp_path / "room", poses, ["1.15"])
    places = read_places("tum", tmp_path / "room")
    assert places.x == pytest.approx([11.5])
    assert notes(places) == {
        "poses were out of time order in their trajectory and were sorted": (
            "room/groundtruth.txt, row 6",
            "room/groundtruth.txt, row 7",
        )
    }


def test_of_poses_of_one_time_the_first_is_taken_and_the_others_noted(tmp_path):
    poses = [f"{time} {x} 0 0 {LEVEL}" for time, x in (("1", 0), ("1.1", 1), ("1.10", 5), ("1.2", 2))]
    write_folder(tmp_path / "room", poses, ["1.1", "1.15"])
    places = read_places("tum", tmp_path / "room")
    assert places.x == pytest.approx([1, 1.5])
    assert notes(places) == {
        "poses have the same time as another pose and were left out": ("room/groundtruth.txt, row 6",)
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 0 0 0 0 0 0 0", "the quaternion 0 0 0 0 has length 0, not 1"),
        ("1 0 0 0 0 0 0 2.5", "the quaternion 0 0 0 2.5 has length 2.5, not 1"),
        ("1 0 nan 0 0 0 0 1", "column 'y' is 'nan', expected a finite number"),
        ("1 0 0 -inf 0 0 0 1", "column 'z' is '-inf', expected a finite number"),
        ("1 0 0 0 nan 0 0 1", "column 'qx' is 'nan', expected a finite number"),
        ("1 0 north 0 0 0 0 1", "column 'y' is 'north', expected a number"),
        ("soon 0 0 0 0 0 0 1", "column 'time' is 'soon', expected a time in s or in ISO 8601"),
        ("1 0 0 0 0 0 1", "7 values, expected 8"),
        ("1,0,0,0,0,0,0,1", "1 values, expected 8"),
    ],
)
def test_bad_poses_are_named_by_the_row_of_the_editor(tmp_path, line, problem):
    write_folder(tmp_path / "room", [f"0 0 0 0 {LEVEL}", "", "# lost", line], ["0"])
    with pytest.raises(BadInputError) as caught:
        read_places("tum", tmp_path / "room")
    assert str(caught.value).endswith(f"groundtruth.txt, row 7: {problem}")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 ../secret.png", "path '../secret.png' leads outside the root folder"),
        ("1 /etc/secret.png", "path '/etc/secret.png' leads outside the root folder"),
        ("1 rgb/../../secret.png", "path 'rgb/../../secret.png' leads outside the root folder"),
        ("now rgb/2.png", "column 'time' is 'now', expected a time in s or in ISO 8601"),
        ("1", "1 values, expected 2"),
    ],
)
def test_bad_rows_of_the_list_are_named_by_the_row_of_the_editor(tmp_path, line, problem):
    write_folder(tmp_path / "room", [f"1 0 0 0 {LEVEL}"], ["1"])
    with (tmp_path / "room" / "rgb.txt").open("a") as file:
        file.write(f"\n{line}\n")
    with pytest.raises(BadInputError) as caught:
        read_places("tum", tmp_path / "room")
    assert str(caught.value).endswith(f"rgb.txt, row 6: {problem}")


def test_an_image_that_is_listed_twice_is_named(tmp_path):
    write_folder(tmp_path / "room", [f"1 0 0 0 {LEVEL}", f"1.1 0 0 0 {LEVEL}"], ["1"])
    with (tmp_path / "room" / "rgb.txt").open("a") as file:
        file.write("1.05 rgb/1.png\n")
    with pytest.raises(BadInputError, match=r"rgb\.txt.*row 5.*(path 'rgb/1\.png'|place_id 'room/1')"):
        read_places("tum", tmp_path / "room")


component = st.floats(-1, 1)
quaternion = st.tuples(component, component, component, component).filter(lambda q: np.linalg.norm(q) > 0.1)
samples = st.lists(st.tuples(st.tuples(*[st.floats(-100, 100)] * 3), quaternion), min_size=2, max_size=6)
number_style = st.sampled_from([".17g", ".18e", "+.17f"])


@pytest.mark.medium
@given(
    samples, number_style, st.sampled_from([" ", "\t", "  "]), st.sampled_from(["\n", "\r\n", "\n# x\n\n"]), st.data()
)
@settings(max_examples=40)
def test_any_trajectory_is_interpolated_as_scipy_does(poses, style, gap, line_end, data):
    """Whatever the number format, white space and comments: positions linear, orientations by scipy's Slerp."""
    times = np.arange(len(poses)) / 10  # whole nanoseconds
    positions = np.array([position for position, _ in poses])
    rotations = Rotation.from_quat([q for _, q in poses])
    wanted = data.draw(st.lists(st.integers(0, int(times[-1] * 1000)), min_size=1, max_size=5, unique=True))
    rows = np.column_stack([positions, rotations.as_quat() * 1.01])  # a length that is not quite 1
    lines = [gap.join([f"{t:.1f}", *(f"{value:{style}}" for value in row)]) for t, row in zip(times, rows, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "groundtruth.txt").write_bytes((line_end.join(lines) + line_end).encode())
        (root / "rgb.txt").write_text("".join(f"{one / 1000} {one}.png\n" for one in sorted(wanted)))
        plane, looking = data.draw(st.sampled_from(["xy", "xz"])), data.draw(st.sampled_from(["z", "x"]))
        places = read_places("tum", root, plane=plane, looking=looking)
    at = np.array(sorted(wanted)) / 1000
    assert (places.time / 1e9) == pytest.approx(at, abs=1e-12)
    east, north, up = (0, 1, 2) if plane == "xy" else (0, 2, 1)
    for axis, column in ((east, places.x), (north, places.y), (up, places.z if plane == "xy" else -places.z)):
        assert column == pytest.approx(np.interp(at, times, positions[:, axis]), abs=1e-9)
    views = Slerp(times, rotations)(at).apply([0, 0, 1] if looking == "z" else [1, 0, 0])
    steps = (rotations[:-1].inv() * rotations[1:]).magnitude()
    for view, yaw in zip(views, places.yaw, strict=True):
        level = np.hypot(view[east], view[north])
        if level > 0.02 and (steps < 3.14).all():  # a half turn has two shorter ways
            assert [level * np.cos(yaw), level * np.sin(yaw)] == pytest.approx(view[[east, north]], abs=1e-6)
