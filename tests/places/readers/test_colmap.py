"""COLMAP models: a small one that pycolmap 4.2.1 wrote (`data/colmap`), and models written here as its format says."""

import json
import math
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyproj import Geod
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.colmap import lens_of
from mappable.places.conversion import convert
from mappable.places.lenses import Lens
from mappable.places.readers import find_reader, read_places
from mappable.places.table import Places

WRITTEN = Path(__file__).parent / "data/colmap"
LEVEL = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])  # axes of a level camera that looks to +y, in a world with z up
SLANTED = Rotation.from_euler("xyz", [40, -25, 110], degrees=True).as_matrix()  # from our world to the model's


def scene(count: int = 12) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Positions in metres with z up, and yaws: half a circle, cameras looking along it, pitched a little."""
    angle = np.linspace(0, np.pi, count)
    where = np.column_stack([10 * np.cos(angle), 10 * np.sin(angle), 1.5 + 0.1 * np.sin(5 * angle)])
    return where, angle + np.pi / 2


def poses(unit: float, pitch: float = 10.0) -> list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Name, rotation and translation from model to camera, in a model turned and shrunk against our world."""
    found = []
    for number, (where, yaw) in enumerate(zip(*scene(), strict=True)):
        turn = Rotation.from_euler("z", yaw - np.pi / 2).as_matrix()
        camera = turn @ Rotation.from_euler("x", pitch, degrees=True).as_matrix() @ LEVEL
        axes, center = SLANTED @ camera, SLANTED @ where / unit + (3, -2, 7)
        found.append((f"walk/{number:03d}.jpg", axes.T, -axes.T @ center))
    return found


def write_text(folder: Path, unit: float = 4.0, **options: Any) -> Path:
    lines = ["# Image list with two lines of data per image:"]
    for number, (name, turn, shift) in enumerate(poses(unit, **options), 1):
        x, y, z, w = Rotation.from_matrix(turn).as_quat()
        lines += [" ".join(str(value) for value in (number, w, x, y, z, *shift, 1, name)), ""]
    (folder / "sparse/0").mkdir(parents=True)
    (folder / "images").mkdir()
    (folder / "sparse/0/images.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_binary(folder: Path, count: int | None = None, features: int = 3) -> Path:
    data = b""
    rows = poses(4.0)
    for number, (name, turn, shift) in enumerate(rows, 1):
        x, y, z, w = Rotation.from_matrix(turn).as_quat()
        data += struct.pack("<I7dI", number, w, x, y, z, *shift, 1) + name.encode() + b"\0"
        data += struct.pack("<Q", features) + bytes(24 * 3)
    (folder / "sparse/0").mkdir(parents=True)
    (folder / "images").mkdir()
    (folder / "sparse/0/images.bin").write_bytes(struct.pack("<Q", len(rows) if count is None else count) + data)
    return folder


def notes(places: Places) -> str:
    return " | ".join(str(note) for note in places.notes)


def between(positions: Any) -> Any:
    return np.linalg.norm(positions[:, None] - positions[None], axis=2)


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_a_model_of_pycolmap_is_read_to_the_last_digit(tmp_path: Path, kind: str) -> None:
    shutil.copytree(WRITTEN / kind, tmp_path / "sparse/0")
    (tmp_path / "images").mkdir()
    places = read_places("colmap", tmp_path, up="z")
    expected = json.loads((WRITTEN / "expected.json").read_text())
    assert list(places.path) == sorted(expected)
    frame = places.frames[places.frame[0]]
    centers = frame.to_original(np.column_stack([places.x, places.y, places.z]))
    np.testing.assert_allclose(centers, [expected[name]["center"] for name in places.path], rtol=0, atol=1e-9)
    forward = np.array([expected[name]["forward"] for name in places.path])
    np.testing.assert_allclose(places.yaw, np.arctan2(forward[:, 1], forward[:, 0]), atol=1e-9)
    assert places.unit == "units"
    lenses = find_reader("colmap").lenses
    assert lenses is not None
    assert {lens.coefficients for lens in lenses(tmp_path, None).values()} == {(0.05,)}


def test_lenses_image_points_as_pycolmap_does() -> None:
    made = json.loads((WRITTEN / "lenses.json").read_text())
    x, y = np.array(made["points"]).T
    for model, camera in made["cameras"].items():
        lens = lens_of("camera 1", model, made["size"], camera["parameters"])
        assert lens is not None
        assert lens.distorts == ("PINHOLE" not in model)
        bent = np.column_stack(lens.bend(x, y)) * lens.focal + lens.center
        np.testing.assert_allclose(bent + 0.5, camera["pixels"], rtol=0, atol=1e-9)  # COLMAP counts from a corner


def test_convert_undistorts_images(tmp_path: Path) -> None:
    folder = write_text(tmp_path / "set")
    (folder / "sparse/0/cameras.txt").write_text("1 SIMPLE_RADIAL 64 48 40 32 24 -0.3\n")
    names = [name for name, _, _ in poses(4.0)]
    (folder / "images/walk").mkdir()
    for number, name in enumerate(names):
        shade = np.linspace(0, 200, 64)[None, :, None] + np.full((48, 64, 3), number)
        Image.fromarray(shade.astype(np.uint8)).resize((64, 64 if number == 3 else 48)).save(folder / "images" / name)
    places = convert("colmap", folder, tmp_path / "out", size=(64, 48))
    assert "11 images were undistorted" in notes(places)
    assert "1 images have another shape" in notes(places)
    straight, bent = (np.asarray(Image.open(root / names[0])) for root in (places.root, folder / "images"))
    lens = Lens((64, 48), (40, 40), (31.5, 23.5), "plumb_bob", (-0.3,))
    np.testing.assert_allclose(straight.astype(int), lens.undistortion().resample(bent), atol=8)  # JPEG
    assert convert("colmap", folder, tmp_path / "out", size=(64, 48)).notes == places.notes
    plain = convert("colmap", folder, tmp_path / "plain", size=(64, 48), undistort=False)
    assert plain.root == folder / "images"


def test_points_show_the_ground(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    ground = np.column_stack([random.uniform(-15, 15, (300, 2)), np.zeros(300)])
    walls = np.column_stack([random.uniform(-15, 15, (300, 2)), random.uniform(0, 9, 300)])
    points = np.vstack([ground, walls]) @ SLANTED.T / 4 + (3, -2, 7)
    lines = [f"{number} {x} {y} {z} 1 2 3 0.5 1 2 3 4" for number, (x, y, z) in enumerate(points)]
    file = write_text(tmp_path) / "sparse/0/points3D.txt"
    file.write_text("\n".join(["# 3D point list", *lines]))
    text = read_places("colmap", tmp_path)
    np.testing.assert_allclose(text.z, scene()[0][:, 2] / 4, atol=0.02)
    assert "the ground was found" in notes(text)
    packed = b"".join(struct.pack("<Q3d3BdQ2I", number, *p, 1, 2, 3, 0.5, 1, 7, 8) for number, p in enumerate(points))
    file.with_suffix(".bin").write_bytes(struct.pack("<Q", len(points)) + packed)
    np.testing.assert_array_equal(read_places("colmap", tmp_path).z, text.z)
    file.with_suffix(".bin").write_bytes(struct.pack("<Q", len(points)) + packed[:-1])
    with pytest.raises(BadInputError, match=r"points3D.bin: truncated or damaged at point 599 of 600"):
        read_places("colmap", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cameras.txt", "1 OPENCV 640 480 500 500 320\n", "cameras.txt, camera 1: 3 parameters of OPENCV, expected 8"),
        ("cameras.txt", "1 OPENCV 640 wide\n", "cameras.txt, row 1: '1 OPENCV 640 wide'"),
        ("cameras.txt", "1 PINHOLE 640 480 0 500 320 240\n", "cameras.txt, camera 1: focal lengths"),
        ("cameras.bin", struct.pack("<QIiQQ2d", 1, 1, 2, 64, 48, 40, 32), "cameras.bin: truncated at camera 0 of 1"),
        ("points3D.txt", "1 2 x 3\n", "points3D.txt, row 1: '1 2 x 3"),
        ("images.txt", "# Number of images: 12, mean\n1 1 0 0 0 0 0 0 1 a.jpg\n\n", "states 12 images, but has 1"),
    ],
)
def test_other_damaged_files_of_a_model(tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    file = write_text(tmp_path) / "sparse/0" / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInputError) as caught:
        read_places("colmap", tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize("write", [write_text, write_binary])
def test_up_is_estimated_and_the_scale_stays_unknown(tmp_path: Path, write: Any) -> None:
    places = read_places("colmap", write(tmp_path))
    where, yaw = scene()
    assert places.unit == "units"
    np.testing.assert_allclose(between(places.positions), between(where[:, :2]) / 4, atol=1e-9)
    np.testing.assert_allclose(np.diff(places.z), np.diff(where[:, 2]) / 4, atol=1e-9)
    turns = (np.diff(places.yaw) - np.diff(yaw) + np.pi) % (2 * np.pi) - np.pi
    np.testing.assert_allclose(turns, 0, atol=1e-9)
    assert "scale of the model is unknown" in notes(places)
    assert set(places.sequence) == {"walk"}
    assert " m " not in notes(places)


def test_a_straight_drive_has_an_up_too(tmp_path: Path) -> None:
    lines = []
    turn = (SLANTED @ LEVEL).T
    x, y, z, w = Rotation.from_matrix(turn).as_quat()
    for number in range(5):
        shift = -turn @ SLANTED @ np.array([0, number, 0.5])
        lines += [" ".join(str(value) for value in (number, w, x, y, z, *shift, 1, f"{number}.jpg")), ""]
    file = write_text(tmp_path) / "sparse/0/images.txt"
    file.write_text("\n".join(lines))
    places = read_places("colmap", tmp_path)
    np.testing.assert_allclose(places.z, 0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(np.diff(places.positions, axis=0), axis=1), 1, atol=1e-9)


def test_a_given_scale_makes_metres(tmp_path: Path) -> None:
    places = read_places("colmap", write_text(tmp_path), scale=4.0)
    assert places.unit == "m"
    np.testing.assert_allclose(between(places.positions), between(scene()[0][:, :2]), atol=1e-9)


@pytest.mark.parametrize("rows", [(0, 11), range(12)])
def test_known_positions_give_scale_direction_and_origin(tmp_path: Path, rows: Any) -> None:
    where, yaw = scene()
    lines = [f"walk/{row:03d}.jpg,{where[row, 0] + 500},{where[row, 1] - 80},{where[row, 2]}" for row in rows]
    (tmp_path / "known.csv").write_text("\n".join(["path,x,y,z", *lines]) + "\n")
    places = read_places("colmap", write_text(tmp_path / "model"), known=tmp_path / "known.csv")
    assert places.unit == "m"
    np.testing.assert_allclose(places.positions, where[:, :2] + (500, -80), atol=1e-6)
    np.testing.assert_allclose(places.z, where[:, 2], atol=1e-6)
    np.testing.assert_allclose((places.yaw - yaw + np.pi) % (2 * np.pi) - np.pi, 0, atol=1e-6)
    assert "4 metres per unit" in notes(places)


def test_known_latitudes_give_a_utm_frame(tmp_path: Path) -> None:
    where = scene()[0]
    geod, lines = Geod(ellps="WGS84"), ["path,latitude,longitude"]
    for row in (0, 5, 11):
        east = math.degrees(math.atan2(where[row, 0], where[row, 1]))
        longitude, latitude, _ = geod.fwd(9.0, 47.0, east, float(np.hypot(*where[row, :2])))  # on the zone's meridian
        lines.append(f"walk/{row:03d}.jpg,{latitude:.10f},{longitude:.10f}")
    (tmp_path / "known.csv").write_text("\n".join(lines) + "\n")
    places = read_places("colmap", write_text(tmp_path / "model"), known=tmp_path / "known.csv")
    assert places.frames[places.frame[0]].crs == "EPSG:32632"
    np.testing.assert_allclose(between(places.positions), between(where[:, :2]), rtol=1e-3)


def test_a_colmap_list_of_known_positions(tmp_path: Path) -> None:
    where = scene()[0]
    rows = (f"walk/{row:03d}.jpg {where[row, 0]} {where[row, 1]} {where[row, 2]}" for row in (0, 3, 9))
    (tmp_path / "known.txt").write_text("\n".join(rows))
    places = read_places("colmap", write_text(tmp_path / "model"), known=tmp_path / "known.txt")
    np.testing.assert_allclose(places.positions, where[:, :2], atol=1e-6)


def test_the_largest_of_several_models_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    write_text(tmp_path)
    shutil.copytree(WRITTEN / "binary", tmp_path / "sparse/1")
    assert len(read_places("colmap", tmp_path)) == 12
    assert "sparse/1" in notes(read_places("colmap", tmp_path))
    assert len(read_places("colmap", tmp_path, model="sparse/1")) == 8


# Errors: one sentence that names the file, the row and the value.


def refused(root: Path, **options: Any) -> str:
    with pytest.raises(BadInputError) as caught:
        read_places("colmap", root, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_damaged_binary_files(tmp_path: Path) -> None:
    file = write_binary(tmp_path / "a") / "sparse/0/images.bin"
    data = file.read_bytes()
    for length in (0, 5, 8, 40, 100, len(data) - 1):
        file.write_bytes(data[:length])
        assert str(file) in refused(tmp_path / "a")
    assert "1,000,000,000,000 images" in refused(write_binary(tmp_path / "b", count=10**12))
    text = refused(write_binary(tmp_path / "c", features=10**15))
    assert "images.bin, image 0 ('walk/000.jpg')" in text
    assert "1,000,000,000,000,000 features" in text


def test_damaged_text_files(tmp_path: Path) -> None:
    file = write_text(tmp_path) / "sparse/0/images.txt"
    text = file.read_text()
    lines = text.splitlines()
    for words, expected in (
        (lines[3].replace("2 ", "two ", 1)[:30], "row 4: 'two"),
        ("2 nan 0 0 0 1 2 3 1 a.jpg", "nan"),
    ):
        file.write_text("\n".join([*lines[:3], words, *lines[4:]]))
        assert expected in refused(tmp_path)
    file.write_text("# nothing\n")
    assert "no images" in refused(tmp_path)
    file.write_bytes(b"\xff\xfe\x00")
    assert str(file) in refused(tmp_path)


def test_missing_parts_and_wrong_options(tmp_path: Path) -> None:
    assert "images.bin" in refused(tmp_path)
    write_text(tmp_path)
    assert "scale is -1" in refused(tmp_path, scale=-1.0)
    (tmp_path / "known.csv").write_text("path,x,y\nwalk/000.jpg,0,0\nother.jpg,1,1\n")
    assert "1 images of the model" in refused(tmp_path, known=tmp_path / "known.csv")
    assert "one of them" in refused(tmp_path, known=tmp_path / "known.csv", scale=1.0)
    (tmp_path / "known.csv").write_text("path,x,y\nwalk/000.jpg,2,2\nwalk/001.jpg,2,2\n")
    assert "at one place" in refused(tmp_path, known=tmp_path / "known.csv")
    (tmp_path / "images").rmdir()
    assert "no folder images" in refused(tmp_path)
