"""Columns that tables of images and tables of track points share: names, degrees, directions and times."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, listed, shown
from mappable.places.angles import yaw_from_compass
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME
from mappable.readers.toolkit import unknown
from mappable.tables import Table
from mappable.times import NUMBER, TimeUnit, guess_unit, nanoseconds

FULL_TURN = 2 * np.pi + 1e-6  # radians, with a tolerance for rounding
Angles = Literal["auto", "degrees", "radians"]
PATHS = (
    "image_path",
    "image_file",
    "file_path",
    "filename",
    "file_name",
    "image_name",
    "file",
    "image",
    "img_path",
)
NAMES = {  # other names of a column, the likeliest first; in any case, and with - or space for _
    "path": PATHS,
    "latitude": ("lat", "gps_latitude", "gps_lat", "latitude_deg", "lat_deg"),
    "longitude": (
        "lon",
        "lng",
        "long",
        "gps_longitude",
        "gps_lon",
        "gps_lng",
        "longitude_deg",
        "lon_deg",
    ),
    "altitude": ("alt", "ele", "elevation", "gps_altitude"),
    "heading": ("compass", "compass_angle", "bearing", "azimuth"),
    "time": ("timestamp", "datetime", "date_time", "time_stamp"),
    "x": ("pos_x", "easting"),
    "y": ("pos_y", "northing"),
    "z": ("pos_z",),
    **dict.fromkeys(("yaw", "place_id", "frame", "sequence", "condition", "split", "role"), ()),
}
PLAIN = ("lat", "lon", "ele", "timestamp")  # names that need no note


def with_usual_names(table: Table, found: Findings, given: Sequence[str] = ()) -> Table:
    """The table with our names of columns; a note says which columns were taken.

    `given` has entries such as "path=image_file". Without an entry, a column with our name is
    taken, or else one with another usual name.
    """
    chosen: dict[str, str] = {}
    for entry in given:
        ours, equals, theirs = entry.partition("=")
        if not equals or ours not in NAMES:
            raise BadInputError(
                f"column is {shown(entry)}, expected NAME=COLUMN; names: {', '.join(NAMES)}"
            )
        table.require(theirs)
        chosen[ours] = theirs
    plain = {re.sub(r"[ -]", "_", name.lower()): name for name in reversed(table.columns)}
    for ours, others in NAMES.items():
        theirs = next((plain[name] for name in (ours, *others) if name in plain), "")
        if (
            theirs
            and ours not in chosen
            and ours not in table.columns
            and theirs not in chosen.values()
        ):
            chosen[ours] = theirs
    renamed = {theirs: ours for ours, theirs in chosen.items()}
    columns = {
        renamed.get(name, name): values
        for name, values in table.columns.items()
        if name not in chosen
    }
    taken = (
        f"{ours} from {theirs}" for ours, theirs in chosen.items() if theirs not in (ours, *PLAIN)
    )
    found.note(
        f"columns of {table.file.name} have other names and were taken", taken, warning=False
    )
    return replace(table, columns=columns, names_in_file={**table.names_in_file, **chosen})


def optional(table: Table, name: str) -> Floats:
    """A column of numbers; NaN if a value, or the column, is missing."""
    return (
        table.numbers(name, missing_allowed=True) if name in table.columns else unknown(len(table))
    )


def in_degrees(table: Table) -> bool:
    """True if positions are latitude and longitude, not x and y."""
    return "x" not in table.columns and "y" not in table.columns


def positions(table: Table, angles: Angles = "degrees") -> tuple[bool, Floats, Floats, Floats]:
    """Whether positions are in degrees; then x, y, z, or longitude, latitude, altitude.

    With `auto`, positions that look like radians are refused.
    """
    if not in_degrees(table):
        return False, table.numbers("x"), table.numbers("y"), optional(table, "z")
    if "latitude" not in table.columns or "longitude" not in table.columns:
        columns = listed(table.names_in_file.get(name, name) for name in table.columns)
        raise BadInputError(
            f"{table.file}: expected columns x and y, or latitude and longitude; found: {columns}"
        )
    turn = np.pi if angles == "radians" else 180
    latitude, longitude = (
        table.numbers("latitude", -turn / 2, turn / 2),
        table.numbers("longitude", -turn, turn),
    )
    if angles == "radians":
        latitude, longitude = np.rad2deg(latitude), np.rad2deg(longitude)
    elif angles == "auto" and len(table) > 1 and (latitude.any() or longitude.any()):
        # In degrees, this is a part of the Gulf of Guinea without land.
        likely = (np.abs(latitude) <= np.pi / 2) & (np.abs(longitude) <= np.pi)
        remedy = (
            "looks like radians, as all others do; set the option angles to radians, or to degrees"
        )
        table.refuse(likely & likely.all() & (latitude != 0), "latitude", remedy)
    return True, longitude, latitude, optional(table, "altitude")


def yaw(table: Table) -> Floats:
    """Yaw from the column `yaw` (radians) or `heading` (degrees clockwise from north); NaN if there
    is neither.
    """
    if "yaw" not in table.columns and "heading" in table.columns:
        return yaw_from_compass(
            np.deg2rad(table.numbers("heading", -360, 360, missing_allowed=True))
        )
    angles = optional(table, "yaw")
    expected = "expected radians, at most a full turn; put degrees into a column heading"
    table.refuse(np.abs(angles) > FULL_TURN, "yaw", expected)
    return angles


def times(table: Table, found: Findings, unit: Literal["auto"] | TimeUnit = "auto") -> Ints:
    """The column `time` in ns, NO_TIME if missing; `auto` infers the unit from the numbers' size."""
    if "time" not in table.columns:
        return np.full(len(table), NO_TIME)
    numbers = [text for text in table.columns["time"] if NUMBER.fullmatch(text)]
    guesses = sorted({guess_unit(text) for text in numbers}) or ["s"]
    if unit == "auto" and len(guesses) > 1:
        raise BadInputError(
            f"{table.file}: times look like {' and '.join(guesses)}; use one unit for all"
        )
    chosen = guesses[0] if unit == "auto" else unit
    expected = f"expected a time in {chosen} or in ISO 8601"
    values = table.parse(
        "time", lambda text: nanoseconds(text, chosen) if text else NO_TIME, expected
    )
    if numbers and unit == "auto":
        found.say(f"times in {table.file.name} are numbers, used as {chosen}", warning=False)
    return np.array(values, dtype=np.int64)
