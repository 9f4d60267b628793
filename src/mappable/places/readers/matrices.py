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
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.models import CameraModel, Up, place_model
from mappable.places.notes import Findings, Note, merged
from mappable.places.readers import join, walk
from mappable.places.rotations import are_rotations
from mappable.places.table import Places

KEYS = ("cameraPoseARFrame", "transform", "pose", "transform_matrix")  # of a matrix in a JSON file
POSE_FOLDERS, IMAGE_FOLDERS = ("pose", "poses"), ("images", "rgb", "color", "")
LISTS = ("poses.txt", "pose.txt", "trajectory.txt", "traj.txt")
SEQUENCE = re.compile(r"seq-\d+")
LARGEST = 2**20  # bytes of the file of one pose
LARGEST_LIST = 2**28
TO_OPENCV = np.array([1.0, -1.0, -1.0])  # signs of the axes of a camera, from OpenGL


def read(
    root: Path,
    *,
    axes: Annotated[Literal["opencv", "opengl"], "axes of cameras"] = "opencv",
    inverse: Annotated[bool, "matrices lead from world to camera"] = False,
    up: Annotated[Up, "direction of up in the world: estimate, or an axis"] = "estimate",
    scale: Annotated[float, "metres per unit of the matrices"] = 1.0,
    frame: Annotated[str | None, "name of the frame, if all folders share one world"] = None,
) -> Places:
    found = Findings()
    worlds: dict[str, list[_Posed]] = {}
    for posed in _find(root, found):
        worlds.setdefault(frame or posed.world, []).append(posed)
    if not worlds:
        lists = ", ".join(LISTS)
        raise BadInputError(f"{root}: found no images with .pose.txt, pose/*.txt or .json files, and none of {lists}")
    tables, notes = [Places(path=[], x=[], y=[], frames=(), root=root)], list[Note]()
    for name, all_posed in worlds.items():
        parts = [part for part in (_read(posed, axes, inverse, found) for posed in all_posed) if part.names]
        if not parts:
            continue
        together = CameraModel.joined(parts)
        placed = place_model(together, name, up, scale)
        notes += placed.notes
        sequence = [PurePosixPath(path).parent.as_posix() for path in together.names]
        sequence = [_sequence_name(folder, root) for folder in sequence]
        splits = {one: _split(root, one) for one in set(sequence)}
        split = [splits[one] for one in sequence]
        tables.append(placed.places(together.names, root=root, sequence=sequence, split=split))
    return concatenate(tables).noting(*merged(notes), *found.notes())


@dataclass(frozen=True)
class _Posed:
    """The images of one folder: for each path below the root its file of a pose, or its row in one list."""

    world: str
    files: dict[str, Path]
    rows: Path | None = None


def _sequence_name(folder: str, root: Path) -> str:
    """The folder of a sequence: that of its images, or the folder around color/, rgb/ or images/."""
    pure = PurePosixPath(folder)
    pure = pure.parent if pure.name in IMAGE_FOLDERS else pure
    return root.resolve().name if pure.as_posix() == "." else pure.as_posix()


def _find(root: Path, found: Findings) -> Iterator[_Posed]:
    listing = {folder: files for folder, _, files in walk(root)} if root.is_dir() else {}
    for folder, files in listing.items():
        images = [name for name in files if Path(name).suffix.lower() in SUFFIXES and ".depth" not in name.lower()]
        pure = PurePosixPath(folder or ".")
        if not images or pure.name.lower() == "depth":
            continue
        home = pure.parent.as_posix().removeprefix(".") if pure.name in IMAGE_FOLDERS else folder
        name = PurePosixPath(_sequence_name(folder, root))
        shared = name.parent.name or root.resolve().name
        world = shared if SEQUENCE.fullmatch(name.name) else name.as_posix()
        beside, posed = set(files), dict[str, Path]()
        apart = {one: set(listing.get(join(home, one), ())) for one in POSE_FOLDERS}
        for image in images:
            stem = re.sub(r"\.(color|rgb)$", "", Path(image).stem)
            near = (name for name in (f"{stem}.pose.txt", f"{stem}.txt", f"{stem}.json") if name in beside)
            far = (join(join(home, one), f"{stem}.txt") for one in POSE_FOLDERS if f"{stem}.txt" in apart[one])
            file = next((join(folder, name) for name in near), None) or next(far, None)
            if file is not None:
                posed[join(folder, image)] = root / file
        rows = next((root / join(home, one) for one in LISTS if one in listing.get(home, ())), None)
        if posed:
            found["images have no file of a pose"] += [
                join(folder, image) for image in images if join(folder, image) not in posed
            ]
            yield _Posed(world, posed)
        elif rows is not None:
            yield _Posed(world, {join(folder, image): rows for image in images}, rows)


def _read(posed: _Posed, axes: str, inverse: bool, found: Findings) -> CameraModel:
    if posed.rows is not None:
        paths, matrices, labels = _from_list(posed.rows, list(posed.files), found)
        signs = [axes == "opengl"] * len(paths)
    else:
        paths, labels = list(posed.files), [str(file) for file in posed.files.values()]
        matrices = np.stack([_from_file(file) for file in posed.files.values()])
        signs = [axes == "opengl" or file.suffix == ".json" for file in posed.files.values()]
    finite = (np.abs(matrices) <= MAX_COORDINATE).all(axis=(1, 2))
    found["images have a pose that is not finite (left out)"] += [paths[row] for row in np.flatnonzero(~finite)]
    rows = np.flatnonzero(finite)
    matrices = matrices[rows]
    by_column = (matrices[:, :3, 3] == 0).all(axis=1) & (matrices[:, 3, :3] != 0).any(axis=1)
    matrices[by_column] = matrices[by_column].transpose(0, 2, 1)
    wrong = ~are_rotations(matrices[:, :3, :3]) | (np.abs(matrices[:, 3] - (0, 0, 0, 1)).max(axis=1) > 1e-6)
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        text = "; ".join(" ".join(f"{value:g}" for value in row) for row in matrices[bad])
        raise BadInputError(f"{labels[rows[bad]]}: [{text[:150]}] is not a pose, whose last row is 0 0 0 1")
    kept, turns, shifts = [paths[row] for row in rows], matrices[:, :3, :3], matrices[:, :3, 3]
    model = CameraModel.from_world(kept, turns, shifts) if inverse else CameraModel(kept, shifts, turns)
    opengl = np.array(signs, dtype=bool)[rows][:, None, None]
    return replace(model, axes=np.where(opengl, model.axes * TO_OPENCV, model.axes))


def _numbers(words: list[str], where: str) -> Floats:
    try:
        values = np.array([float(word) for word in words])
    except ValueError as error:  # could not convert string to float: 'abc'
        raise BadInputError(f"{where}: {str(error).partition(': ')[2][:80]}, expected a number") from None
    if values.size not in (12, 16):
        raise BadInputError(f"{where}: {values.size} numbers, expected 16, of a 4x4 matrix")
    return np.concatenate([values, [0, 0, 0, 1]])[:16].reshape(4, 4)


def _from_file(file: Path) -> Floats:
    with reading(file):
        if file.stat().st_size > LARGEST:
            raise BadInputError(f"{file}: {file.stat().st_size:,} bytes, too large for one pose")
        if file.suffix != ".json":
            return _numbers(file.read_text().replace(",", " ").split(), str(file))
        try:
            content = parse_json(read_bytes(file, LARGEST), LARGEST)
            matrix = next(content[key] for key in KEYS if key in content)
            return np.array(matrix, dtype=np.float64).reshape(4, 4)
        except (ValueError, TypeError, KeyError, StopIteration, OverflowError):
            raise BadInputError(f"{file}: no 4x4 matrix of numbers under {', '.join(KEYS)}") from None


def _from_list(file: Path, paths: list[str], found: Findings) -> tuple[list[str], Floats, list[str]]:
    """Images in the order of their names, or named by the first word of each row."""
    with reading(file):
        lines = file.read_text().splitlines() if file.stat().st_size <= LARGEST_LIST else []
    rows = {number: line.replace(",", " ").split() for number, line in enumerate(lines, start=1)}
    rows = {number: words for number, words in rows.items() if words and not words[0].startswith("#")}
    if not rows:
        raise BadInputError(f"{file}: no poses, or more than {LARGEST_LIST:,} bytes")
    labels = [f"{file}, row {number}" for number in rows]
    named = len(next(iter(rows.values()))) in (13, 17)
    matrices = np.stack([_numbers(words[named:], label) for words, label in zip(rows.values(), labels, strict=True)])
    if not named:
        if len(paths) != len(matrices):
            raise BadInputError(f"{file}: {len(matrices):,} poses, but there are {len(paths):,} images")
        return sorted(paths), matrices, labels
    by_name = {key: path for path in paths for key in (path, PurePosixPath(path).name, PurePosixPath(path).stem)}
    by_name |= {str(int(key)): path for key, path in by_name.items() if key.isascii() and key.isdecimal()}
    known = [row for row, words in enumerate(rows.values()) if words[0] in by_name]
    if not known:
        first = next(iter(rows.values()))[0]
        raise BadInputError(f"{labels[0]}: no image has the name {shown(first)}, which is the first of 17 values")
    names = [by_name[words[0]] for words in rows.values() if words[0] in by_name]
    found["images have no file of a pose"] += sorted(set(paths) - set(names))
    return names, matrices[known], [labels[row] for row in known]


def _split(root: Path, sequence: str) -> str:
    """The split of a sequence of 7-Scenes, from the files next to its folder; they have lines such as sequence1."""
    folder = root / sequence if (root / sequence).is_dir() else root.resolve()
    for name, split in (("TrainSplit.txt", "train"), ("TestSplit.txt", "test")):
        file = folder.parent / name
        if SEQUENCE.fullmatch(folder.name) and file.is_file():
            with reading(file):
                numbers = [word.removeprefix("sequence") for word in file.read_text().split()]
            if folder.name.removeprefix("seq-").lstrip("0") in numbers:
                return split
    return ""
