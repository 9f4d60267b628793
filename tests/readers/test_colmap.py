"""COLMAP models: a small one that pycolmap 4.2.1 wrote (`data/colmap`), and models written here as its format says."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from mappable.places.lenses import Lens
from mappable.places.table import Places
from mappable.readers.colmap import lens_of
from mappable.readers.conversion import convert
from mappable.readers.registry import find_reader, read_places

BINARY = [
    pytest.mark.medium,
    pytest.mark.skipif(find_spec("pycolmap") is None, reason="pycolmap is not installed"),
]
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


def notes(places: Places) -> str:
    return " | ".join(str(note) for note in places.notes)


@pytest.mark.parametrize("kind", ["text", pytest.param("binary", marks=BINARY)])
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
    lenses = find_reader("colmap").function("lenses")
    assert lenses is not None
    assert {lens.coefficients for lens in lenses(tmp_path, None).values()} == {(0.05,)}


def test_lenses_image_points_as_pycolmap_does() -> None:
    made = json.loads((WRITTEN / "lenses.json").read_text())
    points = np.array(made["points"]).T
    for model, camera in made["cameras"].items():
        lens = lens_of("camera 1", model, made["size"], camera["parameters"])
        assert lens is not None
        assert lens.distorts == ("PINHOLE" not in model)
        bent = lens.bend(points).T * lens.focal + lens.center
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
