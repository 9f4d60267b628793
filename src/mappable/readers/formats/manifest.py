"""A table of images and positions: CSV or Parquet, in metres, in route frames, or in latitude and longitude.

    ROOT/                    or ROOT may be the table itself
      places.csv             or manifest.csv, or the only .csv or .parquet file there
      anything/you/like.jpg

Columns, in any order (other columns are ignored):

- `path`: image file, relative to the folder of the table, or to the folder `--images`
- `x`, `y`, optionally `z`; or `latitude`, `longitude` in degrees, optionally `altitude`
- optionally `yaw` (radians, counter-clockwise from +x) or `heading` (degrees, clockwise from north)
- optionally `time`: a number since 1970, or ISO 8601
- optionally `place_id`, `frame`, `sequence`, `condition`, `split` (train, calibration, test),
  `role` (reference, query)

Usual names work too, in any case: `filename`, `file_name`, `image_file`, `image_name`, `Latitude`,
`lat`, `lon`, `lng`, `timestamp` and more. A note says which columns were taken. `--column
path=photo` names any other column, and may be repeated.

Rows at latitude 0, longitude 0 have no fix: they are left out and listed. A `heading` that is 0 in
every row counts as unknown. Latitudes and longitudes that all look like radians are refused, unless
`--angles` decides.

Coordinates in feet become metres with `--unit ft`, and those in any other unit with `--scale`, the
metres per unit. A `crs` in feet is converted to metres in UTM.

Without a column `sequence`, the images of one folder are one sequence. Latitudes and longitudes,
and coordinates with a `crs`, become metres from a nearby whole kilometre; the frame stores this
point as its origin. A table that Mappable wrote is read unchanged.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow
import pyarrow.parquet

from mappable.arrays import Floats
from mappable.errors import BadInputError, listed, shown
from mappable.places.files import is_own_table, load_places
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import SPLITS, Places
from mappable.readers import columns
from mappable.readers.columns import Angles
from mappable.readers.toolkit import in_one_plane
from mappable.tables import Table, read_table

ONE_FILE = True
SCORE = 0.8  # a table may be part of another format
LONGEST_HEAD = 100_000  # characters of the line with the names of columns
KNOWN_NAMES = ("places.parquet", "places.csv", "manifest.parquet", "manifest.csv")
TIME_UNITS = Literal["auto", "s", "ms", "us", "ns"]
GivenUnit = Literal["m", "ft", "frames", "units"]
FOOT = 0.3048  # metres per international foot
OWN = "Mappable wrote this table, so the options of the reader do not apply; remove them"


def fits(root: Path) -> str:
    """A table with the columns that the reader needs."""
    for file in [root] if root.is_file() else sorted(root.iterdir()):
        if file.suffix in (".csv", ".parquet"):
            for names in (("path", "x", "y"), ("path", "latitude", "longitude")):
                if set(names) <= _columns(file):
                    return f"{file.name} ({', '.join(names)})"
    return ""


def _columns(file: Path) -> set[str]:
    """The names of the columns of a table, by its first line or its schema."""
    try:
        if file.suffix == ".parquet":
            names = pyarrow.parquet.read_schema(file).names
        else:
            with file.open(encoding="utf-8-sig", errors="replace") as stream:
                head = stream.readline(LONGEST_HEAD).strip()
            names = head.split(max(",;\t", key=head.count))
        table = Table(file, {name.strip(): [] for name in names}, [])
        return {*columns.with_usual_names(table, Findings()).columns}
    except (BadInputError, OSError, pyarrow.ArrowException):
        return set()


def read(
    root: Path,
    found: Findings,
    *,
    frame: Annotated[
        str | None,
        "name of the frame, if there is no column frame (default: the folder, or the UTM zone for"
        " degrees)",
    ] = None,
    unit: Annotated[
        GivenUnit,
        "unit of x, y and z: m (metres), ft (feet), frames (of a route), or units (of unknown"
        " scale)",
    ] = "m",
    scale: Annotated[
        float | None, "metres per unit of x, y and z, such as 0.001 for millimetres"
    ] = None,
    images: Annotated[
        Path | None, "folder that contains the paths (default: the folder of the table)"
    ] = None,
    crs: Annotated[
        str | None, "CRS of x and y, such as EPSG:32632, if they are map coordinates"
    ] = None,
    time_unit: Annotated[
        TIME_UNITS, "unit of times that are numbers; auto infers it from their size"
    ] = "auto",
    angles: Annotated[
        Angles, "unit of latitude and longitude; auto refuses positions that look like radians"
    ] = "auto",
    column: Annotated[
        list[str] | None, "another name of a column, such as path=photo; may be repeated"
    ] = None,
    other_splits: Annotated[
        Literal["refuse", "clear"],
        "for a split other than train, calibration or test: raise an error, or clear it",
    ] = "refuse",
) -> Places:
    file = root if root.is_file() else _find_table(root)
    if is_own_table(file):
        options = frame, unit, scale, images, crs, time_unit, angles, column or None, other_splits
        if options != (None, "m", None, None, None, "auto", "auto", None, "refuse"):
            raise BadInputError(f"{file}: {OWN}")
        return load_places(file)
    table = columns.with_usual_names(read_table(file), found, column or ())
    if "path" not in table.columns:
        names = listed(table.columns)
        raise BadInputError(
            f"{file}: no column path; it has {names}; name the column with --column path=NAME"
        )
    if len(table) == 0:
        raise BadInputError(f"{file}: the table has no rows")
    if images is not None and not images.is_dir():
        raise BadInputError(
            f"--images is {images}, expected the folder that contains the paths of the table"
        )
    table = _with_splits(table, other_splits == "clear", found)
    if columns.in_degrees(table):
        if crs is not None or unit != "m" or scale is not None:
            what = (
                "the options unit, scale and crs need columns x and y, but it has latitude and"
                " longitude"
            )
            raise BadInputError(f"{table.file}: {what}")
        table = _with_fix(table, angles, found)
        frames, x, y, z = _from_degrees(table, frame, angles)
    else:
        frames, x, y, z = _from_metres(table, frame or file.parent.resolve().name, unit, scale, crs)
    texts: dict[str, Any] = {
        name: table.columns.get(name)
        for name in ("frame", "condition", "split", "role", "place_id")
    }
    paths = [_normal(path) for path in table.columns["path"]]
    texts["sequence"] = table.columns.get(
        "sequence", [path.rpartition("/")[0] or "." for path in paths]
    )
    yaw, time = _yaw(table, found), columns.times(table, found, time_unit)
    with table.naming_rows():
        return Places(
            path=paths,
            root=images or file.parent,
            frames=frames,
            x=x,
            y=y,
            z=z,
            yaw=yaw,
            time=time,
            **texts,
        )


def _find_table(folder: Path) -> Path:
    tables = [folder / name for name in KNOWN_NAMES if (folder / name).is_file()][:1]
    tables = tables or sorted(
        file for file in folder.glob("*") if file.suffix in (".csv", ".parquet")
    )
    if len(tables) != 1:
        names = ", ".join(file.name for file in tables) or "none"
        expected = f"expected one table (.csv or .parquet), found: {names}"
        raise BadInputError(f"{folder}: {expected}; give the file instead of the folder")
    return tables[0]


def _normal(path: str) -> str:
    """The path in normal form, so that ./a.jpg and a.jpg are one file."""
    if path.startswith("./") or path.endswith("/") or "//" in path or "/./" in path or path == ".":
        pure = PurePosixPath(path)
        return pure.as_posix() if pure.name else ""
    return path


def _with_splits(table: Table, clear: bool, found: Findings) -> Table:
    """The table without splits that are not ours, or an error for the first one."""
    splits = table.columns.get("split", [])
    unknown = np.array([split not in SPLITS for split in splits], dtype=bool)
    if not clear:
        expected = f"expected {', '.join(SPLITS[1:])} or nothing; or use --other-splits clear"
        table.refuse(unknown, "split", expected)
    for name in sorted({splits[row] for row in np.flatnonzero(unknown)}):
        found.say(f"{splits.count(name):,} places of split {shown(name)} are not used")
    if unknown.any():
        table.columns["split"] = [split if split in SPLITS else "" for split in splits]
    return table


def _yaw(table: Table, found: Findings) -> Floats | None:
    """The yaws. Programs write 0 if they do not know the heading, so a heading of 0 in every row
    counts as unknown.
    """
    yaw = columns.yaw(table)
    if "yaw" in table.columns or "heading" not in table.columns or len(table) < 2:
        return yaw
    if columns.optional(table, "heading").any():
        return yaw
    found.say(f"heading is 0 in all rows of {table.file.name}, so it counts as unknown")
    return None


def _frame_names(table: Table, default: str) -> list[str]:
    """The name of the frame of each row."""
    names = table.columns.get("frame", [default] * len(table))
    table.refuse(
        np.array([not name for name in names]) & ("frame" in table.columns),
        "frame",
        "expected a name",
    )
    return names


Placed = tuple[list[Frame], Floats, Floats, Floats]  # frames, x, y, z


def _from_metres(
    table: Table, default_name: str, unit: GivenUnit, scale: float | None, crs: str | None
) -> Placed:
    """The frames and coordinates of the columns x and y; with a CRS, relative to the origin of each
    frame.
    """
    if scale is not None and unit != "m":
        raise BadInputError(
            f"--scale gives metres per unit, and --unit is {unit}: give one of them"
        )
    if scale is not None and not 0 < scale < np.inf:
        raise BadInputError(f"--scale is {scale:g}, expected metres per unit, above 0")
    _, x, y, z = columns.positions(table)
    names = np.array(_frame_names(table, default_name), dtype=object)
    distinct = list(dict.fromkeys(names))
    if crs is None:
        factor = scale or (FOOT if unit == "ft" else 1.0)
        return (
            [Frame(name, "m" if unit == "ft" else unit) for name in distinct],
            x * factor,
            y * factor,
            z * factor,
        )
    if unit != "m" or scale is not None:
        raise BadInputError(
            f"{table.file}: the CRS {crs} has a unit of its own; remove --unit and --scale"
        )
    per_unit = _metres_per_unit(crs)
    if per_unit != 1:
        from pyproj import Transformer

        if len(distinct) > 1:
            raise BadInputError(
                f"{table.file}: a CRS in feet needs one frame; split the table by its column frame"
            )
        longitude, latitude = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(x, y)
        frame, x, y = in_one_plane(
            np.asarray(latitude), np.asarray(longitude), table.where, distinct[0]
        )
        return [frame], x, y, z * per_unit
    frames = {name: Frame.near(name, x[names == name], y[names == name], crs) for name in distinct}
    origin = np.array([frames[name].origin for name in names])
    return [*frames.values()], x - origin[:, 0], y - origin[:, 1], z


def _metres_per_unit(crs: str) -> float:
    """Metres per unit of a projected CRS; raise if it is not projected."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        known = CRS.from_user_input(crs)
    except CRSError:
        raise BadInputError(f"unknown CRS {shown(crs)}; give a code such as EPSG:32632") from None
    if not known.is_projected:
        remedy = "put degrees into the columns latitude and longitude"
        raise BadInputError(f"the CRS {crs} ({known.name}) is not in metres; {remedy}")
    return float(known.axis_info[0].unit_conversion_factor)


def _with_fix(table: Table, angles: Angles, found: Findings) -> Table:
    """The rows that are not at latitude 0, longitude 0, which receivers write if they have no fix."""
    _, longitude, latitude, _ = columns.positions(table, angles)
    fixed = (latitude != 0) | (longitude != 0)
    if not fixed.any():
        raise BadInputError(
            f"{table.file}: every row is at latitude 0, longitude 0, so no row has a position"
        )
    paths = table.columns["path"]
    lost = (f"{paths[row]}, row {table.row_numbers[row]}" for row in np.flatnonzero(~fixed))
    found.note("rows are at latitude 0, longitude 0, so no fix (left out)", lost)
    return table if fixed.all() else table.at(np.flatnonzero(fixed).tolist())


def _from_degrees(table: Table, frame: str | None, angles: Angles) -> Placed:
    """The frame, and the coordinates in metres, of the columns latitude and longitude."""
    _, longitude, latitude, altitude = columns.positions(table, angles)
    names = sorted(set(_frame_names(table, frame or "")))
    if len(names) > 1:
        what = (
            f"latitudes and longitudes need one frame, but the column frame has {', '.join(names)}"
        )
        raise BadInputError(f"{table.file}: {what}")
    plane, x, y = in_one_plane(latitude, longitude, table.where, names[0] or None)
    return [plane], x, y, altitude
