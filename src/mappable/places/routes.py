"""Sequences as routes: distance along a route, and cropping by length."""

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.places.table import Places

JITTER = 0.02  # metres; a shorter step counts as standing still


def steps(positions: Floats) -> Floats:
    """Distances between consecutive positions (n, 2 or 3)."""
    lengths: Floats = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    return lengths


def distance_along(places: Places, jitter: float = JITTER) -> Floats:
    """Distance of each place along its sequence, in the unit of the frame; 0 for the first place of
    a sequence.

    A step is added once the position is at least `jitter` away from the end of the last step. So
    the noise of a standing camera adds no length, and slow motion loses none.
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
    """The part of each sequence from `start` to `start + length` (both included), in the unit of
    the frame.
    """
    along = distance_along(places)
    return places[(along >= start) & (along <= start + length)]


def first_of_each_step(along: Floats, spacing: float) -> Bools:
    """Mask of the first place at or after each step of `spacing`, by rising distances along a
    track.
    """
    # The tolerance counts a place that is just short of a step.
    step = np.floor((along - along[0]) / spacing + 1e-6)
    first: Bools = np.diff(step, prepend=-1) > 0
    return first


def thinned(places: Places, spacing: float) -> Ints:
    """Rows of the first place at or after each step of `spacing` along each sequence, in the unit
    of its frame.
    """
    along = distance_along(places, spacing / 2)
    kept = [rows[first_of_each_step(along[rows], spacing)] for rows in places.sequences().values()]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *kept]))
