"""Track files: GPX and tables in, one plane out, and the way along a track."""

import math
from pathlib import Path

import numpy as np
import pytest
from pyproj import Geod

from mappable.errors import BadInputError
from mappable.places.notes import Findings
from mappable.readers import track_files
from mappable.readers.track_files import TrackPoints, in_frames
from mappable.readers.tracks import Track, arc_length, course

NOON, SECOND = 1_714_564_800 * 10**9, 10**9  # 2024-05-01T12:00:00Z
NAMESPACES = {
    "1.0": ' version="1.0" xmlns="http://www.topografix.com/GPX/1/0"',
    "1.1": (
        ' version="1.1" xmlns="http://www.topografix.com/GPX/1/1"'
        ' xmlns:o="http://example.org/other"'
    ),
    "none": "",
}


def read_track(file: Path, text: str, found: Findings | None = None) -> TrackPoints:
    file.write_text(text, "utf-8")
    found = found or Findings()
    return track_files.read_track(file, found).ordered(found)


def point(latitude: object, longitude: object, second: int | None = 0, inside: str = "") -> str:
    time = "" if second is None else f"<time>2024-05-01T12:00:{second:02d}Z</time>"
    return f'<trkpt lat="{latitude}" lon="{longitude}">{inside}{time}</trkpt>'


def gpx(*segments: str, attributes: str = NAMESPACES["1.1"]) -> str:
    body = "".join(f"<trkseg>{segment}</trkseg>" for segment in segments)
    return (
        '<?xml version="1.0"'
        f' encoding="UTF-8"?><gpx{attributes}><trk><name>ride</name>{body}</trk></gpx>'
    )


def track(positions: list[tuple[float, float]]) -> Track:
    xyz = np.array([(*position, np.nan) for position in positions])
    return Track(SECOND * np.arange(len(positions)), xyz, np.full(len(xyz), np.nan))


@pytest.mark.parametrize("version", NAMESPACES)
def test_gpx_of_every_version_is_read(tmp_path: Path, version: str) -> None:
    first = point(51.5, -1.25, 0, "<ele>63.5</ele>") + point(
        "51.6", "-1.3", 1, "<extensions><hr>9</hr></extensions>"
    )
    second = point(-33.25, 151.125, 7, "<ele></ele>")
    points = read_track(tmp_path / "ride.gpx", gpx(first, second, attributes=NAMESPACES[version]))
    assert points.north.tolist() == [51.5, 51.6, -33.25]
    assert points.east.tolist() == [-1.25, -1.3, 151.125]
    np.testing.assert_array_equal(points.up, [63.5, np.nan, np.nan])
    assert points.time.tolist() == [NOON, NOON + SECOND, NOON + 7 * SECOND]
    assert points.in_degrees


def test_points_out_of_order_or_of_one_time_or_without_a_fix_are_mended_and_listed(
    tmp_path: Path,
) -> None:
    found = Findings()
    segment = (
        point(1, 1, 3)
        + point(2, 2, 5)
        + point(3, 3, 4)
        + point(4, 4, 5)
        + point(0, 0, 6)
        + point(5, 5, 7)
    )
    points = read_track(tmp_path / "ride.gpx", gpx(segment), found)
    assert points.north.tolist() == [1, 3, 2, 5]
    assert [(str(note), note.items) for note in found] == [
        (
            "1 track points are at latitude 0, longitude 0, so no fix (left out)",
            ("ride.gpx, point 5",),
        ),
        ("1 track points were out of time order and were sorted", ("ride.gpx, point 3",)),
        (
            "1 track points have the same time as an earlier point (left out)",
            ("ride.gpx, point 4",),
        ),
    ]


def test_tracks_in_degrees_share_one_frame_and_tracks_in_metres_another(tmp_path: Path) -> None:
    west = read_track(tmp_path / "west.gpx", gpx(point(48.1, 11.99, 0) + point(48.1, 11.995, 1)))
    local = read_track(tmp_path / "local.csv", "time,x,y,z\n1,2,3,4\n")
    east = read_track(tmp_path / "east.gpx", gpx(point(48.2, 12.01, 2, "<ele>500</ele>")))
    (first, ours), (second, room), (third, theirs) = in_frames([west, local, east], "room")
    assert first == third
    assert (second.name, second.crs) == ("room", None)
    assert room.xyz.tolist() == [[2, 3, 4]]
    # Across the border of two UTM zones.
    true = Geod(ellps="WGS84").inv(11.99, 48.1, 12.01, 48.2)[2]
    assert math.dist(ours.xyz[0, :2], theirs.xyz[0, :2]) == pytest.approx(true, rel=1e-3)
    there = read_track(tmp_path / "there.gpx", gpx(point(48.1, 12, 0) + point(35.7, 139.7, 2)))
    with pytest.raises(BadInputError, match=r"there\.gpx.*point 2.*too far"):
        in_frames([west, there], "room")


def test_standing_still_adds_no_way_however_long() -> None:
    noise = np.random.default_rng(5).uniform(-0.15, 0.15, (2000, 2))
    there = [(float(x), 0.0) for x in range(11)]
    standing = [(10 + dx, dy) for dx, dy in noise.tolist()]
    along, _ = arc_length(track(there + standing + [(10.0, float(y)) for y in range(1, 11)]), 0.5)
    assert along[10] == pytest.approx(10)
    assert along[2010] - along[10] < 0.5
    assert along[-1] == pytest.approx(20, abs=0.5)


def test_the_course_is_the_tangent_and_does_not_spin_while_standing() -> None:
    angles = np.linspace(0, 4 * np.pi, 401)
    ride = track([(20 * math.cos(angle), 20 * math.sin(angle)) for angle in angles])
    found = course(ride, ride.time[10:-10], 0.5)
    np.testing.assert_allclose(np.cos(found - angles[10:-10] - np.pi / 2), 1, atol=2e-3)
    noise = np.random.default_rng(5).uniform(-0.1, 0.1, (100, 2)).tolist()
    ride = track(
        [(0.0, 0.0), (0.0, 5.0)] + [(dx, 10 + dy) for dx, dy in noise] + [(0.0, 15.0), (0.0, 20.0)]
    )
    np.testing.assert_allclose(course(ride, ride.time, 1.0), np.pi / 2, atol=0.05)
    still = track([(0.0, 0.0), (0.01, 0.0), (0.0, 0.01)])
    assert np.isnan(course(still, still.time, 0.5)).all()
