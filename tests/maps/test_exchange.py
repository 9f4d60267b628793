"""Positions for GeoJSON, KML, COLMAP, kapture and MCAP; other programs' own readers where they are installed."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.between import spacing_of
from mappable.maps.exchange import export, exported_files
from mappable.maps.localizer import Localizer
from mappable.maps.locate import Locator
from mappable.maps.location import Location, NotLocated, Outcome
from mappable.maps.map import Map
from mappable.maps.mcap import export_follow_mcap
from mappable.maps.opened import OpenMap
from mappable.places.frames import Frame
from mappable.places.geodesy import project
from mappable.places.readers import read_places
from mappable.places.table import Places

OXFORD = Frame("town", crs="EPSG:32630", origin=(620_000.0, 5_735_000.0, 0.0))
KML = "{http://www.opengis.net/kml/2.2}"


@pytest.fixture(params=["town", "hills"])
def world(request: pytest.FixtureRequest) -> Any:
    """Two and three dimensions."""
    return request.getfixturevalue(request.param)


def asked(world: Any, frame: Frame = OXFORD, **columns: Any) -> tuple[Map, Places, list[Outcome]]:
    """Ten images that are on the map, one that cannot be read, and ten that are not on the map."""
    landmarks = replace(world.map, places=world.map.places.replace(frames=frame))
    places = world.places(np.zeros((21, landmarks.dimensions)), "images", **columns)
    names = np.delete(places.place_id, 10).tolist()
    descriptors = np.concatenate([world.drive[1][:10], world.absent[:10]])
    found: list[Outcome] = list(Locator(landmarks).locate(descriptors, encoder=world.encoder, images=names))
    found.insert(10, NotLocated("images/10.jpg", "images/10.jpg: not an image"))
    return landmarks, places, found


def confident(found: list[Outcome]) -> list[tuple[int, Location]]:
    rows = [(row, one) for row, one in enumerate(found) if isinstance(one, Location) and one.confident]
    assert 0 < len(rows) < 20
    return rows


def centers(found: list[Outcome] | list[tuple[int, Location]]) -> np.ndarray:
    ones = [one[1] if isinstance(one, tuple) else one for one in found]
    return np.array([(*one.coordinates, 0.0)[:3] for one in ones if isinstance(one, Location)])


def in_metres(degrees: Any) -> np.ndarray:
    """Points (longitude, latitude) in the frame of the map."""
    longitude, latitude = np.array(degrees).T
    return np.column_stack(project(latitude, longitude, "EPSG:32630")) - OXFORD.origin[:2]


def check_ellipse(ring: np.ndarray, one: Location, map_coverage: float) -> None:
    """All points have the same Mahalanobis distance, that of the stated probability, and go counter-clockwise."""
    assert (ring[0] == ring[-1]).all()
    off = ring - np.array(one.coordinates[:2])
    assert one.covariance is not None
    squared = np.einsum("ni,ij,nj->n", off, np.linalg.inv(np.array(one.covariance)[:2, :2]), off)
    coverage = map_coverage if one.coverage is None else one.coverage
    np.testing.assert_allclose(1 - np.exp(-squared / 2), coverage, atol=1e-3)
    assert (off[:-1, 0] * off[1:, 1] - off[:-1, 1] * off[1:, 0] > 0).all()


def test_geojson_has_a_point_and_an_ellipse_per_located_image(world: Any, tmp_path: Path) -> None:
    landmarks, places, found = asked(world)
    located = [one for one in found if isinstance(one, Location)]
    assert export(tmp_path / "out.geojson", landmarks, places, found) == len(located) == 20
    features = json.loads((tmp_path / "out.geojson").read_text())["features"]
    points = [one for one in features if one["geometry"]["type"] == "Point"]
    areas = [one for one in features if one["geometry"]["type"] == "Polygon"]
    at = in_metres([one["geometry"]["coordinates"] for one in points])
    np.testing.assert_allclose(at, centers(found)[:, :2], rtol=0, atol=1e-3)
    assert [one["properties"]["confident"] for one in points] == [one.confident for one in located]
    assert len(areas) == 20
    for area, one in zip(areas, located, strict=True):
        assert area["properties"]["image"] == one.image
        check_ellipse(in_metres(area["geometry"]["coordinates"][0]), one, landmarks.calibration.coverage)


def test_the_package_geojson_finds_it_valid(town: Any, tmp_path: Path) -> None:
    geojson = pytest.importorskip("geojson", reason="the foreign reader geojson is not installed")
    export(tmp_path / "out.geojson", *asked(town))
    read = geojson.loads((tmp_path / "out.geojson").read_text())
    assert read.is_valid, read.errors()


def test_kml_has_a_placemark_per_located_image(world: Any, tmp_path: Path) -> None:
    landmarks, places, found = asked(world)
    located = [one for one in found if isinstance(one, Location)]
    assert export(tmp_path / "out.kml", landmarks, places, found) == 20
    marks = ElementTree.parse(tmp_path / "out.kml").findall(f".//{KML}Placemark")
    for mark, one in zip(marks, located, strict=True):
        assert mark.findtext(f"{KML}name") == one.image
        assert mark.findtext(f"{KML}styleUrl") == ("#confident" if one.confident else "#doubtful")
        point = mark.findtext(f".//{KML}Point/{KML}coordinates")
        ring = mark.findtext(f".//{KML}LinearRing/{KML}coordinates")
        assert point is not None
        assert ring is not None
        at = in_metres([[float(number) for number in point.split(",")]])
        np.testing.assert_allclose(at[0], one.coordinates[:2], rtol=0, atol=1e-3)
        edge = in_metres([[float(number) for number in pair.split(",")] for pair in ring.split()])
        check_ellipse(edge, one, landmarks.calibration.coverage)


def test_the_package_fastkml_reads_it(town: Any, tmp_path: Path) -> None:
    fastkml = pytest.importorskip("fastkml", reason="the foreign reader fastkml is not installed")
    landmarks, places, found = asked(town)
    export(tmp_path / "out.kml", landmarks, places, found)
    (document,) = fastkml.KML.parse(tmp_path / "out.kml").features
    shapes = [list(mark.geometry.geoms) for mark in document.features]
    assert [[shape.geom_type for shape in pair] for pair in shapes] == [["Point", "Polygon"]] * 20
    at = in_metres([(pair[0].x, pair[0].y) for pair in shapes])
    np.testing.assert_allclose(at, centers(found)[:, :2], rtol=0, atol=1e-3)


def test_without_latitude_and_longitude_there_is_no_geojson_and_no_kml(town: Any, tmp_path: Path) -> None:
    for name in ("out.geojson", "out.kml"):
        with pytest.raises(BadInputError, match=f"{name}.*'town'"):
            export(tmp_path / name, *asked(town, Frame("town")))
    with pytest.raises(BadInputError, match=r"out\.gpx.*\.geojson"):
        export(tmp_path / "out.gpx", *asked(town))
    assert not list(tmp_path.iterdir())


def test_a_list_for_colmap_has_confident_positions_then_covariances(world: Any, tmp_path: Path) -> None:
    landmarks, places, found = asked(world, Frame("town"))
    rows = confident(found)
    assert export(tmp_path / "out.txt", landmarks, places, found) == len(rows)
    lines = [line.split() for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert [line[0] for line in lines] == [places.path[row] for row, _ in rows]
    numbers = np.array([line[1:] for line in lines], dtype=float)
    np.testing.assert_allclose(numbers[:, :3], centers(rows), rtol=0, atol=1e-6)
    upper = np.triu_indices(landmarks.dimensions)
    np.testing.assert_allclose(numbers[:, 3:], [np.array(one.covariance)[upper] for _, one in rows], rtol=0, atol=1e-6)
    spaced = places.replace(path=[f"my {path}" for path in places.path])
    with pytest.raises(BadInputError, match=r"my images/0\.jpg"):
        export(tmp_path / "other.txt", landmarks, spaced, found)


def test_without_a_calibration_all_positions_are_written_without_covariances(town: Any, tmp_path: Path) -> None:
    places, found = asked(town)[1:]
    bare: list[Outcome] = [
        replace(one, covariance=None, confident=False) if isinstance(one, Location) else one for one in found
    ]
    assert export(tmp_path / "out.txt", town.bare, places, bare) == 20
    assert {len(line.split()) for line in (tmp_path / "out.txt").read_text().splitlines()} == {4}


TIMES = 1_700_000_000_000_000_000 + 10**8 * np.arange(21)


def test_a_folder_of_kapture_is_read_back(world: Any, tmp_path: Path) -> None:
    landmarks, places, found = asked(world, Frame("town"), time=TIMES)
    rows, out = confident(found), tmp_path / "out.kapture"
    assert export(out, landmarks, places, found) == len(rows)
    assert sorted(out.rglob("*.txt")) == sorted(exported_files(out))
    read = read_places("kapture", out, up="z", scale=1.0)
    assert read.path.tolist() == [places.path[row] for row, _ in rows]
    assert read.time.tolist() == [TIMES[row] for row, _ in rows]
    at = read.frames[read.frame[0]].to_original(np.column_stack([read.x, read.y, read.z]))
    np.testing.assert_allclose(at, centers(rows), rtol=0, atol=1e-6)


def test_kapture_s_own_reader_reads_it(town: Any, tmp_path: Path) -> None:
    pytest.importorskip("kapture", reason="the foreign reader kapture is not installed")
    from kapture.io.csv import kapture_from_dir

    landmarks, places, found = asked(town, time=TIMES)
    rows = confident(found)
    export(tmp_path / "out.kapture", landmarks, places, found)
    read = kapture_from_dir(str(tmp_path / "out.kapture"))
    assert sum(len(records) for records in read.records_camera.values()) == 21
    for row, one in rows:
        ((device, image),) = read.records_camera[int(TIMES[row])].items()
        assert image == places.path[row]
        center = read.trajectories[int(TIMES[row])][device].inverse().t.ravel()
        np.testing.assert_allclose(center[:2], one.coordinates, rtol=0, atol=1e-6)


def test_images_of_one_time_get_numbers_in_kapture(town: Any, tmp_path: Path) -> None:
    landmarks, places, found = asked(town, time=np.full(21, TIMES[0]))
    export(tmp_path / "out.kapture", landmarks, places, found)
    lines = (tmp_path / "out.kapture/sensors/records_camera.txt").read_text().splitlines()[2:]
    assert [line.split(",")[0] for line in lines] == [str(row) for row in range(21)]


@pytest.mark.parametrize("timed", [True, False])
def test_rosbags_reads_poses_with_their_covariances(world: Any, tmp_path: Path, timed: bool) -> None:
    pytest.importorskip("rosbags", reason="the extra ros is not installed")
    from rosbags.highlevel import AnyReader

    landmarks, places, found = asked(world, Frame("town"), **({"time": TIMES} if timed else {}))
    rows = confident(found)
    assert export(tmp_path / "out.mcap", landmarks, places, found) == len(rows)
    with AnyReader([tmp_path / "out.mcap"]) as bag:
        (topic,) = bag.connections
        read = [(time, bag.deserialize(data, topic.msgtype)) for _, time, data in bag.messages()]
    assert (topic.topic, topic.msgtype) == ("/mappable/pose", "geometry_msgs/msg/PoseWithCovarianceStamped")
    assert [time for time, _ in read] == [TIMES[row] if timed else row * 10**9 for row, _ in rows]
    poses = [message.pose for _, message in read]
    at = [(one.pose.position.x, one.pose.position.y, one.pose.position.z) for one in poses]
    np.testing.assert_allclose(at, centers(rows), rtol=0, atol=1e-9)
    for (_, one), (time, message) in zip(rows, read, strict=True):
        assert message.header.stamp.sec * 10**9 + message.header.stamp.nanosec == time
        assert message.header.frame_id == "town"
        size = len(one.coordinates)
        np.testing.assert_allclose(message.pose.covariance.reshape(6, 6)[:size, :size], one.covariance)


def test_ros_gets_metres_only(town: Any, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"out\.mcap.*metres.*units"):
        export(tmp_path / "out.mcap", *asked(town, Frame("town", unit="units")))


def test_a_followed_camera_is_read_back_from_mcap(town: Any, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="the extra ros is not installed")
    from rosbags.highlevel import AnyReader

    localizer = Localizer(OpenMap(replace(town.map, places=town.map.places.replace(frames=Frame("town")))))
    found = [localizer.update(seen, 1.7e9 + n / 2) for n, seen in enumerate(town.drive[1][:12:2])]
    found[-1] = replace(found[-1], heading=0.5, heading_deviation=0.1)
    export_follow_mcap(tmp_path / "out.mcap", localizer.map, found)
    read: dict[str, list[Any]] = {}
    with AnyReader([tmp_path / "out.mcap"]) as bag:
        for topic, time, data in bag.messages():
            read.setdefault(topic.topic, []).append((time, bag.deserialize(data, topic.msgtype)))
    trusted = [one for one in found if one.trusted]
    assert 0 < len(trusted) < len(found)
    for one, (time, message) in zip(trusted, read["/mappable/pose"], strict=True):
        assert time == round(one.time * 1e9)
        np.testing.assert_allclose(message.pose.covariance.reshape(6, 6)[:2, :2], one.covariance)
        np.testing.assert_allclose([message.pose.pose.position.x, message.pose.pose.position.y], one.position)
    turn, last = read["/mappable/pose"][-1][1].pose.pose.orientation, read["/mappable/pose"][-1][1].pose.covariance
    assert (2 * np.arctan2(turn.z, turn.w), last[35]) == pytest.approx((0.5, 0.01))
    assert [json.loads(one.data) for _, one in read["/mappable/estimate"]] == json.loads(
        json.dumps(list(map(asdict, found)))
    )
    for one, (_, message) in zip(found, read["/mappable/places"], strict=True):
        shown = [(mark.pose.position.x, mark.scale.x**3) for mark in message.markers[1:]]
        size = (2 * spacing_of(town.map.places.positions)) ** 3
        np.testing.assert_allclose(shown, [(place.position[0], size * place.probability) for place in one.places])
