"""Time to index 30,000 COLD images by their names, compared with a plain loop.

    python benchmarks/cold_names.py

The files are empty, because indexing reads only names.
"""

import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mappable.places.readers import read_places

IMAGES = 30_000
TARGET_SECONDS = 2.0
ROUNDS = 5
SEQUENCES = [f"seq{path}_{condition}{run}" for path in (1, 2) for condition in ("cloudy", "night") for run in (1, 2, 3)]


def make_names(root: Path) -> int:
    """Write about as many sequences of empty images as the paper trains on, and return the number of images."""
    rng = np.random.default_rng(0)
    each = IMAGES // len(SEQUENCES)
    for number, sequence in enumerate(SEQUENCES):
        folder = root / "freiburg" / sequence / "std_cam"
        folder.mkdir(parents=True)
        seconds = 1152886490 + 7200 * number + 0.2 * np.arange(each) + rng.uniform(0, 0.01, each)
        x, y = rng.normal(0, 0.05, (2, each)).cumsum(axis=1)
        yaw = rng.uniform(-np.pi, np.pi, each)
        for name in zip(seconds, x, y, yaw, strict=True):
            (folder / "t{:.6f}_x{:.6f}_y{:.6f}_a{:.6f}.jpeg".format(*name)).touch()
    return each * len(SEQUENCES)


def index_with_mappable(root: Path) -> int:
    """Read the whole table: checked, in time order, with frames, sequences, conditions and ids."""
    return len(read_places("cold", root))


def index_with_a_plain_loop(root: Path) -> int:
    """Collect paths and four numbers per image, without checks or order."""
    rows = []
    for file in root.rglob("*.jpeg"):
        match = re.match(r"t(.+)_x(.+)_y(.+)_a(.+)\.jpeg", file.name)
        if match:
            rows.append((str(file), *[float(number) for number in match.groups()]))
    return len(rows)


def seconds_of(index: Callable[[Path], int], root: Path, images: int) -> float:
    start = time.perf_counter()
    found = index(root)
    seconds = time.perf_counter() - start
    if found != images:
        raise RuntimeError(f"{index.__name__} found {found} images of {images}")
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        images = make_names(root)
        ways = [index_with_mappable, index_with_a_plain_loop]
        taken: dict[str, list[float]] = {way.__name__: [] for way in ways}
        for way in ways:
            seconds_of(way, root, images)  # warms up imports and the system's cache
        for _ in range(ROUNDS):
            for way in ways:
                taken[way.__name__].append(seconds_of(way, root, images))
    ours, plain = (statistics.median(taken[way.__name__]) for way in ways)
    print(f"{images:,} COLD names in {len(SEQUENCES)} sequences, median of {ROUNDS} rounds")
    print(f"{'read_places (the whole table)':32}{ours:8.3f} s")
    print(f"{'plain loop (paths and floats)':32}{plain:8.3f} s")
    print(f"{'ratio':32}{ours / plain:8.2f}")
    print(f"target of {TARGET_SECONDS:g} s: {'met' if ours < TARGET_SECONDS else 'MISSED'}")


if __name__ == "__main__":
    main()
