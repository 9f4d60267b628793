"""What readers share: find files, match images with poses, check rotations, and make the table of a drive.

Rows of files are read with `mappable.tables`, whose errors name file, row, column and value. Poses
at the times of images come from `mappable.readers.tracks`.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from mappable.arrays import MAX_COORDINATE, Floats, Ints
from mappable.errors import BadInputError, BadRowError
from mappable.places.frames import MAX_RADIUS, Frame, frame_from_latlon
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.notes import Findings
from mappable.places.rotations import are_rotations
from mappable.places.table import NO_TIME, Places
from mappable.tables import Table, read_words
from mappable.times import DECIMALS, TimeUnit, nanoseconds

CONVERTED = "convert.json"  # this file marks the folder of a converted collection
TOLERANCE = 0.05  # largest difference between the length of a quaternion and 1
ROUNDING = 1e-6  # in the last row of a pose

# Files and folders


def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield every folder below `root`, sorted: its path relative to `root` ("" for `root`), its
    folders and its files.

    Links are followed; each folder is visited once. Hidden files and folders, and the output of
    `mappable convert`, are skipped. As with `os.walk`, a folder that the caller removes from the
    list is not visited.
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
        yield (
            "" if path == "." else path,
            folders,
            sorted(name for name in files if not name.startswith(".")),
        )


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
    return sorted(
        root / folder / name for folder, _, names in walk(root) for name in names if is_image(name)
    )


def list_folder(folder: Path) -> list[str]:
    """The names in a folder that are not hidden, sorted. Plain names, because 100,000 Path objects
    are slow.
    """
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith("."))


def homes(root: Path, marker: str, missing: str, *, levels: int = 2) -> dict[str, Path]:
    """The folders that contain `marker`, by name: the root itself, or else those on the first level
    that has some.

    Raise the error `missing` if there are none.
    """
    up = len(PurePosixPath(marker).parts) - 1
    for level in range(levels):
        found = sorted(path.parents[up] for path in root.glob("*/" * level + marker))
        if found:
            return {
                folder.resolve().name: folder
                for folder in found
                if level == 0 or not folder.name.startswith(".")
            }
    raise BadInputError(f"{root}: {missing}")


def having(homes: Mapping[str, Path], inside: str, found: Findings, text: str) -> dict[str, Path]:
    """The folders that contain `inside`, by name; the others are noted."""
    kept = {name: home for name, home in homes.items() if (home / inside).exists()}
    found.note(text, (name for name in homes if name not in kept))
    return kept


def chosen(root: Path, wanted: str | None, known: Collection[str], what: str) -> list[str]:
    """The names in a list such as "00,05"; without a list, all known names. An unknown name raises
    an error.
    """
    names = (
        list(dict.fromkeys(name.strip() for name in wanted.split(","))) if wanted else list(known)
    )
    for name in names:
        if name not in known:
            raise BadInputError(f"{root}: no {what} {name!r}; found: {', '.join(known) or 'none'}")
    return names


def numbered_images(
    root: Path, folder: Path, found: Findings, pattern: str, named: str, unit: TimeUnit = "ns"
) -> dict[int, str]:
    """The images of a folder by the number in their names, rising; each is a path below `root`.

    `pattern` is that of the number: a count, or a time in `unit`, which becomes nanoseconds. Images
    that are not `named` so, and repeated numbers, are noted.
    """
    number, inside, scale = re.compile(pattern, re.ASCII), below(root, folder), 10 ** DECIMALS[unit]
    images: dict[int, str] = {}
    others, again = [], []
    for name in filter(is_image, list_folder(folder)):
        stem, path = name.rpartition(".")[0], join(inside, name)
        if not number.fullmatch(stem):
            others.append(path)
            continue
        value = int(stem) * scale if stem.isdecimal() else nanoseconds(stem, unit)
        if images.setdefault(value, path) is not path:
            again.append(path)
    found.note(f"images are not named {named}", others)
    found.note("images have the same number as another image (left out)", again)
    return dict(sorted(images.items()))


def paired(
    images: Mapping[int, str],
    numbers: Sequence[int],
    name: str,
    found: Findings,
    *,
    few: bool = False,
) -> tuple[list[str], Ints]:
    """The images with a pose: their paths, and the rows of their poses, whose `numbers` are those
    of the images.

    What has no partner is noted. With `few`, only few images have poses, so the others are counted,
    not listed.
    """
    row_of = {number: row for row, number in enumerate(numbers)}
    posed = [number for number in images if number in row_of]
    unposed = [path for number, path in images.items() if number not in row_of]
    if few:
        found.count("drives have images without a pose (left out)", name, len(unposed), len(images))
    else:
        found.note("images have no pose (left out)", unposed)
    found.count("drives have poses without an image", name, len(row_of) - len(posed), len(row_of))
    return [images[number] for number in posed], np.array(
        [row_of[number] for number in posed], dtype=np.int64
    )


# Rows of files


def unknown(count: int) -> Floats:
    """An array of unknown values."""
    return np.full(count, np.nan)


def columns(
    table: Table, names: Sequence[str], low: float = -np.inf, high: float = np.inf
) -> Floats:
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
        raise BadInputError(
            f"{table.where(row)}: the quaternion {values} has length {lengths[row, 0]:g}, not 1"
        )
    unit: Floats = quaternions / lengths
    return unit


def check_poses(matrices: Floats, where: Callable[[int], str]) -> None:
    """Raise if a matrix (n, 3 or 4, 4) is not a pose: a rotation, a translation and, in the last
    row, 0 0 0 1.
    """
    near = np.array((np.abs(matrices) <= MAX_COORDINATE).all(axis=(1, 2)))
    good = near & are_rotations(np.where(near[:, None, None], matrices, 0)[:, :3, :3])
    good &= (np.abs(matrices[:, 3:] - (0, 0, 0, 1)) <= ROUNDING).all(axis=(1, 2))
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        text = "; ".join(" ".join(f"{value:g}" for value in line) for line in matrices[row])
        raise BadInputError(
            f"{where(row)}: [{text}] is not a pose of a rotation matrix and a translation"
        )


@contextmanager
def naming_lens(where: str, remedy: str = "") -> Iterator[None]:
    """Context in which the error for a lens that cannot be names the camera."""
    try:
        yield
    except (BadInputError, TypeError, ValueError, OverflowError) as error:
        raise BadInputError(f"{where}: {error}{remedy}") from None


def read_poses(file: Path, names: Sequence[str], rows: int = 3) -> tuple[Table, Floats]:
    """A text file of poses: its table, and the matrices (n, `rows`, 4) of its last columns, row by
    row.
    """
    table = read_words(file, names)
    matrices = columns(table, names[-4 * rows :]).reshape(-1, rows, 4)
    check_poses(matrices, table.where)
    return table, matrices


def image_times(file: Path, rows: Sequence[int] | Ints) -> Ints:
    """The times (ns) of some images by number, from lines such as 2011-09-26 13:02:25.96; unknown
    without the file.
    """
    numbers = [int(row) for row in rows]
    if not file.is_file() or not numbers:
        return np.full(len(numbers), NO_TIME)
    table = read_words(file, ["date", "time"])
    if len(table) <= max(numbers):
        raise BadInputError(
            f"{file}: {len(table)} times, expected {max(numbers) + 1} or more, one per image"
        )
    moments = [
        " ".join(words) for words in zip(table.columns["date"], table.columns["time"], strict=True)
    ]
    return replace(table, columns={"time": moments}).at(numbers).times("time", "s")


# Tables of places


def in_one_plane(
    latitude: Floats, longitude: Floats, where: Callable[[int], str], name: str | None = None
) -> tuple[Frame, Floats, Floats]:
    """The frame of points in degrees, and their x and y. A point too far from the others raises,
    named by `where`.
    """
    frame, x, y = frame_from_latlon(latitude, longitude, name)
    far = np.flatnonzero(~(np.hypot(x, y) < MAX_RADIUS))  # also if the projection fails
    if len(far):
        at = f"{latitude[far[0]]:g}, {longitude[far[0]]:g}"
        problem = (
            f"is more than {MAX_RADIUS / 1000:,.0f} km from the median, too far for one flat frame"
        )
        raise BadInputError(f"{where(int(far[0]))}: {at} {problem}; convert the parts separately")
    return frame, x, y


def short_path(file: Path) -> str:
    """The file and the two folders that it is in."""
    return "/".join(file.parts[-3:])


def drive_table(
    root: Path,
    frame: Frame,
    name: str,
    paths: Sequence[str],
    xyz: Floats,
    prefix: str = "",
    **values: Any,
) -> Places:
    """The table of one drive; ids are the names of the images without suffix behind `prefix`
    (default: the drive).
    """
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


@contextmanager
def naming(where: Callable[[int], str] | str) -> Iterator[None]:
    """Context in which the error for a bad place names its row in a file instead of its row in the
    table.
    """
    try:
        yield
    except BadRowError as error:
        place = where if isinstance(where, str) else where(error.row)
        raise BadInputError(f"{place}: {error.problem}") from None


def compare_with_paper(places: Places, counts: Mapping[str, int], found: Findings) -> None:
    """Note the number of images of each split, next to that of the paper."""
    parts = (
        f"{split} {len(places.where(split=split)):,} images (paper: {paper:,})"
        for split, paper in counts.items()
    )
    found.say("; ".join(parts), warning=False)
