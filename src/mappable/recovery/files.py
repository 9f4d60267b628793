"""Read ranges, distance matrices and known positions; write recovered positions.

A table of ranges (CSV or Parquet) has the columns i, j, metres and, if known, sigma. A table of
known positions has the columns point, x, y, in 3-D z and, if known, sigma. Points are numbered from
0, in the order of their images.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import MAX_COORDINATE, Floats, Ints
from mappable.checksums import digest_of_file
from mappable.containers import read_npy
from mappable.errors import BadInputError, DamagedFileError
from mappable.files import write_text
from mappable.formats import Format
from mappable.odometry import Track, read_track, rotations, track_of_table
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import MIN_SIGMA, Ranges, ranges_of_matrix
from mappable.recovery.result import Recovered
from mappable.tables import Table, read_table
from mappable.trajectories import TUM_SUFFIXES, read_tum

RECOVERY = Format(
    "mappable recovery", 2, "run `mappable recover` again", sealed_since=2, earliest=1
)
POSITIONS, TRAJECTORY, SUMMARY = "positions.csv", "trajectory.txt", "summary.json"
AXES = "xyz"
# Defaults for tables without a column sigma:
RELATIVE_SIGMA, ABSOLUTE_SIGMA = 0.05, 0.2  # ranges: share of the distance, plus metres
ANCHOR_SIGMA = 0.5  # known positions: metres
STEP_SIGMA, STEP_SHARE = 0.02, 0.02  # motions: metres, plus share of the distance
TURN_SIGMA, TURN_SHARE = 0.005, 0.02  # motions: radians, plus share of the turn
MAX_POINTS = 100_000_000  # a larger point number is an error in the file
# In a table of ranges, a point number above both limits is an error in the file; each point costs
# memory and time.
MIN_POINTS, POINTS_PER_RANGE = 10_000, 10
REPEATED = "occurs in an earlier row: each point may occur once"


def read_ranges(file: Path | str, count: int | None = None) -> Ranges:
    """Read a table of ranges between `count` points (default: the largest point number plus one).

    Without a column sigma, the sigma is 5 % of the distance plus 0.2 m.
    """
    table = read_table(Path(file))
    i, j, metres = (
        point_column(table, "i"),
        point_column(table, "j"),
        table.numbers("metres", 0.0, MAX_COORDINATE),
    )
    sigma = sigma_column(table, RELATIVE_SIGMA * metres + ABSOLUTE_SIGMA)
    if not len(i):
        raise BadInputError(f"{table.file}: the table has no ranges")
    table.refuse((i == j), "i", "must differ from j")
    last, most = max(int(i.max()), int(j.max())), max(MIN_POINTS, POINTS_PER_RANGE * len(i))
    column = "i" if int(i.max()) == last else "j"
    if count is not None and last >= count:
        table.refuse(
            point_column(table, column) == last,
            column,
            f"must be below the number of points, {count:,}",
        )
    if count is None and last >= most:
        problem = (
            f"must be below {most:,} in a table of {len(i):,} ranges: number the points without"
            " gaps"
        )
        table.refuse(point_column(table, column) == last, column, problem)
    low, high = np.minimum(i, j), np.maximum(i, j)
    table.refuse(
        _repeated(low, high), "j", "repeats a pair of an earlier row: each pair may occur once"
    )
    return Ranges(count or last + 1, i, j, metres, sigma)


def read_matrix(
    file: Path | str,
    *,
    scale: float = 1.0,
    radius: float | None = None,
    mask: Path | str | None = None,
) -> Ranges:
    """Read ranges from a matrix (n, n) of squared distances in a .npy file.

    `scale` converts the squared distances to square metres. `mask`, a boolean .npy file (n, n),
    selects pairs, and so does `radius`: only pairs at most that many metres apart are kept. The
    sigma is 5 % of the distance plus 0.2 m.
    """
    squared = read_npy(Path(file))
    if squared.dtype.kind not in "fiu":
        raise BadInputError(f"{file}: the array has type {squared.dtype}, expected numbers")
    if squared.ndim != 2 or squared.shape[0] != squared.shape[1]:
        raise BadInputError(
            f"{file}: the array is {' x '.join(map(str, squared.shape))}, expected a square matrix"
            " of distances"
        )
    kept = np.ones(squared.shape, dtype=bool)
    if mask is not None:
        kept = read_npy(Path(mask))
        if kept.dtype.kind not in "biu":
            raise BadInputError(f"{mask}: the mask has type {kept.dtype}, expected true and false")
        if kept.shape != squared.shape:
            raise BadInputError(
                f"{mask}: the mask has shape {kept.shape}, but the matrix of distances"
                f" {squared.shape}"
            )
        if not np.array_equal(kept != 0, (kept != 0).T):
            raise BadInputError(f"{mask}: the mask is not symmetric")
    try:
        ranges = ranges_of_matrix(squared.astype(np.float64), scale, kept != 0)
    except BadInputError as error:
        raise BadInputError(f"{file}: {error}") from None
    if radius is not None:
        ranges = ranges.where(ranges.metres <= radius)
    if not len(ranges):
        raise BadInputError(
            f"{file}: mask and radius leave no pair of points: use a larger radius or another mask"
        )
    return Ranges(
        ranges.count,
        ranges.i,
        ranges.j,
        ranges.metres,
        RELATIVE_SIGMA * ranges.metres + ABSOLUTE_SIGMA,
    )


def read_anchors(file: Path | str) -> Anchors:
    """Read known positions, each with its sigma (default: 0.5 m)."""
    table = read_table(Path(file))
    points = point_column(table, "point")
    if not len(points):
        raise BadInputError(f"{table.file}: the table has no known positions")
    table.refuse(_repeated(points), "point", REPEATED)
    return Anchors(points, position_columns(table), sigma_column(table, ANCHOR_SIGMA))


def read_odometry(file: Path | str) -> Motions | Track:
    """Read poses over time, or a table of motions: i, j, forward, left, turn, and sigma, sigma_turn
    if known.
    """
    path = Path(file)
    if path.suffix in TUM_SUFFIXES:
        return read_track(path)
    table = read_table(path)
    if not {"i", "j"} <= set(table.columns):
        return track_of_table(table)
    i, j = point_column(table, "i"), point_column(table, "j")
    table.refuse(i == j, "j", "must differ from i")
    metres = np.stack(
        [table.numbers(name, -MAX_COORDINATE, MAX_COORDINATE) for name in ("forward", "left")], 1
    )
    turns = rotations(table.numbers("turn", -2 * np.pi, 2 * np.pi))  # more may be degrees
    of_metres, of_turns = motion_sigmas(metres, turns)
    return Motions(
        i,
        j,
        metres,
        turns,
        (sigma_column(table, of_metres), sigma_column(table, of_turns, "sigma_turn")),
    )


def motion_sigmas(metres: Floats, turns: Floats) -> tuple[Floats, Floats]:
    """Return the usual standard deviations of motions (m,): in metres and in radians."""
    angle = np.arccos(np.clip((np.einsum("maa->m", turns) - (turns.shape[1] - 2)) / 2, -1, 1))
    return STEP_SIGMA + STEP_SHARE * np.linalg.norm(metres, axis=1), TURN_SIGMA + TURN_SHARE * angle


def motions_of_track(track: Track, count: int, seconds: Floats | None, dimensions: int) -> Motions:
    """Return the motions from each of `count` points to the next; `seconds` (count,) are their
    times, if known.

    Without times, the track must have one pose per point. Points before, after or in a pause of the
    track get none.
    """
    if track.positions.shape[1] < dimensions:
        raise BadInputError(f"{track.file}: poses have 2 dimensions, expected {dimensions}")
    track = track.flat() if dimensions == 2 else track
    pieces = np.full(count, np.nan)
    if seconds is not None:
        positions, frames, pieces = track.at(seconds)
    if np.isfinite(pieces).sum() < 2:
        if len(track.seconds) == count:
            positions, frames, pieces = track.at(track.seconds)
        elif seconds is None:
            raise BadInputError(
                f"{track.file}: the file has {len(track.seconds):,} poses for {count:,} points"
                " without times: give one pose per point"
            )
        else:
            raise track.unmet(seconds.min(), seconds.max())
    i = np.flatnonzero(np.diff(pieces) == 0)
    back = frames[i].transpose(0, 2, 1)
    metres, turns = (
        np.einsum("mab,mb->ma", back, positions[i + 1] - positions[i]),
        back @ frames[i + 1],
    )
    return Motions(i, i + 1, metres, turns, motion_sigmas(metres, turns))


def read_truth(file: Path | str, count: int) -> Floats:
    """Read true positions (count, k): a table with x, y (and z), or a TUM trajectory (.txt or
    .tum).

    Rows are the points in order, unless a column `point` numbers them. Points without a position
    are NaN.
    """
    path = Path(file)
    table = read_tum(path) if path.suffix in TUM_SUFFIXES else read_table(path)
    positions = position_columns(table)
    points = point_column(table, "point") if "point" in table.columns else np.arange(len(positions))
    if "point" not in table.columns and len(points) != count:
        raise BadInputError(
            f"{table.file}: the table has {len(points):,} positions for {count:,} points: add a"
            " column point to give the positions of some points only"
        )
    table.refuse(points >= count, "point", f"must be below the number of points, {count:,}")
    table.refuse(_repeated(points), "point", REPEATED)
    truth: Floats = np.full((count, positions.shape[1]), np.nan)
    truth[points] = positions
    return truth


def read_summary(folder: Path, name: str) -> dict[str, Any]:
    """Read the summary of a recovery in a folder, and check that its file `name` is as it was
    written.
    """
    summary = RECOVERY.read(folder / SUMMARY)
    with RECOVERY.reading(folder / name):
        known = dict(summary.pop("files", {}))  # earlier versions wrote no checksums
        if name in known and known[name] != digest_of_file(folder / name):
            raise DamagedFileError(
                f"{folder / name}: damaged, or changed since `mappable recover` wrote it"
            )
    return summary


def write_positions(file: Path | str, recovered: Recovered) -> None:
    """Write a table: point, part, x, y (z) and, if known, the covariances xx, xy, yy (xz, yz, zz)
    in m².
    """
    positions = recovered.positions
    axes = AXES[: positions.shape[1]]
    columns: dict[str, Sequence[object]] = {
        "point": range(len(positions)),
        "part": recovered.parts.tolist(),
    }
    columns |= {axis: _texts(positions[:, number]) for number, axis in enumerate(axes)}
    if recovered.covariances is not None:
        for b in range(len(axes)):
            for a in range(b + 1):
                columns[axes[a] + axes[b]] = _texts(recovered.covariances[:, a, b], ".6g")
    lines = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    write_text(Path(file), "\n".join(lines) + "\n")


def point_column(table: Table, name: str) -> Ints:
    """Read a column of point numbers."""
    values = table.numbers(name)
    wrong = (values < 0) | (values != np.rint(values)) | (values >= MAX_POINTS)
    table.refuse(wrong, name, "must be the number of a point: 0, 1, 2, ...")
    return values.astype(np.int64)


def check_points(file: Path | None, count: int) -> None:
    """Raise if a table of hints names a point that is not among `count` points."""
    if file is None or file.suffix not in (".csv", ".parquet"):
        return
    table = read_table(file)
    for name in ("point", "i", "j"):
        if name in table.columns:
            outside = point_column(table, name) >= count
            table.refuse(outside, name, f"must be below the number of points, {count:,}")


def sigma_column(table: Table, default: float | Floats, name: str = "sigma") -> Floats:
    """Read a column of standard deviations, or return the default (one number, or one per row)."""
    if name not in table.columns:
        return np.broadcast_to(np.asarray(default, dtype=np.float64), len(table))
    sigma = table.numbers(name)
    table.refuse(sigma <= 0, name, "must be above 0")
    table.refuse(
        (sigma < MIN_SIGMA) | (sigma > MAX_COORDINATE),
        name,
        f"must be {MIN_SIGMA:g} to {MAX_COORDINATE:g}",
    )
    return sigma


def position_columns(table: Table) -> Floats:
    """Read the columns x, y and, if the table has it, z."""
    axes = AXES if "z" in table.columns else AXES[:2]
    return np.stack([table.numbers(axis) for axis in axes], axis=1)


def _repeated(*keys: Ints) -> Any:
    """Return True for each row whose keys occur in an earlier row."""
    joined = np.stack(keys, axis=1)
    first = np.unique(joined, axis=0, return_index=True)[1]
    repeated = np.ones(len(joined), dtype=bool)
    repeated[first] = False
    return repeated


def _texts(values: Floats, form: str = ".6f") -> list[str]:
    return ["" if np.isnan(value) else f"{value:{form}}" for value in values]
