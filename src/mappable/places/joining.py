"""Several tables of places as one."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import merged
from mappable.places.table import COLUMNS, Places


def concatenate(tables: Sequence[Places]) -> Places:
    """One table of all rows of `tables`, in order.

    Roots become their common folder. Frames of one name must be one frame; if they differ in origin alone and know
    their CRS, the later rows are brought to the first origin.
    """
    if not tables:
        raise BadInputError("no tables to concatenate")
    if len({table.dimensions for table in tables}) > 1:
        raise BadInputError("tables with 2 and 3 dimensions cannot be concatenated: choose one for all")
    if len({table.decoding for table in tables}) > 1:
        raise BadInputError("tables whose image files are decoded differently cannot be concatenated")
    frames: dict[str, Frame] = {}
    for table in tables:
        for name, frame in table.frames.items():
            if not frames.setdefault(name, frame).same_but_for_origin(frame) and frames[name] != frame:
                raise BadInputError(f"frame {name!r} means two things: {frames[name]} and {frame}; rename one of them")
    root = Path(os.path.commonpath([table.root for table in tables]))
    parts = [_moved(table, frames, root) for table in tables]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    notes = merged(dict.fromkeys(note for table in tables for note in table.notes))
    first = tables[0]
    return Places(
        **columns, frames=frames.values(), root=root, dimensions=first.dimensions, decoding=first.decoding, notes=notes
    )


def _moved(table: Places, frames: dict[str, Frame], root: Path) -> Places:
    """The table with its paths relative to `root` and its coordinates relative to the origins of `frames`."""
    prefix = table.root.relative_to(root).as_posix()
    paths = table.path if prefix == "." else np.array([f"{prefix}/{path}" for path in table.path], dtype=object)
    ids_are_paths = np.array_equal(table.place_id, table.path)
    xyz = np.column_stack([table.x, table.y, table.z])
    for name, frame in table.frames.items():
        xyz[table.frame == name] += np.subtract(frame.origin, frames[name].origin) @ np.array(frame.axes)
    return table.replace(
        path=paths,
        place_id=paths if ids_are_paths else table.place_id,
        x=xyz[:, 0],
        y=xyz[:, 1],
        z=xyz[:, 2],
        frames=[frames[name] for name in table.frames],
    )
