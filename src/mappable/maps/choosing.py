"""Choose landmarks among places, by position alone."""

import math

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.sampling import farthest_points
from mappable.places.table import NO_TIME, Places


def greedy_landmarks(places: Places, count: int, seed: int = 0) -> Ints:
    """Rows (count,) of landmarks as in the paper: each is the farthest from all before it.

    `seed` sets the random first landmark. A smaller `count` gives the beginning of the list of a
    larger one.
    """
    frame_of(places)
    if not 1 <= count <= len(places):
        raise BadInputError(
            f"cannot choose {count:,} landmarks of {len(places):,} places: use 1 to {len(places):,}"
        )
    return farthest_points(places.positions, count, seed)


def sequential_landmarks(places: Places, spacing: float) -> Ints:
    """Rows of landmarks along a sequence: its first place, then each place at least `spacing` from
    the last landmark.

    A sequence is followed in time order, or in row order if some times are missing. The paper uses
    one sequence. With several sequences, each one gets its own landmarks, so that every condition
    is on the map.
    """
    frame_of(places)
    if not spacing > 0 or math.isinf(spacing):
        raise BadInputError(f"the spacing of landmarks must be a positive number, got {spacing}")
    chosen = []
    for rows in visits_of(places):
        last: list[float] | None = None
        for row, position in zip(rows.tolist(), places.positions[rows].tolist(), strict=True):
            if last is None or math.dist(position, last) >= spacing:
                chosen.append(row)
                last = position
    return np.array(chosen, dtype=np.int64)


def visits_of(places: Places) -> list[Ints]:
    """Rows of each sequence in the order taken: by time, or by row if some times are missing."""
    visits = []
    for rows in places.sequences().values():
        known = (places.time[rows] != NO_TIME).all()
        visits.append(rows[np.argsort(places.time[rows], kind="stable")] if known else rows)
    return visits


def spacing_of(positions: Floats) -> float:
    """Median distance from a landmark to the nearest one at another position; 0 if there is none."""
    unique = np.unique(positions, axis=0)
    return float(np.median(KDTree(unique).query(unique, 2)[0][:, 1])) if len(unique) > 1 else 0.0


def frame_of(places: Places) -> Frame:
    """The frame of all places; raise if there are no places, or several frames."""
    names = sorted(set(places.frame))
    if not names:
        raise BadInputError("there are no places: a map needs at least one landmark")
    if len(names) > 1:
        raise BadInputError(
            f"the places are in frames {', '.join(names)}, but a map has one frame: build one map"
            " per frame"
        )
    return places.frames[names[0]]
