"""Each format, read back by another program's reader where it is installed."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.exchange.kapture import files_of_kapture
from mappable.exchange.poses import Pose, Poses, poses_of_places
from mappable.exchange.writers import check_outputs, write_poses
from mappable.places.frames import Frame
from mappable.places.geodesy import project
from mappable.places.table import Places
from mappable.readers.registry import read_places

KML = "{http://www.opengis.net/kml/2.2}"
WORLD = Frame("town")


def written(folder: Path, suffix: str, poses: Poses) -> Path:
    file = folder / f"out{suffix}"
    check_outputs([file], poses)
    write_poses([file], poses)
    return file


def positions_of(listed: list[tuple[int, Pose]]) -> Floats:
    return np.array([pose.xyz for _, pose in listed])


def in_metres(poses: Poses, degrees: Any) -> Floats:
    """Points (longitude, latitude) in the frame."""
    longitude, latitude = np.array(degrees).T
    return (
        np.column_stack(project(latitude, longitude, "EPSG:32630"))
        - np.array(poses.frame.origin)[:2]
    )


def check_ellipse(ring: Floats, pose: Pose) -> None:
    """All points have the Mahalanobis distance of the stated probability, and go counter-clockwise."""
    assert (ring[0] == ring[-1]).all()
    off = ring - np.array(pose.xyz[:2])
    assert pose.covariance is not None
    squared = np.einsum("ni,ij,nj->n", off, np.linalg.inv(pose.covariance[:2, :2]), off)
    np.testing.assert_allclose(1 - np.exp(-squared / 2), pose.coverage, atol=1e-3)
    assert (off[:-1, 0] * off[1:, 1] - off[:-1, 1] * off[1:, 0] > 0).all()


def test_json_has_every_field(poses: Poses, tmp_path: Path) -> None:
    read = json.loads(written(tmp_path, ".json", poses).read_text())
    assert read == json.loads(json.dumps([pose.record for pose in poses.poses]))


def test_tables_have_a_column_per_number(poses: Poses, tmp_path: Path) -> None:
    rows = list(csv.DictReader(written(tmp_path, ".csv", poses).read_text().splitlines()))
    first = poses.poses[0]
    size = len(first.position or ())
    assert first.covariance is not None
    assert tuple(float(rows[0][axis]) for axis in "xyz"[:size]) == first.position
    assert float(rows[0]["covariance_xy"]) == first.covariance[0, 1]
    assert ("covariance_zz" in rows[0]) == (size == 3)
    assert rows[0]["candidates"] == "1.jpg|0.jpg"
    assert {name: value for name, value in rows[10].items() if value} == poses.poses[10].record


def test_trajectories_have_the_trusted_poses(poses: Poses, tmp_path: Path) -> None:
    lines = np.loadtxt(written(tmp_path, ".tum", poses))
    np.testing.assert_allclose(lines[:, 1:4], positions_of(poses.trusted), atol=1e-6)
    np.testing.assert_allclose(lines[:, 0] - 1.7e9, np.arange(10) / 10, atol=1e-6)
    np.testing.assert_allclose(lines[:, 4:], [[0, 0, np.sin(0.25), np.cos(0.25)]] * 10, atol=1e-8)


def test_true_positions_of_places_are_a_trajectory_for_evo(tmp_path: Path) -> None:
    file_interface = pytest.importorskip("evo.tools.file_interface", reason="evo is not installed")
    times = 1_700_000_000_000_000_000 + 10**9 * np.arange(5)
    places = Places(
        path=[f"{n}.jpg" for n in range(5)],
        x=np.arange(5.0),
        y=np.ones(5),
        time=times,
        frames=WORLD,
    )
    truth = file_interface.read_tum_trajectory_file(
        str(written(tmp_path, ".tum", poses_of_places(places)))
    )
    np.testing.assert_allclose(truth.positions_xyz[:, :2], places.positions)
    np.testing.assert_allclose(truth.timestamps, times / 1e9)
    two = places.replace(sequence=["a", "a", "b", "b", "b"])
    with pytest.raises(BadInputError, match=r"out\.tum.*2 sequences.*one drive"):
        written(tmp_path, ".tum", poses_of_places(two))


def test_geojson_has_a_point_and_an_ellipse_per_located_image(poses: Poses, tmp_path: Path) -> None:
    features = json.loads(written(tmp_path, ".geojson", poses).read_text())["features"]
    points, areas = features[::2], features[1::2]
    at = in_metres(poses, [point["geometry"]["coordinates"] for point in points])
    np.testing.assert_allclose(at, positions_of(poses.located)[:, :2], rtol=0, atol=1e-3)
    assert [point["properties"]["confident"] for point in points] == [
        pose.trusted for _, pose in poses.located
    ]
    for area, (_, pose) in zip(areas, poses.located, strict=True):
        check_ellipse(in_metres(poses, area["geometry"]["coordinates"][0]), pose)
    if geojson := pytest.importorskip(
        "geojson", reason="the foreign reader geojson is not installed"
    ):
        assert geojson.loads((tmp_path / "out.geojson").read_text()).is_valid


def test_kml_has_a_placemark_per_located_image(poses: Poses, tmp_path: Path) -> None:
    marks = ElementTree.parse(written(tmp_path, ".kml", poses)).findall(f".//{KML}Placemark")
    for mark, (_, pose) in zip(marks, poses.located, strict=True):
        assert mark.findtext(f"{KML}name") == pose.name
        assert mark.findtext(f"{KML}styleUrl") == ("#trusted" if pose.trusted else "#doubtful")
        ring = mark.findtext(f".//{KML}LinearRing/{KML}coordinates")
        assert ring is not None
        edge = in_metres(
            poses, [[float(number) for number in pair.split(",")] for pair in ring.split()]
        )
        check_ellipse(edge, pose)


def test_colmap_gets_trusted_positions_then_covariances(poses: Poses, tmp_path: Path) -> None:
    lines = [line.split() for line in written(tmp_path, ".colmap", poses).read_text().splitlines()]
    assert [line[0] for line in lines] == [pose.path for _, pose in poses.trusted]
    numbers = np.array([line[1:] for line in lines], dtype=float)
    np.testing.assert_allclose(numbers[:, :3], positions_of(poses.trusted), rtol=0, atol=1e-6)
    first = np.asarray(poses.poses[0].covariance)
    np.testing.assert_allclose(
        numbers[0, 3:], first[np.triu_indices(len(first))], rtol=0, atol=1e-6
    )


def test_a_folder_of_kapture_is_read_back(poses: Poses, tmp_path: Path) -> None:
    out = written(tmp_path, ".kapture", poses)
    assert sorted(out.rglob("*.txt")) == sorted(files_of_kapture(out))
    read = read_places("kapture", out, up="z", scale=1.0)
    assert read.path.tolist() == [pose.path for _, pose in poses.trusted]
    assert read.time.tolist() == [pose.time for _, pose in poses.trusted]
    at = read.frames[read.frame[0]].to_original(np.column_stack([read.x, read.y, read.z]))
    np.testing.assert_allclose(at, positions_of(poses.trusted), rtol=0, atol=1e-6)


def test_rosbags_reads_poses_and_records(poses: Poses, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="the extra ros is not installed")
    from rosbags.highlevel import AnyReader

    followed = replace(poses, places=None)
    read: dict[str, list[Any]] = {}
    with AnyReader([written(tmp_path, ".mcap", followed)]) as bag:
        for topic, time, data in bag.messages():
            read.setdefault(topic.topic, []).append((time, bag.deserialize(data, topic.msgtype)))
    for (time, message), (_, pose) in zip(read["/mappable/pose"], poses.trusted, strict=True):
        assert time == pose.time == message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
        assert message.header.frame_id == "town"
        position, turn = message.pose.pose.position, message.pose.pose.orientation
        np.testing.assert_allclose((position.x, position.y, position.z), pose.xyz)
        size = len(pose.position or ())
        covariance = message.pose.covariance.reshape(6, 6)
        np.testing.assert_allclose(covariance[:size, :size], pose.covariance)
        assert (2 * np.arctan2(turn.z, turn.w), covariance[5, 5]) == pytest.approx((0.5, 0.01))
    records = [json.loads(message.data) for _, message in read["/mappable/estimate"]]
    assert records == json.loads(json.dumps([pose.record for pose in followed.poses]))


def test_pairs_name_the_nearest_landmarks_by_path(on_map: Poses, tmp_path: Path) -> None:
    lines = written(tmp_path, ".pairs", on_map).read_text().splitlines()
    assert lines[:2] == ["images/0.jpg map/1.jpg", "images/0.jpg map/0.jpg"]
    assert len(lines) == 2 * 20


def test_what_a_format_cannot_hold_is_refused(poses: Poses, on_map: Poses, tmp_path: Path) -> None:
    nowhere = replace(poses, frame=WORLD)
    spaced = Places(path=["a b,c.jpg"], x=[0.0], y=[0.0], frames=WORLD)
    wrong: list[tuple[str, Poses, str]] = [
        (".geojson", nowhere, "'town' is not georeferenced"),
        (".kml", nowhere, "'town' is not georeferenced"),
        (".mcap", replace(poses, frame=Frame("town", unit="units")), "needs metres"),
        (".colmap", replace(poses, places=spaced), "a space"),
        (".pairs", replace(on_map, places=spaced), "a space"),
        (".kapture", replace(poses, places=spaced), "a comma"),
        (".colmap", replace(poses, places=None), "image files"),
        (".pairs", poses, "need a map"),
        (".gpx", poses, "expected one of: .csv, .json, .tum"),
    ]
    for suffix, given, problem in wrong:
        with pytest.raises(BadInputError, match=problem):
            written(tmp_path, suffix, given)
    with pytest.raises(BadInputError, match="twice"):
        check_outputs([tmp_path / "a.csv", tmp_path / "b/../a.csv"], poses)
    assert not list(tmp_path.iterdir())
