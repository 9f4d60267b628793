"""Poses as 4x4 matrices, on trees written as 7-Scenes, ScanNet and apps for phones lay them out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.readers import read_places
from mappable.places.table import Places

YAWS = np.linspace(-1.0, 1.4, 7)
WHERE = np.column_stack([np.arange(7.0), 0.2 * np.arange(7.0) ** 2, np.full(7, 1.5)])
LOOKING_EAST = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])  # axes of an OpenCV camera that looks to +x, z up
OPENGL = np.diag([1, -1, -1])


def matrices(world: Rotation | None = None, opengl: bool = False) -> list[np.ndarray[Any, Any]]:
    """The poses, in a world that is turned against ours."""
    turned, poses = world or Rotation.identity(), []
    for where, yaw in zip(WHERE, YAWS, strict=True):
        pose = np.eye(4)
        camera = Rotation.from_euler("z", yaw).as_matrix() @ LOOKING_EAST
        pose[:3, :3] = turned.as_matrix() @ camera @ (OPENGL if opengl else np.eye(3))
        pose[:3, 3] = turned.apply(where)
        poses.append(pose)
    return poses


def text(pose: np.ndarray[Any, Any]) -> str:
    return "\n".join("\t ".join(f"{value:.12e}" for value in row) for row in pose) + "\n"


def write_scenes(folder: Path, name: str = "seq-01", **options: Any) -> Path:
    (folder / name).mkdir(parents=True)
    for number, pose in enumerate(matrices(**options)):
        for kind in ("color", "depth"):
            (folder / name / f"frame-{number:06d}.{kind}.png").touch()
        (folder / name / f"frame-{number:06d}.pose.txt").write_text(text(pose))
    return folder


def check(places: Places, rows: Any = slice(None)) -> None:
    """Distances, turns and heights are those of the scene, whatever the world's axes are."""
    steps = np.linalg.norm(np.diff(places.positions[rows], axis=0), axis=1)
    np.testing.assert_allclose(steps, np.linalg.norm(np.diff(WHERE[:, :2], axis=0), axis=1), atol=1e-6)
    np.testing.assert_allclose(np.diff(places.yaw[rows]), np.diff(YAWS), atol=1e-6)
    np.testing.assert_allclose(np.diff(places.z[rows]), 0, atol=1e-6)
    assert places.unit == "m"


@pytest.mark.parametrize("turn", [(0, 0, 0), (-90, 0, 0), (30, 40, 50)])
def test_seven_scenes(tmp_path, turn):
    places = read_places("matrices", write_scenes(tmp_path, world=Rotation.from_euler("xyz", turn, degrees=True)))
    check(places)
    assert places.path[1] == "seq-01/frame-000001.color.png"
    assert len(places) == 7
    assert set(places.sequence) == {"seq-01"}
    assert "up was estimated" in " ".join(str(note) for note in places.notes)


def test_a_world_with_z_up_keeps_its_coordinates(tmp_path):
    places = read_places("matrices", write_scenes(tmp_path), up="z")
    original = places.frames[places.frame[0]].to_original(np.column_stack([places.x, places.y, places.z]))
    np.testing.assert_allclose(original, WHERE, rtol=0, atol=1e-9)
    np.testing.assert_allclose(places.yaw, YAWS, atol=1e-9)


def test_sequences_of_a_scene_share_a_frame_and_have_their_splits(tmp_path):
    for name in ("chess", "fire"):
        for number in (1, 3):
            write_scenes(tmp_path / name, f"seq-{number:02d}")
        (tmp_path / name / "TrainSplit.txt").write_text("sequence1\n")
        (tmp_path / name / "TestSplit.txt").write_text("sequence3\nsequence5\n")
    places = read_places("matrices", tmp_path)
    assert set(zip(places.frame, places.sequence, places.split, strict=True)) == {
        (scene, f"{scene}/seq-{number}", split)
        for scene in ("chess", "fire")
        for number, split in (("01", "train"), ("03", "test"))
    }
    assert set(read_places("matrices", tmp_path / "chess/seq-03").split) == {"test"}


def test_scannet_marks_lost_images_by_infinity(tmp_path):
    for folder in ("color", "pose", "depth"):
        (tmp_path / "scene0000_00" / folder).mkdir(parents=True)
    for number, pose in enumerate(matrices()):
        (tmp_path / f"scene0000_00/color/{number}.jpg").touch()
        (tmp_path / f"scene0000_00/depth/{number}.png").touch()
        known = pose if number != 6 else np.full((4, 4), -np.inf)
        (tmp_path / f"scene0000_00/pose/{number}.txt").write_text(text(known))
    places = read_places("matrices", tmp_path)
    assert list(places.path) == [f"scene0000_00/color/{number}.jpg" for number in range(6)]
    assert set(places.sequence) == set(places.frame) == {"scene0000_00"}
    assert [note.items for note in places.notes if "finite" in note.text] == [("scene0000_00/color/6.jpg",)]


@pytest.mark.parametrize("by_column", [False, True])
def test_json_files_of_phones_have_the_axes_of_opengl(tmp_path, by_column):
    """ARKit has y up, and stores matrices by columns."""
    for number, pose in enumerate(matrices(Rotation.from_euler("x", -90, degrees=True), opengl=True)):
        (tmp_path / f"frame_{number:05d}.jpg").touch()
        flat = (pose.T if by_column else pose).ravel().tolist()
        (tmp_path / f"frame_{number:05d}.json").write_text(json.dumps({"cameraPoseARFrame": flat, "time": 3}))
    check(read_places("matrices", tmp_path))


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_one_file_with_a_row_per_image(tmp_path, named, inverse):
    (tmp_path / "walk/images").mkdir(parents=True)
    rows = []
    for number, pose in enumerate(matrices()):
        (tmp_path / f"walk/images/{number:06d}.png").touch()
        flat = (np.linalg.inv(pose) if inverse else pose).ravel()
        rows.append((f"{number} " if named else "") + " ".join(repr(float(value)) for value in flat))
    (tmp_path / "walk/poses.txt").write_text("\n".join(reversed(rows) if named else rows))
    places = read_places("matrices", tmp_path, inverse=inverse)
    check(places, np.argsort(places.path))
    assert set(places.sequence) == {"walk"}


def test_millimetres(tmp_path):
    write_scenes(tmp_path)
    for file in (tmp_path / "seq-01").glob("*.pose.txt"):
        pose = np.loadtxt(file)
        pose[:3, 3] *= 1000
        file.write_text(text(pose))
    check(read_places("matrices", tmp_path, scale=0.001))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1 2 3", "3 numbers, expected 16"),
        ("1 0 0 0 0 1 0 0 0 0 one 0 0 0 0 1", "'one', expected a number"),
        ("2 0 0 0 0 2 0 0 0 0 2 0 0 0 0 1", "is not a pose"),
        ("1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 7", "is not a pose"),
        ("", "0 numbers"),
    ],
)
def test_a_file_that_is_no_pose_is_named(tmp_path, content, words):
    (write_scenes(tmp_path) / "seq-01/frame-000003.pose.txt").write_text(content)
    with pytest.raises(BadInputError) as caught:
        read_places("matrices", tmp_path)
    assert "frame-000003.pose.txt: " in str(caught.value)
    assert words in str(caught.value)


def test_lists_that_do_not_fit_are_named(tmp_path):
    with pytest.raises(BadInputError, match=r"found no images with \.pose\.txt"):
        read_places("matrices", tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.png").touch()
    (tmp_path / "poses.txt").write_text(("1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n") * 2)
    with pytest.raises(BadInputError, match=r"poses\.txt: 2 poses, but there are 1 images"):
        read_places("matrices", tmp_path)
    (tmp_path / "poses.txt").write_text("b 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n")
    with pytest.raises(BadInputError, match=r"poses\.txt, row 1: no image has the name 'b'"):
        read_places("matrices", tmp_path)
    (tmp_path / "images/a.json").write_text("[" * 10_000)
    with pytest.raises(BadInputError, match=r"a\.json: no 4x4 matrix"):
        read_places("matrices", tmp_path)
