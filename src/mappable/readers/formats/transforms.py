"""Scenes in a transforms.json: images with poses as nerfstudio, Polycam, Record3D and Instant NGP exports store them.

    ROOT/                     or ROOT may be the file itself
      transforms.json         or transforms_train.json, transforms_val.json and transforms_test.json
      images/frame_00001.png

Each entry of `frames` has a `file_path`, relative to the file, and a `transform_matrix` of 4x4
numbers from camera to world. Camera axes are those of OpenGL: x to the right, y up, z backward. A
path without suffix gets `.png` or `.jpg`.

The file does not state a unit. The unit of the positions is `units` of the scene, never metres,
until the scale is known. Use `--scale 1` for exports in metres, such as those of phones with lidar.
Or give positions of at least two images with `--known FILE`. Both options, and the estimate of up,
work as in the reader `colmap`.

`mappable convert` undistorts the images by `k1` to `k4`, `p1` and `p2` of the file or of a frame,
unless `--no-undistort` is given. The `camera_model` is OPENCV or OPENCV_FISHEYE.

The images of one file are one sequence, in order of their names. Times are unknown.
"""

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from mappable.containers import read_json
from mappable.errors import BadInputError, shown
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.models import OPENGL, CameraModel, KnownOption, ScaleOption, UpOption
from mappable.readers.toolkit import check_poses, naming_lens

ONE_FILE = True
LAYOUT = ("transforms.json", "transforms_train.json")
REMARK = "in units of the scene; add --scale or --known for metres"
MAX_BYTES = 2**28  # 100,000 frames with indented numbers have 70 MB
FILES = ("transforms.json", "transforms_train.json", "transforms_val.json", "transforms_test.json")
SUFFIXES = (".png", ".jpg", ".jpeg", ".JPG", ".PNG")
LENSES = {  # lens model, and coefficients in our order
    "OPENCV": ("plumb_bob", ("k1", "k2", "p1", "p2", "k3")),
    "OPENCV_FISHEYE": ("equidistant", ("k1", "k2", "k3", "k4")),
}


def read(
    root: Path,
    found: Findings,
    *,
    up: UpOption = "estimate",
    scale: ScaleOption = None,
    known: KnownOption = None,
) -> Places:
    files = _files(root)
    images = [
        (name, where, file, frame) for file in files for where, name, frame, _ in _frames(file)
    ]
    images.sort(key=lambda image: image[0])
    poses = np.stack([_matrix(where, frame) for _, where, _, frame in images])
    check_poses(poses, lambda row: f"{images[row][1]} ({shown(images[row][0])})")
    names, home = [name for name, *_ in images], files[0].parent
    model = CameraModel(names, poses[:, :, 3], poses[:, :, :3] * OPENGL)
    folder = home.resolve().name
    sequence = [folder if len(files) == 1 else file.stem for _, _, file, _ in images]
    return model.place(folder, found, up, scale, known, root=home, sequence=sequence)


def lenses(root: Path, **_: object) -> dict[str, Lens]:
    """The lenses of distorted images, by their paths."""
    known: dict[str, Lens] = {}
    for file in _files(root):
        for where, name, frame, scene in _frames(file):
            values = scene | frame
            model, coefficients = LENSES.get(values.get("camera_model", "OPENCV"), ("", ()))
            if model and "fl_x" in values and "k1" in values:
                with naming_lens(f"{where}: the values of its lens are wrong"):
                    keys = ("w", "h", "fl_x", "cx", "cy", *coefficients)
                    width, height, focal, x, y, *bent = (float(values.get(key, 0)) for key in keys)
                    focals = focal, float(values.get("fl_y", focal))
                    # The first pixel covers 0 to 1, as in COLMAP; ours has its center at 0.
                    lens = Lens(
                        (int(width), int(height)), focals, (x - 0.5, y - 0.5), model, tuple(bent)
                    )
                known |= {name: lens} if lens.distorts else {}
    return known


def _files(root: Path) -> list[Path]:
    files = [root] if root.is_file() else [root / name for name in FILES if (root / name).is_file()]
    if not files:
        raise BadInputError(f"{root}: found none of {', '.join(FILES)}")
    return files[:1] if files[0].name == FILES[0] else files


def _frames(file: Path) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """The images of a file: where each is written, its path, its values, and those of the whole
    file.
    """
    scene = read_json(file, MAX_BYTES)
    frames = scene.get("frames") if isinstance(scene, dict) else None
    if not isinstance(frames, list) or not frames:
        raise BadInputError(f"{file}: no list 'frames' with images")
    images = []
    for number, frame in enumerate(frames):
        where, path = (
            f"{file}, frame {number}",
            frame.get("file_path") if isinstance(frame, dict) else None,
        )
        if not isinstance(path, str) or not path:
            raise BadInputError(
                f"{where}: file_path is {shown(path)}, expected the path of an image"
            )
        images.append((where, _with_suffix(file.parent, PurePosixPath(path)), frame, scene))
    return images


def _with_suffix(folder: Path, path: PurePosixPath) -> str:
    ends = (
        []
        if path.suffix
        else [end for end in SUFFIXES if (folder / f"{path}{end}").exists()] or [".png"]
    )
    return path.as_posix() + "".join(ends[:1])


def _matrix(where: str, frame: dict[str, Any]) -> Any:
    """The pose (3, 4) of an image."""
    rows = frame.get("transform_matrix")
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.empty(0)
    if matrix.shape not in ((4, 4), (3, 4)):
        raise BadInputError(
            f"{where}: transform_matrix is {shown(rows)}, expected 4 rows of 4 numbers"
        )
    return matrix[:3]
