"""Track files: GPX, a table of times and positions, and the logs of cameras and receivers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.frames import MAX_RADIUS, Frame, frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME
from mappable.readers import columns
from mappable.readers.tracks import Track, rising
from mappable.tables import Table, read_table
from mappable.times import NUMBER

SET_BACK_S = 2.0  # a time that goes back by at most this is a late point, which sorting mends
TWO_PLACES_M = 20.0  # positions farther apart than this at one time contradict each other; a GPS errs by less
CHECKED_STEPS = 100  # steps back in time that are checked; more need not be, and each takes time
METRES_PER_DEGREE = 111_320.0
ATTRIBUTES = {"latitude": "lat", "longitude": "lon"}  # of a GPX track point, by our names
CHILDREN = {"altitude": "ele", "time": "time"}


@dataclass(frozen=True)
class TrackPoints:
    """The points of one file, in the coordinates of the file.

    `east` and `north` are longitude and latitude in degrees if `in_degrees` is True, else x and y. `up` is altitude or
    z. `yaw` is in radians counter-clockwise from east. `up` and `yaw` are NaN if unknown. `labels` has the name of each
    point in the file, for messages.
    """

    file: Path
    labels: list[str]
    time: Ints
    east: Floats
    north: Floats
    up: Floats
    yaw: Floats
    in_degrees: bool
    since_start: bool = False  # times count from the first frame of a video, as in its own telemetry
    start: int | None = None  # then: the time (ns since 1970) of the first frame, if the telemetry knows it

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, rows: Ints | Bools) -> "TrackPoints":
        labels = np.array(self.labels, dtype=object)[rows].tolist()
        columns = {name: getattr(self, name)[rows] for name in ("time", "east", "north", "up", "yaw")}
        return replace(self, labels=labels, **columns)

    @property
    def names(self) -> list[str]:
        return [f"{self.file.name}, {label}" for label in self.labels]

    def ordered(self, found: Findings) -> "TrackPoints":
        """The points with a fix, in strictly increasing time; each correction is noted."""
        no_fix = (self.north == 0) & (self.east == 0) & self.in_degrees
        found.note("track points are at latitude 0, longitude 0, so no fix (left out)", self[no_fix].names)
        fixed = self[~no_fix]
        if len(fixed) == 0:
            raise BadInputError(f"{self.file}: no point has a position")
        _refuse_set_back_clock(fixed)
        kept, late, again = rising(fixed.time)
        found.note("track points were out of time order and were sorted", fixed[late].names)
        found.note("track points have the same time as an earlier point (left out)", fixed[again].names)
        return fixed[kept]


def read_track(file: Path, found: Findings) -> TrackPoints:
    """Read a .gpx file, or a table (.csv, .parquet) with `time` and positions, or the log of a camera or receiver.

    Points at latitude 0, longitude 0 (no fix) are left out. Points are sorted by time. If several points have the same
    time, the first is kept. A clock that was set back while the receiver moved is an error.
    """
    from mappable.readers.telemetry import read_nmea, read_srt

    kind = file.suffix.lower()
    if kind == ".srt":
        points = read_srt(file)
    elif kind == ".nmea":
        points = read_nmea(file, found)
    elif kind == ".gpx":
        points = _points(_read_gpx(file), "degrees", found)
    else:
        points = _points(read_table(file), "auto", found)
    return points.ordered(found)


def _refuse_set_back_clock(points: TrackPoints) -> None:
    """Raise if time goes back into a stretch that earlier points cover, at other positions.

    Sorted by time, such points would jump between two places. Segments of a file that are in another order do not
    overlap in time, and two copies of a point have one position.
    """
    scale = METRES_PER_DEGREE if points.in_degrees else 1.0
    east = points.east * (np.cos(np.deg2rad(points.north)) if points.in_degrees else 1.0)
    xyz = scale * np.column_stack([east, points.north, np.zeros(len(points))])
    back = np.maximum.accumulate(points.time)[:-1] - points.time[1:]
    steps = np.flatnonzero((np.diff(points.time) < 0) & (back > SET_BACK_S * 1e9)) + 1
    for start, end in zip(steps[:CHECKED_STEPS], [*steps[1:], len(points)], strict=False):
        order = rising(points.time[:start])[0]
        covered = Track(points.time[order], xyz[order], np.full(len(order), np.nan)).at(points.time[start:end])
        dense = covered.inside & (covered.gap_s <= back[start - 1] / 1e9)
        apart = np.hypot(*(covered.xyz - xyz[start:end])[:, :2].T)
        twice = np.flatnonzero(dense & (apart > TWO_PLACES_M))
        if len(twice):
            where = f"{points.file}, {points.labels[start + int(twice[0])]}"
            what = f"has the time of a point {apart[twice[0]]:,.0f} m away"
            remedy = f"the clock was set back by {back[start - 1] / 1e9:,.0f} s, so correct the times"
            raise BadInputError(f"{where}: {what}; {remedy}")


def in_frames(tracks: Sequence[TrackPoints], local_name: str) -> list[tuple[Frame, Track]]:
    """Each track in metres. Tracks in degrees share one UTM frame; tracks in x and y share the frame `local_name`."""
    placed = [(Frame(local_name), points.east, points.north) for points in tracks]
    degrees = [number for number, points in enumerate(tracks) if points.in_degrees]
    if degrees:
        latitude, longitude = (np.concatenate([placed[one][axis] for one in degrees]) for axis in (2, 1))
        frame, x, y = frame_from_latlon(latitude, longitude)
        ends = np.cumsum([len(tracks[one]) for one in degrees])[:-1]
        for number, east, north in zip(degrees, np.split(x, ends), np.split(y, ends), strict=True):
            _refuse_far(tracks[number], east, north)
            placed[number] = frame, east, north
    return [
        (frame, Track(points.time, np.column_stack([x, y, points.up]), points.yaw))
        for points, (frame, x, y) in zip(tracks, placed, strict=True)
    ]


def _refuse_far(points: TrackPoints, x: Floats, y: Floats) -> None:
    """Raise if a point is too far from the origin of the frame or if the projection failed."""
    far = np.flatnonzero(~(np.hypot(x, y) < MAX_RADIUS))
    if len(far):
        limit = f"more than {MAX_RADIUS / 1000:,.0f} km from the median of all tracks, too far for one flat frame"
        raise BadInputError(f"{points.file}, {points.labels[far[0]]}: {limit}; convert the videos separately")


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree, but raises at a document type: GPX has none, and its entities can expand without limit."""

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise BadInputError("GPX must not have a document type (<!DOCTYPE …>)")


def _read_gpx(file: Path) -> Table:
    """The track points as a table; messages call a row a point."""
    root = _parse_xml(file)
    if _local_name(root) != "gpx":
        raise BadInputError(f"{file}: not a GPX file; the root element is {_local_name(root)}, expected gpx")
    elements = [element for element in root.iter() if _local_name(element) == "trkpt"]
    if not elements:
        why = "waypoints and routes cannot be used, because they have no times"
        raise BadInputError(f"{file}: no track points (trkpt); {why}")
    fields = [{_local_name(child): (child.text or "").strip() for child in element} for element in elements]
    if not any("time" in values for values in fields):
        raise BadInputError(f"{file}: no track point has a time; record the track with times")
    texts = {ours: [element.get(name, "") for element in elements] for ours, name in ATTRIBUTES.items()}
    texts |= {ours: [values.get(name, "") for values in fields] for ours, name in CHILDREN.items()}
    table = Table(file, texts, list(range(1, len(elements) + 1)), "point", ATTRIBUTES | CHILDREN)
    numbers = np.array([bool(NUMBER.fullmatch(text)) for text in texts["time"]], dtype=bool)
    # A plain number is a time in other tables, but not in GPX.
    table.refuse(numbers, "time", "expected an ISO 8601 date and time")
    return table


def _parse_xml(file: Path) -> ElementTree.Element:
    try:
        # Untrusted XML is dangerous because of entities. They need a document type, which _NoDoctype rejects.
        parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314
        return ElementTree.parse(file, parser).getroot()  # noqa: S314
    except ElementTree.ParseError as error:
        raise BadInputError(f"{file}: not well-formed XML ({error})") from None
    except BadInputError as error:
        raise BadInputError(f"{file}: {error}") from None
    except (OSError, ValueError, LookupError) as error:  # ValueError and LookupError: an unknown encoding
        raise BadInputError(f"{file}: cannot be read ({error})") from None


def _local_name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace, which differs between versions of GPX."""
    return str(element.tag).rpartition("}")[2]


def _points(table: Table, angles: columns.Angles, found: Findings) -> TrackPoints:
    table = columns.with_usual_names(table, found)
    if len(table) == 0:
        raise BadInputError(f"{table.file}: the table has no rows")
    degrees = columns.in_degrees(table)
    if degrees:
        north, east = columns.latitude_and_longitude(table, angles)
    else:
        east, north = table.numbers("x"), table.numbers("y")
    table.require("time")
    time = columns.times(table, found)
    table.refuse(time == NO_TIME, "time", "expected a time")
    labels = [f"{table.row_name} {number}" for number in table.row_numbers]
    up = columns.optional(table, "altitude" if degrees else "z")
    return TrackPoints(table.file, labels, time, east, north, up, columns.yaw(table), degrees)
