"""Tiny input for the examples: three walks along a painted wall, drawn in a fraction of a second."""

from pathlib import Path

import numpy as np
from PIL import Image

import mappable

WIDTH, HEIGHT, PIXELS_PER_METRE, LENGTH = 64, 48, 4, 60.0
WALKS = {  # split, first image and distance between images in metres, light
    "monday": ("train", 0.0, 2.0, 1.0),
    "tuesday": ("calibration", 0.7, 2.5, 0.8),
    "wednesday": ("test", 1.3, 3.0, 0.9),
}


def draw_walks() -> tuple[mappable.Places, np.ndarray]:
    """The table of three walks along a curved wall, and their images (n, 48, 64, 3)."""
    wall, random = _paint_wall(), np.random.default_rng(1)
    names = np.repeat(list(WALKS), [len(np.arange(first, LENGTH, step)) for _, first, step, _ in WALKS.values()])
    along = np.concatenate([np.arange(first, LENGTH, step) for _, first, step, _ in WALKS.values()])
    images = []
    for name, x in zip(names, along, strict=True):
        left = int(x * PIXELS_PER_METRE)
        view = wall[:, left : left + WIDTH] * WALKS[name][3] + random.normal(0, 4, (HEIGHT, WIDTH, 3))
        images.append(np.clip(view, 0, 255).astype(np.uint8))
    places = mappable.Places(
        path=[f"{name}/{10 * x:04.0f}.jpg" for name, x in zip(names, along, strict=True)],
        x=along,
        y=20 * np.sin(along / 40),
        yaw=np.arctan(np.cos(along / 40) / 2),
        time=(along * 1e9).astype(np.int64),  # in nanoseconds: 1 m/s along x
        sequence=names,
        split=[WALKS[name][0] for name in names],
        frames=mappable.places.Frame("wall"),
    )
    return places, np.stack(images)


def write_photos(folder: Path) -> None:
    """Write the walks as photos with GPS, in one folder per walk, as a phone does."""
    places, images = draw_walks()
    for path, (x, y), image in zip(places.path, places.positions, images, strict=True):
        exif = Image.Exif()
        north, east = 51.752 + y / 111_250, 1.2577 + x / 69_000  # degrees, by metres per degree near Oxford
        exif.get_ifd(0x8825).update({1: "N", 2: (north, 0.0, 0.0), 3: "E", 4: (east, 0.0, 0.0)})
        exif.get_ifd(0x8769)[0x9003] = f"2026:05:01 12:{int(x) // 60:02d}:{int(x) % 60:02d}"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / path, exif=exif, quality=95)


def small_encoder(images: np.ndarray) -> mappable.features.Encoder:
    """An encoder with random weights, which needs no download; it suffices for the painted wall."""
    encoder = mappable.features.Encoder.create(weights="random", backbone="resnet50", size=(WIDTH, HEIGHT), clusters=16)
    encoder.initialize(images)
    return encoder


def draw_map() -> mappable.Map:
    """A map of Monday's walk in memory, calibrated on Tuesday's."""
    places, images = draw_walks()
    encoder = small_encoder(images[places.training()])
    return mappable.build_map(places, images, encoder=encoder, landmarks=24)


def _paint_wall() -> np.ndarray:
    """A wall (height, width, 3): broad colors change slowly along it, fine ones make every view unique."""
    random, size = np.random.default_rng(0), (WIDTH + int(LENGTH * PIXELS_PER_METRE), HEIGHT)
    layers = [Image.fromarray(random.integers(0, 256, (*cells, 3), dtype=np.uint8)) for cells in ((3, 10), (8, 80))]
    broad, fine = (np.asarray(layer.resize(size, Image.Resampling.BICUBIC), float) for layer in layers)
    return 0.6 * broad + 0.4 * fine
