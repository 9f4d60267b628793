"""Join several tables of places."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mappable.errors import BadInputError, shown
from mappable.places.frames import Frame
from mappable.places.notes import Findings, Note, warn
from mappable.places.table import COLUMNS, Places

# Largest difference between the ups of two frames of one world, as a length of unit vectors.
LEVEL = 0.2


def concatenate(tables: Sequence[Places]) -> Places:
    """Join the rows of all tables, in order. Sequences with the same name become one (see
    `Places.in_time_order`).

    The new root is the common folder of all roots. Frames with the same name must be equal. If they
    have the same CRS and differ only in origin, later rows are converted to the first origin. A
    `place_id` that is a path stays unchanged, unless two tables share an id; then it becomes the
    path relative to the new root.
    """
    if not tables:
        raise BadInputError("no tables to join")
    if len({table.dimensions for table in tables}) > 1:
        raise BadInputError(
            "cannot join tables with 2 and 3 dimensions; use the same dimensions for all"
        )
    decodings = [table.decoding for table in tables if table.decoding is not None]
    if decodings and not all(decodings[0].agrees_with(table.decoding) for table in tables):
        raise BadInputError("cannot join tables with different raw decodings")
    frames: dict[str, Frame] = {}
    for table in tables:
        frames = dict(table.frames) | frames
    root = Path(os.path.commonpath([table.root for table in tables]))
    ids = [place_id for table in tables for place_id in table.place_id]
    parts = [
        _below(in_frames(table, frames), root, new_ids=len(set(ids)) < len(ids)) for table in tables
    ]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    notes = Findings(
        dict.fromkeys(note for table in tables for note in table.notes)
    ).notes + _shared_frames(tables)
    first = tables[0]
    return Places(
        **columns,
        frames=frames,
        root=root,
        dimensions=first.dimensions,
        decoding=first.decoding,
        notes=notes,
    )


def in_frames(places: Places, frames: Mapping[str, Frame]) -> Places:
    """The places with coordinates relative to the origins of `frames`, such as the frames of
    another table.

    Frames with the same name must be equal, or have the same CRS and differ only in origin.
    """
    for name, frame in places.frames.items():
        other = frames.get(name, frame)
        if frame != other and not frame.same_but_for_origin(other):
            remedy = (
                "convert the second set again in the frame of the first: mappable convert … --like"
                " FIRST"
            )
            raise BadInputError(
                f"frame {shown(name)} has two definitions, with {frame.differs(other)}; {remedy}"
            )
        places = _converted(places, frame, other)
    return places


def in_frame_of(places: Places, like: Places) -> Places:
    """The places in the frame of another table, such as that of a map: its name, origin and axes.

    Coordinates of both count in one original system: one CRS, or one world of a model or a scan.
    """
    only = next(iter(like.frames.values())) if len(like.frames) == 1 else None
    for name, frame in places.frames.items():
        other = like.frames.get(name, only)
        if other is None:
            known = ", ".join(like.frames)
            raise BadInputError(
                f"frame {shown(name)} is none of {known}; give it one of these names"
            )
        if (frame.unit, frame.crs) != (other.unit, other.crs):
            remedy = "give the unit or scale with which the other set was converted"
            raise BadInputError(
                f"frame {shown(name)} and {shown(other.name)} differ: {frame.differs(other)};"
                f" {remedy}"
            )
        places = _converted(places, frame, other)
    return places


def _converted(places: Places, frame: Frame, other: Frame) -> Places:
    """The places with the coordinates of one frame converted to another one of the same original
    system.
    """
    if frame == other:
        return places
    turn = np.array(other.axes).T @ np.array(frame.axes)
    if not np.allclose(turn[2], (0, 0, 1), atol=LEVEL):
        problem = f"its up is not that of {shown(other.name)}; set the option up"
        raise BadInputError(f"frame {shown(frame.name)}: {problem}")
    rows = places.frame == frame.name
    xyz = np.column_stack([places.x, places.y, places.z])
    flat = np.isnan(xyz[:, 2])
    xyz[rows] = other.from_original(frame.to_original(xyz[rows]))
    xyz[flat, 2] = np.nan
    views = turn[:2, :2] @ (np.cos(places.yaw), np.sin(places.yaw))
    yaw = np.where(rows, np.arctan2(views[1], views[0]), places.yaw)
    names = np.where(rows, other.name, places.frame).astype(object)
    frames = [
        known for known in places.frames.values() if known.name not in (frame.name, other.name)
    ]
    return places.replace(
        x=xyz[:, 0], y=xyz[:, 1], z=xyz[:, 2], yaw=yaw, frame=names, frames=[*frames, other]
    )


def _below(table: Places, root: Path, new_ids: bool) -> Places:
    """The table with paths relative to `root`, a folder that contains the root of the table."""
    ids_are_paths = new_ids and np.array_equal(table.place_id, table.path)
    if table.root == root and not ids_are_paths:
        return table
    prefix = table.root.relative_to(root).as_posix()
    paths = (
        table.path
        if prefix == "."
        else np.array([f"{prefix}/{path}" for path in table.path], dtype=object)
    )
    return table.replace(path=paths, place_id=paths if ids_are_paths else table.place_id, root=root)


def _shared_frames(tables: Sequence[Places]) -> tuple[Note, ...]:
    """A warning about frames without a CRS that tables of different roots share by name only."""
    roots: dict[str, set[Path]] = {}
    for table in tables:
        for name in set(table.frame):
            if table.frames[name].crs is None:
                roots.setdefault(name, set()).add(table.root)
    shared = [
        f"{name}: {', '.join(map(str, sorted(found)))}"
        for name, found in roots.items()
        if len(found) > 1
    ]
    return warn(
        "frames without a CRS have the same name in different folders and are treated as one frame",
        shared,
    )
