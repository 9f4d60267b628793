"""Images without positions as a table: files, folders of files, or tables of places."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mappable.errors import BadInputError
from mappable.places.decoding import RawDecoding
from mappable.places.files import TABLE, is_own_table, load_places
from mappable.places.frames import Frame
from mappable.places.joining import concatenate
from mappable.places.readers import image_files
from mappable.places.readers.photos import time_of
from mappable.places.table import Places

NOWHERE = Frame("nowhere")


def is_table(path: Path) -> bool:
    """True for a table of places, or a folder that `mappable convert` or `mappable simulate` made."""
    return (path / TABLE).is_file() or (path.suffix in (".parquet", ".csv") and is_own_table(path))


def find_images(paths: Sequence[Path], decoding: RawDecoding | None = None) -> Places:
    """All images that `paths` name, each file once, in that order; those of a folder by name, those of tables last.

    Raw images are decoded by the `decoding` of the map that they are asked of, unless their table has its own.

    Positions of the table mean nothing. The id of an image is its path as it was given; each folder is a sequence, and
    times are those of the EXIF data. A file need not be there, or an image: that is seen when it is decoded.
    """
    tables = [_table(path) for path in paths if is_table(path)]
    files = [file for path in paths if not is_table(path) for file in _files(path)]
    parts = ([_table_of(files)] if files else []) + tables
    if not parts:
        raise BadInputError("no images are given")
    parts = [_without_positions(part).decoded_as(decoding) for part in parts]
    return parts[0] if len(parts) == 1 else concatenate(_without_repeats(parts))


def _table(path: Path) -> Places:
    places = load_places(path)
    if not len(places):
        raise BadInputError(f"{path}: a table without images")
    return places


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = image_files(path)
    if not found:
        raise BadInputError(f"{path}: a folder without images")
    return found


def _table_of(files: Sequence[Path]) -> Places:
    first = {file.resolve(): file for file in reversed(files)}  # of those that are one file, the first counts
    files = [file for file in files if first[file.resolve()] is file]
    full = [file.resolve() for file in files]
    root = Path(os.path.commonpath([file.parent for file in full]))
    paths = [file.relative_to(root) for file in full]
    return Places(
        path=[path.as_posix() for path in paths],
        place_id=[file.as_posix() for file in files],
        x=np.zeros(len(files)),
        y=np.zeros(len(files)),
        time=[time_of(file) for file in full],
        sequence=["" if path.parent == Path() else path.parent.as_posix() for path in paths],
        frames=NOWHERE,
        root=root,
    )


def _without_positions(places: Places) -> Places:
    zeros, unknown = np.zeros(len(places)), np.full(len(places), np.nan)
    frame = {"frames": NOWHERE, "frame": NOWHERE.name, "dimensions": 2}
    return places.replace(x=zeros, y=zeros, z=unknown, yaw=unknown, **frame)


def _without_repeats(tables: Sequence[Places]) -> list[Places]:
    """The tables without images that are in an earlier one."""
    seen: set[Path] = set()
    kept = []
    for table in tables:
        files = [file.resolve() for file in table.files]
        kept.append(table[np.array([file not in seen for file in files])])
        seen.update(files)
    return [table for table in kept if len(table)]
