"""Files of COLMAP models, text and binary: poses of images, and which cameras have lens distortion.

The format is that of https://colmap.github.io/format.html. Sizes are compared with the file before memory is used.
"""

import struct
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.models import CameraModel

POSE = struct.Struct("<I7dI")  # image, quaternion w x y z, translation x y z, camera
COUNT = struct.Struct("<Q")
POINT_BYTES = 24  # of a feature in an image: x, y, and the number of its 3D point
CAMERA = struct.Struct("<IiQQ")  # camera, model, width, height
NAME_BYTES = 4096  # longest name of an image
MODELS = {  # number of a camera model in binary files: its name and its number of parameters
    0: ("SIMPLE_PINHOLE", 3),
    1: ("PINHOLE", 4),
    2: ("SIMPLE_RADIAL", 4),
    3: ("RADIAL", 5),
    4: ("OPENCV", 8),
    5: ("OPENCV_FISHEYE", 8),
    6: ("FULL_OPENCV", 12),
    7: ("FOV", 5),
    8: ("SIMPLE_RADIAL_FISHEYE", 4),
    9: ("RADIAL_FISHEYE", 5),
    10: ("THIN_PRISM_FISHEYE", 12),
}
TOLERANCE = 1e-3  # largest difference between the length of a quaternion and 1


def read_model(folder: Path) -> CameraModel:
    """The images of the model in `folder`: images.bin, or images.txt."""
    file = model_file(folder)
    if file is None:
        raise BadInputError(f"{folder}: no images.bin or images.txt")
    with reading(file):
        names, numbers, labels = _read_binary(file) if file.suffix == ".bin" else _read_text(file)
    if not names:
        raise BadInputError(f"{file}: the model has no images")
    poses = np.array(numbers, dtype=np.float64)
    wrong = np.flatnonzero(~(np.abs(poses) <= MAX_COORDINATE).all(axis=1))
    if not len(wrong):
        wrong = np.flatnonzero(np.abs(np.linalg.norm(poses[:, :4], axis=1) - 1) > TOLERANCE)
    if len(wrong):
        values = " ".join(f"{value:g}" for value in poses[wrong[0]])
        raise BadInputError(f"{file}, {labels[wrong[0]]}: {values} is not a unit quaternion and a translation")
    to_camera: Floats = Rotation.from_quat(poses[:, [1, 2, 3, 0]]).as_matrix()
    axes = to_camera.transpose(0, 2, 1)
    centers = -np.einsum("nij,nj->ni", axes, poses[:, 4:])
    return CameraModel(names, centers, axes)


def model_file(folder: Path) -> Path | None:
    """The file with the images of a model; binary first, as COLMAP itself chooses."""
    return next((folder / name for name in ("images.bin", "images.txt") if (folder / name).is_file()), None)


def count_images(folder: Path) -> int:
    """The number of images that the file of a model states, or 0."""
    file = model_file(folder)
    if file is None:
        return 0
    with reading(file):
        if file.suffix == ".bin":
            with file.open("rb") as stream:
                head = stream.read(COUNT.size)
            return int.from_bytes(head, "little")
        return len(_read_text(file)[0])


def distorted_cameras(folder: Path) -> list[str]:
    """The models of the cameras with lens distortion; empty without a file of cameras."""
    text, binary = folder / "cameras.txt", folder / "cameras.bin"
    if binary.is_file():
        found = _camera_models(binary)
    elif text.is_file():
        with reading(text):
            rows = (line.split() for line in text.read_text().splitlines())
            found = [words[1] for words in rows if len(words) > 1 and not words[0].startswith("#")]
    else:
        found = []
    return sorted({name for name in found if not name.endswith("PINHOLE")})


def _camera_models(file: Path) -> list[str]:
    with reading(file):
        data = file.read_bytes()
    found, at = list[str](), COUNT.size
    count = COUNT.unpack_from(data)[0] if len(data) >= at else 0
    for number in range(count):
        if at + CAMERA.size > len(data):
            raise BadInputError(f"{file}: truncated at camera {number} of {count:,}")
        model = CAMERA.unpack_from(data, at)[1]
        if model not in MODELS:  # a model of a later COLMAP; its number of parameters is unknown
            return [*found, f"model {model}"]
        name, parameters = MODELS[model]
        found.append(name)
        at += CAMERA.size + 8 * parameters
    return found


def _read_binary(file: Path) -> tuple[list[str], list[tuple[float, ...]], list[str]]:
    """Names, numbers (quaternion w x y z, translation) and labels of all images; features are skipped."""
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
            _, *pose, _ = POSE.unpack_from(block)
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
    features = False
    with file.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if features:
                features = False
                continue
            if line.startswith("#") or not line.strip():
                continue
            words = line.split(maxsplit=9)
            try:
                if len(words) != 10:
                    raise ValueError
                pose = tuple(float(word) for word in words[1:8])
            except ValueError:
                expected = "expected IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME"
                raise BadInputError(f"{file}, row {number}: {line.strip()[:60]!r}, {expected}") from None
            features = True
            names.append(words[9].strip())
            poses.append(pose)
            labels.append(f"row {number} ({shown(names[-1])})")
    return names, poses, labels
