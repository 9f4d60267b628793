"""Columns that tables of images and tables of track points share: degrees, directions and times."""

from typing import Literal

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.notes import Note
from mappable.places.table import NO_TIME
from mappable.tables import Table
from mappable.times import NUMBER, TimeUnit, guess_unit, nanoseconds

FULL_TURN = 2 * np.pi + 1e-6  # radians, with a tolerance for rounding


def latitude_and_longitude(table: Table) -> tuple[Floats, Floats]:
    """The columns `latitude` and `longitude` (or `lat` and `lon`) in degrees."""
    latitude = "latitude" if "latitude" in table.columns else "lat"
    longitude = "longitude" if "longitude" in table.columns else "lon"
    if latitude not in table.columns or longitude not in table.columns:
        columns = ", ".join(table.columns)
        raise BadInputError(f"{table.file}: expected columns x and y, or latitude and longitude; found: {columns}")
    return table.numbers(latitude, -90, 90), table.numbers(longitude, -180, 180)


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


def times(table: Table, unit: Literal["auto"] | TimeUnit = "auto") -> tuple[Ints, tuple[Note, ...]]:
    """The column `time` or `timestamp` in ns, NO_TIME if missing; `auto` infers the unit from the numbers' size."""
    name = next((name for name in ("time", "timestamp") if name in table.columns), None)
    if name is None:
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
