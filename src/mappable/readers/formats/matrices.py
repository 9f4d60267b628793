"""Images with poses as 4x4 matrices: 7-Scenes, ScanNet, scans of phones (ARKit), or one file with 16 numbers per row.

    ROOT/                               or any folder of such folders
      seq-01/                           7-Scenes: a text file per image
        frame-000000.color.png
        frame-000000.pose.txt
      TrainSplit.txt, TestSplit.txt     optional: splits of 7-Scenes, one `sequence1` per line
      scan/                             ScanNet: a folder of images and a folder of poses
        color/0.jpg                     also rgb/ or images/
        pose/0.txt                      also poses/
      room/                             apps for ARKit: a JSON file per image
        frame_00000.jpg
        frame_00000.json                with 16 numbers as cameraPoseARFrame, or as transform or pose
      walk/                             one file: a row per image, in the order of the names
        poses.txt                       16 numbers per row; or 17, the first is the name or number of the image
        images/000000.png               also rgb/, color/ or walk/ itself

A matrix leads from camera to world, in metres: its last row is 0 0 0 1. A matrix that was stored by
columns is recognized by that row. `--inverse` is for matrices from world to camera. The axes of
cameras are those of OpenCV: y down, z forward. With `--axes opengl`, and always for JSON files,
they are those of OpenGL: y up, z backward.

Up is estimated from the cameras, because they are held level. A note states the result, and `--up`
replaces it. `--scale` is for matrices in another unit: 0.001 for millimetres.

Each folder is a sequence with its own frame, because files do not tell whether two scans share a
world. The folders seq-01, seq-02, … of one scene share a frame. `--frame NAME` states that all do.
Images without a pose, and with a pose that is not finite (ScanNet marks lost images so), are left
out and listed.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import numpy as np

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.containers import parse_json, read_bytes
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.models import OPENGL, CameraModel, UpOption
from mappable.readers.toolkit import check_poses, is_image, join, joined, naming, walk

LAYOUT = (
    "*.pose.txt",
    "*/*.pose.txt",
    "*/*/*.pose.txt",
    "pose/*.txt",
    "*/pose/*.txt",
    "poses.txt",
    "frame*.json",
)
KEYS = ("cameraPoseARFrame", "transform", "pose", "transform_matrix")  # of a matrix in a JSON file
POSE_FOLDERS, IMAGE_FOLDERS = ("", "pose", "poses"), ("images", "rgb", "color", "")
ENDS = (".pose.txt", ".txt", ".json")  # of the file of a pose, after the name of its image
LISTS = ("poses.txt", "pose.txt", "trajectory.txt", "traj.txt")
SPLITS = {"TrainSplit.txt": "train", "TestSplit.txt": "test"}
SEQUENCE = re.compile(r"seq-\d+")
LARGEST = 2**28  # bytes of a file of poses
Poses = dict[str, tuple[str, Floats]]  # image: where its pose is written, and the matrix (4, 4)


def read(
    root: Path,
    found: Findings,
    *,
    axes: Annotated[Literal["opencv", "opengl"], "axes of cameras"] = "opencv",
    inverse: Annotated[bool, "matrices lead from world to camera"] = False,
    up: UpOption = "estimate",
    scale: Annotated[float, "metres per unit of the matrices"] = 1.0,
    frame: Annotated[str | None, "name of the frame, if all folders share one world"] = None,
) -> Places:
    worlds: dict[str, CameraModel] = {}
    for folder, poses in _find(root, found):
        model = _model(poses, axes == "opengl", inverse, found)
        sequence = PurePosixPath(_sequence(root, folder))
        scene = sequence.parent.name or root.resolve().name
        world = frame or (scene if SEQUENCE.fullmatch(sequence.name) else sequence.as_posix())
        if model.names:
            worlds[world] = worlds[world] + model if world in worlds else model
    if not worlds and not any(found):
        lists = ", ".join(LISTS)
        raise BadInputError(
            f"{root}: found no images with .pose.txt, pose/*.txt or .json files, and none of"
            f" {lists}"
        )
    tables = []
    for name, model in worlds.items():
        drives = [_sequence(root, PurePosixPath(path).parent) for path in model.names]
        splits = {drive: _split(root, drive) for drive in set(drives)}
        split = [splits[drive] for drive in drives]
        with naming(f"{root}, poses of {name}"):
            tables.append(
                model.place(name, found, up, scale, root=root, sequence=drives, split=split)
            )
    return joined(root, tables)


def _sequence(root: Path, folder: PurePosixPath) -> str:
    """The folder of a sequence: that of its images, or the folder around color/, rgb/ or images/."""
    home = folder.parent if folder.name in IMAGE_FOLDERS else folder
    return root.resolve().name if home.as_posix() == "." else home.as_posix()


def _model(poses: Poses, opengl: bool, inverse: bool, found: Findings) -> CameraModel:
    """The cameras, without those whose pose is not finite."""
    finite = {
        path: pose for path, pose in poses.items() if (np.abs(pose[1]) <= MAX_COORDINATE).all()
    }
    found.note(
        "images have a pose that is not finite (left out)",
        (path for path in poses if path not in finite),
    )
    where = [place for place, _ in finite.values()]
    matrices = np.array([matrix for _, matrix in finite.values()]).reshape(-1, 4, 4)
    by_column = (matrices[:, :3, 3] == 0).all(axis=1) & (matrices[:, 3, :3] != 0).any(axis=1)
    matrices[by_column] = matrices[by_column].transpose(0, 2, 1)
    check_poses(matrices, where.__getitem__)
    turns, shifts = matrices[:, :3, :3], matrices[:, :3, 3]
    model = (
        CameraModel.from_world([*finite], turns, shifts)
        if inverse
        else CameraModel([*finite], shifts, turns)
    )
    opengl = opengl or (".json" in where[0] if where else False)
    return replace(model, axes=model.axes * OPENGL) if opengl else model


def _find(root: Path, found: Findings) -> Iterator[tuple[PurePosixPath, Poses]]:
    """Each folder of images with poses: the path of the folder below ROOT, and the poses of its
    images.
    """
    listing = {folder: files for folder, _, files in walk(root)} if root.is_dir() else {}
    for folder, files in listing.items():
        here = PurePosixPath(folder or ".")
        images = [
            join(folder, name) for name in files if is_image(name) and ".depth" not in name.lower()
        ]
        if not images or here.name.lower() == "depth":
            continue
        home = here.parent.as_posix().removeprefix(".") if here.name in IMAGE_FOLDERS else folder
        around = [folder, *(join(home, apart) for apart in POSE_FOLDERS[1:])]
        files_of_poses = {
            file: join(place, file) for place in reversed(around) for file in listing.get(place, ())
        }
        poses: Poses = {}
        for image in images:
            stem = re.sub(r"\.(color|rgb)$", "", PurePosixPath(image).stem)
            file = next(
                (files_of_poses[stem + end] for end in ENDS if stem + end in files_of_poses), None
            )
            if file is not None:
                poses[image] = str(root / file), _from_file(root / file)
        rows = next(
            (root / join(home, name) for name in LISTS if name in listing.get(home, ())), None
        )
        if not poses and rows is not None:
            poses = _from_list(rows, images)
        if poses:
            found.note("images have no file of a pose (left out)", sorted({*images} - poses.keys()))
            yield here, poses


def _matrix(words: list[str], where: str, sizes: tuple[int, ...] = (16,)) -> Floats:
    try:
        values = np.array([float(word) for word in words])
    except ValueError as error:  # could not convert string to float: 'abc'
        raise BadInputError(
            f"{where}: {str(error).partition(': ')[2][:80]}, expected a number"
        ) from None
    if values.size not in sizes:
        raise BadInputError(f"{where}: {values.size} numbers, expected 16, of a 4x4 matrix")
    return np.append(values, (0, 0, 0, 1))[:16].reshape(4, 4)


def _from_file(file: Path) -> Floats:
    with reading(file):
        content = read_bytes(file, LARGEST).decode()
    if file.suffix != ".json":
        return _matrix(_words(content), str(file), (12, 16))
    try:
        known: Any = parse_json(content, LARGEST)
        return np.array(next(known[key] for key in KEYS if key in known), dtype=np.float64).reshape(
            4, 4
        )
    except (ValueError, TypeError, KeyError, StopIteration, OverflowError):
        raise BadInputError(f"{file}: no 4x4 matrix of numbers under {', '.join(KEYS)}") from None


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _from_list(file: Path, images: list[str]) -> Poses:
    """The poses of images in the order of their names, or named by the first word of each row."""
    with reading(file):
        lines = read_bytes(file, LARGEST).decode().splitlines()
    numbered = (
        (f"{file}, row {number}", _words(line)) for number, line in enumerate(lines, start=1)
    )
    rows = [(where, words) for where, words in numbered if words and not words[0].startswith("#")]
    if not rows:
        raise BadInputError(f"{file}: no poses")
    paths: list[str | None] = [*sorted(images)]
    if len(rows[0][1]) == 17:
        by_name = {
            key: path
            for path in images
            for key in (path, PurePosixPath(path).name, PurePosixPath(path).stem)
        }
        by_name |= {
            str(int(key)): path
            for key, path in by_name.items()
            if key.isascii() and key.isdecimal()
        }
        paths = [by_name.get(words[0]) for _, words in rows]
        rows = [(where, words[1:]) for where, words in rows]
        if not any(paths):
            raise BadInputError(
                f"{rows[0][0]}: no image has the name that is the first of 17 values"
            )
    elif len(paths) != len(rows):
        raise BadInputError(f"{file}: {len(rows):,} poses, but there are {len(paths):,} images")
    poses: Poses = {}
    for path, (where, words) in zip(paths, rows, strict=True):
        matrix = _matrix(words, where)
        if path in poses:
            raise BadInputError(f"{where}: image {shown(path)} has a pose in an earlier row")
        if path:
            poses[path] = where, matrix
    return poses


def _split(root: Path, sequence: str) -> str:
    """The split of a sequence of 7-Scenes, from the files next to its folder; they have lines such
    as sequence1.
    """
    folder = root / sequence if (root / sequence).is_dir() else root.resolve()
    for name, split in SPLITS.items():
        file = folder.parent / name
        if SEQUENCE.fullmatch(folder.name) and file.is_file():
            with reading(file):
                numbers = [word.removeprefix("sequence") for word in file.read_text().split()]
            if folder.name.removeprefix("seq-").lstrip("0") in numbers:
                return split
    return ""
