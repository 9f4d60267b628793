"""Images along a painted wall: a small world whose places are told apart by a small encoder."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from mappable.arrays import Floats
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import Places

WIDTH, HEIGHT, PIXELS_PER_METRE = 64, 48, 4
# Split, first place and distance between places in metres, light.
Drive = tuple[str, float, float, float]


def draw_wall(folder: Path, drives: Mapping[str, Drive], length: float, frame: Frame) -> Places:
    """Images along a wall of some metres, in a folder with their table."""
    random = np.random.default_rng(0)
    size = WIDTH + int(length * PIXELS_PER_METRE), HEIGHT
    coarse = Image.fromarray(random.integers(0, 256, (4, size[0] // 24, 3), dtype=np.uint8))
    wall: Floats = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), dtype=np.float64)
    rows = [
        (name, x)
        for name, (_, first, step, _) in drives.items()
        for x in np.arange(first, length, step)
    ]
    for name, x in rows:
        left = int(x * PIXELS_PER_METRE)
        pixels = wall[:, left : left + WIDTH] * drives[name][3] + random.normal(
            0, 3, (HEIGHT, WIDTH, 3)
        )
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(
            folder / name / f"{10 * x:05.0f}.png"
        )
    places = Places(
        path=[f"{name}/{10 * x:05.0f}.png" for name, x in rows],
        x=[x for _, x in rows],
        y=[20 * np.sin(x / 40) for _, x in rows],
        time=[int(x * 1e9) for _, x in rows],
        sequence=[name for name, _ in rows],
        condition=[name for name, _ in rows],
        split=[drives[name][0] for name, _ in rows],
        frames=frame,
        root=folder,
    )
    save_places(places, folder / "places.parquet")
    return places
