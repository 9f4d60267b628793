"""COLMAP models: poses of images, lenses of cameras, and points. Text is read here, binary models by pycolmap.

https://colmap.github.io/format.html has the formats.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.errors import BadInputError, MappableError, install_extra, shown
from mappable.files import reading
from mappable.places.lenses import Lens
from mappable.readers.isolated import run
from mappable.readers.models import CameraModel

MOST_POINTS = 1_000_000  # points that are read of a model
# The camera models that have a lens model: number of parameters, and the lens model. Parameters begin with f cx cy
# (SIMPLE_… and RADIAL…) or with fx fy cx cy. Coefficients follow, in our order.
LENS_MODELS: dict[str, tuple[int, str]] = {
    "SIMPLE_PINHOLE": (3, "plumb_bob"),
    "PINHOLE": (4, "plumb_bob"),
    "SIMPLE_RADIAL": (4, "plumb_bob"),
    "RADIAL": (5, "plumb_bob"),
    "OPENCV": (8, "plumb_bob"),
    "OPENCV_FISHEYE": (8, "equidistant"),
    "FULL_OPENCV": (12, "rational_polynomial"),
    "SIMPLE_RADIAL_FISHEYE": (4, "equidistant"),
    "RADIAL_FISHEYE": (5, "equidistant"),
    "SIMPLE_FISHEYE": (3, "equidistant"),
    "FISHEYE": (4, "equidistant"),
}
STATED = re.compile(r"# Number of images: (\d{1,9})\b", re.ASCII)  # COLMAP writes it into images.txt
TOLERANCE = 1e-3  # largest difference between the length of a quaternion and 1
BINARY = """
import json, os, sys, tempfile, pycolmap
pycolmap.logging.minloglevel = pycolmap.logging.Level.FATAL
with tempfile.TemporaryDirectory() as folder:  # pycolmap needs a file of points
    open(folder + "/points3D.bin", "wb").write(bytes(8))
    for name in os.listdir(sys.argv[1]):
        if name.endswith(".bin"):
            path = os.path.join(folder, name)
            os.path.exists(path) and os.remove(path)
            os.symlink(os.path.abspath(os.path.join(sys.argv[1], name)), path)
    model = pycolmap.Reconstruction(folder)
images = []
for image in model.images.values():
    pose = image.cam_from_world() if callable(image.cam_from_world) else image.cam_from_world
    x, y, z, w = pose.rotation.quat
    images.append([image.name, str(image.camera_id), [w, x, y, z, *pose.translation]])
cameras = {
    str(number): [camera.model.name, [camera.width, camera.height, *camera.params]]
    for number, camera in model.cameras.items()
}
points = [point.xyz.tolist() for _, point in zip(range(int(sys.argv[2])), model.points3D.values())]
json.dump([images, cameras, points], sys.stdout)
"""


@dataclass(frozen=True)
class Model:
    """The cameras of a model, the lenses of distorted images by path, kinds of cameras without a lens, and points."""

    cameras: CameraModel
    lenses: dict[str, Lens]
    bent: list[str]
    points: Floats


def model_file(folder: Path, name: str) -> Path | None:
    """A file of a model; binary first, as COLMAP itself chooses."""
    return next((file for end in ("bin", "txt") if (file := folder / f"{name}.{end}").is_file()), None)


def read_model(folder: Path) -> Model:
    """The model in `folder`: images, and cameras and points if there are some."""
    file = model_file(folder, "images")
    if file is None:
        raise BadInputError(f"{folder}: no images.bin or images.txt")
    if file.suffix == ".bin":
        images, kinds, points = _binary(folder)
        places = [f"{file}, image {number} ({shown(image[0])})" for number, image in enumerate(images)]
    else:
        cameras, cloud_file = folder / "cameras.txt", folder / "points3D.txt"
        images, places = _text_images(file)
        kinds = dict(_text_cameras(cameras)) if cameras.is_file() else {}
        points = list(_text_points(cloud_file)) if cloud_file.is_file() else []
    if not images:
        raise BadInputError(f"{file}: the model has no images")
    poses = np.array([pose for _, _, pose in images], dtype=np.float64)
    wrong = np.array(~(np.abs(poses) <= MAX_COORDINATE).all(axis=1))
    wrong |= ~(np.abs(np.linalg.norm(np.where(wrong[:, None], 0, poses)[:, :4], axis=1) - 1) <= TOLERANCE)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        values = " ".join(f"{value:g}" for value in poses[row])
        raise BadInputError(f"{places[row]}: {values} is not a unit quaternion and a translation")
    names = [name for name, _, _ in images]
    turns = Rotation.from_quat(poses[:, [1, 2, 3, 0]]).as_matrix()
    where = f"{folder}/cameras{file.suffix}"
    known = {
        key: lens_of(f"{where}, camera {key}", kind, numbers[:2], numbers[2:]) for key, (kind, numbers) in kinds.items()
    }
    lens = {name: known.get(camera) for name, camera, _ in images}
    cloud = np.array(points, dtype=np.float64).reshape(-1, 3)
    return Model(
        CameraModel.from_world(names, turns, poses[:, 4:]),
        {name: one for name, one in lens.items() if one is not None and one.distorts},
        sorted({kind for key, (kind, _) in kinds.items() if known[key] is None}),
        cloud[(np.abs(cloud) <= MAX_COORDINATE).all(axis=1)],
    )


def lens_of(where: str, model: str, size: Sequence[float], parameters: Sequence[float]) -> Lens | None:
    """The lens of a camera model of COLMAP; None if we have no such lens. `where` names the camera in errors."""
    count, kind = LENS_MODELS.get(model, (0, ""))
    if not kind:
        return None
    if len(parameters) != count:
        raise BadInputError(f"{where}: {len(parameters)} parameters of {model}, expected {count}")
    if model.startswith(("SIMPLE", "RADIAL")):
        parameters = [parameters[0], *parameters]
    *focal, x, y = parameters[:4]
    try:
        # COLMAP's first pixel covers 0 to 1; ours has its center at 0.
        bent = tuple(parameters[4:])
        return Lens((int(size[0]), int(size[1])), (focal[0], focal[1]), (x - 0.5, y - 0.5), kind, bent)
    except (BadInputError, ValueError, OverflowError) as error:
        raise BadInputError(f"{where}: {error}") from None


Images = list[tuple[str, str, list[float]]]  # name, camera, quaternion w x y z and translation


def _binary(folder: Path) -> tuple[Images, dict[str, tuple[str, list[float]]], list[Any]]:
    if find_spec("pycolmap") is None:
        convert = "write it as text: colmap model_converter --output_type TXT"
        raise MappableError(f"{folder}: binary models need pycolmap; {install_extra('colmap')}; or {convert}")
    return tuple(run(BINARY, folder, str(MOST_POINTS)))


def _rows(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are no comments, with their numbers."""
    with reading(file), file.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.startswith("#"):
                yield number, line


def _refused(file: Path, number: int, line: str, expected: str) -> BadInputError:
    return BadInputError(f"{file}, row {number}: {shown(line.strip())}, expected {expected}")


def _text_images(file: Path) -> tuple[Images, list[str]]:
    """Images, and where each is written: two lines per image; the second one lists features, and may be empty."""
    with reading(file):
        stated = int(match[1]) if (match := STATED.search(file.read_text(encoding="utf-8"))) else 0
    images: Images = []
    places, rows = list[str](), _rows(file)
    for number, line in rows:
        words = line.split(maxsplit=9)
        if not words:
            continue
        try:
            if len(words) != 10:
                raise ValueError
            images.append((words[9].strip(), words[8], [float(word) for word in words[1:8]]))
        except ValueError:
            raise _refused(file, number, line, "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME") from None
        places.append(f"{file}, row {number} ({shown(words[9].strip())})")
        next(rows, None)
    if len(images) < stated:
        raise BadInputError(f"{file}: states {stated:,} images, but has {len(images):,}; it may be half-copied")
    return images, places


def _text_cameras(file: Path) -> Iterator[tuple[str, tuple[str, list[float]]]]:
    for number, line in _rows(file):
        words = line.split()
        if words:
            try:
                yield words[0], (words[1], [float(word) for word in words[2:]])
            except (ValueError, IndexError):
                raise _refused(file, number, line, "CAMERA_ID MODEL WIDTH HEIGHT PARAMS") from None


def _text_points(file: Path) -> Iterator[list[float]]:
    for number, line in islice(_rows(file), MOST_POINTS):
        if line.strip():
            try:
                x, y, z = (float(word) for word in line.split(maxsplit=4)[1:4])
            except ValueError:
                raise _refused(file, number, line, "POINT3D_ID X Y Z …") from None
            yield [x, y, z]
