"""Track files of whatever carried a camera: GPX, or a table of times and positions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places import columns
from mappable.places.frames import WIDEST, Frame, frame_from_latlon
from mappable.places.notes import Note, warn
from mappable.places.table import NO_TIME
from mappable.places.tracks import Track, rising
from mappable.tables import Table, read_table
from mappable.times import NUMBER


@dataclass(frozen=True)
class TrackPoints:
    """The points of one file in strictly rising time (ns), still in the file's own coordinates.

    `east` and `north` are longitude and latitude in degrees if `in_degrees`, else x and y; `up` is altitude or z and
    `yaw` is radians counter-clockwise from east, both NaN where unknown. `labels` says what the file calls each point.
    """

    file: Path
    labels: list[str]
    time: Ints
    east: Floats
    north: Floats
    up: Floats
    yaw: Floats
    in_degrees: bool
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, rows: Ints | Bools) -> "TrackPoints":
        labels = np.array(self.labels, dtype=object)[rows].tolist()
        columns = {name: getattr(self, name)[rows] for name in ("time", "east", "north", "up", "yaw")}
        return replace(self, labels=labels, **columns)


def read_track(file: Path) -> TrackPoints:
    """Read a .gpx file, or a table (.csv, .parquet) with `time` and positions; what had to be mended is in `notes`.

    Points at latitude 0, longitude 0 (no fix) are left out, points out of order are sorted, and of several points of
    one time the first is kept.
    """
    points = _track_points(_read_gpx(file) if file.suffix.lower() == ".gpx" else read_table(file))
    no_fix = (points.east == 0) & (points.north == 0) & points.in_degrees
    fixed = points[~no_fix]
    if len(fixed) == 0:
        raise BadInputError(f"{file}: no point with a position")
    kept, late, again = rising(fixed.time)
    notes = warn("points of a track are at latitude 0, longitude 0: no fix (left out)", _named(points[no_fix]))
    notes += warn("points of a track came after a later time (sorted now)", _named(fixed[late]))
    notes += warn("points of a track repeat a time (left out)", _named(fixed[again]))
    return replace(fixed[kept], notes=points.notes + notes)


def in_frames(tracks: Sequence[TrackPoints], local_name: str) -> list[tuple[Frame, Track]]:
    """Each track in metres: those in degrees share one UTM frame, those in x and y the frame called `local_name`."""
    local = Frame(local_name)
    in_degrees = [points for points in tracks if points.in_degrees]
    if not in_degrees:
        return [(local, _track(points, points.east, points.north)) for points in tracks]
    latitude = np.concatenate([points.north for points in in_degrees])
    frame, x, y = frame_from_latlon(latitude, np.concatenate([points.east for points in in_degrees]))
    ends = np.cumsum([len(points) for points in in_degrees])[:-1]
    metres = iter(zip(np.split(x, ends), np.split(y, ends), strict=True))
    placed = []
    for points in tracks:
        if points.in_degrees:
            placed.append((frame, _track(points, *_within_reach(points, *next(metres)))))
        else:
            placed.append((local, _track(points, points.east, points.north)))
    return placed


def _within_reach(points: TrackPoints, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The same x and y, refused if one is too far from the frame's origin or if the projection had no answer."""
    far = ~(np.hypot(x, y) < WIDEST)
    if far.any():
        label = points.labels[int(np.flatnonzero(far)[0])]
        limit = f"more than {WIDEST / 1000:,.0f} km from the middle of all tracks"
        raise BadInputError(f"{points.file}, {label}: {limit}, too far for one flat frame")
    return x, y


def _track(points: TrackPoints, x: Floats, y: Floats) -> Track:
    return Track(points.time, np.column_stack([x, y, points.up]), points.yaw)


def _named(points: TrackPoints) -> list[str]:
    return [f"{points.file.name}, {label}" for label in points.labels]


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree but refuses a document type: it has no place in GPX, and its entities can blow up without end."""

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise BadInputError("a document type (<!DOCTYPE …>) is not allowed in GPX")


def _read_gpx(file: Path) -> Table:
    """The track points as a table; a row is called a point."""
    root = _parse_xml(file)
    if _local_name(root) != "gpx":
        raise BadInputError(f"{file}: not a GPX file; its outermost element is {_local_name(root)}")
    elements = [element for element in root.iter() if _local_name(element) == "trkpt"]
    if not elements:
        raise BadInputError(f"{file}: no track points (trkpt); way points and routes have no times to go by")
    fields = [{_local_name(child): (child.text or "").strip() for child in element} for element in elements]
    if not any("time" in values for values in fields):
        raise BadInputError(f"{file}: none of its points has a time, so no image can be placed by it")
    columns = {name: [element.get(name, "") for element in elements] for name in ("lat", "lon")}
    columns |= {name: [values.get(name, "") for values in fields] for name in ("ele", "time")}
    table = Table(file, columns, list(range(1, len(elements) + 1)), "point")
    numbers = np.array([bool(NUMBER.fullmatch(text)) for text in columns["time"]], dtype=bool)
    table.refuse(numbers, "time", "is not an ISO 8601 date and time")  # seconds elsewhere, but no time in GPX
    return table


def _parse_xml(file: Path) -> ElementTree.Element:
    try:
        # Entities are what makes XML of strangers dangerous, and they need the document type that is refused.
        parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314
        return ElementTree.parse(file, parser).getroot()  # noqa: S314
    except ElementTree.ParseError as error:
        raise BadInputError(f"{file}: not well-formed XML ({error})") from None
    except BadInputError as error:
        raise BadInputError(f"{file}: {error}") from None
    except (OSError, ValueError, LookupError) as error:  # the latter two: an encoding that XML or Python does not know
        raise BadInputError(f"{file}: cannot be read ({error})") from None


def _local_name(element: ElementTree.Element) -> str:
    """The element's name without its namespace, which differs between the versions of GPX."""
    return str(element.tag).rpartition("}")[2]


def _track_points(table: Table) -> TrackPoints:
    if len(table) == 0:
        raise BadInputError(f"{table.file}: the table has no rows")
    in_degrees = not ("x" in table.columns or "y" in table.columns)
    if in_degrees:
        north, east = columns.latitude_and_longitude(table)
    else:
        east, north = table.numbers("x"), table.numbers("y")
    up = ("ele" if "ele" in table.columns else "altitude") if in_degrees else "z"
    if "timestamp" not in table.columns:
        table.require("time")
    time, notes = columns.times(table)
    missing = np.flatnonzero(time == NO_TIME)
    if len(missing):
        raise table.bad(int(missing[0]), "time" if "time" in table.columns else "timestamp", "is not a time")
    yaw = columns.yaw(table)
    unknown = np.full(len(table), np.nan)
    return TrackPoints(
        table.file,
        [f"{table.row_name} {number}" for number in table.row_numbers],
        time,
        east,
        north,
        table.numbers(up, missing_allowed=True) if up in table.columns else unknown,
        unknown if yaw is None else yaw,
        in_degrees,
        notes,
    )
