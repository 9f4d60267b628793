"""Packing a folder of 1280x960 JPEGs at 240x180, beside a plain full Pillow decode + resize on the same cores.

    python benchmarks/packing.py [--images 200] [--rounds 5]

Both read the same files with the same number of threads and end with the pixels in one file on disk; rounds are
interleaved in one process and the medians compared. The images are noise whose amplitude falls with frequency as that
of photographs does; how fast it falls sets the detail and so the size of the file. Phones and cameras write about a
quarter of a byte a pixel, 300 kB at this size: the goal is judged there, with less and more detail beside it.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from mappable import Frame, Places, pack_images

SOURCE, TARGET = (1280, 960), (240, 180)
GOAL = 2.5
DETAIL = {"little detail": 1.8, "a photograph": 1.35, "much detail": 1.0}  # exponents of the fall with frequency
JUDGED = "a photograph"


def write_photos(folder: Path, count: int, exponent: float) -> Places:
    """`count` JPEGs of quality 90, each with its own noise in brightness and, weaker, in colour."""
    generator = np.random.default_rng(0)
    width, height = SOURCE
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1
    falling = frequency**-exponent
    folder.mkdir()
    for number in range(count):
        layers = []
        for _ in range(3):
            spectrum = np.fft.rfft2(generator.standard_normal((height, width))) * falling
            noise = np.fft.irfft2(spectrum, s=(height, width))
            layers.append(noise / noise.std())
        luma = layers[0]
        pixels = np.stack([luma + 0.3 * layers[1], luma, luma + 0.3 * layers[2]], axis=2) * 50 + 128
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(folder / f"{number:04d}.jpg", quality=90)
    paths = [f"{number:04d}.jpg" for number in range(count)]
    return Places(
        path=paths, x=np.arange(count, dtype=np.float64), y=np.zeros(count), frames=Frame("none"), root=folder
    )


def plain(places: Places, out: Path, workers: int) -> None:
    """What one writes without thinking: open, decode whole, convert, resize, save the stack."""

    def load(file: Path) -> np.ndarray:
        with Image.open(file) as image:
            return np.asarray(image.convert("RGB").resize(TARGET, Image.Resampling.BILINEAR))

    with ThreadPoolExecutor(workers) as pool:
        np.save(out, np.stack(list(pool.map(load, places.files))))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    print(
        f"{arguments.images} JPEGs, {SOURCE[0]}x{SOURCE[1]} to {TARGET[0]}x{TARGET[1]}; {workers} threads; ms an image"
    )
    print(f"{'':16}{'kB':>6}{'full decode':>14}{'pack_images':>14}{'ratio':>8}{'again':>8}")
    for name, exponent in DETAIL.items():
        with tempfile.TemporaryDirectory() as temporary:
            kilobytes, whole, packed, again = compare(
                Path(temporary), exponent, arguments.images, arguments.rounds, workers
            )
        print(f"{name:16}{kilobytes:>6.0f}{whole:>14.2f}{packed:>14.2f}{whole / packed:>8.2f}{again:>8.2f}")
        if name == JUDGED:
            verdict = f"{'met' if whole / packed >= GOAL else 'MISSED'} ({whole / packed:.2f})"
    print(f"goal: {JUDGED} packed at least {GOAL} times as fast as by full decoding: {verdict}")


def compare(folder: Path, exponent: float, count: int, rounds: int, workers: int) -> tuple[float, float, float, float]:
    """Mean size in kB, then median milliseconds an image: full decode, packing, packing again what is packed."""
    places = write_photos(folder / "photos", count, exponent)
    seconds: list[list[float]] = [[], [], []]
    for number in range(rounds):
        out = folder / str(number)
        seconds[0].append(timed(lambda: plain(places, folder / "plain.npy", workers)))
        for again in (1, 2):
            seconds[again].append(timed(lambda out=out: pack_images(places, out, size=TARGET)))  # type: ignore[misc]
    whole, packed, again_ms = (1000 * statistics.median(times) / count for times in seconds)
    return statistics.mean(file.stat().st_size for file in places.files) / 1000, whole, packed, again_ms


if __name__ == "__main__":
    main()
