"""Trajectories in the TUM format, which evo and other tools read: a row per pose, `time x y z qx qy qz qw`."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.files import write_text
from mappable.tables import Table, read_words

TUM = ("time", "x", "y", "z", "qx", "qy", "qz", "qw")
TUM_SUFFIXES = (".txt", ".tum")


def read_tum(file: Path) -> Table:
    """Read a trajectory as a table with the columns `TUM`."""
    return read_words(file, TUM)


def write_tum(
    file: Path | str,
    positions: Floats,
    times: ArrayLike | None = None,
    headings: ArrayLike | None = None,
) -> None:
    """Write positions (n, 2 or 3). Default for `times` (seconds): the number of the point.

    Points without a position (NaN) are left out. `headings` (n,) are rotations about z, in radians.
    A point without a heading (NaN) has no rotation.
    """
    seconds = (
        np.arange(len(positions), dtype=np.float64)
        if times is None
        else np.asarray(times, dtype=np.float64)
    )
    if seconds.shape != (len(positions),):
        raise BadInputError(
            f"{len(positions):,} positions need as many times, got {seconds.size:,}"
        )
    flat = np.zeros((len(positions), 3))
    flat[:, : positions.shape[1]] = positions
    turns = (
        np.nan_to_num(
            np.zeros(len(positions)) if headings is None else np.asarray(headings, dtype=np.float64)
        )
        / 2
    )
    lines = [
        f"{second:.6f} {x:.6f} {y:.6f} {z:.6f} 0 0 {sin:.9g} {cos:.9g}"
        for second, (x, y, z), sin, cos in zip(
            seconds.tolist(),
            flat.tolist(),
            np.sin(turns).tolist(),
            np.cos(turns).tolist(),
            strict=True,
        )
        if np.isfinite((x, y, z)).all()
    ]
    write_text(Path(file), "\n".join(lines) + "\n")
