"""Ranges, matrices of distances and known positions from files, and recovered positions into files.

A table of ranges (CSV or Parquet) has the columns i, j, metres and, if known, sigma; one of known positions has point,
x, y, in 3-D z, and if known sigma. Points are numbered from 0, in the order of their images.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.formats import Format
from mappable.recovery.hints import Anchors, Odometry, Turns
from mappable.recovery.ranges import Ranges, ranges_of_matrix
from mappable.recovery.result import Recovered
from mappable.recovery.study.simulator import NOISES

RECOVERY = Format("mappable recovery", 1, "run `mappable recover` again")  # summary.json
AXES = "xyz"
ASSUMED = NOISES["mid"]  # of ranges whose sigma is not given
ANCHOR_SIGMA = 0.5  # metres, of known positions whose sigma is not given
ODOMETRY_SIGMA, TURN_SIGMA = 0.2, 0.1  # metres and radians, likewise
MOST = 100_000_000  # points; a number beyond is a mistake
TUM = ("time", "x", "y", "z", "qx", "qy", "qz", "qw")
TUM_SUFFIXES = (".txt", ".tum")


def read_ranges(file: Path | str, count: int | None = None) -> Ranges:
    """The ranges of a table, among `count` points or, if that is not given, as many as it names.

    Where it has no sigma, 5 % of the distance and 0.2 m are assumed.
    """
    table = _read(Path(file), ("i", "j", "metres"), ("sigma",))
    i, j, metres = table.whole("i"), table.whole("j"), table.numbers("metres", low=0.0)
    sigma = table.numbers("sigma", low=0.0, above=True) if "sigma" in table.columns else ASSUMED.sigma(metres)
    if not len(i):
        raise BadInputError(f"{table.file}: there are no ranges")
    table.refuse((i == j), "i", "is a range of a point with itself")
    last = max(int(i.max()), int(j.max()))
    if count is not None and last >= count:
        column = "i" if int(i.max()) == last else "j"
        table.refuse(table.whole(column) == last, column, f"is beyond the {count:,} points there are")
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
    return Ranges(ranges.count, ranges.i, ranges.j, ranges.metres, ASSUMED.sigma(ranges.metres))


def read_anchors(file: Path | str) -> Anchors:
    """Known positions, each with its sigma (0.5 m where the table has none)."""
    table = _read(Path(file), ("point", "x", "y"), ("z", "sigma"))
    points = table.whole("point")
    sigma = table.numbers("sigma", low=0.0, above=True) if "sigma" in table.columns else ANCHOR_SIGMA
    if not len(points):
        raise BadInputError(f"{table.file}: there are no known positions")
    table.refuse(_repeated(points), "point", "is in an earlier row, too")
    return Anchors(points, _positions(table), np.broadcast_to(np.asarray(sigma, dtype=np.float64), len(points)))


def read_odometry(file: Path | str) -> Odometry:
    """Ways from point i to point j in the directions of the map, each with its sigma (0.2 m where there is none)."""
    table = _read(Path(file), ("i", "j", "x", "y"), ("z", "sigma"))
    i, j = table.whole("i"), table.whole("j")
    table.refuse(i == j, "j", "is the same point as i")
    sigma = table.numbers("sigma", low=0.0, above=True) if "sigma" in table.columns else ODOMETRY_SIGMA
    return Odometry(i, j, _positions(table), sigma)


def read_turns(file: Path | str) -> Turns:
    """Changes of direction at points, to the left above 0, each with its sigma (0.1 radians where there is none)."""
    table = _read(Path(file), ("point", "radians"), ("sigma",))
    points, radians = table.whole("point"), table.numbers("radians")
    table.refuse(np.abs(radians) > np.pi, "radians", "is not between -pi and pi")
    table.refuse(_repeated(points), "point", "is in an earlier row, too")
    sigma = table.numbers("sigma", low=0.0, above=True) if "sigma" in table.columns else TURN_SIGMA
    return Turns(points, radians, sigma)


def read_truth(file: Path | str, count: int) -> Floats:
    """True positions (count, k) of the points: a table with x, y (and z), or a trajectory of TUM (.txt or .tum).

    Rows are points in their order, unless a column `point` numbers them; a point that has none is NaN.
    """
    path = Path(file)
    table = _read_tum(path) if path.suffix in TUM_SUFFIXES else _read(path, ("x", "y"), ("z", "point"))
    positions = _positions(table)
    points = table.whole("point") if "point" in table.columns else np.arange(len(positions))
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
    _write(Path(file), "\n".join(lines) + "\n")


def write_tum(file: Path | str, positions: Floats, times: ArrayLike | None = None) -> None:
    """A trajectory as TUM and evo have it: time, x, y, z, and no rotation; without `times` that is the point's number.

    Points without a position are left out.
    """
    seconds = np.arange(len(positions), dtype=np.float64) if times is None else np.asarray(times, dtype=np.float64)
    if seconds.shape != (len(positions),):
        raise BadInputError(f"there are {seconds.size:,} times, but {len(positions):,} positions")
    flat = np.zeros((len(positions), 3))
    flat[:, : positions.shape[1]] = positions
    lines = [
        f"{second:.6f} {x:.6f} {y:.6f} {z:.6f} 0 0 0 1"
        for second, (x, y, z) in zip(seconds.tolist(), flat.tolist(), strict=True)
        if np.isfinite((x, y, z)).all()
    ]
    _write(Path(file), "\n".join(lines) + "\n")


@dataclass(frozen=True)
class _Table:
    """Columns of one file, as text or as numbers, with each row's number there."""

    file: Path
    columns: dict[str, list[Any]]
    row_numbers: list[int]

    def bad(self, row: int, name: str, problem: str) -> BadInputError:
        value = self.columns[name][row]
        return BadInputError(f"{self.file}, row {self.row_numbers[row]}: {name} {value!r} {problem}")

    def refuse(self, wrong: Any, name: str, problem: str) -> None:
        rows = np.flatnonzero(wrong)
        if len(rows):
            raise self.bad(int(rows[0]), name, problem)

    def numbers(self, name: str, low: float = -np.inf, above: bool = False) -> Floats:
        """A column of finite numbers that are at least, or wholly `above`, `low`."""
        values = np.full(len(self.row_numbers), np.nan)
        for row, value in enumerate(self.columns[name]):
            try:
                values[row] = value
            except (TypeError, ValueError):
                raise self.bad(row, name, "is not a number") from None
        self.refuse(~np.isfinite(values), name, "is not a finite number")
        too_low, than = (values <= low, "above") if above else (values < low, "at least")
        self.refuse(too_low, name, f"must be {than} {low:g}")
        return values

    def whole(self, name: str) -> Ints:
        """A column of whole numbers from 0 on."""
        values = self.numbers(name)
        self.refuse((values < 0) | (values != np.rint(values)) | (values >= MOST), name, "is not a point: 0, 1, 2, ...")
        return values.astype(np.int64)


def _read(file: Path, required: Sequence[str], optional: Sequence[str]) -> _Table:
    if not file.is_file():
        raise BadInputError(f"{file}: no such file")
    table = _read_parquet(file) if file.suffix == ".parquet" else _read_csv(file)
    missing = [name for name in required if name not in table.columns]
    if missing:
        wanted = ",".join(required) + "".join(f"[,{name}]" for name in optional)
        raise BadInputError(f"{file}: no column {', '.join(missing)}; the columns should be {wanted}")
    return table


def _read_csv(file: Path) -> _Table:
    names: list[str] | None = None
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, skipinitialspace=True, strict=True)
            for row in reader:
                if not any(row):
                    continue
                if names is None:
                    names = [name.strip() for name in row]
                    continue
                if len(row) != len(names):
                    raise BadInputError(
                        f"{file}, row {reader.line_num}: {len(row)} values, but there are {len(names)} columns"
                    )
                rows.append(row)
                numbers.append(reader.line_num)
    except csv.Error as error:
        raise BadInputError(f"{file}: cannot be read as a table ({error})") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: not a text file in UTF-8") from None
    if names is None:
        raise BadInputError(f"{file}: the file is empty")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise BadInputError(f"{file}: column {', '.join(repeated)} appears more than once")
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return _Table(file, {name: list(values) for name, values in zip(names, columns, strict=True)}, numbers)


def _read_parquet(file: Path) -> _Table:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as parquet:
            table = parquet.read()
    except (OSError, pyarrow.ArrowException) as error:
        raise BadInputError(f"{file}: not a Parquet file ({str(error).splitlines()[0]})") from None
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return _Table(file, columns, list(range(1, table.num_rows + 1)))


def _read_tum(file: Path) -> _Table:
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read ({(error.strerror or str(error)).lower()})") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: not a text file in UTF-8") from None
    rows = {number: line.split() for number, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
    for number, row in rows.items():
        if len(row) != len(TUM):
            raise BadInputError(f"{file}, row {number}: {len(row)} values, but there must be {len(TUM)}")
    columns: dict[str, list[Any]] = {name: [row[at] for row in rows.values()] for at, name in enumerate(TUM)}
    return _Table(file, columns, list(rows))


def _positions(table: _Table) -> Floats:
    return np.stack([table.numbers(axis) for axis in AXES if axis in table.columns], axis=1)


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


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{file}: cannot be written ({error.strerror or error})") from None
