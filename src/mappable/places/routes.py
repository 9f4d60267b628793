"""Sequences as routes: how far along each place lies, and cropping a route by its length."""

import numpy as np

from mappable.arrays import Floats
from mappable.places.table import Places

JITTER = 0.02  # steps shorter than this many metres count as standing still


def steps(positions: Floats) -> Floats:
    """Distances between consecutive positions (n, 2 or 3)."""
    lengths: Floats = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    return lengths


def distance_along(places: Places, jitter: float = JITTER) -> Floats:
    """How far along its sequence each place lies, in the frame's unit; 0 for the first place of each.

    A step is counted once the position has moved at least `jitter` from the last one that counted, so that noise of
    a standing camera adds no length and slow motion loses none.
    """
    along = np.zeros(len(places))
    positions = places.positions
    for rows in places.sequences().values():
        last, length = positions[rows[0]], 0.0
        for row in rows[1:]:
            step = float(np.linalg.norm(positions[row] - last))
            if step >= jitter:
                last, length = positions[row], length + step
            along[row] = length
    return along


def crop_by_length(places: Places, length: float, *, start: float = 0.0) -> Places:
    """The part of every sequence from `start` to `start + length` along it (both included), in the frame's unit."""
    along = distance_along(places)
    return places[(along >= start) & (along <= start + length)]
