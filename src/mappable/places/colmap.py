"""Files of COLMAP models, text and binary: poses of images, lenses of cameras, and points.

The format is that of https://colmap.github.io/format.html. Sizes are compared with the file before memory is used.
"""

import re
import struct
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.lenses import Lens
from mappable.places.models import CameraModel

POSE = struct.Struct("<I7dI")  # image, quaternion w x y z, translation x y z, camera
COUNT = struct.Struct("<Q")
POINT_BYTES = 24  # of a feature in an image: x, y, and the number of its 3D point
CAMERA = struct.Struct("<IiQQ")  # camera, model, width, height
POINT = struct.Struct("<Q3d3BdQ")  # point, x y z, color, error, number of features that show it
MOST_POINTS, FEATURE_BYTES = 1_000_000, 8  # points that are read of a model; bytes of a feature in a point
NAME_BYTES = 4096  # longest name of an image
# The camera models, by their numbers in binary files: name, number of parameters, and the lens model if there is one.
# Parameters begin with f cx cy (SIMPLE_… and RADIAL…) or with fx fy cx cy. Coefficients follow, in our order.
MODELS: tuple[tuple[str, int, str], ...] = (
    ("SIMPLE_PINHOLE", 3, "plumb_bob"),
    ("PINHOLE", 4, "plumb_bob"),
    ("SIMPLE_RADIAL", 4, "plumb_bob"),
    ("RADIAL", 5, "plumb_bob"),
    ("OPENCV", 8, "plumb_bob"),
    ("OPENCV_FISHEYE", 8, "equidistant"),
    ("FULL_OPENCV", 12, "rational_polynomial"),
    ("FOV", 5, ""),
    ("SIMPLE_RADIAL_FISHEYE", 4, "equidistant"),
    ("RADIAL_FISHEYE", 5, "equidistant"),
    ("THIN_PRISM_FISHEYE", 12, ""),
    ("RAD_TAN_THIN_PRISM_FISHEYE", 16, ""),
    ("SIMPLE_DIVISION", 4, ""),
    ("DIVISION", 5, ""),
    ("SIMPLE_FISHEYE", 3, "equidistant"),
    ("FISHEYE", 4, "equidistant"),
    ("EUCM", 6, ""),
    ("EQUIRECTANGULAR", 2, ""),
)
LENS_MODELS = {name: (count, lens) for name, count, lens in MODELS}
STATED = re.compile(r"# Number of images: (\d{1,9})\b", re.ASCII)  # COLMAP writes it into images.txt
TOLERANCE = 1e-3  # largest difference between the length of a quaternion and 1


def read_model(folder: Path) -> CameraModel:
    """The images of the model in `folder`: images.bin, or images.txt."""
    file, names, poses, labels = _images(folder)
    wrong = np.flatnonzero(~(np.abs(poses[:, :7]) <= MAX_COORDINATE).all(axis=1))
    if not len(wrong):
        wrong = np.flatnonzero(np.abs(np.linalg.norm(poses[:, :4], axis=1) - 1) > TOLERANCE)
    if len(wrong):
        values = " ".join(f"{value:g}" for value in poses[wrong[0], :7])
        raise BadInputError(f"{file}, {labels[wrong[0]]}: {values} is not a unit quaternion and a translation")
    return CameraModel.from_world(names, Rotation.from_quat(poses[:, [1, 2, 3, 0]]).as_matrix(), poses[:, 4:7])


def read_lenses(folder: Path) -> dict[str, Lens]:
    """The lenses of the images in `folder` that have lens distortion, and that we can undistort; empty if unknown."""
    cameras = read_cameras(folder)
    if not cameras:
        return {}
    _, names, poses, _ = _images(folder)
    lenses = {name: cameras.get(str(int(pose[7])), ("", None))[1] for name, pose in zip(names, poses, strict=True)}
    return {name: lens for name, lens in lenses.items() if lens and lens.distorts}


def _images(folder: Path) -> tuple[Path, list[str], Floats, list[str]]:
    """The file, names, numbers (n, 8) and labels of all images. Numbers: quaternion w x y z, translation, camera."""
    file = model_file(folder)
    if file is None:
        raise BadInputError(f"{folder}: no images.bin or images.txt")
    with reading(file):
        names, numbers, labels = _read_binary(file) if file.suffix == ".bin" else _read_text(file)
    if not names:
        raise BadInputError(f"{file}: the model has no images")
    return file, names, np.array(numbers, dtype=np.float64), labels


def model_file(folder: Path) -> Path | None:
    """The file with the images of a model, if there is one."""
    return _file(folder, "images")


def _file(folder: Path, name: str) -> Path | None:
    """A file of a model; binary first, as COLMAP itself chooses."""
    return next((file for end in ("bin", "txt") if (file := folder / f"{name}.{end}").is_file()), None)


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


def read_cameras(folder: Path) -> dict[str, tuple[str, Lens | None]]:
    """The camera model and the lens of each camera; empty without a file of cameras."""
    file = _file(folder, "cameras")
    if file is None:
        return {}
    with reading(file):
        cameras = _binary_cameras(file) if file.suffix == ".bin" else _text_cameras(file)
    return {
        camera: (model, lens_of(f"{file}, camera {camera}", model, numbers[:2], numbers[2:]))
        for camera, (model, numbers) in cameras.items()
    }


def _text_cameras(file: Path) -> dict[str, tuple[str, list[float]]]:
    found = {}
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        words = line.split()
        if words and not words[0].startswith("#"):
            try:
                found[words[0]] = words[1], [float(word) for word in words[2:]]
            except (ValueError, IndexError):
                expected = "expected CAMERA_ID MODEL WIDTH HEIGHT PARAMS"
                raise BadInputError(f"{file}, row {number}: {shown(line)}, {expected}") from None
    return found


def _binary_cameras(file: Path) -> dict[str, tuple[str, list[float]]]:
    data = file.read_bytes()
    found: dict[str, tuple[str, list[float]]] = {}
    at = COUNT.size
    count = COUNT.unpack_from(data)[0] if len(data) >= at else 1
    for number in range(count):
        camera, model, width, height = CAMERA.unpack_from(data, at) if at + CAMERA.size <= len(data) else (0, 0, 0, 0)
        if not 0 <= model < len(MODELS):  # of a later COLMAP; its number of parameters is unknown, so the rest is, too
            return found | {str(camera): (f"model {model}", [])}
        name, parameters, _ = MODELS[model]
        at += CAMERA.size + 8 * parameters
        if at > len(data):
            raise BadInputError(f"{file}: truncated at camera {number} of {count:,}; it may be half-copied")
        found[str(camera)] = name, [width, height, *struct.unpack_from(f"<{parameters}d", data, at - 8 * parameters)]
    return found


def read_points(folder: Path) -> Floats:
    """The points (n, 3) of a model, the first million of them; (0, 3) without a file of points."""
    file = _file(folder, "points3D")
    if file is None:
        return np.empty((0, 3))
    with reading(file):
        points = np.array(_binary_points(file) if file.suffix == ".bin" else _text_points(file), dtype=np.float64)
    points = points.reshape(-1, 3)
    return points[(np.abs(points) <= MAX_COORDINATE).all(axis=1)]


def _binary_points(file: Path) -> list[tuple[float, ...]]:
    found = []
    with file.open("rb") as stream:
        head, size = stream.read(COUNT.size), file.stat().st_size
        count = COUNT.unpack(head)[0] if len(head) == COUNT.size else 1
        for number in range(min(count, MOST_POINTS)):
            block = stream.read(POINT.size)
            features = POINT.unpack(block)[-1] * FEATURE_BYTES if len(block) == POINT.size else 1
            if features > size or len(stream.read(features)) < features:
                raise BadInputError(f"{file}: truncated or damaged at point {number} of {count:,}")
            found.append(POINT.unpack(block)[1:4])
    return found


def _text_points(file: Path) -> list[tuple[float, ...]]:
    found: list[tuple[float, ...]] = []
    with file.open(encoding="utf-8") as stream:
        for number, line in enumerate(islice(stream, MOST_POINTS), start=1):
            if not line.startswith("#") and line.strip():
                try:
                    x, y, z = (float(word) for word in line.split(maxsplit=4)[1:4])
                except ValueError:
                    raise BadInputError(f"{file}, row {number}: {shown(line)}, expected POINT3D_ID X Y Z …") from None
                found.append((x, y, z))
    return found


def _read_binary(file: Path) -> tuple[list[str], list[tuple[float, ...]], list[str]]:
    """Names, numbers and labels of all images; features are skipped."""
    size = file.stat().st_size
    names, poses, labels = [], [], []
    with file.open("rb") as stream:
        head = stream.read(COUNT.size)
        count = COUNT.unpack(head)[0] if len(head) == COUNT.size else -1
        if not 0 <= count <= size // (POSE.size + 1 + COUNT.size):
            raise BadInputError(f"{file}: states {count:,} images, more than {size:,} bytes can hold")
        at = COUNT.size
        for number in range(count):
            stream.seek(at)
            block = stream.read(POSE.size + NAME_BYTES + 1 + COUNT.size)
            end = block.find(b"\0", POSE.size)
            if end < 0 or end + 1 + COUNT.size > len(block):
                raise BadInputError(f"{file}: truncated or damaged at image {number} of {count:,}")
            _, *pose = POSE.unpack_from(block)
            try:
                names.append(block[POSE.size : end].decode())
            except UnicodeDecodeError:
                raise BadInputError(f"{file}, image {number}: its name is not UTF-8") from None
            points = COUNT.unpack_from(block, end + 1)[0]
            at += end + 1 + COUNT.size + POINT_BYTES * points
            if at > size:
                what = f"states {points:,} features, more than the file holds"
                raise BadInputError(f"{file}, image {number} ({shown(names[-1])}): {what}; it may be half-copied")
            poses.append(tuple(pose))
            labels.append(f"image {number} ({shown(names[-1])})")
    return names, poses, labels


def _read_text(file: Path) -> tuple[list[str], list[tuple[float, ...]], list[str]]:
    """The same from images.txt: two lines per image; the second one lists features, and may be empty."""
    names, poses, labels = [], [], []
    features, stated = False, 0
    with file.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if features:
                features = False
                continue
            if line.startswith("#") or not line.strip():
                stated = int(match[1]) if (match := STATED.match(line)) else stated
                continue
            words = line.split(maxsplit=9)
            try:
                if len(words) != 10:
                    raise ValueError
                pose = (*(float(word) for word in words[1:8]), int(words[8]))
            except ValueError:
                expected = "expected IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME"
                raise BadInputError(f"{file}, row {number}: {line.strip()[:60]!r}, {expected}") from None
            features = True
            names.append(words[9].strip())
            poses.append(pose)
            labels.append(f"row {number} ({shown(names[-1])})")
    if len(names) < stated:
        raise BadInputError(f"{file}: states {stated:,} images, but has {len(names):,}; it may be half-copied")
    return names, poses, labels
