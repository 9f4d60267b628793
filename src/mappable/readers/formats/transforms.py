"""Scenes in a transforms.json: images with poses as nerfstudio, Polycam, Record3D and Instant NGP exports store them.

    ROOT/                     or ROOT may be the file itself
      transforms.json         or transforms_train.json, transforms_val.json and transforms_test.json
      images/frame_00001.png

Each entry of `frames` has a `file_path`, relative to the file, and a `transform_matrix` of 4x4 numbers from camera to
world. Camera axes are those of OpenGL: x to the right, y up, z backward. A path without suffix gets `.png` or `.jpg`.

The file does not state a unit. The unit of the positions is `units` of the scene, never metres, until the scale is
known. Use `--scale 1` for exports in metres, such as those of phones with lidar. Or give positions of at least two
images with `--known FILE`. Both options, and the estimate of up, work as in the reader `colmap`.

`mappable convert` undistorts the images by `k1` to `k4`, `p1` and `p2` of the file or of a frame, unless
`--no-undistort` is given. The `camera_model` is OPENCV or OPENCV_FISHEYE.

The images of one file are one sequence, in order of their names. Times are unknown.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import numpy as np

from mappable.arrays import MAX_COORDINATE
from mappable.containers import read_json
from mappable.errors import BadInputError, shown
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.rotations import are_rotations
from mappable.places.table import Places
from mappable.readers.models import OPENGL, CameraModel, Up, place_model

LAYOUT = ("transforms.json", "transforms_train.json")
REMARK = "in units of the scene; add --scale or --known for metres"
MAX_BYTES = 2**28  # 100,000 frames with indented numbers have 70 MB
FILES = ("transforms.json", "transforms_train.json", "transforms_val.json", "transforms_test.json")
SUFFIXES = (".png", ".jpg", ".jpeg", ".JPG", ".PNG")
COEFFICIENTS = {"OPENCV": ("k1", "k2", "p1", "p2", "k3"), "OPENCV_FISHEYE": ("k1", "k2", "k3", "k4")}  # in our order


def read(
    root: Path,
    found: Findings,
    *,
    up: Annotated[Up, "direction of up in the scene: estimate, or an axis"] = "estimate",
    scale: Annotated[float | None, "metres per unit of the scene, if known"] = None,
    known: Annotated[Path | None, "table with positions of at least two images"] = None,
) -> Places:
    files = _files(root)
    base = files[0].parent
    parts = {file: _cameras(file) for file in files}
    model = CameraModel.joined([*parts.values()]).in_order()
    placed = place_model(model, base.resolve().name, found, up, scale, known)
    file_of = {name: file.stem for file, part in parts.items() for name in part.names}
    sequence = [placed.frame.name if len(files) == 1 else file_of[name] for name in model.names]
    return placed.places(model.names, root=base, sequence=sequence)


def lenses(root: Path, **_: object) -> dict[str, Lens]:
    """The lenses of distorted images, by their paths."""
    known: dict[str, Lens] = {}
    for file in _files(root):
        scene, frames = _scene(file)
        for number, frame in enumerate(frames):
            name, values = _name(file, number, frame), scene | frame
            kind = values.get("camera_model", "OPENCV")
            if kind not in COEFFICIENTS or "fl_x" not in values or "k1" not in values:
                continue
            keys = ("w", "h", "fl_x", "cx", "cy", *COEFFICIENTS[kind])
            try:
                width, height, focal, x, y, *bent = (float(values.get(key, 0)) for key in keys)
                focals, center = (focal, float(values.get("fl_y", focal))), (x - 0.5, y - 0.5)  # pixels as in COLMAP
                model = "equidistant" if kind == "OPENCV_FISHEYE" else "plumb_bob"
                lens = Lens((int(width), int(height)), focals, center, model, tuple(bent))
            except (BadInputError, TypeError, ValueError, OverflowError) as error:
                raise BadInputError(f"{file}, frame {number}: {', '.join(keys)} are no lens ({error})") from None
            known |= {name: lens} if lens.distorts else {}
    return known


def _files(root: Path) -> list[Path]:
    files = [root] if root.is_file() else [root / name for name in FILES if (root / name).is_file()]
    if not files:
        raise BadInputError(f"{root}: found none of {', '.join(FILES)}")
    return files[:1] if files[0].name == FILES[0] else files


def _scene(file: Path) -> tuple[dict[str, Any], list[Any]]:
    """The content of a file, and its frames."""
    scene = read_json(file, MAX_BYTES)
    frames = scene.get("frames") if isinstance(scene, dict) else None
    if not isinstance(frames, list) or not frames:
        raise BadInputError(f"{file}: no list 'frames' with images")
    return scene, frames


def _cameras(file: Path) -> CameraModel:
    frames = _scene(file)[1]
    names = [_name(file, number, frame) for number, frame in enumerate(frames)]
    matrices = np.stack([_matrix(file, number, frame) for number, frame in enumerate(frames)])
    near = (np.abs(matrices) <= MAX_COORDINATE).all(axis=(1, 2))
    wrong = np.flatnonzero(~(near & are_rotations(np.where(near[:, None, None], matrices, 0)[:, :, :3])))
    if len(wrong):
        raise BadInputError(f"{file}, frame {wrong[0]} ({shown(names[wrong[0]])}): its transform_matrix is not a pose")
    return CameraModel(names, matrices[:, :, 3], matrices[:, :, :3] * OPENGL)


def _name(file: Path, number: int, frame: Any) -> str:
    path = frame.get("file_path") if isinstance(frame, dict) else None
    if not isinstance(path, str) or not path:
        raise BadInputError(f"{file}, frame {number}: file_path is {shown(path)}, expected the path of an image")
    name = PurePosixPath(path).as_posix()
    if PurePosixPath(name).suffix:
        return name
    return next((f"{name}{suffix}" for suffix in SUFFIXES if (file.parent / f"{name}{suffix}").exists()), f"{name}.png")


def _matrix(file: Path, number: int, frame: dict[str, Any]) -> Any:
    rows = frame.get("transform_matrix")
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.empty(0)
    if matrix.shape not in ((4, 4), (3, 4)):
        raise BadInputError(f"{file}, frame {number}: transform_matrix is {shown(rows)}, expected 4 rows of 4 numbers")
    return matrix[:3]
