"""How often intervals of a stated coverage contain the true distance, in simulated worlds.

    python studies/intervals/coverage.py                # 72 worlds, half a minute of one core
    python studies/intervals/coverage.py --worlds 9

A world is a winding street with landmarks. Calibration images, queries and images from elsewhere are drawn in the same
way and independently. They are exchangeable, so a stated coverage should hold exactly. Descriptors change smoothly with
the position; each image has its own noise level. In every third world a stretch of the street looks like another one.

The table has the percentage of intervals that contain the truth, per stated coverage, and their median width. It has
four groups:

- images that the map is confident of
- all other images that have an interval
- all images, by feature distance alone (`Calibration.predict`)
- distances between two images (`Calibration.pairs`)
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats, Floats32, Ints
from mappable.maps.calibrate import calibrate
from mappable.maps.locate import Locator
from mappable.maps.map import Map
from mappable.places.frames import Frame
from mappable.places.table import Places

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
QUERIES, ELSEWHERE = 750, 300
SIZES = (100, 150, 250, 400, 700, 1500)  # numbers of calibration images; the seed of a world chooses one
LENGTH, LANDMARKS = 400.0, 100
NUMBERS = 96  # of a descriptor
BLURRED = 0.25  # fraction of images with four times the noise
GROUPS = ("confident", "not confident", "retrieved", "pairs")
ENCODER = "made-up"


@dataclass(frozen=True)
class World:
    """A map, and images with positions and descriptors."""

    map: Map
    known: tuple[Floats, Floats32]
    asked: tuple[Floats, Floats32]
    elsewhere: Floats32 | None  # in every second world


@dataclass(frozen=True)
class Held:
    """One group of intervals. Per level: their number, how many contain the truth, and their widths."""

    count: int
    held: Floats  # (levels,)
    widths: Floats  # (levels, count)


def draw_world(seed: int, size: int | None = None, queries: int = QUERIES) -> World:
    """The world with this seed; `size` is the number of calibration images."""
    random = np.random.default_rng([seed, 22])
    dimensions, scale = (2, 3)[seed % 2], random.uniform(6.0, 12.0)
    ways, phase = random.normal(size=(dimensions, NUMBERS)) / scale, random.uniform(0, 2 * np.pi, NUMBERS)
    noise, copied = random.uniform(0.2, 0.5), seed % 3 == 2

    def draw(along: Floats) -> tuple[Floats, Floats32]:
        street = np.column_stack([along, 30 * np.sin(along / 60), 6 * np.sin(along / 35)])[:, :dimensions]
        positions = street + random.normal(size=street.shape) * 0.7
        like = positions.copy()
        like[:, 0] -= np.where(copied & (along > 250) & (along < 350), 200.0, 0.0)
        seen = np.cos(like @ ways + phase) + (0.25 * np.cos(positions @ ways[:, ::-1] + phase) if copied else 0.0)
        blurred = np.where(random.random((len(along), 1)) < BLURRED, 4.0, 1.0)
        seen += noise * blurred * random.lognormal(0.0, 0.4, (len(along), 1)) * random.normal(size=seen.shape)
        return positions, (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)

    at, landmarks = draw(np.linspace(0.0, LENGTH, LANDMARKS))
    count = SIZES[(seed + seed // len(SIZES)) % len(SIZES)] if size is None else size
    known, asked = (draw(random.uniform(0.0, LENGTH, number)) for number in (count, queries))
    elsewhere = draw(random.uniform(2000.0, 2000.0 + LENGTH, ELSEWHERE))[1] if seed % 2 else None
    columns = dict(zip("xyz", at.T, strict=False))
    paths = [f"{row}.jpg" for row in range(len(at))]
    places = Places(path=paths, **columns, frames=Frame("street"), dimensions=3 if seed % 2 else 2)
    return World(Map.build(places, landmarks, ENCODER), known, asked, elsewhere)


def measure(world: World, levels: Sequence[float] = LEVELS) -> dict[str, Held]:
    """Count how many intervals of the queries contain the truth, per group that has images."""
    calibration = calibrate(world.map, world.known[1], world.known[0], elsewhere=world.elsewhere)
    locator = Locator(world.map.with_calibration(calibration))
    positions, descriptors = world.asked
    rows, squared = locator.nearest(descriptors, ENCODER)
    seen = locator.look(rows, squared)
    feature = np.sqrt(seen.evidence.nearest)
    truly = np.linalg.norm(locator.positions[seen.evidence.landmark] - positions, axis=1)
    sure = seen.confident(calibration)
    stated = [locator.judge(rows, squared, seen, level) for level in levels]
    ends = np.array([[(one.low, one.high) for one in same] for same in stated], dtype=np.float64)
    known = np.isfinite(ends).all(axis=(0, 2))
    ends[:, ~known] = 0.0
    found = {
        "confident": _held(ends[:, sure], truly[sure]),
        "not confident": _held(ends[:, known & ~sure], truly[known & ~sure]),
    }
    valid = feature <= calibration.retrieved.furthest
    retrieved = [np.stack(calibration.predict(feature[valid], level)[1:], axis=1) for level in levels]
    found["retrieved"] = _held(np.array(retrieved), truly[valid])
    if calibration.pairs is not None:  # queries have no order, and no image is in two pairs
        first, second = np.arange(len(positions)).reshape(2, -1)
        near = np.concatenate([_pairs(positions, descriptors, first, np.roll(second, by)) for by in range(40)], axis=1)
        near = near[:, (near[0] <= calibration.pairs_valid) & (near[1] <= calibration.response.reach)]
        between = [np.stack(calibration.pairs.predict(near[0], level)[1:], axis=1) for level in levels]
        found["pairs"] = _held(np.array(between), near[1])
    return {name: one for name, one in found.items() if one.count}


def _pairs(positions: Floats, descriptors: Floats32, first: Ints, second: Ints) -> Floats:
    """Feature distances and metres (2, n)."""
    feature = np.sqrt(np.square(descriptors[first] - descriptors[second]).sum(axis=1, dtype=np.float64))
    return np.stack([feature, np.linalg.norm(positions[first] - positions[second], axis=1)])


def _held(ends: Floats, truly: Floats) -> Held:
    low, high = ends[..., 0], ends[..., 1]
    return Held(len(truly), ((low <= truly) & (truly <= high)).sum(axis=1), high - low)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=72)
    parser.add_argument("--size", type=int, help="images to calibrate by (default: 100 to 1500, by world)")
    given = parser.parse_args()
    begun = time.process_time()
    found = [measure(draw_world(seed, given.size)) for seed in range(given.worlds)]
    print(f"| intervals | count | {' | '.join(f'{100 * level:g} %' for level in LEVELS)} | median width at 90 % |")
    print(f"|---{'|---' * (len(LEVELS) + 2)}|")
    for group in GROUPS:
        own = [one[group] for one in found if group in one]
        if not own:
            continue
        count, held = sum(one.count for one in own), np.sum([one.held for one in own], axis=0)
        widths = np.concatenate([one.widths[LEVELS.index(0.9)] for one in own])
        cells = " | ".join(f"{100 * share:.1f}" for share in held / count)
        print(f"| {group} | {count:,} | {cells} | {np.median(widths):.2f} |")
    print(f"\n{given.worlds} worlds of {QUERIES} queries, {time.process_time() - begun:.0f} s of one core")


if __name__ == "__main__":
    main()
