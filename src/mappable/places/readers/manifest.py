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

Without a `sequence` column, the images of one folder are one sequence. A table written by Mappable is taken as it is.
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
from mappable.places.times import guess_unit, nanoseconds

TIME_UNITS = Literal["auto", "s", "ms", "us", "ns"]


def read(
    root: Path,
    *,
    frame: Annotated[str | None, "name of the frame (default: the folder's name; for latitudes the UTM zone)"] = None,
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
    frames, x, y, z = _positions(table, frame or file.parent.resolve().name, frame, unit, crs)
    times, notes = _times(table, time_unit)
    columns = dict(table.columns)
    if other_splits == "clear" and "split" in columns:
        others = [split for split in columns["split"] if split not in SPLITS]
        unused = [f"{others.count(name):,} places of split {name!r} are left unused" for name in sorted(set(others))]
        notes += [Note(text) for text in unused]
        columns["split"] = [split if split in SPLITS else "" for split in columns["split"]]
    folders = [PurePosixPath(path).parent.as_posix() for path in columns["path"]]
    with table.naming_rows():
        return Places(
            path=columns["path"],
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


def _positions(
    table: Table, local_name: str, frame: str | None, unit: Unit, crs: str | None
) -> tuple[list[Frame], Floats, Floats, Floats | None]:
    """The frames and coordinates, from x and y if the table has them, else from latitude and longitude."""
    columns = table.columns
    names = list(dict.fromkeys(columns["frame"])) if "frame" in columns else []
    if "x" in columns or "y" in columns:
        z = table.numbers("z", missing_allowed=True) if "z" in columns else None
        frames = [Frame(name, unit, crs) for name in names or [local_name]]
        return frames, table.numbers("x"), table.numbers("y"), z
    latitude_name = "latitude" if "latitude" in columns else "lat"
    longitude_name = "longitude" if "longitude" in columns else "lon"
    if latitude_name not in columns or longitude_name not in columns:
        raise BadInputError(
            f"{table.file}: no columns x and y, nor latitude and longitude; it has {', '.join(columns)}"
        )
    if len(names) > 1:
        raise BadInputError(f"{table.file}: latitudes and longitudes share one frame, but the column names {names}")
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
    unit = guess_unit(known[0]) if time_unit == "auto" else time_unit
    values = table.parse(
        name, lambda text: nanoseconds(text, unit) if text else NO_TIME, f"is not a time in {unit} nor ISO 8601"
    )
    is_number = known[0].replace(".", "").isdigit()
    note = Note(f"times are numbers, taken as {unit}; say time_unit if that is wrong", warning=False)
    return np.array(values, dtype=np.int64), [note] if is_number and time_unit == "auto" else []
