"""Scenes in transforms.json, written here as nerfstudio's data conventions say: OpenGL axes, from camera to world."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.readers.registry import find_reader

YAWS = np.linspace(-1.2, 1.0, 9)

WHERE = np.column_stack([np.arange(9.0), 0.3 * np.arange(9.0) ** 2, np.full(9, 1.6)])

# X right, y up, z backward, of a camera that looks to +x.
OPENGL = np.array([[0, 0, -1], [-1, 0, 0], [0, 1, 0]])


def write(
    folder: Path, tilt: Rotation | None = None, name: str = "transforms.json", **changes: Any
) -> Path:
    frames = []
    turned = Rotation.identity() if tilt is None else tilt
    for number, (where, yaw) in enumerate(zip(WHERE, YAWS, strict=True)):
        matrix = np.eye(4)
        matrix[:3, :3] = turned.as_matrix() @ Rotation.from_euler("z", yaw).as_matrix() @ OPENGL
        matrix[:3, 3] = turned.apply(where)
        frames.append(
            {"file_path": f"images/frame_{number:05d}.png", "transform_matrix": matrix.tolist()}
        )
    frames[4] |= changes
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(
        json.dumps({"camera_model": "OPENCV", "fl_x": 1072.0, "frames": frames}, indent=4)
    )
    return folder


BROWN, FISHEYE = (
    {"k1": 0.1, "k2": 0.2, "p1": 0.3, "p2": 0.4},
    {"k1": 0, "camera_model": "OPENCV_FISHEYE"},
)


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
    lenses = find_reader("transforms").function("lenses")
    assert lenses is not None
    assert lenses(write(tmp_path, **size, **changes)) == (
        {"images/frame_00004.png": expected} if expected else {}
    )
    with pytest.raises(
        BadInputError, match=r"transforms.json, frame 4: the values of its lens are wrong"
    ):
        lenses(write(tmp_path, **size | {"k1": "wide"}))
