"""What the frozen presets draw does not change: thumbnails of some images of every run, beside those in frozen.npz.

Hashes would not do, for another processor or library may round otherwise; so small differences are let pass. After a
preset was added, and never to make this test pass: .venv/bin/python tests/places/worlds/test_frozen.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

from mappable.arrays import Floats, Pixels
from mappable.places.worlds import conditions
from mappable.places.worlds.drives import plan, table, traverse
from mappable.places.worlds.presets import PRESETS
from mappable.places.worlds.rendering.renderer import Renderer

FILE = Path(__file__).with_name("frozen.npz")
NAMES = [name for name in PRESETS if name != "street-v1-demo"]  # its images are street-v1's, as another test makes sure
IMAGES = 36  # of a preset, about
BLOCK = 8  # pixels across, that become one of a thumbnail


def thumbnail(image: Pixels) -> Pixels:
    """(height, width, 3) becomes (height / BLOCK, width / BLOCK, 3): the mean of each block, rounded."""
    height, width, _ = image.shape
    blocks = image.reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3)
    return np.rint(blocks.mean((1, 3))).astype(np.uint8)


def draw(name: str, place_ids: Sequence[str]) -> tuple[Floats, Pixels]:
    """Poses (n, 4: x, y, z in metres, yaw in radians) and thumbnails of these places, in the order of the preset."""
    preset = PRESETS[name]
    world, _ = plan(replace(preset, runs=()))
    runs = {run.name: run for run in preset.runs}
    known = conditions.STREET if preset.world == "street" else conditions.ROOMS
    poses, thumbnails, before = [], [], torch.get_num_threads()
    torch.set_num_threads(1)  # as `simulate` draws an image; several would only wait for each other
    for sequence, ids in groupby(place_ids, lambda place_id: place_id.split("/")[0]):
        run, images = runs[sequence], [int(place_id.split("/")[1]) for place_id in ids]
        drive = traverse(world, run)
        renderer = Renderer(world.scene, drive, known[run.condition], run.camera, size=preset.size, seed=run.seed)
        poses += np.column_stack([drive.x, drive.y, drive.z, drive.yaw])[images].tolist()
        thumbnails += [thumbnail(image) for image in renderer.render(images).numpy()]
    torch.set_num_threads(before)
    return np.array(poses), np.stack(thumbnails)


@pytest.fixture(scope="module")
def frozen() -> Mapping[str, np.ndarray]:
    with np.load(FILE) as file:
        return dict(file)


@pytest.mark.parametrize("name", NAMES)
def test_the_frozen_images_are_drawn_as_ever(name: str, frozen: Mapping[str, np.ndarray]) -> None:
    place_ids, expected = frozen[f"{name}/place_ids"], frozen[f"{name}/thumbnails"]
    assert {place_id.split("/")[0] for place_id in place_ids} == {run.name for run in PRESETS[name].runs}
    poses, thumbnails = draw(name, place_ids.tolist())
    assert np.abs(poses - frozen[f"{name}/poses"]).max() < 1e-6
    difference = np.abs(thumbnails.astype(int) - expected)
    assert difference.mean((1, 2, 3)).max() < 0.3  # of 255, in each image
    assert difference.max() <= 3


def write() -> None:
    arrays = {}
    for name in NAMES:
        preset = PRESETS[name]
        places = table(preset, plan(preset)[1])
        each = max(1, round(IMAGES / len(preset.runs)))
        rows = [rows[(2 * k + 1) * len(rows) // (2 * each)] for rows in places.sequences().values() for k in range(each)]
        arrays[f"{name}/place_ids"] = place_ids = places.place_id[rows].astype(str)
        arrays[f"{name}/poses"], arrays[f"{name}/thumbnails"] = draw(name, place_ids.tolist())
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    write()
