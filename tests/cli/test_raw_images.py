"""A map of raw images: queries are decoded like its own images, or an error names the query."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import Result

from mappable.maps.landmarks import Landmarks
from mappable.places import load_places, save_places
from mappable.places.decoding import RawDecoding

pytestmark = pytest.mark.medium

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def raw_wall(wall: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wall as a raw GBRG camera sees it through a lens that mirrors it, and the table that
    turns it back.
    """
    folder = tmp_path_factory.mktemp("raw") / "wall"
    places = load_places(wall)
    for path in places.path:
        color = np.asarray(Image.open(wall / path))[:, ::-1]
        raw = color[..., 1].copy()  # GBRG: the first row is G B G B, the second R G R G
        raw[0::2, 1::2], raw[1::2, 0::2] = color[0::2, 1::2, 2], color[1::2, 0::2, 0]
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(raw).save(folder / path)
    height, width = raw.shape
    rows, columns = np.mgrid[:height, :width]
    np.stack([width - 1 - columns, rows]).astype("<f8").tofile(folder / "lens.bin")
    raw_places = places.replace(root=folder, decoding=RawDecoding("GBRG", str(folder / "lens.bin")))
    save_places(raw_places, folder / "places.parquet")
    return folder


@pytest.fixture(scope="module")
def moved_map(
    mappable: Run, raw_wall: Path, wall_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A map of the raw wall on a machine that has neither its images nor the table of its lens."""
    folder = tmp_path_factory.mktemp("moved")
    there = shutil.copytree(raw_wall, folder / "there")
    places = load_places(there).replace(decoding=RawDecoding("GBRG", str(there / "lens.bin")))
    save_places(places, there / "places.parquet")
    built = mappable(
        "map", "build", there, folder / "built", "--encoder", wall_encoder, "--landmarks", 60
    )
    assert built.exit_code == 0, built.output
    shutil.move(folder / "built", folder / "map")
    shutil.rmtree(there)
    return folder / "map"


def located(result: Result) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(result.stdout)
    return [{name: value for name, value in one.items() if name != "image"} for one in entries]


def test_raw_files_are_located_as_their_decoded_images_are(
    mappable: Run, raw_wall: Path, moved_map: Path, tmp_path: Path
) -> None:
    paths = load_places(raw_wall).where(split="test").path[::10]
    files = [raw_wall / path for path in paths]
    from_raw = mappable("locate", moved_map, *files, "--json")
    assert from_raw.exit_code == 0, from_raw.output
    straight = []
    for file in files:
        color = RawDecoding("GBRG", str(raw_wall / "lens.bin")).decode(np.asarray(Image.open(file)))
        straight.append(tmp_path / file.name)
        Image.fromarray(color).save(straight[-1])
    assert located(from_raw) == located(mappable("locate", moved_map, *straight, "--json"))
    true = load_places(raw_wall).where(split="test").positions[::10]
    off = np.linalg.norm([one["coordinates"] for one in located(from_raw)] - true, axis=1)
    assert np.median(off) < 2
    shutil.copytree(moved_map, tmp_path / "ordinary")
    ordinary = Landmarks.open(moved_map)
    replace(
        ordinary,
        places=ordinary.places.replace(decoding=None),
        files={"encoder": ordinary.files["encoder"]},
    ).save(tmp_path / "ordinary")
    # As it was before maps said it.
    gray = located(mappable("locate", tmp_path / "ordinary", *files, "--json"))
    assert np.median(np.linalg.norm([one["coordinates"] for one in gray] - true, axis=1)) > 10
