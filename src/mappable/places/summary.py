"""Summary of a table of places: counts per sequence, extent, spacing and warnings."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.places.notes import Note, warn
from mappable.places.routes import distance_along, steps
from mappable.places.table import NO_TIME, Places

MAX_SPEED = 70.0  # metres per second; a faster step between two images is a jump of the position
ISOLATION_FACTOR = 50  # a place is isolated if its nearest place is farther than 50 times the median such distance


@dataclass(frozen=True)
class SequenceSummary:
    """One sequence; `length` and `spacing` (median step) are in the unit of the frame. `duration_s` may be None."""

    sequence: str
    frame: str
    conditions: tuple[str, ...]
    splits: tuple[str, ...]
    roles: tuple[str, ...]
    places: int
    length: float
    spacing: float
    duration_s: float | None


@dataclass(frozen=True)
class FrameSummary:
    """One frame and the bounding box of its places: lowest and highest x, y and, with 3 dimensions, z."""

    frame: str
    unit: str
    crs: str | None
    places: int
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Summary:
    """Summary of a table; lengths are in the unit of each frame, without the noise of a standing camera."""

    places: int
    dimensions: int
    frames: tuple[FrameSummary, ...]
    sequences: tuple[SequenceSummary, ...]
    conditions: dict[str, int]
    splits: dict[str, int]
    with_yaw: int
    with_time: int
    notes: tuple[Note, ...]


def summarize(places: Places) -> Summary:
    """Summarize the table; its notes come first, then the findings of `check`."""
    along = distance_along(places)
    return Summary(
        places=len(places),
        dimensions=places.dimensions,
        frames=tuple(_frame(places, name) for name in places.frames if (places.frame == name).any()),
        sequences=tuple(_sequence(places, name, rows, along) for name, rows in places.sequences().items()),
        conditions=_counts(places.condition),
        splits=_counts(places.split),
        with_yaw=int(np.isfinite(places.yaw).sum()),
        with_time=int((places.time != NO_TIME).sum()),
        notes=places.notes + check(places),
    )


def check(places: Places) -> tuple[Note, ...]:
    """Warnings about suspicious positions: steps faster than any car, and places far from all others."""
    jumps, lonely = [], []
    for name, frame in places.frames.items():
        rows = np.flatnonzero(places.frame == name)
        if frame.unit == "m":
            jumps += _jumps(places[rows])
        lonely += _isolated(places, rows, frame.unit)
    return warn(f"steps are faster than {MAX_SPEED:g} m/s; the positions jump there", jumps) + warn(
        "places are far from all others; check their positions, because such places become landmarks first", lonely
    )


def _jumps(places: Places) -> list[str]:
    found = []
    positions = places.positions
    for rows in places.sequences().values():
        if (places.time[rows] == NO_TIME).any():
            continue
        seconds = np.diff(places.time[rows]) / 1e9
        moved = steps(positions[rows])
        for step in np.flatnonzero((seconds > 0) & (moved > MAX_SPEED * seconds)):
            after = places.place_id[rows[step + 1]]
            found.append(f"{after}: {moved[step]:,.1f} m in {seconds[step]:.2f} s")
    return found


def _isolated(places: Places, rows: Ints, unit: str) -> list[str]:
    if len(rows) < 10:
        return []
    positions = places.positions[rows]
    nearest: Floats = KDTree(positions).query(positions, k=2)[0][:, 1]
    limit = ISOLATION_FACTOR * float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else np.inf
    return [f"{places.place_id[row]}: {gap:,.1f} {unit}" for row, gap in zip(rows, nearest, strict=True) if gap > limit]


def _frame(places: Places, name: str) -> FrameSummary:
    positions, frame = places.positions[places.frame == name], places.frames[name]
    low, high = tuple(map(float, positions.min(axis=0))), tuple(map(float, positions.max(axis=0)))
    return FrameSummary(name, frame.unit, frame.crs, len(positions), low, high)


def _sequence(places: Places, name: str, rows: Ints, along: Floats) -> SequenceSummary:
    moved, times = steps(places.positions[rows]), places.time[rows]
    return SequenceSummary(
        sequence=name,
        frame=str(places.frame[rows[0]]),
        conditions=tuple(_counts(places.condition[rows])),
        splits=tuple(_counts(places.split[rows])),
        roles=tuple(_counts(places.role[rows])),
        places=len(rows),
        length=float(along[rows[-1]]),
        spacing=float(np.median(moved)) if len(moved) else 0.0,
        duration_s=None if (times == NO_TIME).any() else float(times.max() - times.min()) / 1e9,
    )


def _counts(column: Any) -> dict[str, int]:
    values, counts = np.unique(column, return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}
