"""Images without positions as a table: from files, folders or tables of places."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mappable.errors import BadInputError
from mappable.places.decoding import RawDecoding
from mappable.places.files import TABLE, is_own_table, load_places
from mappable.places.frames import Frame
from mappable.places.joining import concatenate
from mappable.places.table import Places
from mappable.readers.formats.photos import time_of
from mappable.readers.toolkit import image_files

NOWHERE = Frame("nowhere")


def is_table(path: Path) -> bool:
    """True for a table of places, or an output folder of `mappable convert` or `mappable simulate`."""
    return (path / TABLE).is_file() or (path.suffix in (".parquet", ".csv") and is_own_table(path))


def find_images(paths: Sequence[Path], decoding: RawDecoding | None = None) -> Places:
    """All images in `paths`, each file once, in this order; images of a folder by name, images of
    tables last.

    Raw images are decoded with `decoding`, the decoding of the map, unless their table has one.

    Positions in the result have no meaning. The id of an image is its path as given. Each folder is
    a sequence. Times come from the EXIF data. The function does not check that a file exists or is
    an image; decoding does.
    """
    tables = [_table(path) for path in paths if is_table(path)]
    files = [file for path in paths if not is_table(path) for file in _files(path)]
    parts = ([_table_of(files)] if files else []) + tables
    if not parts:
        raise BadInputError("no images given")
    parts = [_without_positions(part).decoded_as(decoding) for part in parts]
    return parts[0] if len(parts) == 1 else concatenate(_without_repeats(parts))


def numbered_images(count: int) -> Places:
    """Images without files, whose ids are their numbers from 0; all of them are one sequence."""
    names = [str(number) for number in range(count)]
    return Places(
        path=names,
        place_id=names,
        x=np.zeros(count),
        y=np.zeros(count),
        frames=NOWHERE,
        root=Path(),
    )


def _table(path: Path) -> Places:
    places = load_places(path)
    if not len(places):
        raise BadInputError(f"{path}: the table has no images")
    return places


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = image_files(path)
    if not found:
        raise BadInputError(f"{path}: the folder has no images")
    return found


def _table_of(files: Sequence[Path]) -> Places:
    # For several paths of one file, the first is kept.
    first = {file.resolve(): file for file in reversed(files)}
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
    """The tables without the images that are in an earlier table."""
    seen: set[Path] = set()
    kept = []
    for table in tables:
        files = [file.resolve() for file in table.files]
        kept.append(table[np.array([file not in seen for file in files])])
        seen.update(files)
    return [table for table in kept if len(table)]
