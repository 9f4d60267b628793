"""The reader of KITTI-360, on trees written as its description says."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.readers import read_places

DRIVE = "2013_05_28_drive_0000_sync"
LOOKING_EAST = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])


def write(root, stamps=True):
    images, poses = root / "data_2d_raw" / DRIVE / "image_00", root / "data_poses" / DRIVE
    (images / "data_rect").mkdir(parents=True)
    poses.mkdir(parents=True)
    rows = []
    for number in range(6):
        (images / f"data_rect/{number:010d}.png").touch()
        if number != 2:  # a standing car has no pose
            matrix = np.eye(4)
            matrix[:3, :3] = Rotation.from_euler("z", 0.2 * number).as_matrix() @ LOOKING_EAST
            matrix[:3, 3] = number, 3 * number, 115
            rows.append(f"{number} " + " ".join(repr(float(value)) for value in matrix.ravel()))
    (poses / "cam0_to_world.txt").write_text(" \n".join(rows) + " \n")
    if stamps:
        lines = [f"2013-05-28 08:46:0{number}.904000000" for number in range(6)]
        (images / "timestamps.txt").write_text("\n".join(lines))
    return root


def test_images_have_the_pose_with_their_number(tmp_path):
    places = read_places("kitti_360", write(tmp_path))
    numbers = np.array([0, 1, 3, 4, 5])
    np.testing.assert_allclose(places.positions, np.column_stack([numbers, 3 * numbers]), rtol=0, atol=1e-9)
    np.testing.assert_allclose(places.yaw, 0.2 * numbers, atol=1e-9)
    assert np.datetime64(int(places.time[2]), "ns") == np.datetime64("2013-05-28T08:46:03.904")
    assert [note.items for note in places.notes] == [(f"{DRIVE}: 1 of 6",)]
    assert len(read_places("kitti_360", tmp_path, sequences=DRIVE)) == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1 2\n", "row 1: 3 values, expected 17"),
        ("0 " + "2 " * 16 + "\n", "row 1: column 'm11' is '2': it begins a matrix that is not a pose"),
        ("a " + "1 " * 16 + "\n", "row 1: column 'number' is 'a'"),
    ],
)
def test_damaged_poses_are_named(tmp_path, text, words):
    (write(tmp_path) / "data_poses" / DRIVE / "cam0_to_world.txt").write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_places("kitti_360", tmp_path)
    assert f"cam0_to_world.txt, {words}" in str(caught.value)


def test_missing_parts_are_named(tmp_path):
    with pytest.raises(BadInputError, match="no file data_poses"):
        read_places("kitti_360", tmp_path)
    write(tmp_path, stamps=False)
    with pytest.raises(BadInputError, match="no drive 'x'"):
        read_places("kitti_360", tmp_path, sequences="x")
    (tmp_path / "data_2d_raw" / DRIVE / "image_00/timestamps.txt").write_text("2013-05-28 08:46:00\n")
    with pytest.raises(BadInputError, match=r"timestamps\.txt: 1 times"):
        read_places("kitti_360", tmp_path)
