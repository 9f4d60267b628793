"""Track files: GPX, a table of times and positions, and the logs of cameras and receivers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.files import reading
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME
from mappable.readers import columns
from mappable.readers.toolkit import in_one_plane
from mappable.readers.tracks import Track, rising
from mappable.tables import Table, read_table
from mappable.times import NUMBER

ATTRIBUTES = {"latitude": "lat", "longitude": "lon"}  # of a GPX track point, by our names
CHILDREN = {"altitude": "ele", "time": "time"}


@dataclass(frozen=True)
class TrackPoints:
    """The points of one file, in the coordinates of the file.

    `east` and `north` are longitude and latitude in degrees if `in_degrees` is True, else x and y.
    `up` is altitude or z. `yaw` is in radians counter-clockwise from east. `up` and `yaw` are NaN
    if unknown. `labels` has the name of each point in the file, for messages.
    """

    file: Path
    labels: list[str]
    time: Ints
    east: Floats
    north: Floats
    up: Floats
    yaw: Floats
    in_degrees: bool
    # Times count from the first frame of a video, as in its own telemetry.
    since_start: bool = False
    # then: the time (ns since 1970) of the first frame, if the telemetry knows it.
    start: int | None = None

    def __getitem__(self, rows: Ints | Bools) -> "TrackPoints":
        labels = np.array(self.labels, dtype=object)[rows].tolist()
        columns = {
            name: getattr(self, name)[rows] for name in ("time", "east", "north", "up", "yaw")
        }
        return replace(self, labels=labels, **columns)

    def where(self, row: int) -> str:
        return f"{self.file}, {self.labels[row]}"

    def ordered(self, found: Findings) -> "TrackPoints":
        """The points with a fix, in strictly increasing time; each correction is noted.

        Points at latitude 0, longitude 0 have no fix. If several points have the same time, the
        first is kept.
        """

        def note(text: str, points: TrackPoints) -> None:
            found.note(text, (f"{self.file.name}, {label}" for label in points.labels))

        wrong = self.in_degrees & ~((np.abs(self.north) <= 90) & (np.abs(self.east) <= 180))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            place = f"latitude {self.north[row]:g}, longitude {self.east[row]:g}"
            raise BadInputError(f"{self.where(row)}: {place}, expected degrees")
        fixed = (self.north != 0) | (self.east != 0) | (not self.in_degrees)
        note("track points are at latitude 0, longitude 0, so no fix (left out)", self[~fixed])
        if not fixed.any():
            raise BadInputError(f"{self.file}: no point has a position")
        points = self[fixed]
        kept, late, again = rising(points.time)
        note("track points were out of time order and were sorted", points[late])
        note("track points have the same time as an earlier point (left out)", points[again])
        return points[kept]


def read_track(file: Path, found: Findings) -> TrackPoints:
    """Read a .gpx file, or a table (.csv, .parquet) with `time` and positions, or the log of a
    camera or receiver.
    """
    from mappable.readers.telemetry import read_nmea, read_srt

    kind = file.suffix.lower()
    if kind == ".srt":
        return read_srt(file)
    if kind == ".nmea":
        return read_nmea(file, found)
    table = _read_gpx(file) if kind == ".gpx" else columns.with_usual_names(read_table(file), found)
    return _points(table, "degrees" if kind == ".gpx" else "auto", found)


def in_frames(tracks: Sequence[TrackPoints], local_name: str) -> list[tuple[Frame, Track]]:
    """Each track in metres. Tracks in degrees share one UTM frame; tracks in x and y share the
    frame `local_name`.
    """
    frames, local = {False: Frame(local_name)}, [points for points in tracks if points.in_degrees]
    if local:
        latitude, longitude = (
            np.concatenate([getattr(one, name) for one in local]) for name in ("north", "east")
        )
        labels = [(points, row) for points in local for row in range(len(points.time))]
        frames[True], x, y = in_one_plane(
            latitude, longitude, lambda row: labels[row][0].where(labels[row][1])
        )
        ends = np.cumsum([len(points.time) for points in local])[:-1]
        metres = zip(np.split(x, ends), np.split(y, ends), strict=True)
    placed = []
    for points in tracks:
        x, y = next(metres) if points.in_degrees else (points.east, points.north)
        track = Track(points.time, np.column_stack([x, y, points.up]), points.yaw)
        placed.append((frames[points.in_degrees], track))
    return placed


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree, but raises at a document type: GPX has none, and its entities can expand
    without limit.
    """

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise ValueError("GPX must not have a document type (<!DOCTYPE …>)")


def _read_gpx(file: Path) -> Table:
    """The track points as a table; messages call a row a point."""
    try:
        # Untrusted XML is dangerous because of entities. They need a document type, which
        # _NoDoctype rejects.
        with reading(file):
            root = ElementTree.parse(file, ElementTree.XMLParser(target=_NoDoctype())).getroot()  # noqa: S314
    # The last two: also an unknown encoding.
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise BadInputError(f"{file}: not well-formed XML ({error})") from None
    if _local_name(root) != "gpx":
        raise BadInputError(
            f"{file}: not a GPX file; the root element is {_local_name(root)}, expected gpx"
        )
    elements = [element for element in root.iter() if _local_name(element) == "trkpt"]
    if not elements:
        why = "waypoints and routes cannot be used, because they have no times"
        raise BadInputError(f"{file}: no track points (trkpt); {why}")
    fields = [
        {_local_name(child): (child.text or "").strip() for child in element}
        for element in elements
    ]
    if not any("time" in values for values in fields):
        raise BadInputError(f"{file}: no track point has a time; record the track with times")
    texts = {
        ours: [element.get(name, "") for element in elements] for ours, name in ATTRIBUTES.items()
    }
    texts |= {ours: [values.get(name, "") for values in fields] for ours, name in CHILDREN.items()}
    table = Table(file, texts, list(range(1, len(elements) + 1)), "point", ATTRIBUTES | CHILDREN)
    numbers = np.array([bool(NUMBER.fullmatch(text)) for text in texts["time"]], dtype=bool)
    # A plain number is a time in other tables, but not in GPX.
    table.refuse(numbers, "time", "expected an ISO 8601 date and time")
    return table


def _local_name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace, which differs between versions of GPX."""
    return str(element.tag).rpartition("}")[2]


def _points(table: Table, angles: columns.Angles, found: Findings) -> TrackPoints:
    if len(table) == 0:
        raise BadInputError(f"{table.file}: the table has no rows")
    degrees, east, north, up = columns.positions(table, angles)
    table.require("time")
    time = columns.times(table, found)
    table.refuse(time == NO_TIME, "time", "expected a time")
    labels = [f"{table.row_name} {number}" for number in table.row_numbers]
    return TrackPoints(table.file, labels, time, east, north, up, columns.yaw(table), degrees)
