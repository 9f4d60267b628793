"""Summary of a table of places: counts per sequence, extent, spacing and warnings."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.places.checks import AGAIN, check
from mappable.places.notes import Note
from mappable.places.routes import distance_along, steps
from mappable.places.table import NO_TIME, Places


@dataclass(frozen=True)
class SequenceSummary:
    """One sequence; `length` and `spacing` (median step) are in the unit of the frame. `duration_s`
    may be None.
    """

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
    """One frame and the bounding box of its places: lowest and highest x, y and, with 3 dimensions,
    z.
    """

    frame: str
    unit: str
    crs: str | None
    places: int
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Summary:
    """Summary of a table; lengths are in the unit of each frame, without the noise of a standing
    camera.
    """

    places: int
    dimensions: int
    frames: tuple[FrameSummary, ...]
    sequences: tuple[SequenceSummary, ...]
    conditions: dict[str, int]
    splits: dict[str, int]
    with_yaw: int
    with_time: int
    notes: tuple[Note, ...]


def summarize(places: Places, again: str = AGAIN) -> Summary:
    """Summarize the table; its notes come first, then the findings of `check`, which name the
    command `again`.
    """
    along = distance_along(places)
    return Summary(
        places=len(places),
        dimensions=places.dimensions,
        frames=tuple(
            _frame(places, name) for name in places.frames if (places.frame == name).any()
        ),
        sequences=tuple(
            _sequence(places, name, rows, along) for name, rows in places.sequences().items()
        ),
        conditions=_counts(places.condition),
        splits=_counts(places.split),
        with_yaw=int(np.isfinite(places.yaw).sum()),
        with_time=int((places.time != NO_TIME).sum()),
        notes=places.notes + check(places, again),
    )


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
