"""Track files: GPX, a table of times and positions, and the logs of cameras and receivers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.places import columns
from mappable.places.frames import MAX_RADIUS, Frame, frame_from_latlon
from mappable.places.notes import warn
from mappable.places.table import NO_TIME
from mappable.places.telemetry import read_nmea, read_srt
from mappable.places.track_points import TrackPoints
from mappable.places.tracks import Track, rising
from mappable.tables import Table, read_table
from mappable.times import NUMBER

SET_BACK_S = 2.0  # a time that goes back by at most this is a late point, which sorting mends
TWO_PLACES_M = 20.0  # positions farther apart than this at one time contradict each other; a GPS errs by less
CHECKED_STEPS = 100  # steps back in time that are checked; more need not be, and each takes time
METRES_PER_DEGREE = 111_320.0
ATTRIBUTES = {"latitude": "lat", "longitude": "lon"}  # of a GPX track point, by our names
CHILDREN = {"altitude": "ele", "time": "time"}


def read_track(file: Path) -> TrackPoints:
    """Read a .gpx file, or a table (.csv, .parquet) with `time` and positions; `notes` lists all corrections.

    Points at latitude 0, longitude 0 (no fix) are left out. Points are sorted by time. If several points have the same
    time, the first is kept. A clock that was set back while the receiver moved is an error.
    """
    if file.suffix.lower() in (".srt", ".nmea"):
        return ordered(read_srt(file) if file.suffix.lower() == ".srt" else read_nmea(file))
    if file.suffix.lower() == ".gpx":
        return ordered(_track_points(_read_gpx(file), "degrees"))
    return ordered(_track_points(read_table(file), "auto"))


def ordered(points: TrackPoints) -> TrackPoints:
    """The points as `read_track` returns them: with a fix, in strictly increasing time, with a note per correction."""
    no_fix = columns.no_fix(points.north, points.east) & points.in_degrees
    fixed = points[~no_fix]
    if len(fixed) == 0:
        raise BadInputError(f"{points.file}: no point has a position")
    _refuse_set_back_clock(fixed)
    kept, late, again = rising(fixed.time)
    notes = warn("track points are at latitude 0, longitude 0, so no fix (left out)", _named(points[no_fix]))
    notes += warn("track points were out of time order and were sorted", _named(fixed[late]))
    notes += warn("track points have the same time as an earlier point (left out)", _named(fixed[again]))
    return replace(fixed[kept], notes=points.notes + notes)


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
            label = points.labels[start + int(twice[0])]
            raise BadInputError(
                f"{points.file}, {label}: has the time of a point {apart[twice[0]]:,.0f} m away; "
                f"the clock was set back by {back[start - 1] / 1e9:,.0f} s, so correct the times"
            )


def in_frames(tracks: Sequence[TrackPoints], local_name: str) -> list[tuple[Frame, Track]]:
    """Each track in metres. Tracks in degrees share one UTM frame; tracks in x and y share the frame `local_name`."""
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
    """Return x and y; raise if a point is too far from the origin of the frame or if the projection failed."""
    far = ~(np.hypot(x, y) < MAX_RADIUS)
    if far.any():
        label = points.labels[int(np.flatnonzero(far)[0])]
        limit = f"more than {MAX_RADIUS / 1000:,.0f} km from the median of all tracks"
        raise BadInputError(
            f"{points.file}, {label}: {limit}, too far for one flat frame; convert the videos separately"
        )
    return x, y


def _track(points: TrackPoints, x: Floats, y: Floats) -> Track:
    return Track(points.time, np.column_stack([x, y, points.up]), points.yaw)


def _named(points: TrackPoints) -> list[str]:
    return [f"{points.file.name}, {label}" for label in points.labels]


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
        raise BadInputError(
            f"{file}: no track points (trkpt); waypoints and routes cannot be used, because they have no times"
        )
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


def _track_points(table: Table, angles: columns.Angles) -> TrackPoints:
    table, name_notes = columns.with_usual_names(table)
    if len(table) == 0:
        raise BadInputError(f"{table.file}: the table has no rows")
    in_degrees = not ("x" in table.columns or "y" in table.columns)
    if in_degrees:
        north, east = columns.latitude_and_longitude(table, angles)
    else:
        east, north = table.numbers("x"), table.numbers("y")
    up = "altitude" if in_degrees else "z"
    table.require("time")
    time, notes = columns.times(table)
    missing = np.flatnonzero(time == NO_TIME)
    if len(missing):
        raise table.bad(int(missing[0]), "time", "expected a time")
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
        name_notes + notes,
    )
