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

A matrix leads from camera to world, in metres: its last row is 0 0 0 1. A matrix that was stored by columns is
recognized by that row. `--inverse` is for matrices from world to camera. The axes of cameras are those of OpenCV: y
down, z forward. With `--axes opengl`, and always for JSON files, they are those of OpenGL: y up, z backward.

Up is estimated from the cameras, because they are held level. A note states the result, and `--up` replaces it.
`--scale` is for matrices in another unit: 0.001 for millimetres.

Each folder is a sequence with its own frame, because files do not tell whether two scans share a world. The folders
seq-01, seq-02, … of one scene share a frame. `--frame NAME` states that all do. Images without a pose, and with a pose
that is not finite (ScanNet marks lost images so), are left out and listed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import numpy as np

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.containers import parse_json, read_bytes
from mappable.errors import BadInputError, BadRowError, shown
from mappable.files import reading
from mappable.places.notes import Findings
from mappable.places.rotations import are_rotations
from mappable.places.table import Places
from mappable.readers.models import OPENGL, CameraModel, Up, place_model
from mappable.readers.toolkit import at_row, is_image, join, joined, walk

LAYOUT = ("*.pose.txt", "*/*.pose.txt", "*/*/*.pose.txt", "pose/*.txt", "*/pose/*.txt", "poses.txt", "frame*.json")
KEYS = ("cameraPoseARFrame", "transform", "pose", "transform_matrix")  # of a matrix in a JSON file
POSE_FOLDERS, IMAGE_FOLDERS = ("pose", "poses"), ("images", "rgb", "color", "")
LISTS = ("poses.txt", "pose.txt", "trajectory.txt", "traj.txt")
SPLITS = {"TrainSplit.txt": "train", "TestSplit.txt": "test"}
SEQUENCE = re.compile(r"seq-\d+")
LARGEST = 2**20  # bytes of the file of one pose
LARGEST_LIST = 2**28


def read(
    root: Path,
    found: Findings,
    *,
    axes: Annotated[Literal["opencv", "opengl"], "axes of cameras"] = "opencv",
    inverse: Annotated[bool, "matrices lead from world to camera"] = False,
    up: Annotated[Up, "direction of up in the world: estimate, or an axis"] = "estimate",
    scale: Annotated[float, "metres per unit of the matrices"] = 1.0,
    frame: Annotated[str | None, "name of the frame, if all folders share one world"] = None,
) -> Places:
    worlds: dict[str, list[CameraModel]] = {}
    for posed in _find(root, found):
        model = posed.model(axes == "opengl", inverse, found)
        if model.names:
            worlds.setdefault(frame or posed.world, []).append(model)
    if not worlds and not any(found):
        lists = ", ".join(LISTS)
        raise BadInputError(f"{root}: found no images with .pose.txt, pose/*.txt or .json files, and none of {lists}")
    tables = []
    for name, models in worlds.items():
        model = CameraModel.joined(models)
        placed = place_model(model, name, found, up, scale)
        sequence = [_sequence(PurePosixPath(path).parent, root) for path in model.names]
        splits = {one: _split(root, one) for one in set(sequence)}
        split = [splits[one] for one in sequence]
        try:
            tables.append(placed.places(model.names, root=root, sequence=sequence, split=split))
        except BadRowError as error:
            raise at_row(error, f"{root}, poses of {name}") from None
    return joined(root, tables)


@dataclass(frozen=True)
class _Poses:
    """Images of one folder with poses: paths below ROOT, matrices (n, 4, 4), and where each one is written."""

    world: str
    paths: list[str]
    matrices: Floats
    labels: list[str]
    opengl: bool  # axes of cameras, whatever the option `axes` says

    def model(self, opengl: bool, inverse: bool, found: Findings) -> CameraModel:
        """The cameras, without those whose pose is not finite."""
        finite = (np.abs(self.matrices) <= MAX_COORDINATE).all(axis=(1, 2))
        lost = (self.paths[row] for row in np.flatnonzero(~finite))
        found.note("images have a pose that is not finite (left out)", lost)
        rows = np.flatnonzero(finite)
        matrices = self.matrices[rows]
        by_column = (matrices[:, :3, 3] == 0).all(axis=1) & (matrices[:, 3, :3] != 0).any(axis=1)
        matrices[by_column] = matrices[by_column].transpose(0, 2, 1)
        wrong = ~are_rotations(matrices[:, :3, :3]) | (np.abs(matrices[:, 3] - (0, 0, 0, 1)).max(axis=1) > 1e-6)
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            text = "; ".join(" ".join(f"{value:g}" for value in row) for row in matrices[bad])
            raise BadInputError(f"{self.labels[rows[bad]]}: [{text[:150]}] is not a pose, whose last row is 0 0 0 1")
        kept, turns, shifts = [self.paths[row] for row in rows], matrices[:, :3, :3], matrices[:, :3, 3]
        model = CameraModel.from_world(kept, turns, shifts) if inverse else CameraModel(kept, shifts, turns)
        return replace(model, axes=model.axes * OPENGL) if opengl or self.opengl else model


def _sequence(folder: PurePosixPath, root: Path) -> str:
    """The folder of a sequence: that of its images, or the folder around color/, rgb/ or images/."""
    home = folder.parent if folder.name in IMAGE_FOLDERS else folder
    return root.resolve().name if home.as_posix() == "." else home.as_posix()


def _find(root: Path, found: Findings) -> Iterator[_Poses]:
    listing = {folder: files for folder, _, files in walk(root)} if root.is_dir() else {}
    for folder, files in listing.items():
        images = [name for name in files if is_image(name) and ".depth" not in name.lower()]
        here = PurePosixPath(folder or ".")
        if not images or here.name.lower() == "depth":
            continue
        home = here.parent.as_posix().removeprefix(".") if here.name in IMAGE_FOLDERS else folder
        name = PurePosixPath(_sequence(here, root))
        shared = name.parent.name or root.resolve().name
        world = shared if SEQUENCE.fullmatch(name.name) else name.as_posix()
        beside = {file: join(folder, file) for file in files}
        for apart in (join(home, one) for one in POSE_FOLDERS):
            beside = {file: join(apart, file) for file in listing.get(apart, ())} | beside
        posed: dict[str, Path] = {}
        for image in images:
            stem = re.sub(r"\.(color|rgb)$", "", Path(image).stem)
            file = next((one for end in (".pose.txt", ".txt", ".json") if (one := beside.get(stem + end))), None)
            if file is not None:
                posed[join(folder, image)] = root / file
        rows = next((root / join(home, one) for one in LISTS if one in listing.get(home, ())), None)
        paths = [join(folder, image) for image in images]
        if posed:
            found.note("images have no file of a pose (left out)", (path for path in paths if path not in posed))
            matrices = np.stack([_from_file(file) for file in posed.values()])
            opengl = next(iter(posed.values())).suffix == ".json"
            yield _Poses(world, list(posed), matrices, [str(file) for file in posed.values()], opengl)
        elif rows is not None:
            yield _Poses(world, *_from_list(rows, paths, found), opengl=False)


def _matrix(words: list[str], where: str, sizes: tuple[int, ...] = (16,)) -> Floats:
    try:
        values = np.array([float(word) for word in words])
    except ValueError as error:  # could not convert string to float: 'abc'
        raise BadInputError(f"{where}: {str(error).partition(': ')[2][:80]}, expected a number") from None
    if values.size not in sizes:
        raise BadInputError(f"{where}: {values.size} numbers, expected 16, of a 4x4 matrix")
    return np.concatenate([values, (0, 0, 0, 1)])[:16].reshape(4, 4)


def _from_file(file: Path) -> Floats:
    with reading(file):
        if file.stat().st_size > LARGEST:
            raise BadInputError(f"{file}: {file.stat().st_size:,} bytes, too large for one pose")
        if file.suffix != ".json":
            return _matrix(file.read_text().replace(",", " ").split(), str(file), (12, 16))
        try:
            content = parse_json(read_bytes(file, LARGEST), LARGEST)
            return np.array(next(content[key] for key in KEYS if key in content), dtype=np.float64).reshape(4, 4)
        except (ValueError, TypeError, KeyError, StopIteration, OverflowError):
            raise BadInputError(f"{file}: no 4x4 matrix of numbers under {', '.join(KEYS)}") from None


def _from_list(file: Path, paths: list[str], found: Findings) -> tuple[list[str], Floats, list[str]]:
    """Images in the order of their names, or named by the first word of each row."""
    with reading(file):
        lines = file.read_text().splitlines() if file.stat().st_size <= LARGEST_LIST else []
    numbered = enumerate((line.replace(",", " ").split() for line in lines), start=1)
    rows = {f"{file}, row {number}": words for number, words in numbered if words and not words[0].startswith("#")}
    if not rows:
        raise BadInputError(f"{file}: no poses, or more than {LARGEST_LIST:,} bytes")
    named = len(next(iter(rows.values()))) == 17
    matrices = {where: _matrix(words[named:], where) for where, words in rows.items()}
    if not named:
        if len(paths) != len(rows):
            raise BadInputError(f"{file}: {len(rows):,} poses, but there are {len(paths):,} images")
        return sorted(paths), np.stack([*matrices.values()]), list(rows)
    by_name = {key: path for path in paths for key in (path, PurePosixPath(path).name, PurePosixPath(path).stem)}
    by_name |= {str(int(key)): path for key, path in by_name.items() if key.isascii() and key.isdecimal()}
    path_of: dict[str, str] = {}
    seen: set[str] = set()
    for where, words in rows.items():
        path = by_name.get(words[0])
        if path in seen:
            raise BadInputError(f"{where}: image {shown(words[0])} has a pose in an earlier row")
        if path:
            path_of[where] = path
            seen.add(path)
    if not path_of:
        first, words = next(iter(rows.items()))
        raise BadInputError(f"{first}: no image has the name {shown(words[0])}, which is the first of 17 values")
    found.note("images have no file of a pose (left out)", sorted(set(paths) - set(path_of.values())))
    return [*path_of.values()], np.stack([matrices[where] for where in path_of]), list(path_of)


def _split(root: Path, sequence: str) -> str:
    """The split of a sequence of 7-Scenes, from the files next to its folder; they have lines such as sequence1."""
    folder = root / sequence if (root / sequence).is_dir() else root.resolve()
    for name, split in SPLITS.items():
        file = folder.parent / name
        if SEQUENCE.fullmatch(folder.name) and file.is_file():
            with reading(file):
                numbers = [word.removeprefix("sequence") for word in file.read_text().split()]
            if folder.name.removeprefix("seq-").lstrip("0") in numbers:
                return split
    return ""
