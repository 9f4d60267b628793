"""A table of images and positions: CSV or Parquet, in metres, in route frames, or in latitude and longitude.

    ROOT/                    or ROOT may be the table itself
      places.csv             or manifest.csv, or the only .csv or .parquet file there
      anything/you/like.jpg

Columns, in any order; other columns are ignored:

- `path`, relative to the table's folder
- `x`, `y`, optionally `z`; or `latitude`, `longitude` (also `lat`, `lon`) in degrees, optionally `altitude`
- optionally `yaw` (radians, counter-clockwise from +x) or `heading` (degrees, clockwise from north)
- optionally `time` (or `timestamp`): a number since 1970, or ISO 8601
- optionally `place_id`, `frame`, `sequence`, `condition`, `split` (train, calibration, test), `role` (reference, query)

Without a `sequence` column, the images of one folder are one sequence. Latitudes, longitudes and coordinates with a
`crs` become metres from a whole kilometre nearby, which the frame remembers as its origin. A table written by
Mappable is taken as it is.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.files import is_own_table, load_places
from mappable.places.frames import Frame, Unit, frame_from_latlon
from mappable.places.notes import Note
from mappable.places.table import NO_TIME, SPLITS, Places
from mappable.places.tabular import Table, read_table
from mappable.places.times import NUMBER, guess_unit, nanoseconds

TIME_UNITS = Literal["auto", "s", "ms", "us", "ns"]


def read(
    root: Path,
    *,
    frame: Annotated[
        str | None, "name of the frame if no column says it (default: the folder's name; for latitudes the UTM zone)"
    ] = None,
    unit: Annotated[Unit, "unit of x and y: metres, or frames of a route"] = "m",
    crs: Annotated[str | None, "CRS of x and y if they are map coordinates, such as EPSG:32632"] = None,
    time_unit: Annotated[TIME_UNITS, "unit of times given as numbers; auto goes by their size"] = "auto",
    other_splits: Annotated[
        Literal["refuse", "clear"], "a split that is not train, calibration or test: refuse it, or leave it unused"
    ] = "refuse",
) -> Places:
    file = root if root.is_file() else _find_table(root)
    if is_own_table(file):
        return load_places(file)
    table = read_table(file)
    table.require("path")
    if len(table) == 0:
        raise BadInputError(f"{file}: the table has no rows")
    if "x" in table.columns or "y" in table.columns:
        frames, x, y, z = _from_metres(table, frame or file.parent.resolve().name, unit, crs)
    else:
        frames, x, y, z = _from_degrees(table, frame, unit, crs)
    times, notes = _times(table, time_unit)
    columns = dict(table.columns)
    if other_splits == "clear" and "split" in columns:
        others = [split for split in columns["split"] if split not in SPLITS]
        unused = [f"{others.count(name):,} places of split {name!r} are left unused" for name in sorted(set(others))]
        notes += [Note(text) for text in unused]
        columns["split"] = [split if split in SPLITS else "" for split in columns["split"]]
    paths = [PurePosixPath(path) for path in columns["path"]]
    folders = [path.parent.as_posix() for path in paths]
    with table.naming_rows():
        return Places(
            path=[path.as_posix() if path.name else "" for path in paths],
            root=file.parent,
            x=x,
            y=y,
            z=z,
            frames=frames,
            frame=columns.get("frame"),
            yaw=_yaw(table),
            time=times,
            sequence=columns.get("sequence", folders),
            condition=columns.get("condition"),
            split=columns.get("split"),
            role=columns.get("role"),
            place_id=columns.get("place_id"),
            notes=notes,
        )


def _find_table(folder: Path) -> Path:
    for name in ("places.parquet", "places.csv", "manifest.parquet", "manifest.csv"):
        if (folder / name).is_file():
            return folder / name
    found = sorted(file for file in folder.iterdir() if file.suffix in (".csv", ".parquet"))
    if len(found) != 1:
        listed = ", ".join(file.name for file in found) or "none"
        raise BadInputError(f"{folder}: expected one table (.csv or .parquet), found {listed}; name the file itself")
    return found[0]


def _frame_names(table: Table) -> list[str]:
    """What the column `frame` calls each row's frame; nothing without such a column."""
    names = table.columns.get("frame", [])
    if "" in names:
        raise table.bad(names.index(""), "frame", "is not a name")
    return names


def _from_metres(
    table: Table, default_name: str, unit: Unit, crs: str | None
) -> tuple[list[Frame], Floats, Floats, Floats | None]:
    """The frames and coordinates of the columns x and y; map coordinates become small by each frame's origin."""
    x, y = table.numbers("x"), table.numbers("y")
    z = table.numbers("z", missing_allowed=True) if "z" in table.columns else None
    names = np.array(_frame_names(table) or [default_name] * len(table), dtype=object)
    frames = [Frame(name, unit) for name in dict.fromkeys(names)]
    if crs is None:
        return frames, x, y, z
    if unit != "m":
        raise BadInputError(f"x and y have the CRS {crs}, so their unit is m, not {unit}")
    _check_crs(crs)
    frames = [Frame.near(one.name, x[names == one.name], y[names == one.name], crs) for one in frames]
    origins = {one.name: one.origin for one in frames}
    origin = np.array([origins[name] for name in names])
    return frames, x - origin[:, 0], y - origin[:, 1], z


def _check_crs(crs: str) -> None:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        known = CRS.from_user_input(crs)
    except CRSError:
        raise BadInputError(f"the CRS {crs!r} is unknown; EPSG:32632 would be one") from None
    if not known.is_projected or any(axis.unit_conversion_factor != 1 for axis in known.axis_info[:2]):
        raise BadInputError(f"the CRS {crs} ({known.name}) is not in metres; degrees go into latitude and longitude")


def _from_degrees(
    table: Table, frame: str | None, unit: Unit, crs: str | None
) -> tuple[list[Frame], Floats, Floats, Floats | None]:
    """The frame and coordinates in metres of the columns latitude and longitude."""
    columns = table.columns
    latitude_name = "latitude" if "latitude" in columns else "lat"
    longitude_name = "longitude" if "longitude" in columns else "lon"
    if latitude_name not in columns or longitude_name not in columns:
        raise BadInputError(
            f"{table.file}: no columns x and y, nor latitude and longitude; it has {', '.join(columns)}"
        )
    if crs is not None or unit != "m":
        raise BadInputError(f"{table.file}: unit and crs are about x and y, but it has latitudes and longitudes")
    names = sorted(set(_frame_names(table)))
    if len(names) > 1:
        raise BadInputError(
            f"{table.file}: latitudes and longitudes share one frame, but the column frame names {', '.join(names)}"
        )
    latitude, longitude = table.numbers(latitude_name, -90, 90), table.numbers(longitude_name, -180, 180)
    found, x, y = frame_from_latlon(latitude, longitude, names[0] if names else frame)
    z = table.numbers("altitude", missing_allowed=True) if "altitude" in columns else None
    return [found], x, y, z


def _yaw(table: Table) -> Floats | None:
    if "yaw" in table.columns:
        limit = 2 * np.pi + 1e-6
        yaw = table.numbers("yaw", missing_allowed=True)
        beyond = np.flatnonzero(np.abs(yaw) > limit)
        if len(beyond):
            raise table.bad(int(beyond[0]), "yaw", "is beyond a full turn in radians; degrees go into a column heading")
        return yaw
    if "heading" in table.columns:
        return yaw_from_compass(np.deg2rad(table.numbers("heading", -360, 360, missing_allowed=True)))
    return None


def _times(table: Table, time_unit: TIME_UNITS) -> tuple[Ints | None, list[Note]]:
    name = next((name for name in ("time", "timestamp") if name in table.columns), None)
    known = [text for text in table.columns[name] if text] if name else []
    if name is None or not known:
        return None, []
    numbers = [text for text in known if NUMBER.fullmatch(text)]
    guesses = sorted({guess_unit(text) for text in numbers}) or ["s"]
    if time_unit == "auto" and len(guesses) > 1:
        raise BadInputError(f"{table.file}: times look like {' and '.join(guesses)}; say their time_unit")
    unit = guesses[0] if time_unit == "auto" else time_unit
    values = table.parse(
        name, lambda text: nanoseconds(text, unit) if text else NO_TIME, f"is not a time in {unit} nor ISO 8601"
    )
    note = Note(f"times are numbers, taken as {unit}; say time_unit if that is wrong", warning=False)
    return np.array(values, dtype=np.int64), [note] if numbers and time_unit == "auto" else []
