"""The reader of KITTI odometry and KITTI raw, on trees written as their archives unpack."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.readers import read_places
from mappable.places.table import NO_TIME, Places

TIMES = ["0.000000e+00", "1.036224e-01", "2.072464e-01", "3.108669e-01", "4.145279e-01"]


def left_turn(angle: float, radius: float = 10.0, climb: float = 0.0) -> np.ndarray:
    """The pose (3, 4) of a car that drove forward along a circle to its left by `angle`."""
    right, down, forward = (np.cos(angle), 0, np.sin(angle)), (0, 1, 0), (-np.sin(angle), 0, np.cos(angle))
    position = (-radius * (1 - np.cos(angle)), -climb, radius * np.sin(angle))
    return np.array([right, down, forward, position]).T


def write_sequence(
    root: Path,
    name: str,
    poses: Sequence[np.ndarray] | None,
    images: Sequence[str] = (),
    times: Sequence[str] | None = None,
    cameras: Sequence[str] = ("image_0", "image_1", "image_2", "image_3"),
) -> None:
    folder = root / "sequences" / name
    folder.mkdir(parents=True)
    for camera in cameras:
        (folder / camera).mkdir()
        for image in images:
            (folder / camera / image).write_bytes(b"not opened by the reader")
    if times is not None:
        (folder / "times.txt").write_text("".join(f"{time}\n" for time in times))
    if poses is not None:
        (root / "poses").mkdir(exist_ok=True)
        lines = (" ".join(f"{value:e}" for value in pose.ravel()) + "\n" for pose in poses)
        (root / "poses" / f"{name}.txt").write_text("".join(lines))


def numbered(count: int) -> list[str]:
    return [f"{number:06d}.png" for number in range(count)]


def notes(places: Places) -> dict[str, tuple[str, ...]]:
    return {note.text: note.items for note in places.notes}


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """Five images on a circle to the left, climbing."""
    poses = [left_turn(angle, climb=2 * angle) for angle in np.linspace(0, 1, 5)]
    write_sequence(tmp_path, "00", poses, numbered(5), TIMES)
    return tmp_path


def test_positions_lie_in_the_plane_of_x_and_z(drive):
    places = read_places("kitti", drive)
    angles = np.linspace(0, 1, 5)
    assert places.x == pytest.approx(-10 * (1 - np.cos(angles)), abs=1e-5)
    assert places.y == pytest.approx(10 * np.sin(angles), abs=1e-5)
    assert places.z == pytest.approx(2 * angles, abs=1e-5)
    assert places.unit == "m"


def test_yaw_is_where_the_camera_looks_and_grows_in_a_turn_to_the_left(drive):
    places = read_places("kitti", drive)
    assert places.yaw == pytest.approx(np.pi / 2 + np.linspace(0, 1, 5), abs=1e-6)
    steps = np.diff(places.positions, axis=0)  # a chord looks along the mean of the yaws at its ends
    chords = np.arctan2(steps[:, 1], steps[:, 0])
    assert chords == pytest.approx((places.yaw[1:] + places.yaw[:-1]) / 2, abs=1e-5)


def test_the_frame_leads_back_to_the_coordinates_of_the_file(drive):
    places = read_places("kitti", drive)
    original = np.loadtxt(drive / "poses" / "00.txt")[:, [3, 7, 11]]
    frame = places.frames["kitti-00"]
    assert frame.to_original(np.column_stack([places.x, places.y, places.z])).tolist() == original.tolist()


def test_times_with_exponents_are_exact_nanoseconds(drive):
    assert read_places("kitti", drive).time.tolist() == [0, 103622400, 207246400, 310866900, 414527900]


def test_paths_ids_and_names(drive):
    places = read_places("kitti", drive)
    assert places.path[1] == "sequences/00/image_2/000001.png"
    assert places.place_id[1] == "00/image_2/000001"
    assert set(places.sequence) == {"00"}
    assert set(places.frame) == {"kitti-00"}
    assert places.notes == ()


def test_the_folder_dataset_may_stand_in_between(drive, tmp_path_factory):
    outer = tmp_path_factory.mktemp("outer")
    drive.rename(outer / "dataset")
    places = read_places("kitti", outer)
    assert places.path[0] == "dataset/sequences/00/image_2/000000.png"
    assert places.place_id[0] == "00/image_2/000000"
    assert all(file.is_file() for file in places.files)


def test_the_color_camera_is_preferred_and_the_gray_one_serves_too(tmp_path):
    write_sequence(tmp_path, "00", [left_turn(0)], numbered(1), TIMES[:1])
    assert read_places("kitti", tmp_path).path[0] == "sequences/00/image_2/000000.png"
    assert read_places("kitti", tmp_path, camera="image_1").path[0] == "sequences/00/image_1/000000.png"
    (tmp_path / "gray").mkdir()
    write_sequence(tmp_path / "gray", "00", [left_turn(0)], numbered(1), TIMES[:1], cameras=["image_0", "image_1"])
    assert read_places("kitti", tmp_path / "gray").path[0] == "sequences/00/image_0/000000.png"


def test_a_drive_without_the_camera_is_noted(drive):
    write_sequence(drive, "01", [left_turn(0)], numbered(1), TIMES[:1], cameras=["image_0"])
    places = read_places("kitti", drive)
    assert set(places.sequence) == {"00"}
    assert notes(places) == {"drives have no folder image_2": ("01",)}


def test_each_drive_has_a_frame_of_its_own(drive):
    write_sequence(drive, "05", [left_turn(0)], numbered(1), TIMES[:1])
    places = read_places("kitti", drive)
    assert dict(zip(places.sequence, places.frame, strict=True)) == {"00": "kitti-00", "05": "kitti-05"}
    assert len(places) == 6


def test_drives_are_chosen_by_name(drive):
    for name in ("05", "07"):
        write_sequence(drive, name, [left_turn(0)], numbered(1), TIMES[:1])
    assert sorted(set(read_places("kitti", drive, sequences="07, 05").sequence)) == ["05", "07"]
    with pytest.raises(BadInputError, match=r"sequence.*'5'.*00.*05.*07"):
        read_places("kitti", drive, sequences="5")


def test_drives_without_poses_are_noted_and_refused_by_name(drive):
    write_sequence(drive, "11", None, numbered(2), TIMES[:2])
    places = read_places("kitti", drive)
    assert set(places.sequence) == {"00"}
    assert notes(places) == {"drives have no poses": ("11",)}
    with pytest.raises(BadInputError, match=r"sequence.*'11'.*poses/11\.txt"):
        read_places("kitti", drive, sequences="11")


def test_a_set_without_any_poses_is_refused_with_the_reason(tmp_path):
    write_sequence(tmp_path, "11", None, numbered(2), TIMES[:2])
    with pytest.raises(BadInputError, match=r"reader.*'kitti'.*1"):
        read_places("kitti", tmp_path)


@pytest.mark.parametrize("make", [lambda root: None, lambda root: (root / "dataset").mkdir()])
def test_a_folder_that_is_not_kitti_is_refused(tmp_path, make):
    make(tmp_path)
    with pytest.raises(BadInputError, match=r"sequences.*dataset"):
        read_places("kitti", tmp_path)


def test_without_times_txt_times_are_unknown_and_noted(drive):
    (drive / "sequences/00/times.txt").unlink()
    places = read_places("kitti", drive)
    assert set(places.time) == {NO_TIME}
    assert places.path.tolist() == [f"sequences/00/image_2/{name}" for name in numbered(5)]
    assert notes(places) == {"drives have no times.txt, so their times are unknown": ("00",)}


def test_poses_without_an_image_are_noted_and_the_others_keep_theirs(drive):
    (drive / "sequences/00/image_2/000001.png").unlink()
    places = read_places("kitti", drive)
    assert [path[-10:-4] for path in places.path] == ["000000", "000002", "000003", "000004"]
    assert places.yaw[1] == pytest.approx(np.pi / 2 + 0.5, abs=1e-6)
    assert places.time[1] == 207246400
    assert notes(places) == {"poses have no image": ("00/image_2/000001",)}


def test_images_beyond_the_poses_are_noted(drive):
    for name in ("000005.png", "000009.png"):
        (drive / "sequences/00/image_2" / name).touch()
    places = read_places("kitti", drive)
    assert len(places) == 5
    assert notes(places) == {"images have no pose": ("00/image_2/000005.png", "00/image_2/000009.png")}


def test_images_with_odd_or_repeated_names_are_noted_and_other_files_are_none(drive):
    for name in ("cover.png", "000001.jpg", "notes.md", ".hidden.png", "٣.png"):
        (drive / "sequences/00/image_2" / name).touch()
    places = read_places("kitti", drive)
    assert len(places) == 5
    assert notes(places) == {
        "images have the same number as another image": ("00/image_2/000001.png",),
        "image names are not numbers": ("00/image_2/cover.png", "00/image_2/٣.png"),
    }


def test_more_or_fewer_times_than_poses_are_refused(drive):
    (drive / "sequences/00/times.txt").write_text("0\n0.1\n")
    with pytest.raises(BadInputError, match=r"times\.txt: 2 times, expected 5, .*00\.txt"):
        read_places("kitti", drive)


@pytest.mark.parametrize(
    ("rotation", "shown"),
    [
        ("1 0 0 0 0 2 0 0 0 0 1 0", "1 0 0; 0 2 0; 0 0 1"),
        ("1 0 0 0 0 -1 0 0 0 0 1 0", "1 0 0; 0 -1 0; 0 0 1"),
        ("1 0.02 0 0 0 1 0 0 0 0 1 0", "1 0.02 0; 0 1 0; 0 0 1"),
        ("0 0 0 0 0 0 0 0 0 0 0 0", "0 0 0; 0 0 0; 0 0 0"),
    ],
)
def test_a_matrix_that_is_not_a_rotation_is_named(drive, rotation, shown):
    with (drive / "poses/00.txt").open("a") as file:
        file.write(rotation)
    with pytest.raises(BadInputError) as caught:
        read_places("kitti", drive)
    assert str(caught.value).endswith(f"00.txt, row 6: [{shown}] is not a rotation matrix")


coordinate = st.floats(-1e4, 1e4, allow_nan=False)


@pytest.mark.medium
@given(
    st.lists(
        st.tuples(st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1), *[coordinate] * 3),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=30)
def test_any_pose_comes_back(poses):
    rotations = Rotation.from_quat([quaternion for quaternion, *_ in poses]).as_matrix()
    positions = np.array([position for _, *position in poses])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        matrices = np.concatenate([rotations, positions[:, :, None]], axis=2)
        write_sequence(root, "03", matrices, numbered(len(poses)), TIMES[: len(poses)])
        lines = (" ".join(repr(float(value)) for value in matrix.ravel()) for matrix in matrices)
        (root / "poses/03.txt").write_text("\n".join(lines))
        places = read_places("kitti", root)
    assert places.x.tolist() == positions[:, 0].tolist()
    assert places.y.tolist() == positions[:, 2].tolist()
    assert places.z.tolist() == (-positions[:, 1]).tolist()
    for yaw, rotation in zip(places.yaw, rotations, strict=True):
        east, north = rotation[0, 2], rotation[2, 2]  # of the optical axis, seen from above
        if np.hypot(east, north) > 0.02:
            assert np.hypot(east, north) * np.cos(yaw) == pytest.approx(east, abs=1e-9)
            assert np.hypot(east, north) * np.sin(yaw) == pytest.approx(north, abs=1e-9)


# Images next to one file of poses.


def test_images_next_to_poses_txt_are_one_drive(tmp_path):
    write_sequence(
        tmp_path / "a", "00", [left_turn(angle) for angle in (0, 0.1, 0.2)], numbered(3), cameras=["image_2"]
    )
    home = tmp_path / "walk"
    (tmp_path / "a/sequences/00/image_2").rename(home.parent / "images")
    home.mkdir()
    (home.parent / "images").rename(home / "images")
    (tmp_path / "a/poses/00.txt").rename(home / "poses.txt")
    places = read_places("kitti", home)
    assert list(places.path) == [f"images/{name}" for name in numbered(3)]
    np.testing.assert_allclose(places.y, 10 * np.sin([0, 0.1, 0.2]), atol=1e-5)
    assert set(places.sequence) == {"walk"}
    (home / "images").rename(home / "pictures")
    with pytest.raises(BadInputError, match=r"poses\.txt, but no folder images"):
        read_places("kitti", home)


# KITTI raw.


def write_raw(root: Path, name: str = "2011_09_26_drive_0001_sync", north: float = 0.0, count: int = 4) -> Path:
    drive = root / "2011_09_26" / name
    for camera in ("image_00", "image_02"):
        (drive / camera / "data").mkdir(parents=True)
        stamps = [f"2011-09-26 13:02:{25 + number}.964389445" for number in range(count)]
        (drive / camera / "timestamps.txt").write_text("\n".join(stamps) + "\n")
        for number in range(count):
            (drive / camera / "data" / f"{number:010d}.png").touch()
    (drive / "oxts/data").mkdir(parents=True)
    for number in range(count):
        values = [49.0 + north + 1e-5 * number, 8.4, 110.5 + number, 0.03, 0.01, 1.5 - 0.1 * number, *range(24)]
        (drive / f"oxts/data/{number:010d}.txt").write_text(" ".join(str(value) for value in values) + "\n")
    return drive


def test_raw_drives_have_positions_yaws_and_times(tmp_path):
    drive = write_raw(tmp_path)
    write_raw(tmp_path, "2011_09_26_drive_0002_sync", north=0.01)
    places = read_places("kitti", tmp_path)
    assert list(places.sequences()) == ["2011_09_26_drive_0001_sync", "2011_09_26_drive_0002_sync"]
    assert places.frames["kitti"].crs == "EPSG:32632"
    latitude, longitude = places.frames["kitti"].to_latlon(places.positions)
    expected = np.concatenate([49.0 + 1e-5 * np.arange(4), 49.01 + 1e-5 * np.arange(4)])
    np.testing.assert_allclose(latitude, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(longitude, 8.4, rtol=0, atol=1e-10)
    np.testing.assert_allclose(places.yaw[:4], [1.5, 1.4, 1.3, 1.2])
    assert places.z[:2].tolist() == [110.5, 111.5]
    assert np.datetime64(int(places.time[1]), "ns") == np.datetime64("2011-09-26T13:02:26.964389445")
    assert places.path[0].endswith("_sync/image_02/data/0000000000.png")
    assert len(read_places("kitti", drive)) == len(read_places("kitti", drive.parent, sequences=drive.name)) == 4
    assert "image_00" in read_places("kitti", drive, camera="image_0").path[0]


def test_raw_drives_with_missing_or_damaged_files_are_named(tmp_path):
    drive = write_raw(tmp_path)
    (drive / "oxts/data/0000000003.txt").unlink()
    places = read_places("kitti", tmp_path)
    assert len(places) == 3
    assert notes(places)["images have no pose"] == ("image_02/data/0000000003.png",)
    (drive / "oxts/data/0000000001.txt").write_text("49.0 8.4 110\n")
    with pytest.raises(BadInputError, match=r"0000000001\.txt, row 1: 3 values, expected 30"):
        read_places("kitti", tmp_path)
    (drive / "oxts/data/0000000001.txt").write_text(" ".join(["490", "8.4"] + ["0"] * 28))
    with pytest.raises(BadInputError, match=r"0000000001\.txt, row 1: column 'latitude' is '490'"):
        read_places("kitti", tmp_path)
    with pytest.raises(BadInputError, match="no drive 'x'"):
        read_places("kitti", tmp_path, sequences="x")
    write_raw(tmp_path / "other", "2011_09_26_drive_0001_extract")
    with pytest.raises(BadInputError, match="_sync"):
        read_places("kitti", tmp_path / "other")
