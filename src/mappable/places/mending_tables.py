"""Mend tables of places: keep one image per distance, drop outliers, and join frames that are one."""

from dataclasses import replace

import numpy as np

from mappable.errors import BadInputError
from mappable.places.checks import outlier_rows
from mappable.places.notes import Note
from mappable.places.table import Places


def mend(
    places: Places, *, spacing: float | None = None, drop_outliers: bool = False, frame: str | None = None
) -> Places:
    """The mended places, with a note. Raise if nothing is asked for, or if nothing would be left."""
    if spacing is None and frame is None and not drop_outliers:
        raise BadInputError("nothing to mend: give --spacing, --drop-outliers or --frame")
    done = []
    if frame is not None:
        places = _in_one_frame(places, frame)
        done.append(f"all places are in one frame, {frame}")
    if drop_outliers:
        outliers = outlier_rows(places)
        places = places[np.setdiff1d(np.arange(len(places)), outliers)]
        done.append(f"{len(outliers):,} outliers were dropped")
    if spacing is not None:
        if not 0 < spacing < np.inf:
            raise BadInputError(f"--spacing is {spacing:g}, expected a number above 0")
        kept = _thinned(places, spacing)
        done.append(f"{len(places) - len(kept):,} places closer than {spacing:g} to the one before were dropped")
        places = places[kept]
    return places.noting(Note("; ".join(done), warning=False))


def _thinned(places: Places, spacing: float) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Rows of each sequence, each at least about `spacing` from the one before (a thousandth less, by rounding)."""
    kept = []
    for rows in places.sequences().values():
        last = None
        for row in rows:
            at = places.positions[row]
            if last is None or np.linalg.norm(at - last) >= 0.999 * spacing:
                kept.append(int(row))
                last = at
    return np.array(sorted(kept), dtype=np.int64)


def _in_one_frame(places: Places, name: str) -> Places:
    frames = [places.frames[one] for one in sorted(set(places.frame))]
    for one in frames[1:]:
        same = (one.unit, one.crs, one.origin) == (frames[0].unit, frames[0].crs, frames[0].origin)
        if not same:
            problem = f"frames {frames[0].name} and {one.name} differ in unit, CRS or origin, so they are not one frame"
            raise BadInputError(f"{problem}; convert both collections together")
    return places.replace(frames=replace(frames[0], name=name), frame=name)
