"""Scenes in transforms.json, written here as nerfstudio's data conventions say: OpenGL axes, from camera to world."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.places.readers import find_reader, read_places

YAWS = np.linspace(-1.2, 1.0, 9)
WHERE = np.column_stack([np.arange(9.0), 0.3 * np.arange(9.0) ** 2, np.full(9, 1.6)])
OPENGL = np.array([[0, 0, -1], [-1, 0, 0], [0, 1, 0]])  # x right, y up, z backward, of a camera that looks to +x


def write(folder: Path, tilt: Rotation | None = None, name: str = "transforms.json", **changes: Any) -> Path:
    frames = []
    turned = Rotation.identity() if tilt is None else tilt
    for number, (where, yaw) in enumerate(zip(WHERE, YAWS, strict=True)):
        matrix = np.eye(4)
        matrix[:3, :3] = turned.as_matrix() @ Rotation.from_euler("z", yaw).as_matrix() @ OPENGL
        matrix[:3, 3] = turned.apply(where)
        frames.append({"file_path": f"images/frame_{number:05d}.png", "transform_matrix": matrix.tolist()})
    frames[4] |= changes
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(json.dumps({"camera_model": "OPENCV", "fl_x": 1072.0, "frames": frames}, indent=4))
    return folder


def test_a_scene_with_z_up_keeps_its_coordinates(tmp_path: Path) -> None:
    places = read_places("transforms", write(tmp_path), up="z", scale=1.0)
    frame = places.frames[places.frame[0]]
    original = frame.to_original(np.column_stack([places.x, places.y, places.z]))
    np.testing.assert_allclose(original, WHERE, rtol=0, atol=1e-9)
    np.testing.assert_allclose(places.yaw, YAWS, atol=1e-9)
    assert places.unit == "m"
    assert places.path[3] == "images/frame_00003.png"


BROWN, FISHEYE = {"k1": 0.1, "k2": 0.2, "p1": 0.3, "p2": 0.4}, {"k1": 0, "camera_model": "OPENCV_FISHEYE"}


@pytest.mark.parametrize(
    ("changes", "model", "coefficients"),
    [
        (BROWN, "plumb_bob", (0.1, 0.2, 0.3, 0.4, 0)),
        (FISHEYE, "equidistant", (0, 0, 0, 0)),
        ({"k1": 0}, "", ()),
        (BROWN | {"camera_model": "EQUIRECTANGULAR"}, "", ()),
    ],
)
def test_a_frame_has_the_lens_that_the_file_states(
    tmp_path: Path, changes: dict[str, Any], model: str, coefficients: tuple[float, ...]
) -> None:
    expected = Lens((640, 480), (500, 510), (319.5, 239.5), model, coefficients) if model else None
    size = {"w": 640, "h": 480, "fl_x": 500, "fl_y": 510, "cx": 320, "cy": 240}
    lenses = find_reader("transforms").lenses
    assert lenses is not None
    assert lenses(write(tmp_path, **size, **changes)) == ({"images/frame_00004.png": expected} if expected else {})
    with pytest.raises(BadInputError, match=r"transforms.json, frame 4: .* are no lens"):
        lenses(write(tmp_path, **size | {"k1": "wide"}))


def test_up_is_estimated_for_scenes_with_y_up(tmp_path: Path) -> None:
    places = read_places("transforms", write(tmp_path, Rotation.from_euler("x", -90, degrees=True)))
    assert places.unit == "units"
    assert np.ptp(places.z) < 1e-9
    np.testing.assert_allclose(np.diff(places.yaw), np.diff(YAWS), atol=1e-9)
    steps = np.linalg.norm(np.diff(places.positions, axis=0), axis=1)
    np.testing.assert_allclose(steps, np.linalg.norm(np.diff(WHERE, axis=0), axis=1), atol=1e-9)


def test_the_parts_of_a_nerf_scene_are_sequences(tmp_path: Path) -> None:
    write(tmp_path, name="transforms_train.json")
    scene = json.loads((tmp_path / "transforms_train.json").read_text())
    for number, frame in enumerate(scene["frames"]):
        frame["file_path"] = f"./test/r_{number}"
    (tmp_path / "transforms_test.json").write_text(json.dumps(scene))
    places = read_places("transforms", tmp_path)
    assert set(places.sequence) == {"transforms_train", "transforms_test"}
    assert "test/r_8.png" in places.path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"transform_matrix": [[1, 2], [3, 4]]}, "frame 4: transform_matrix is [[1, 2], [3, 4]]"),
        ({"transform_matrix": "x"}, "frame 4: transform_matrix is 'x'"),
        ({"transform_matrix": np.zeros((4, 4)).tolist()}, "frame 4 ('images/frame_00004.png')"),
        ({"transform_matrix": [[float("nan")] * 4] * 4}, "frame 4 ('images/frame_00004.png')"),
        ({"transform_matrix": [[10**400] * 4] * 4}, "frame 4"),
        ({"file_path": 7}, "frame 4: file_path is 7"),
        ({"file_path": "../../etc/passwd.png"}, "outside"),
    ],
)
def test_bad_frames_are_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_places("transforms", write(tmp_path, **changes))
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"frames": []}', '{"frames": {}}', "[" * 100_000, '{"frames": [1]}'])
def test_files_that_are_no_scene(tmp_path: Path, text: str) -> None:
    (tmp_path / "transforms.json").write_text(text)
    with pytest.raises(BadInputError, match=r"transforms\.json"):
        read_places("transforms", tmp_path)
