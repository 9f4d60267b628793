"""Columns that tables of images and tables of track points share: degrees, directions and times."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, listed, shown
from mappable.places.angles import yaw_from_compass
from mappable.places.notes import Note
from mappable.places.table import NO_TIME
from mappable.tables import Table, read_words
from mappable.times import NUMBER, TimeUnit, guess_unit, nanoseconds

FULL_TURN = 2 * np.pi + 1e-6  # radians, with a tolerance for rounding
Angles = Literal["auto", "degrees", "radians"]
PATHS = ("image_path", "image_file", "file_path", "filename", "file_name", "image_name", "file", "image", "img_path")
NAMES = {  # other names of a column, the likeliest first; in any case, and with - or space for _
    "path": PATHS,
    "latitude": ("lat", "gps_latitude", "gps_lat", "latitude_deg", "lat_deg"),
    "longitude": ("lon", "lng", "long", "gps_longitude", "gps_lon", "gps_lng", "longitude_deg", "lon_deg"),
    "altitude": ("alt", "ele", "elevation", "gps_altitude"),
    "heading": ("compass", "compass_angle", "bearing", "azimuth"),
    "time": ("timestamp", "datetime", "date_time", "time_stamp"),
    "x": ("pos_x", "easting"),
    "y": ("pos_y", "northing"),
    "z": ("pos_z",),
    "yaw": (),
    "place_id": (),
    "frame": (),
    "sequence": (),
    "condition": (),
    "split": (),
    "role": (),
}
PLAIN = ("lat", "lon", "ele", "timestamp")  # names that need no note


def with_usual_names(table: Table, given: Sequence[str] = ()) -> tuple[Table, tuple[Note, ...]]:
    """The table with our names of columns, and a note that says which columns were taken.

    `given` has entries such as "path=image_file". Without an entry, a column with our name is taken, or else one with
    another usual name.
    """
    chosen: dict[str, str] = {}
    for entry in given:
        ours, equals, theirs = entry.partition("=")
        if not equals or ours not in NAMES:
            raise BadInputError(f"column is {shown(entry)}, expected NAME=COLUMN; names: {', '.join(NAMES)}")
        if theirs not in table.columns:
            raise BadInputError(f"{table.file}: no column {shown(theirs)}; it has {listed(table.columns)}")
        chosen[ours] = theirs
    plain = {re.sub(r"[ -]", "_", name.lower()): name for name in reversed(table.columns)}
    for ours, others in NAMES.items():
        if ours not in chosen and ours not in table.columns:
            found = next((plain[name] for name in (ours, *others) if name in plain), None)
            if found is not None and found not in chosen.values():
                chosen[ours] = found
    renamed = {theirs: ours for ours, theirs in chosen.items()}
    columns = {name: values for name, values in table.columns.items() if name not in chosen}
    columns = {renamed.get(name, name): values for name, values in columns.items()}
    taken = tuple(f"{ours} from {theirs}" for ours, theirs in chosen.items() if theirs not in (ours, *PLAIN))
    notes = (Note(f"columns of {table.file.name} have other names and were taken", taken, warning=False),)
    return replace(table, columns=columns, names_in_file={**table.names_in_file, **chosen}), notes if taken else ()


def latitude_and_longitude(table: Table, angles: Angles = "degrees") -> tuple[Floats, Floats]:
    """The columns `latitude` and `longitude` in degrees. With `auto`, positions that look like radians are refused."""
    if "latitude" not in table.columns or "longitude" not in table.columns:
        columns = listed(table.names_in_file.get(name, name) for name in table.columns)
        raise BadInputError(f"{table.file}: expected columns x and y, or latitude and longitude; found: {columns}")
    if angles == "radians":
        latitude = np.rad2deg(table.numbers("latitude", -np.pi / 2, np.pi / 2))
        return latitude, np.rad2deg(table.numbers("longitude", -np.pi, np.pi))
    latitude, longitude = table.numbers("latitude", -90, 90), table.numbers("longitude", -180, 180)
    fixed = (latitude != 0) | (longitude != 0)
    small = (np.abs(latitude) <= np.pi / 2) & (np.abs(longitude) <= np.pi)
    if angles == "auto" and len(table) > 1 and small.all() and fixed.any():
        # In degrees, this is a part of the Gulf of Guinea without land.
        row = int(np.flatnonzero(fixed)[0])
        where = f"latitude {latitude[row]:g}, longitude {longitude[row]:g}"
        raise BadInputError(
            f"{table.file}, {table.row_name} {table.row_numbers[row]}: {where} and all others look like radians; "
            "set the option angles to radians, or to degrees for the sea south of Ghana"
        )
    return latitude, longitude


def no_fix(latitude: Floats, longitude: Floats) -> Bools:
    """Mask of positions at latitude 0, longitude 0: receivers write this if they have no fix."""
    at_zero: Bools = (latitude == 0) & (longitude == 0)
    return at_zero


def yaw(table: Table) -> Floats | None:
    """Yaw from the column `yaw` (radians) or `heading` (degrees clockwise from north); None if there is neither."""
    if "yaw" in table.columns:
        angles = table.numbers("yaw", missing_allowed=True)
        too_large = np.flatnonzero(np.abs(angles) > FULL_TURN)
        if len(too_large):
            raise table.bad(
                int(too_large[0]), "yaw", "expected radians, at most a full turn; put degrees into a column heading"
            )
        return angles
    if "heading" in table.columns:
        return yaw_from_compass(np.deg2rad(table.numbers("heading", -360, 360, missing_allowed=True)))
    return None


def heading_is_filler(table: Table) -> bool:
    """True if the column `heading` is 0 in every row of several: programs write 0 if they do not know the heading."""
    if "yaw" in table.columns or "heading" not in table.columns or len(table) < 2:
        return False
    return not table.numbers("heading", missing_allowed=True).any()


def times(table: Table, unit: Literal["auto"] | TimeUnit = "auto") -> tuple[Ints, tuple[Note, ...]]:
    """The column `time` in ns, NO_TIME if missing; `auto` infers the unit from the numbers' size."""
    name = "time"
    if name not in table.columns:
        return np.full(len(table), NO_TIME), ()
    numbers = [text for text in table.columns[name] if NUMBER.fullmatch(text)]
    guesses = sorted({guess_unit(text) for text in numbers}) or ["s"]
    if unit == "auto" and len(guesses) > 1:
        raise BadInputError(f"{table.file}: times look like {' and '.join(guesses)}; use one unit for all")
    chosen = guesses[0] if unit == "auto" else unit
    values = table.parse(
        name, lambda text: nanoseconds(text, chosen) if text else NO_TIME, f"expected a time in {chosen} or in ISO 8601"
    )
    note = Note(f"times in {table.file.name} are numbers, used as {chosen}", warning=False)
    return np.array(values, dtype=np.int64), (note,) if numbers and unit == "auto" else ()


def timestamps(file: Path, rows: Sequence[int]) -> Ints:
    """The times (ns) of some images by number, from lines such as 2011-09-26 13:02:25.96; unknown without the file."""
    if not file.is_file() or not len(rows):
        return np.full(len(rows), NO_TIME)
    table = read_words(file, ["date", "time"])
    if len(table) <= max(rows):
        raise BadInputError(f"{file}: {len(table)} times, expected {max(rows) + 1} or more, one per image")
    joined = [" ".join(words) for words in zip(table.columns["date"], table.columns["time"], strict=True)]
    return replace(table, columns={"time": joined}).at(rows).times("time", "s")
