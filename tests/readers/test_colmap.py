"""COLMAP models: a small one that pycolmap 4.2.1 wrote (`data/colmap`), and the golden folder."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mappable.places.lenses import Lens
from mappable.readers.colmap import lens_of
from mappable.readers.conversion import convert
from mappable.readers.registry import read_places

WRITTEN = Path(__file__).parent / "data/colmap"


def test_lenses_image_points_as_pycolmap_does() -> None:
    made = json.loads((WRITTEN / "lenses.json").read_text())
    points = np.array(made["points"]).T
    for model, camera in made["cameras"].items():
        lens = lens_of("camera 1", model, made["size"], camera["parameters"])
        assert lens is not None
        assert lens.distorts == ("PINHOLE" not in model)
        bent = lens.bend(points).T * lens.focal + lens.center
        # COLMAP counts from a corner.
        np.testing.assert_allclose(bent + 0.5, camera["pixels"], rtol=0, atol=1e-9)


def test_convert_undistorts_images(tmp_path: Path, golden_folder: Callable[[str], Path]) -> None:
    folder = shutil.copytree(golden_folder("colmap"), tmp_path / "set")
    for number, file in enumerate(sorted((folder / "images/walk").iterdir())):
        shade = np.linspace(0, 200, 64)[None, :, None] + np.full((48, 64, 3), number)
        Image.fromarray(shade.astype(np.uint8)).resize((64, 64 if number == 3 else 48)).save(file)
    places = convert("colmap", folder, tmp_path / "out", size=(64, 48))
    notes = " | ".join(map(str, places.notes))
    assert "11 images were undistorted" in notes
    assert "1 images have another shape" in notes
    straight, bent = (
        np.asarray(Image.open(root / "walk/000.jpg")) for root in (places.root, folder / "images")
    )
    lens = Lens((64, 48), (40, 40), (31.5, 23.5), "plumb_bob", (-0.3,))
    # JPEG.
    np.testing.assert_allclose(straight.astype(int), lens.undistortion().resample(bent), atol=8)
    assert convert("colmap", folder, tmp_path / "out", size=(64, 48)).notes == places.notes
    assert (
        convert("colmap", folder, tmp_path / "plain", size=(64, 48), undistort=False).root
        == folder / "images"
    )


@pytest.mark.parametrize("rows", [(0, 11), range(12)])
def test_known_positions_give_scale_direction_and_origin(
    tmp_path: Path, golden_folder: Callable[[str], Path], rows: range
) -> None:
    angle = np.linspace(0, np.pi, 12)
    where = np.column_stack(
        [10 * np.cos(angle) + 500, 10 * np.sin(angle) - 80, 1.5 + 0.1 * np.sin(5 * angle)]
    )
    lines = [f"walk/{row:03d}.jpg,{where[row, 0]},{where[row, 1]},{where[row, 2]}" for row in rows]
    (tmp_path / "known.csv").write_text("\n".join(["path,x,y,z", *lines]) + "\n")
    places = read_places("colmap", golden_folder("colmap"), known=tmp_path / "known.csv")
    assert places.unit == "m"
    np.testing.assert_allclose(np.column_stack([places.x, places.y, places.z]), where, atol=1e-6)
    turn = places.yaw - angle - np.pi / 2
    np.testing.assert_allclose((turn + np.pi) % (2 * np.pi) - np.pi, 0, atol=1e-6)
    assert "4 metres per unit" in " | ".join(map(str, places.notes))
