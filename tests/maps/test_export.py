"""Positions for other programs."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.export import export_csv, export_landmarks, export_pairs, export_tum
from mappable.maps.locate import Locator
from mappable.maps.location import Location, NotLocated, Outcome
from mappable.maps.map import Map
from mappable.places.frames import Frame
from mappable.places.geodesy import project

Found = list[Outcome]


@pytest.fixture(params=["town", "hills"])
def world(request: pytest.FixtureRequest) -> Any:
    """Two and three dimensions."""
    return request.getfixturevalue(request.param)


def asked(world: Any, landmarks: Map | None = None) -> tuple[Any, Found]:
    """Ten images that are on the map, ten that are not, and one that cannot be read in between."""
    descriptors = np.concatenate([world.drive[1][:10], world.absent[:10]])
    places = world.places(np.zeros((21, world.map.dimensions)), "images")
    names = np.delete(places.place_id, 10).tolist()
    found: Found = list(Locator(landmarks or world.map).locate(descriptors, encoder=world.encoder, images=names))
    found.insert(10, NotLocated("images/10.jpg", "images/10.jpg: not an image"))
    return places, found


def test_tables_hold_all_that_is_known(world: Any, tmp_path: Path) -> None:
    _, found = asked(world)
    export_csv(tmp_path / "out.csv", found, world.map.dimensions)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    axes = "xyz"[: world.map.dimensions]
    assert [row["image"] for row in rows] == [one.image for one in found]
    assert rows[10]["error"] == "images/10.jpg: not an image"
    first = found[0]
    assert isinstance(first, Location)
    assert tuple(float(rows[0][axis]) for axis in axes) == first.coordinates
    assert first.covariance is not None
    assert float(rows[0]["covariance_xy"]) == first.covariance[0][1]
    assert ("covariance_zz" in rows[0]) == (axes == "xyz")
    assert (rows[0]["latitude"], rows[0]["longitude"]) == ("", "")
    assert (first.latitude, first.longitude) == (None, None)  # the town is nowhere on Earth


def test_tables_of_a_georeferenced_map_hold_latitude_and_longitude(world: Any, tmp_path: Path) -> None:
    oxford = Frame("town", crs="EPSG:32630", origin=(620_000.0, 5_735_000.0, 0.0))
    landmarks = replace(world.map, places=world.map.places.replace(frames=oxford))
    _, found = asked(world, landmarks)
    export_csv(tmp_path / "out.csv", found, landmarks.dimensions)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert list(rows[0])[:3] == ["image", "x", "y"]
    for row, one in zip(rows[11:], found[11:], strict=True):
        assert isinstance(one, Location)
        assert one.latitude is not None
        assert one.longitude is not None
        assert (float(row["latitude"]), float(row["longitude"])) == (one.latitude, one.longitude)
        assert -1.4 < one.longitude < -1.1  # near Oxford, and west of Greenwich
        easting, northing = project(np.array([one.latitude]), np.array([one.longitude]), "EPSG:32630")
        expected = one.coordinates[0] + 620_000, one.coordinates[1] + 5_735_000
        assert (easting[0], northing[0]) == pytest.approx(expected, abs=1e-3)


def test_trajectories_hold_what_the_map_is_confident_of(world: Any, tmp_path: Path) -> None:
    places, found = asked(world)
    confident = [row for row, one in enumerate(found) if isinstance(one, Location) and one.confident]
    assert 0 < len(confident) < 20
    assert export_tum(tmp_path / "out.txt", places, found) == len(confident)
    lines = np.loadtxt(tmp_path / "out.txt")
    assert lines[:, 0].tolist() == confident  # numbers, as there are no times
    first = found[confident[0]]
    assert isinstance(first, Location)
    np.testing.assert_allclose(lines[0, 1 : 1 + world.map.dimensions], first.coordinates, atol=1e-6)
    assert lines[0, 4:].tolist() == [0, 0, 0, 1]
    turned = [replace(one, heading=0.5) if isinstance(one, Location) else one for one in found]
    export_tum(tmp_path / "out.txt", places, turned)
    assert np.loadtxt(tmp_path / "out.txt")[0, 4:] == pytest.approx([0, 0, np.sin(0.25), np.cos(0.25)])
    timed = places.replace(time=np.arange(21) * 500_000_000)
    export_tum(tmp_path / "out.txt", timed, found)
    assert np.loadtxt(tmp_path / "out.txt")[:, 0].tolist() == [row / 2 for row in confident]
    assert export_tum(tmp_path / "out.txt", places[10], found[10:11]) == 0
    assert not (tmp_path / "out.txt").read_text().strip()


def test_pairs_name_the_nearest_landmarks_by_path(world: Any, tmp_path: Path) -> None:
    places, found = asked(world)
    renamed = world.map.places.replace(place_id=[f"landmark {row}" for row in range(len(world.map))])
    landmarks = Map.build(renamed, world.map.store.take(np.arange(len(renamed))), world.encoder)
    first = Locator(landmarks).locate(world.drive[1][:1], encoder=world.encoder)
    export_pairs(tmp_path / "pairs.txt", landmarks, places[0], first)
    lines = (tmp_path / "pairs.txt").read_text().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("images/0.jpg landmarks/")
    export_pairs(tmp_path / "pairs.txt", world.map, places, found)
    assert len((tmp_path / "pairs.txt").read_text().splitlines()) == 5 * 20
    with pytest.raises(BadInputError, match="a space"):
        export_pairs(tmp_path / "pairs.txt", world.map, places[0].replace(path=["a b.jpg"]), found[:1])


def test_landmarks_of_half_precision_are_of_length_one_again(town: Any, tmp_path: Path) -> None:
    vectors = town.map.store.take(np.arange(len(town.map)))
    half = Map.build(town.map.places, vectors, town.encoder, storage="float16")
    export_landmarks(tmp_path / "out.h5", half)
    with h5py.File(tmp_path / "out.h5", "r") as opened:
        written = np.stack([opened[path]["global_descriptor"][()] for path in half.places.path])
    assert written.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(written, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(written, vectors, atol=1e-3)
