"""Read ranges, distance matrices and known positions; write recovered positions.

A table of ranges (CSV or Parquet) has the columns i, j, metres and, if known, sigma; one of known positions has point,
x, y, in 3-D z, and if known sigma. Points are numbered from 0, in the order of their images.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.files import write_text
from mappable.formats import Format
from mappable.recovery.hints import Anchors, Odometry, Turns
from mappable.recovery.ranges import Ranges, ranges_of_matrix
from mappable.recovery.result import Recovered
from mappable.tables import Table, read_table
from mappable.trajectories import read_tum

RECOVERY = Format("mappable recovery", 1, "run `mappable recover` again")  # summary.json
AXES = "xyz"
RELATIVE_SIGMA, ABSOLUTE_SIGMA = 0.05, 0.2  # share of the distance, and metres, of ranges whose sigma is not given
ANCHOR_SIGMA = 0.5  # metres, of known positions whose sigma is not given
ODOMETRY_SIGMA, TURN_SIGMA = 0.2, 0.1  # metres and radians, likewise
MOST = 100_000_000  # points; a number beyond is a mistake
TUM_SUFFIXES = (".txt", ".tum")


def read_ranges(file: Path | str, count: int | None = None) -> Ranges:
    """The ranges of a table, among `count` points or, if that is not given, as many as it names.

    Where it has no sigma, 5 % of the distance and 0.2 m are assumed.
    """
    table = read_table(Path(file))
    i, j, metres = _points(table, "i"), _points(table, "j"), table.numbers("metres", low=0.0)
    sigma = _sigma(table, RELATIVE_SIGMA * metres + ABSOLUTE_SIGMA)
    if not len(i):
        raise BadInputError(f"{table.file}: there are no ranges")
    table.refuse((i == j), "i", "is a range of a point with itself")
    last = max(int(i.max()), int(j.max()))
    if count is not None and last >= count:
        column = "i" if int(i.max()) == last else "j"
        table.refuse(_points(table, column) == last, column, f"is beyond the {count:,} points there are")
    low, high = np.minimum(i, j), np.maximum(i, j)
    table.refuse(_repeated(low, high), "j", "is a pair with i that an earlier row has, too")
    return Ranges(count or last + 1, i, j, metres, sigma)


def read_matrix(
    file: Path | str, *, scale: float = 1.0, radius: float | None = None, mask: Path | str | None = None
) -> Ranges:
    """The ranges of a matrix (n, n) of squared distances in a .npy file.

    `scale` makes square metres of them. Kept are the pairs at most `radius` metres apart, or those of the `mask`, a
    .npy file (n, n) of true and false. The sigma is assumed as that of a table without it.
    """
    squared = _array(Path(file))
    if squared.dtype.kind not in "fiu":
        raise BadInputError(f"{file}: holds {squared.dtype}, not numbers")
    if squared.ndim != 2 or squared.shape[0] != squared.shape[1]:
        raise BadInputError(f"{file}: is {' x '.join(map(str, squared.shape))}, but a matrix of distances is square")
    kept = np.ones(squared.shape, dtype=bool)
    if mask is not None:
        kept = _array(Path(mask))
        if kept.dtype.kind not in "biu":
            raise BadInputError(f"{mask}: holds {kept.dtype}, but a mask is true or false")
        if kept.shape != squared.shape:
            raise BadInputError(f"{mask}: is {kept.shape}, but the matrix of distances {squared.shape}")
        if not np.array_equal(kept != 0, (kept != 0).T):
            raise BadInputError(f"{mask}: is not symmetric")
    try:
        ranges = ranges_of_matrix(squared.astype(np.float64), scale, kept != 0)
    except BadInputError as error:
        raise BadInputError(f"{file}: {error}") from None
    if radius is not None:
        ranges = ranges.where(ranges.metres <= radius)
    if not len(ranges):
        raise BadInputError(f"{file}: the mask leaves no pair of different points")
    return Ranges(ranges.count, ranges.i, ranges.j, ranges.metres, RELATIVE_SIGMA * ranges.metres + ABSOLUTE_SIGMA)


def read_anchors(file: Path | str) -> Anchors:
    """Known positions, each with its sigma (0.5 m where the table has none)."""
    table = read_table(Path(file))
    points = _points(table, "point")
    if not len(points):
        raise BadInputError(f"{table.file}: there are no known positions")
    table.refuse(_repeated(points), "point", "is in an earlier row, too")
    return Anchors(points, _positions(table), _sigma(table, ANCHOR_SIGMA))


def read_odometry(file: Path | str) -> Odometry:
    """Ways from point i to point j in the directions of the map, each with its sigma (0.2 m where there is none)."""
    table = read_table(Path(file))
    i, j = _points(table, "i"), _points(table, "j")
    table.refuse(i == j, "j", "is the same point as i")
    return Odometry(i, j, _positions(table), _sigma(table, ODOMETRY_SIGMA))


def read_turns(file: Path | str) -> Turns:
    """Changes of direction at points, to the left above 0, each with its sigma (0.1 radians where there is none)."""
    table = read_table(Path(file))
    points, radians = _points(table, "point"), table.numbers("radians", -np.pi, np.pi)
    table.refuse(_repeated(points), "point", "is in an earlier row, too")
    return Turns(points, radians, _sigma(table, TURN_SIGMA))


def read_truth(file: Path | str, count: int) -> Floats:
    """True positions (count, k) of the points: a table with x, y (and z), or a trajectory of TUM (.txt or .tum).

    Rows are points in their order, unless a column `point` numbers them; a point that has none is NaN.
    """
    path = Path(file)
    table = read_tum(path) if path.suffix in TUM_SUFFIXES else read_table(path)
    positions = _positions(table)
    points = _points(table, "point") if "point" in table.columns else np.arange(len(positions))
    if "point" not in table.columns and len(points) != count:
        raise BadInputError(f"{table.file}: has {len(points):,} positions, but there are {count:,} points")
    table.refuse(points >= count, "point", f"is beyond the {count:,} points there are")
    table.refuse(_repeated(points), "point", "is in an earlier row, too")
    truth: Floats = np.full((count, positions.shape[1]), np.nan)
    truth[points] = positions
    return truth


def write_positions(file: Path | str, recovered: Recovered) -> None:
    """A table: point, part, x, y (z), and where they are known the covariances xx, xy, yy (xz, yz, zz) in m²."""
    positions = recovered.positions
    axes = AXES[: positions.shape[1]]
    columns: dict[str, Sequence[object]] = {"point": range(len(positions)), "part": recovered.parts.tolist()}
    columns |= {axis: _texts(positions[:, number]) for number, axis in enumerate(axes)}
    if recovered.covariances is not None:
        for b in range(len(axes)):
            for a in range(b + 1):
                columns[axes[a] + axes[b]] = _texts(recovered.covariances[:, a, b], ".6g")
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    write_text(Path(file), "\n".join(lines) + "\n")


def _points(table: Table, name: str) -> Ints:
    """A column of numbers of points."""
    values = table.numbers(name)
    wrong = (values < 0) | (values != np.rint(values)) | (values >= MOST)
    table.refuse(wrong, name, "is not a point: 0, 1, 2, ...")
    return values.astype(np.int64)


def _sigma(table: Table, assumed: float | Floats) -> Floats:
    """The column sigma, if the table has one."""
    if "sigma" not in table.columns:
        return np.broadcast_to(np.asarray(assumed, dtype=np.float64), len(table))
    sigma = table.numbers("sigma")
    table.refuse(sigma <= 0, "sigma", "must be above 0")
    return sigma


def _positions(table: Table) -> Floats:
    """The columns x, y and, if the table has it, z."""
    axes = AXES if "z" in table.columns else AXES[:2]
    return np.stack([table.numbers(axis) for axis in axes], axis=1)


def _repeated(*keys: Ints) -> Any:
    """True for each row whose keys an earlier row has."""
    joined = np.stack(keys, axis=1)
    first = np.unique(joined, axis=0, return_index=True)[1]
    again = np.ones(len(joined), dtype=bool)
    again[first] = False
    return again


def _array(file: Path) -> Any:
    try:
        array = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise BadInputError(f"{file}: no such file") from None
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0]
        why = "" if "pickle" in reason else f" ({reason})"  # which means only that it is something else
        raise BadInputError(f"{file}: not a .npy file of numbers{why}") from None
    if not isinstance(array, np.ndarray):
        raise BadInputError(f"{file}: holds several arrays; give a .npy file of one")
    return array


def _texts(values: Floats, form: str = ".6f") -> list[str]:
    return ["" if np.isnan(value) else f"{value:{form}}" for value in values]
