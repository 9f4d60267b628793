"""Track files: GPX and tables in, one plane out, and the way along a track."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Geod

from mappable.errors import BadInputError
from mappable.places.notes import Findings
from mappable.readers import track_files
from mappable.readers.track_files import TrackPoints, in_frames
from mappable.readers.tracks import Track, arc_length, course

NOON = 1_714_564_800 * 10**9  # 2024-05-01T12:00:00Z
SECOND = 10**9
NAMESPACES = {
    "1.0": ' version="1.0" xmlns="http://www.topografix.com/GPX/1/0"',
    "1.1": ' version="1.1" xmlns="http://www.topografix.com/GPX/1/1" xmlns:o="http://example.org/other"',
    "none": "",
}


FOUND: dict[Path, Findings] = {}


def read_track(file: Path) -> TrackPoints:
    """The points of a file; FOUND has what was noted."""
    FOUND[file] = Findings()
    return track_files.read_track(file, FOUND[file])


def point(latitude: object, longitude: object, second: int | None = 0, inside: str = "") -> str:
    time = "" if second is None else f"<time>2024-05-01T12:00:{second:02d}Z</time>"
    return f'<trkpt lat="{latitude}" lon="{longitude}">{inside}{time}</trkpt>'


def gpx(*segments: str, attributes: str = NAMESPACES["1.1"]) -> str:
    body = "".join(f"<trkseg>{segment}</trkseg>" for segment in segments)
    return f'<?xml version="1.0" encoding="UTF-8"?><gpx{attributes}><trk><name>ride</name>{body}</trk></gpx>'


def write(folder: Path, text: str, name: str = "ride.gpx") -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def track(positions: list[tuple[float, float]], seconds: list[float] | None = None) -> Track:
    times = range(len(positions)) if seconds is None else seconds
    xyz = np.array([(*position, np.nan) for position in positions])
    return Track(np.array([round(time * SECOND) for time in times]), xyz, np.full(len(xyz), np.nan))


@pytest.mark.parametrize("version", NAMESPACES)
def test_gpx_of_every_version_is_read(tmp_path: Path, version: str) -> None:
    first = point(51.5, -1.25, 0, "<ele>63.5</ele>") + point("51.6", "-1.3", 1, "<extensions><hr>9</hr></extensions>")
    second = point(-33.25, 151.125, 7, "<ele></ele>")
    points = read_track(write(tmp_path, gpx(first, second, attributes=NAMESPACES[version])))
    assert points.north.tolist() == [51.5, 51.6, -33.25]
    assert points.east.tolist() == [-1.25, -1.3, 151.125]
    np.testing.assert_array_equal(points.up, [63.5, np.nan, np.nan])
    assert points.time.tolist() == [NOON, NOON + SECOND, NOON + 7 * SECOND]
    assert points.in_degrees
    assert FOUND[points.file].notes == ()


def test_points_out_of_order_or_of_one_time_or_without_a_fix_are_mended_and_listed(tmp_path: Path) -> None:
    segment = point(1, 1, 3) + point(2, 2, 5) + point(3, 3, 4) + point(4, 4, 5) + point(0, 0, 6) + point(5, 5, 7)
    points = read_track(write(tmp_path, gpx(segment)))
    assert points.north.tolist() == [1, 3, 2, 5]
    assert (np.diff(points.time) > 0).all()
    assert [(str(note), note.items) for note in FOUND[points.file].notes] == [
        ("1 track points are at latitude 0, longitude 0, so no fix (left out)", ("ride.gpx, point 5",)),
        ("1 track points were out of time order and were sorted", ("ride.gpx, point 3",)),
        ("1 track points have the same time as an earlier point (left out)", ("ride.gpx, point 4",)),
    ]


def drive(first: int, last: int, clock: int = 0, step: float = 1e-4) -> str:
    """Points 11 m apart, one per second; `clock` seconds are added to their times."""
    return "".join(point(f"{50 + step * second:.6f}", 7, second + clock) for second in range(first, last))


@pytest.mark.parametrize("clock", [-10, -11, -25])
@pytest.mark.parametrize("fraction", ["", ".5"])
def test_a_clock_that_is_set_back_is_refused(tmp_path: Path, clock: int, fraction: str) -> None:
    """With equal times the later points would be left out, with others both drives would be interleaved."""
    later = drive(30, 40, clock).replace("Z</time>", f"{fraction}Z</time>")
    with pytest.raises(BadInputError, match=r"ride\.gpx, point 31: .* m away; .* set back by "):
        read_track(write(tmp_path, gpx(drive(0, 30) + later)))


def test_segments_in_another_order_copies_and_a_standing_receiver_are_sorted(tmp_path: Path) -> None:
    """None of them says that the receiver was at two places at one time."""
    swapped = read_track(write(tmp_path, gpx(drive(20, 30), drive(0, 10))))
    assert (np.diff(swapped.north) > 0).all()
    copied = read_track(write(tmp_path, gpx(drive(0, 30), drive(5, 25))))
    assert len(copied) == 30
    standing = read_track(write(tmp_path, gpx(drive(0, 30, step=1e-7) + drive(30, 40, -20, step=1e-7))))
    assert len(standing) == 30


def test_a_clock_that_jumps_forward_leaves_a_gap(tmp_path: Path) -> None:
    points = read_track(write(tmp_path, gpx(drive(0, 20) + drive(20, 30, 20))))
    assert len(points) == 30
    assert np.diff(points.time).max() == 21 * SECOND


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (point("95", 2, 1), r"ride\.gpx.*point 2.*lat.*'95'.*-90.*90"),
        (point(1, "-180.5", 1), r"point 2.*lon.*'-180\.5'.*-180.*180"),
        (point("nan", 2, 1), r"point 2.*lat.*'nan'"),
        (point("north", 2, 1), r"point 2.*lat.*'north'"),
        ('<trkpt lon="3"><time>2024-05-01T12:00:01Z</time></trkpt>', r"point 2.*lat.*''"),
        (point(1, 2, 1, "<ele>high</ele>"), r"point 2.*ele.*'high'"),
        (point(1, 2, 1, "<ele>inf</ele>"), r"point 2.*ele.*'inf'"),
        (point(1, 2, None), r"point 2.*time.*''"),
        (point(1, 2, None, "<time>noon</time>"), r"point 2.*time.*'noon'"),
        (point(1, 2, None, "<time>1714564800</time>"), "point 2: column 'time' is '1714564800'"),
        (point(1, 2, None, "<time>9999-01-01T00:00:00Z</time>"), "point 2: column 'time' is '9999"),
    ],
)
def test_a_bad_value_is_named_by_file_and_point(tmp_path: Path, bad: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        read_track(write(tmp_path, gpx(point(1, 2, 0) + bad)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (gpx(point(1, 2, None) + point(2, 3, None)), r"point.*time"),
        ('<gpx><wpt lat="1" lon="2"/></gpx>', "points"),
        (gpx(point(0, 0)), "position"),
        ("<kml></kml>", r"GPX.*kml"),
        ("<gpx><trk>", r"well-formed.*XML"),
        ("", r"well-formed.*XML"),
        ('<?xml version="1.0" encoding="nonsense"?><gpx/>', "ride.gpx: "),
        (
            '<!DOCTYPE gpx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><gpx>&b;</gpx>',
            "document",
        ),
        ('<!DOCTYPE gpx SYSTEM "file:///etc/passwd"><gpx/>', "document"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message) as error:
        read_track(write(tmp_path, text))
    assert str(error.value).startswith(str(tmp_path / "ride.gpx"))


@pytest.mark.parametrize("name", ["none.gpx", "none.csv"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match=rf"{name}.*file"):
        read_track(tmp_path / name)


def test_a_table_in_degrees_is_read_by_column_name(tmp_path: Path) -> None:
    text = "speed;lon;time;lat;altitude;heading\n3;-1.25;2024-05-01T12:00:00Z;51.5;60;90\n3;-1.26;1714564801.5;51.6;;\n"
    points = read_track(write(tmp_path, text, "ride.csv"))
    assert points.north.tolist() == [51.5, 51.6]
    assert points.east.tolist() == [-1.25, -1.26]
    np.testing.assert_array_equal(points.up, [60, np.nan])
    np.testing.assert_allclose(points.yaw, [0, np.nan], atol=1e-12)
    assert points.time.tolist() == [NOON, NOON + 1_500_000_000]
    assert points.in_degrees
    assert [(str(note), note.warning) for note in FOUND[points.file].notes] == [
        ("times in ride.csv are numbers, used as s", False)
    ]


def test_a_table_in_metres_is_read_by_column_name(tmp_path: Path) -> None:
    text = "timestamp,x,y,z,yaw\n1714564800000,0,0,1,0.5\n1714564802500,-3,4.5,2,-3\n"
    points = read_track(write(tmp_path, text, "ride.csv"))
    assert points.east.tolist() == [0, -3]
    assert points.north.tolist() == [0, 4.5]
    assert points.up.tolist() == [1, 2]
    assert points.yaw.tolist() == [0.5, -3]
    assert points.time.tolist() == [NOON, NOON + 2_500_000_000]
    assert not points.in_degrees


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,x\n1,2\n", "no column y"),
        ("time,latitude\n1,2\n", "expected columns x and y, or latitude and longitude; found: time, latitude"),
        ("x,y\n1,2\n", "no column time"),
        ("time,x,y\n", "no rows"),
        ("time,x,y\n1,2,3\nsoon,3,4\n", "row 3: column 'time' is 'soon'"),
        ("time,x,y\n1,2,3\n,3,4\n", "row 3: column 'time' is ''"),
        ("time,x,y\n1,2,3\n1714564800000,3,4\n", "times look like ms and s"),
        ("time,x,y\n1,2,inf\n", "row 2: column 'y' is 'inf', expected a finite number"),
        ("time,lat,lon\n1,2,3\n2,91,3\n", "row 3: column 'lat' is '91', expected -90 to 90"),
        ("time,x,y,yaw\n1,2,3,90\n", "row 2: column 'yaw' is '90', expected radians, at most a full turn"),
        ("time,x,y,heading\n1,2,3,400\n", "row 2: column 'heading' is '400', expected -360 to 360"),
    ],
)
def test_a_bad_table_is_named_by_file_and_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=rf"ride\.csv.*{message}"):
        read_track(write(tmp_path, text, "ride.csv"))


def test_rows_out_of_order_are_sorted_and_listed_by_row(tmp_path: Path) -> None:
    points = read_track(write(tmp_path, "time,x,y\n3,3,0\n1,1,0\n\n2,2,0\n", "ride.csv"))
    assert points.east.tolist() == [1, 2, 3]
    assert FOUND[points.file].notes[1].items == ("ride.csv, row 3", "ride.csv, row 5")
    # x = 0 and y = 0 is a place like any other in metres.
    assert len(read_track(write(tmp_path, "time,x,y\n1,0,0\n", "ride.csv"))) == 1


def test_tracks_in_degrees_share_one_frame_and_tracks_in_metres_another(tmp_path: Path) -> None:
    west = read_track(write(tmp_path, gpx(point(48.1, 11.99, 0) + point(48.1, 11.995, 1)), "west.gpx"))
    local = read_track(write(tmp_path, "time,x,y,z\n1,2,3,4\n", "local.csv"))
    east = read_track(write(tmp_path, gpx(point(48.2, 12.01, 2, "<ele>500</ele>")), "east.gpx"))
    (first, ours), (second, room), (third, theirs) = in_frames([west, local, east], "room")
    assert first == third
    assert first.crs is not None
    assert (second.name, second.crs) == ("room", None)
    assert room.xyz.tolist() == [[2, 3, 4]]
    assert theirs.xyz[0, 2] == 500
    true = Geod(ellps="WGS84").inv(11.99, 48.1, 12.01, 48.2)[2]  # across the border of two UTM zones
    assert math.dist(ours.xyz[0, :2], theirs.xyz[0, :2]) == pytest.approx(true, rel=1e-3)


def test_tracks_too_far_apart_for_one_plane_are_refused(tmp_path: Path) -> None:
    here = read_track(write(tmp_path, gpx(point(48.1, 12, 0) + point(48.1, 12.1, 1) + point(48.2, 12, 2)), "here.gpx"))
    there = read_track(write(tmp_path, gpx(point(48.1, 12, 0) + point(35.7, 139.7, 2)), "there.gpx"))
    with pytest.raises(BadInputError, match=r"there\.gpx.*point 2"):
        in_frames([here, there], "room")


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=60), st.floats(0.05, 5))
def test_on_a_straight_line_the_way_is_the_distance_whatever_the_steps(lengths: list[float], jitter: float) -> None:
    along = np.concatenate([[0], np.cumsum(lengths)])
    moved, _ = arc_length(track([(0.6 * way, -0.8 * way) for way in along]), jitter)
    np.testing.assert_allclose(moved, along, atol=1e-9)


def test_standing_still_adds_no_way_however_long() -> None:
    noise = np.random.default_rng(5).uniform(-0.15, 0.15, (2000, 2))
    there = [(float(x), 0.0) for x in range(11)]
    standing = [(10 + dx, dy) for dx, dy in noise.tolist()]
    back = [(10.0, float(y)) for y in range(1, 11)]
    along, _ = arc_length(track(there + standing + back), 0.5)
    assert along[10] == pytest.approx(10)
    assert along[2010] - along[10] < 0.5
    assert along[-1] == pytest.approx(20, abs=0.5)
    assert (np.diff(along) >= 0).all()


def test_the_course_of_a_circle_is_its_tangent() -> None:
    angles = np.linspace(0, 4 * np.pi, 401)
    ride = track([(20 * math.cos(angle), 20 * math.sin(angle)) for angle in angles])
    middle = slice(10, -10)
    expected = angles[middle] + np.pi / 2
    found = course(ride, ride.time[middle], 0.5)
    np.testing.assert_allclose(np.cos(found - expected), 1, atol=2e-3)
    assert (np.abs(found) <= np.pi).all()


def test_the_course_does_not_spin_while_standing() -> None:
    noise = np.random.default_rng(5).uniform(-0.1, 0.1, (100, 2)).tolist()
    ride = track([(0.0, 0.0), (0.0, 5.0)] + [(dx, 10 + dy) for dx, dy in noise] + [(0.0, 15.0), (0.0, 20.0)])
    np.testing.assert_allclose(course(ride, ride.time, 1.0), np.pi / 2, atol=0.05)


def test_a_track_that_never_moves_has_no_course() -> None:
    ride = track([(0.0, 0.0), (0.01, 0.0), (0.0, 0.01)])
    assert np.isnan(course(ride, ride.time, 0.5)).all()
