"""Speed of packing a folder of 1280x960 JPEGs at 240x180, compared with a plain Pillow decode and resize.

    python studies/packing/packing.py [--images 200] [--rounds 5]

Three methods process the same files on the same cores: a plain loop, the loop with as many threads
as packing has, and packing. Each writes the pixels to one file on disk. Rounds are interleaved in
one process; medians are compared. The possible gain depends on the detail in the files, because
entropy decoding cannot be scaled. Usual collections have between a tenth and a third of a byte per
pixel. The goal is judged at a fifth (about 250 kB); both ends are also measured. The images are
noise whose amplitude falls with frequency as in photographs; the rate sets the detail.
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

from mappable.places import Frame, Places, pack_images

SOURCE, TARGET = (1280, 960), (240, 180)
GOAL = 2.5
DETAIL = {
    "0.1 byte a pixel": 1.8,
    "0.2 byte a pixel": 1.52,
    "0.35 byte a pixel": 1.28,
}  # exponents of the decay with frequency
JUDGED = "0.2 byte a pixel"


def write_photos(folder: Path, count: int, exponent: float) -> Places:
    """`count` JPEGs of quality 90, each with its own noise in brightness and, weaker, in color."""
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
        path=paths,
        x=np.arange(count, dtype=np.float64),
        y=np.zeros(count),
        frames=Frame("none"),
        root=folder,
    )


def plain(places: Places, out: Path, workers: int) -> None:
    """The plain loop: open, decode at full size, convert, resize, save the stack."""

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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    print(
        f"{arguments.images} JPEGs, {SOURCE[0]}x{SOURCE[1]} to {TARGET[0]}x{TARGET[1]}; {workers}"
        " cores; ms per image"
    )
    print(
        f"{'':18}{'kB':>5}{'plain loop':>12}{'threaded':>10}{'packing':>9}{'ratio':>7}{'again':>7}"
    )
    for name, exponent in DETAIL.items():
        with tempfile.TemporaryDirectory() as temporary:
            kilobytes, times = compare(
                Path(temporary), exponent, arguments.images, arguments.rounds, workers
            )
        serial, threaded, packed, again = times
        ratio = threaded / packed
        print(
            f"{name:18}{kilobytes:>5.0f}{serial:>12.2f}{threaded:>10.2f}{packed:>9.2f}{ratio:>7.2f}{again:>7.2f}"
        )
        if name == JUDGED:
            verdict = f"{'met' if ratio >= GOAL else 'MISSED'} ({ratio:.2f})"
    print(
        f"goal at {JUDGED}: packing at least {GOAL} times as fast as full decoding with as many"
        f" threads: {verdict}"
    )


def compare(
    folder: Path, exponent: float, count: int, rounds: int, workers: int
) -> tuple[float, list[float]]:
    """Mean size in kB, and median ms per image of the plain loop, the loop with threads, packing,
    and packing again.
    """
    places = write_photos(folder / "photos", count, exponent)
    seconds: list[list[float]] = [[], [], [], []]
    for number in range(rounds):
        out = folder / str(number)
        for threads, times in ((1, seconds[0]), (workers, seconds[1])):
            times.append(
                timed(lambda threads=threads: plain(places, folder / "plain.npy", threads))
            )  # type: ignore[misc]
        for times in seconds[2:]:
            times.append(timed(lambda out=out: pack_images(places, out, size=TARGET)))  # type: ignore[misc]
    kilobytes = statistics.mean(file.stat().st_size for file in places.files) / 1000
    return kilobytes, [1000 * statistics.median(times) / count for times in seconds]


if __name__ == "__main__":
    main()
