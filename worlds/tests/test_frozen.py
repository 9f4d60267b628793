"""What the frozen presets draw does not change: thumbnails of some of their images, beside those in frozen.npz.

Hashes would not do, for another processor or library may round otherwise; so small differences are
let pass. What a new preset draws is added to the file, which keeps all others, by .venv/bin/python
tests/worlds/test_frozen.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

from mappable.arrays import Floats, Pixels
from mappable_worlds import conditions
from mappable_worlds.drives import plan, table, traverse
from mappable_worlds.presets import PRESETS, Preset, Run
from mappable_worlds.rendering.renderer import Renderer

FILE = Path(__file__).with_name("frozen.npz")
# Their images are street-v1's, as another test makes sure.
PARTS = ("street-v1-demo", "street-v1-brief")
NAMES = [name for name in PRESETS if name not in PARTS]
IMAGES = 30  # of a preset, about
BLOCK = 8  # pixels across, that become one of a thumbnail


def thumbnail(image: Pixels) -> Pixels:
    """(height, width, 3) becomes (height / BLOCK, width / BLOCK, 3): the mean of each block,
    rounded.
    """
    height, width, _ = image.shape
    blocks = image.reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3)
    return np.rint(blocks.mean((1, 3))).astype(np.uint8)


def draw(name: str, place_ids: Sequence[str]) -> tuple[Floats, Pixels]:
    """Poses (n, 4: x, y, z in metres, yaw in radians) and thumbnails of these places, in the order
    of the preset.
    """
    preset = PRESETS[name]
    world, _ = plan(replace(preset, runs=()))
    runs = {run.name: run for run in preset.runs}
    known = conditions.STREET if preset.world == "street" else conditions.ROOMS
    poses, thumbnails, before = [], [], torch.get_num_threads()
    torch.set_num_threads(1)  # as `simulate` draws an image; several would only wait for each other
    for sequence, ids in groupby(place_ids, lambda place_id: place_id.split("/")[0]):
        run, images = runs[sequence], [int(place_id.split("/")[1]) for place_id in ids]
        drive = traverse(world, run)
        renderer = Renderer(
            world.scene, drive, known[run.condition], run.camera, size=preset.size, seed=run.seed
        )
        poses += np.column_stack([drive.x, drive.y, drive.z, drive.yaw])[images].tolist()
        thumbnails += [thumbnail(image) for image in renderer.render(images).numpy()]
    torch.set_num_threads(before)
    return np.array(poses), np.stack(thumbnails)


@pytest.fixture(scope="module")
def frozen() -> Mapping[str, np.ndarray]:
    with np.load(FILE) as file:
        return dict(file)


@pytest.mark.medium
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
def test_the_frozen_images_are_drawn_as_ever(
    name: str, every: int, frozen: Mapping[str, np.ndarray]
) -> None:
    place_ids, expected = (
        frozen[f"{name}/place_ids"][::every],
        frozen[f"{name}/thumbnails"][::every],
    )
    poses, thumbnails = draw(name, place_ids.tolist())
    assert np.abs(poses - frozen[f"{name}/poses"][::every]).max() < 1e-6
    difference = np.abs(thumbnails.astype(int) - expected)
    # 0.0000 without AVX2 and AVX-512; 0.07 if the tints of the runs grow by a tenth.
    assert difference.mean() < 0.05
    assert difference.max() <= 3


def few_runs(preset: Preset) -> tuple[Run, ...]:
    """Runs enough to see each condition, route and camera; preparing a run takes longer than
    drawing a few images.
    """
    missing = {thing for run in preset.runs for thing in (run.condition, run.route, run.camera)}
    chosen: set[Run] = set()
    while missing:
        best = max(
            preset.runs, key=lambda run: len(missing & {run.condition, run.route, run.camera})
        )
        chosen.add(best)
        missing -= {best.condition, best.route, best.camera}
    return tuple(run for run in preset.runs if run in chosen)


def add_new_presets() -> None:
    with np.load(FILE) as file:
        arrays = dict(file)
    for name in NAMES:
        if f"{name}/place_ids" in arrays:
            continue
        preset = replace(PRESETS[name], runs=few_runs(PRESETS[name]))
        places = table(preset, plan(preset)[1])
        each = round(IMAGES / len(preset.runs))
        rows = [
            rows[(2 * k + 1) * len(rows) // (2 * each)]
            for rows in places.sequences().values()
            for k in range(each)
        ]
        place_ids = places.place_id[rows].tolist()
        poses, thumbnails = draw(name, place_ids)
        arrays |= {
            f"{name}/place_ids": np.array(place_ids),
            f"{name}/poses": poses,
            f"{name}/thumbnails": thumbnails,
        }
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    add_new_presets()
