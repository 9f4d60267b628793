"""Choose the landmarks of a map among many places, by position alone."""

import math

import numpy as np

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.sampling import farthest_points
from mappable.places.table import NO_TIME, Places


def greedy_landmarks(places: Places, count: int, seed: int = 0) -> Ints:
    """Rows (count,) of the paper's landmarks: each the farthest from all before it, the first random by `seed`.

    Those of a smaller `count` are the beginning of those of a larger one.
    """
    frame_of(places)
    if not 1 <= count <= len(places):
        raise BadInputError(f"cannot choose {count:,} landmarks of {len(places):,} places")
    return farthest_points(places.positions, count, seed)


def sequential_landmarks(places: Places, spacing: float) -> Ints:
    """Rows of landmarks along a sequence: its first place, then each that is `spacing` or more from the last landmark.

    A sequence is followed in time order, or in the order of its rows where it lacks times. The paper takes one
    sequence; of several each is followed on its own, one after the other, so that each condition leaves its landmarks.
    """
    frame_of(places)
    if not spacing > 0 or math.isinf(spacing):
        raise BadInputError(f"the spacing of landmarks is {spacing}, but must be a positive number")
    chosen = []
    for rows in places.sequences().values():
        if (places.time[rows] != NO_TIME).all():
            rows = rows[np.argsort(places.time[rows], kind="stable")]
        last: list[float] | None = None
        for row, position in zip(rows.tolist(), places.positions[rows].tolist(), strict=True):
            if last is None or math.dist(position, last) >= spacing:
                chosen.append(row)
                last = position
    return np.array(chosen, dtype=np.int64)


def frame_of(places: Places) -> Frame:
    """The one frame of all places; places of several frames, or none at all, are refused."""
    names = sorted(set(places.frame))
    if not names:
        raise BadInputError("there are no places, but a map needs at least one landmark")
    if len(names) > 1:
        raise BadInputError(f"the places are in frames {', '.join(names)}, but a map is in one: make a map of each")
    return places.frames[names[0]]
