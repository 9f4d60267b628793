"""A table of images and positions: CSV or Parquet, in metres, in route frames, or in latitude and longitude.

    ROOT/                    or ROOT may be the table itself
      places.csv             or manifest.csv, or the only .csv or .parquet file there
      anything/you/like.jpg

Columns, in any order (other columns are ignored):

- `path`: image file, relative to the folder of the table, or to the folder `--images`
- `x`, `y`, optionally `z`; or `latitude`, `longitude` in degrees, optionally `altitude`
- optionally `yaw` (radians, counter-clockwise from +x) or `heading` (degrees, clockwise from north)
- optionally `time`: a number since 1970, or ISO 8601
- optionally `place_id`, `frame`, `sequence`, `condition`, `split` (train, calibration, test), `role` (reference, query)

Usual names work too, in any case: `filename`, `file_name`, `image_file`, `image_name`, `Latitude`, `lat`, `lon`, `lng`,
`timestamp` and more. A note says which columns were taken. `--column path=photo` names any other column, and may be
repeated.

Rows at latitude 0, longitude 0 have no fix: they are left out and listed. A `heading` that is 0 in every row counts as
unknown. Latitudes and longitudes that all look like radians are refused, unless `--angles` decides.

Coordinates in feet become metres with `--unit ft`, and those in any other unit with `--scale`, the metres per unit. A
`crs` in feet is converted to metres in UTM.

Without a column `sequence`, the images of one folder are one sequence. Latitudes and longitudes, and coordinates with a
`crs`, become metres from a nearby whole kilometre; the frame stores this point as its origin. A table that Mappable
wrote is read unchanged.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError, listed, shown
from mappable.places import columns
from mappable.places.columns import Angles
from mappable.places.files import is_own_table, load_places
from mappable.places.frames import MAX_RADIUS, Frame, Unit, frame_from_latlon
from mappable.places.notes import Note, warn
from mappable.places.table import SPLITS, Places
from mappable.tables import Table, read_table

TIME_UNITS = Literal["auto", "s", "ms", "us", "ns"]
GivenUnit = Literal["m", "ft", "frames", "units"]
FOOT = 0.3048  # metres per international foot


def read(
    root: Path,
    *,
    frame: Annotated[
        str | None,
        "name of the frame, if there is no column frame (default: the folder, or the UTM zone for degrees)",
    ] = None,
    unit: Annotated[
        GivenUnit, "unit of x, y and z: m (metres), ft (feet), frames (of a route), or units (of unknown scale)"
    ] = "m",
    scale: Annotated[float | None, "metres per unit of x, y and z, such as 0.001 for millimetres"] = None,
    images: Annotated[Path | None, "folder that contains the paths (default: the folder of the table)"] = None,
    crs: Annotated[str | None, "CRS of x and y, such as EPSG:32632, if they are map coordinates"] = None,
    time_unit: Annotated[TIME_UNITS, "unit of times that are numbers; auto infers it from their size"] = "auto",
    angles: Annotated[Angles, "unit of latitude and longitude; auto refuses positions that look like radians"] = "auto",
    column: Annotated[list[str] | None, "another name of a column, such as path=photo; may be repeated"] = None,
    other_splits: Annotated[
        Literal["refuse", "clear"], "for a split other than train, calibration or test: raise an error, or clear it"
    ] = "refuse",
) -> Places:
    file = root if root.is_file() else _find_table(root)
    if is_own_table(file):
        options = frame, unit, scale, images, crs, time_unit, angles, column or None, other_splits
        if options != (None, "m", None, None, None, "auto", "auto", None, "refuse"):
            raise BadInputError(
                f"{file}: Mappable wrote this table, so the options of the reader do not apply; remove them"
            )
        return load_places(file)
    table, notes = columns.with_usual_names(read_table(file), column or ())
    if "path" not in table.columns:
        names = listed(table.columns)
        raise BadInputError(f"{file}: no column path; it has {names}; name the column with --column path=NAME")
    if len(table) == 0:
        raise BadInputError(f"{file}: the table has no rows")
    if images is not None and not images.is_dir():
        raise BadInputError(f"--images is {images}, expected the folder that contains the paths of the table")
    if "x" in table.columns or "y" in table.columns:
        factor = _factor(unit, scale)
        frames, x, y, z = _from_metres(
            table, frame or file.parent.resolve().name, "m" if unit == "ft" else unit, crs, factor
        )
    else:
        table, fix_notes = _with_fix(table, angles)
        frames, x, y, z = _from_degrees(table, frame, unit if scale is None else "scaled", crs, angles)
        notes += fix_notes
    time, time_notes = columns.times(table, time_unit)
    notes += time_notes
    yaw = columns.yaw(table)
    if columns.heading_is_filler(table):
        yaw = None
        notes += (Note(f"heading is 0 in all rows of {file.name}, so it counts as unknown"),)
    given = dict(table.columns)
    if other_splits == "clear" and "split" in given:
        others = [split for split in given["split"] if split not in SPLITS]
        unused = [f"{others.count(name):,} places of split {shown(name)} are not used" for name in sorted(set(others))]
        notes += tuple(Note(text) for text in unused)
        given["split"] = [split if split in SPLITS else "" for split in given["split"]]
    unknown = [row for row, split in enumerate(given.get("split", ())) if split not in SPLITS]
    if unknown:
        raise table.bad(
            unknown[0], "split", f"expected {', '.join(SPLITS[1:])} or nothing; or use --other-splits clear"
        )
    paths = [_normal(path) for path in given["path"]]
    folders = [path.rpartition("/")[0] or "." for path in paths]
    with table.naming_rows():
        return Places(
            path=paths,
            root=images or file.parent,
            x=x,
            y=y,
            z=z,
            frames=frames,
            frame=given.get("frame"),
            yaw=yaw,
            time=time,
            sequence=given.get("sequence", folders),
            condition=given.get("condition"),
            split=given.get("split"),
            role=given.get("role"),
            place_id=given.get("place_id"),
            notes=notes,
        )


def _normal(path: str) -> str:
    """The path in normal form, so that ./a.jpg and a.jpg are one file."""
    if path.startswith("./") or path.endswith("/") or "//" in path or "/./" in path or path == ".":
        pure = PurePosixPath(path)
        return pure.as_posix() if pure.name else ""
    return path


def _find_table(folder: Path) -> Path:
    for name in ("places.parquet", "places.csv", "manifest.parquet", "manifest.csv"):
        if (folder / name).is_file():
            return folder / name
    found = sorted(file for file in folder.iterdir() if file.suffix in (".csv", ".parquet"))
    if len(found) != 1:
        listed = ", ".join(file.name for file in found) or "none"
        raise BadInputError(
            f"{folder}: expected one table (.csv or .parquet), found: {listed}; give the file instead of the folder"
        )
    return found[0]


def _frame_names(table: Table) -> list[str]:
    """The values of the column `frame`; empty if there is no such column."""
    names = table.columns.get("frame", [])
    if "" in names:
        raise table.bad(names.index(""), "frame", "expected a name")
    return names


def _factor(unit: GivenUnit, scale: float | None) -> float:
    """Metres per unit of x, y and z; 1 for units that are not metres."""
    if scale is None:
        return FOOT if unit == "ft" else 1.0
    if unit != "m":
        raise BadInputError(f"--scale gives metres per unit, and --unit is {unit}: give one of them")
    if not 0 < scale < np.inf:
        raise BadInputError(f"--scale is {scale:g}, expected metres per unit, above 0")
    return scale


def _from_metres(
    table: Table, default_name: str, unit: Unit, crs: str | None, factor: float
) -> tuple[list[Frame], Floats, Floats, Floats | None]:
    """The frames and coordinates of the columns x and y; with a CRS, relative to the origin of each frame."""
    x, y = table.numbers("x"), table.numbers("y")
    z = table.numbers("z", missing_allowed=True) if "z" in table.columns else None
    names = np.array(_frame_names(table) or [default_name] * len(table), dtype=object)
    frames = [Frame(name, unit) for name in dict.fromkeys(names)]
    if crs is None:
        return frames, x * factor, y * factor, None if z is None else z * factor
    if unit != "m" or factor != 1:
        raise BadInputError(f"{table.file}: the CRS {crs} has a unit of its own; remove --unit and --scale")
    per_unit = _metres_per_unit(crs)
    if per_unit != 1:
        return _from_feet(table, default_name, crs, (x, y, None if z is None else z * per_unit))
    frames = [Frame.near(one.name, x[names == one.name], y[names == one.name], crs) for one in frames]
    origins = {one.name: one.origin for one in frames}
    origin = np.array([origins[name] for name in names])
    return frames, x - origin[:, 0], y - origin[:, 1], z


def _from_feet(
    table: Table, name: str, crs: str, coordinates: tuple[Floats, Floats, Floats | None]
) -> tuple[list[Frame], Floats, Floats, Floats | None]:
    """The frame in metres (UTM) of coordinates in a CRS that is not in metres."""
    from pyproj import Transformer

    if len(set(_frame_names(table))) > 1:
        raise BadInputError(f"{table.file}: a CRS in feet needs one frame; split the table by its column frame")
    longitude, latitude = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(*coordinates[:2])
    frame, x, y = frame_from_latlon(np.asarray(latitude), np.asarray(longitude), name)
    return [frame], x, y, coordinates[2]


def _metres_per_unit(crs: str) -> float:
    """Metres per unit of a projected CRS; raise if it is not projected."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        known = CRS.from_user_input(crs)
    except CRSError:
        raise BadInputError(f"unknown CRS {shown(crs)}; give a code such as EPSG:32632") from None
    if not known.is_projected:
        raise BadInputError(
            f"the CRS {crs} ({known.name}) is not in metres; put degrees into the columns latitude and longitude"
        )
    return float(known.axis_info[0].unit_conversion_factor)


def _with_fix(table: Table, angles: Angles) -> tuple[Table, tuple[Note, ...]]:
    """The rows that are not at latitude 0, longitude 0, and a note about the others."""
    lost = columns.no_fix(*columns.latitude_and_longitude(table, angles))
    if not lost.any():
        return table, ()
    if lost.all():
        raise BadInputError(f"{table.file}: every row is at latitude 0, longitude 0, so no row has a position")
    names = [f"{table.columns['path'][row]}, row {table.row_numbers[row]}" for row in np.flatnonzero(lost)]
    return table.at(np.flatnonzero(~lost).tolist()), warn(
        "rows are at latitude 0, longitude 0, so no fix (left out)", names
    )


def _from_degrees(
    table: Table, frame: str | None, unit: str, crs: str | None, angles: Angles
) -> tuple[list[Frame], Floats, Floats, Floats | None]:
    """The frame, and the coordinates in metres, of the columns latitude and longitude."""
    latitude, longitude = columns.latitude_and_longitude(table, angles)
    if crs is not None or unit != "m":
        raise BadInputError(
            f"{table.file}: the options unit, scale and crs need columns x and y, but it has latitude and longitude"
        )
    names = sorted(set(_frame_names(table)))
    if len(names) > 1:
        raise BadInputError(
            f"{table.file}: latitudes and longitudes need one frame, but the column frame has {', '.join(names)}"
        )
    found, x, y = frame_from_latlon(latitude, longitude, names[0] if names else frame)
    far = np.flatnonzero(~(np.hypot(x, y) < MAX_RADIUS))
    if len(far):
        where = f"{latitude[far[0]]:g}, {longitude[far[0]]:g} is more than {MAX_RADIUS / 1000:,.0f} km from the median"
        raise BadInputError(
            f"{table.file}, row {table.row_numbers[far[0]]}: {where}, too far for one flat frame; split the table"
        )
    z = table.numbers("altitude", missing_allowed=True) if "altitude" in table.columns else None
    return [found], x, y, z
