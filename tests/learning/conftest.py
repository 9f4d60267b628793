"""A toy world to learn in: images along a line of 80 m whose look changes smoothly with the position."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mappable.arrays import Floats, Pixels
from mappable.places.files import TABLE, save_places
from mappable.places.frames import Frame
from mappable.places.packing import pack_images
from mappable.places.table import Places

WIDTH, HEIGHT = 64, 48
PIXELS_PER_METRE = 4  # images 16 m apart have nothing in common
# Split, first place and distance from one to the next in metres, light, colour of the light, noise in grey levels.
DRIVES = {
    "sun": ("train", 0.0, 4.0, 1.0, (1.0, 1.0, 0.9), 4.0),
    "dusk": ("train", 2.0, 4.0, 0.5, (1.0, 0.8, 0.9), 8.0),
    "rain": ("calibration", 1.0, 8.0, 0.7, (0.8, 0.9, 1.0), 8.0),
    "fog": ("test", 5.0, 8.0, 0.8, (0.9, 0.9, 0.9), 12.0),
}
LENGTH = 80.0


@pytest.fixture(scope="session")
def toy() -> tuple[Places, Pixels]:
    """60 places in metres, and their images (60, 48, 64, 3): 40 to train on, 2 m apart, 10 to calibrate, 10 to test.

    Both drives of the training split pass the whole line, one in sun and one at dusk, 4 m between their images, all of
    which look along +x. Only the table is there, no files: see `toy_folder`.
    """
    random = np.random.default_rng(0)
    # Broad colours, so that images grow apart slowly, and fine ones, so that each has something of its own.
    wall: Floats = 0.6 * _paint(random, (3, 8)) + 0.4 * _paint(random, (6, 48))
    names, splits, along, images = [], [], [], []
    for name, (split, first, step, light, colour, noise) in DRIVES.items():
        for x in np.arange(first, LENGTH, step):
            left = int(x * PIXELS_PER_METRE)
            clear: Floats = wall[:, left : left + WIDTH] * light * colour
            images.append(np.clip(clear + random.normal(0, noise, clear.shape), 0, 255).astype(np.uint8))
            names.append(name)
            splits.append(split)
            along.append(float(x))
    places = Places(
        path=[f"images/{name}/{x:04.0f}m.png" for name, x in zip(names, along, strict=True)],
        x=along,
        y=[0.0] * len(along),
        yaw=[0.0] * len(along),
        time=[int(x * 1e9) for x in along],
        sequence=names,
        condition=names,
        split=splits,
        frames=Frame("toy"),
    )
    return places, np.stack(images)


def _paint(random: np.random.Generator, cells: tuple[int, int]) -> Floats:
    """A wall (height, width, 3) along the whole line, of so many random colours in each direction."""
    size = (WIDTH + int(LENGTH * PIXELS_PER_METRE), HEIGHT)
    colours = Image.fromarray(random.integers(0, 256, (*cells, 3), dtype=np.uint8))
    return np.asarray(colours.resize(size, Image.Resampling.BICUBIC), dtype=np.float64)


@pytest.fixture
def toy_folder(toy: tuple[Places, Pixels], tmp_path: Path) -> Path:
    """The toy world as `mappable convert` leaves a set: image files, the table, and the images packed at 64x48."""
    folder = tmp_path / "toy"
    places, pixels = toy[0].replace(root=folder), toy[1]
    for file, image in zip(places.files, pixels, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    save_places(places, folder / TABLE)
    pack_images(places, folder, size=(WIDTH, HEIGHT))
    return folder
