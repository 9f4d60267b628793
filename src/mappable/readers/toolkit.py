"""What readers share: find files, match images with poses, check rotations, and make the table of a drive.

Rows of files are read with `mappable.tables`, whose errors name file, row, column and value. Poses at the times of
images come from `mappable.readers.tracks`.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, BadRowError
from mappable.places.frames import Frame
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.notes import Findings
from mappable.places.rotations import are_rotations
from mappable.places.table import NO_TIME, Places
from mappable.tables import Table, read_words

CONVERTED = "convert.json"  # this file marks the folder of a converted collection
TOLERANCE = 0.05  # largest difference between the length of a quaternion and 1

# Files and folders


def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield every folder below `root`, sorted: its path relative to `root` ("" for `root`), its folders and its files.

    Links are followed; each folder is visited once. Hidden files and folders, and the output of `mappable convert`, are
    skipped. As with `os.walk`, a folder that the caller removes from the list is not visited.
    """

    def fail(error: OSError) -> None:
        raise BadInputError(f"{error.filename}: cannot list this folder ({error.strerror})")

    seen: set[str] = set()
    for inside, folders, files in os.walk(root, onerror=fail, followlinks=True):
        real, path = os.path.realpath(inside), Path(inside).relative_to(root).as_posix()
        if real in seen or (CONVERTED in files and path != "."):
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield "" if path == "." else path, folders, sorted(name for name in files if not name.startswith("."))


def join(folder: str, name: str) -> str:
    """Join a folder that `walk` yields and the name of a file in it."""
    return f"{folder}/{name}" if folder else name


def below(root: Path, path: Path) -> str:
    """The path relative to `root`, with forward slashes; "" for `root` itself."""
    inside = path.relative_to(root).as_posix()
    return "" if inside == "." else inside


def is_image(name: str) -> bool:
    """True for the name of an image file that is not hidden."""
    stem, dot, suffix = name.rpartition(".")
    return bool(stem) and dot + suffix.lower() in SUFFIXES and not name.startswith(".")


def image_files(root: Path) -> list[Path]:
    """All image files below `root`, sorted by path."""
    return sorted(root / folder / name for folder, _, names in walk(root) for name in names if is_image(name))


def list_folder(folder: Path) -> list[str]:
    """The names in a folder that are not hidden, sorted. Plain names, because 100,000 Path objects are slow."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith("."))


def homes(root: Path, marker: str, missing: str, *, levels: int = 2) -> dict[str, Path]:
    """The folders that contain `marker`, by name: the root itself, or else those on the first level that has some.

    Raise the error `missing` if there are none.
    """
    up = len(PurePosixPath(marker).parts) - 1
    for level in range(levels):
        found = sorted(path.parents[up] for path in root.glob("*/" * level + marker))
        if found:
            return {folder.resolve().name: folder for folder in found if level == 0 or not folder.name.startswith(".")}
    raise BadInputError(f"{root}: {missing}")


def chosen(root: Path, wanted: str | None, known: Collection[str], what: str) -> list[str]:
    """The names in a list such as "00,05"; without a list, all known names. An unknown name raises an error."""
    names = list(dict.fromkeys(name.strip() for name in wanted.split(","))) if wanted else list(known)
    for name in names:
        if name not in known:
            raise BadInputError(f"{root}: no {what} {name!r}; found: {', '.join(known) or 'none'}")
    return names


def numbered_images(root: Path, folder: Path, found: Findings, digits: str, named: str) -> dict[int, str]:
    """The images of a folder by the number in their names, rising; each is a path below `root`.

    `digits` is a pattern for the number. Images that are not `named` so, and repeated numbers, are noted.
    """
    pattern, inside = re.compile(digits, re.ASCII), below(root, folder)
    images: dict[int, str] = {}
    others, again = [], []
    for name in filter(is_image, list_folder(folder)):
        stem, path = name.rpartition(".")[0], join(inside, name)
        if not pattern.fullmatch(stem):
            others.append(path)
        elif images.setdefault(int(stem), path) is not path:
            again.append(path)
    found.note(f"images are not named {named}", others)
    found.note("images have the same number as another image (left out)", again)
    return dict(sorted(images.items()))


def paired(
    images: Mapping[int, str], numbers: Sequence[int], name: str, found: Findings, *, few: bool = False
) -> tuple[list[str], Ints]:
    """The images with a pose: their paths, and the rows of their poses, whose `numbers` are those of the images.

    What has no partner is noted. With `few`, only few images have poses, so the others are counted, not listed.
    """
    row_of = {number: row for row, number in enumerate(numbers)}
    posed = [number for number in images if number in row_of]
    unposed = [path for number, path in images.items() if number not in row_of]
    if few:
        found.count("drives have images without a pose (left out)", name, len(unposed), len(images))
    else:
        found.note("images have no pose (left out)", unposed)
    found.count("drives have poses without an image", name, len(row_of) - len(posed), len(row_of))
    return [images[number] for number in posed], np.array([row_of[number] for number in posed], dtype=np.int64)


# Rows of files


def columns(table: Table, names: Sequence[str], low: float = -np.inf, high: float = np.inf) -> Floats:
    """Columns of numbers (n, columns) from `low` to `high`."""
    return np.column_stack([table.numbers(name, low, high) for name in names])


def unit_quaternions(table: Table, names: Sequence[str]) -> Floats:
    """The quaternions in four columns, in the order of `names`; raise if one is not of length 1."""
    quaternions = columns(table, names)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(quaternions, axis=1, keepdims=True)
    wrong = np.flatnonzero(np.abs(lengths - 1) > TOLERANCE)
    if len(wrong):
        row = int(wrong[0])
        values = " ".join(table.columns[name][row] for name in names)
        where = f"{table.file}, row {table.row_numbers[row]}"
        raise BadInputError(f"{where}: the quaternion {values} has length {lengths[row, 0]:g}, not 1")
    unit: Floats = quaternions / lengths
    return unit


def check_poses(matrices: Floats, where: Callable[[int], str]) -> None:
    """Raise if the rotation of a pose (n, 3, 4) is none; `where` names a row in the error."""
    wrong = np.flatnonzero(~are_rotations(matrices[:, :3, :3]))
    if len(wrong):
        rows = "; ".join(" ".join(f"{value:g}" for value in row) for row in matrices[wrong[0], :3, :3])
        raise BadInputError(f"{where(int(wrong[0]))}: [{rows}] is not a rotation matrix")


def read_poses(file: Path, names: Sequence[str], rows: int = 3) -> tuple[Table, Floats]:
    """A text file of poses: its table, and the matrices (n, `rows`, 4) of its last columns, row by row."""
    table = read_words(file, names)
    matrices = columns(table, names[-4 * rows :]).reshape(-1, rows, 4)
    check_poses(matrices, lambda row: f"{file}, row {table.row_numbers[row]}")
    return table, matrices


def image_times(file: Path, rows: Sequence[int] | Ints) -> Ints:
    """The times (ns) of some images by number, from lines such as 2011-09-26 13:02:25.96; unknown without the file."""
    numbers = [int(row) for row in rows]
    if not file.is_file() or not numbers:
        return np.full(len(numbers), NO_TIME)
    table = read_words(file, ["date", "time"])
    if len(table) <= max(numbers):
        raise BadInputError(f"{file}: {len(table)} times, expected {max(numbers) + 1} or more, one per image")
    moments = [" ".join(words) for words in zip(table.columns["date"], table.columns["time"], strict=True)]
    return replace(table, columns={"time": moments}).at(numbers).times("time", "s")


# Tables of places


def drive_table(
    root: Path, frame: Frame, name: str, paths: Sequence[str], xyz: Floats, prefix: str = "", **values: Any
) -> Places:
    """The table of one drive; ids are the names of the images without suffix behind `prefix` (default: the drive)."""
    x, y, z = xyz.T
    files = (path.rpartition("/")[2] for path in paths)
    ids = [f"{prefix or name}/{file.rpartition('.')[0] or file}" for file in files]
    columns = {"place_id": ids, "sequence": name, **values}
    return Places(path=paths, root=root, frames=frame, x=x, y=y, z=z, **columns)


def joined(root: Path, tables: Sequence[Places]) -> Places:
    """The tables of all drives as one; an empty table if there are none."""
    kept = [table for table in tables if len(table)]
    return concatenate([no_places(root), *kept]) if kept else no_places(root)


def no_places(root: Path) -> Places:
    return Places(path=[], x=[], y=[], frames=(), root=root)


def at_row(error: BadRowError, where: str) -> BadInputError:
    """The error of a bad place with its row in a file instead of its row in the table."""
    return BadInputError(f"{where}: {error.problem}")
