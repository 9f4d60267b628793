"""COLMAP models: poses of images, lenses of cameras, and points. Text is read here, binary models by pycolmap.

https://colmap.github.io/format.html has the formats.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.errors import BadInputError, MappableError, install_extra
from mappable.places.lenses import Lens
from mappable.readers.isolated import run
from mappable.readers.models import CameraModel
from mappable.readers.toolkit import columns, naming_lens, unit_quaternions
from mappable.tables import Table, read_words

HEAD = 1000  # characters at the start of images.txt that may state the number of images
MOST_POINTS = 1_000_000  # lines that are read of the points of a model
# The camera models that have a lens model: number of parameters, and the lens model. Parameters
# begin with f cx cy (SIMPLE_… and RADIAL…) or with fx fy cx cy. Coefficients follow, in our order.
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
QUATERNION, SHIFT, POINT = ("qx", "qy", "qz", "qw"), ("tx", "ty", "tz"), ("x", "y", "z")
# The second line of an image lists its features.
IMAGES = ("image", "qw", "qx", "qy", "qz", *SHIFT, "camera", "name")
CAMERAS = ("camera", "model", "width", "height", "parameters")
POINTS = ("point", *POINT, "rest")
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
def texts(rows):
    return [list(map(str, column)) for column in zip(*rows)]
images, cameras = [], []
for number, image in model.images.items():
    pose = image.cam_from_world() if callable(image.cam_from_world) else image.cam_from_world
    x, y, z, w = pose.rotation.quat
    images.append([number, w, x, y, z, *pose.translation, image.camera_id, image.name])
for number, camera in model.cameras.items():
    cameras.append([number, camera.model.name, camera.width, camera.height, " ".join(map(str, camera.params))])
points = [[number, *point.xyz, ""] for _, (number, point) in zip(range(int(sys.argv[2])), model.points3D.items())]
json.dump([texts(images), texts(cameras), texts(points)], sys.stdout)
"""


@dataclass(frozen=True)
class Model:
    """The cameras of a model, the lenses of distorted images by path, kinds of cameras without a
    lens, and points.
    """

    cameras: CameraModel
    lenses: dict[str, Lens]
    bent: list[str]
    points: Floats


def has_model(folder: Path) -> bool:
    return (folder / "images.bin").is_file() or (folder / "images.txt").is_file()


def read_model(folder: Path) -> Model:
    """The model in `folder`: images, and cameras and points if there are some. Binary first, as
    COLMAP chooses.
    """
    if not has_model(folder):
        raise BadInputError(f"{folder}: no images.bin or images.txt")
    images, cameras, points = (
        _binary(folder) if (folder / "images.bin").is_file() else _text(folder)
    )
    if not len(images):
        raise BadInputError(f"{images.file}: the model has no images")
    images = images.at(sorted(range(len(images)), key=images.columns["name"].__getitem__))
    turns = Rotation.from_quat(unit_quaternions(images, QUATERNION)).as_matrix()
    shifts, names = columns(images, SHIFT, -MAX_COORDINATE, MAX_COORDINATE), images.columns["name"]
    kinds = cameras.columns["model"]
    lens = dict(zip(cameras.columns["camera"], _lenses(cameras), strict=True))
    lens_of_image = {
        name: lens.get(camera) for name, camera in zip(names, images.columns["camera"], strict=True)
    }
    cloud = columns(points, POINT)
    return Model(
        CameraModel.from_world(names, turns, shifts),
        {name: one for name, one in lens_of_image.items() if one is not None and one.distorts},
        sorted({kind for kind in kinds if kind not in LENS_MODELS}),
        cloud[(np.abs(cloud) <= MAX_COORDINATE).all(axis=1)],
    )


def _text(folder: Path) -> tuple[Table, Table, Table]:
    """The tables of images, cameras and points; the last two are empty if their files are missing."""
    file = folder / "images.txt"
    images = read_words(file, IMAGES, rest=True, every=2)
    with file.open(encoding="utf-8") as stream:
        stated = re.search(
            r"^# Number of images: (\d{1,9})\b", stream.read(HEAD), re.ASCII | re.MULTILINE
        )
    if stated and len(images) < int(stated[1]):
        raise BadInputError(
            f"{file}: states {stated[1]} images, but has {len(images):,}; it may be half-copied"
        )
    cameras, points = folder / "cameras.txt", folder / "points3D.txt"
    return (
        images,
        (
            read_words(cameras, CAMERAS, rest=True)
            if cameras.is_file()
            else _table(cameras, CAMERAS, [])
        ),
        (
            read_words(points, POINTS, rest=True, most=MOST_POINTS)
            if points.is_file()
            else _table(points, POINTS, [])
        ),
    )


def _binary(folder: Path) -> tuple[Table, Table, Table]:
    if find_spec("pycolmap") is None:
        convert = "write it as text: colmap model_converter --output_type TXT"
        raise MappableError(
            f"{folder}: binary models need pycolmap; {install_extra('colmap')}; or {convert}"
        )
    images, cameras, points = run(BINARY, folder, str(MOST_POINTS))
    return (
        _table(folder / "images.bin", IMAGES, images),
        _table(folder / "cameras.bin", CAMERAS, cameras),
        _table(folder / "points3D.bin", POINTS, points),
    )


def _table(file: Path, names: Sequence[str], values: list[list[str]]) -> Table:
    texts = dict(zip(names, values or [[] for _ in names], strict=True))
    return Table(file, texts, list(range(1, len(texts[names[0]]) + 1)), names[0])


def _lenses(cameras: Table) -> list[Lens | None]:
    """The lens of each camera; None for a model without one."""
    numbers = cameras.parse(
        "parameters", lambda text: [float(word) for word in text.split()], "expected numbers"
    )
    sizes = columns(cameras, ("width", "height")).tolist()
    where = [f"{cameras.file}, {cameras.row_name} {number}" for number in cameras.row_numbers]
    rows = zip(where, cameras.columns["model"], sizes, numbers, strict=True)
    return [lens_of(*row) for row in rows]


def lens_of(
    where: str, model: str, size: Sequence[float], parameters: Sequence[float]
) -> Lens | None:
    """The lens of a camera model of COLMAP; None if we have no such lens. `where` names the camera
    in errors.
    """
    count, kind = LENS_MODELS.get(model, (0, ""))
    if not kind:
        return None
    if len(parameters) != count:
        raise BadInputError(f"{where}: {len(parameters)} parameters of {model}, expected {count}")
    if model.startswith(("SIMPLE", "RADIAL")):
        parameters = [parameters[0], *parameters]
    with naming_lens(where):  # COLMAP's first pixel covers 0 to 1; ours has its center at 0
        width, height, focal_x, focal_y, x, y = *size, *parameters[:4]
        bent = tuple(parameters[4:])
        return Lens((int(width), int(height)), (focal_x, focal_y), (x - 0.5, y - 0.5), kind, bent)
