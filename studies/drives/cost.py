"""Time and memory of locating a drive: the filter over places, next to a plain forward-backward pass with NumPy.

    python studies/drives/cost.py

The plain pass is what a user would write: a dense matrix of moves between all landmarks, Gaussian
in the distance, and evidence from feature distances. It has no steps, no intervals, and no state
"not on the map". Both run on the same made-up route. Times are CPU seconds of one run, search
included. Memory is the growth of the peak (Linux only).
"""

import time
from pathlib import Path

import numpy as np

from mappable.arrays import Floats, Floats32
from mappable.features.descriptors import Described
from mappable.localization.build import build_map_of
from mappable.localization.map import Map
from mappable.places.frames import Frame
from mappable.places.table import Places

SIZES = ((1_000, 1_000, 32_768), (10_000, 10_000, 512))  # images, landmarks, numbers per descriptor
SPACING = 5.0  # metres between landmarks
# Landmarks up to which the plain pass runs: its matrix of moves grows with the square.
DENSE = 2_000


def describe(positions: Floats, dimensions: int, seed: int) -> Floats32:
    """Descriptors of length one that change smoothly along a route, with noise."""
    waves = np.random.default_rng(0)
    ways, phase = waves.normal(size=(2, dimensions)) / 8.0, waves.uniform(0, 2 * np.pi, dimensions)
    noise = np.random.default_rng(seed).normal(size=(len(positions), dimensions)).astype(np.float32)
    seen = np.cos(positions @ ways + phase).astype(np.float32) + np.float32(0.5) * noise
    unit: Floats32 = seen / np.linalg.norm(seen, axis=1, keepdims=True)
    return unit


def route(count: int, length: float, aside: float) -> Floats:
    """Positions (count, 2) along a winding route."""
    along = np.linspace(0.0, length, count)
    return np.column_stack([along, 40 * np.sin(along / 200) + aside])


def built(landmarks: int, dimensions: int) -> Map:
    """A calibrated map: every second place of the first visit is a landmark, 400 images of a second
    one calibrate.
    """
    length = landmarks * SPACING
    at = np.concatenate([route(landmarks, length, 0.0), route(400, 400 * SPACING / 2, 1.0)])
    split = ["train"] * landmarks + ["calibration"] * 400
    names = [f"{one}/{row}.jpg" for row, one in enumerate(split)]
    places = Places(
        path=names, x=at[:, 0], y=at[:, 1], frames=Frame("made-up"), split=split, sequence=split
    )
    described = Described(places, describe(at, dimensions, 1))
    return build_map_of(described, "made-up", every=True)


def plain_pass(opened: Map, descriptors: Floats32) -> Floats:
    """Positions (n, k) by a dense forward-backward pass."""
    landmarks = opened.landmarks
    at = landmarks.places.positions
    apart = np.linalg.norm(at[:, None] - at, axis=2)
    moves = np.exp(-0.5 * np.square(apart / (2 * SPACING))) + 1e-6
    moves /= moves.sum(1, keepdims=True)
    squared = 2 - 2 * descriptors @ landmarks.store.take(np.arange(len(at))).T
    like = np.exp(-(squared - squared.min(1, keepdims=True)) / 0.1).astype(np.float64)
    forward, backward = np.empty_like(like), np.ones_like(like)
    forward[0] = like[0] / like[0].sum()
    for n in range(1, len(like)):
        forward[n] = like[n] * (forward[n - 1] @ moves)
        forward[n] /= forward[n].sum()
    for n in range(len(like) - 2, -1, -1):
        backward[n] = moves @ (like[n + 1] * backward[n + 1])
        backward[n] /= backward[n].max()
    chance = forward * backward
    found: Floats = at[chance.argmax(1)]
    return found


def filtered(opened: Map, descriptors: Floats32) -> Floats:
    """Positions (n, k) by the filter over places."""
    found = opened.locate_drive(descriptors)
    return np.array([one.coordinates for one in found])


def peak(reset: bool = False) -> float:
    """Peak memory of this process in MB since the last reset; Linux only."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return float(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    for images, count, dimensions in SIZES:
        landmarks = built(count, dimensions)
        true = route(images, count * SPACING, 0.5)
        seen = describe(true, dimensions, 2)
        print(f"{images:,} images, {count:,} landmarks, {dimensions:,} numbers per descriptor")
        ways = {"filter over places": filtered} | (
            {"plain pass, NumPy": plain_pass} if count <= DENSE else {}
        )
        for name, locate in ways.items():
            before, start = peak(reset=True), time.process_time()
            error = np.linalg.norm(locate(landmarks, seen) - true, axis=1)
            cpu, grown = time.process_time() - start, peak() - before
            print(
                f"  {name:20} {cpu:6.2f} CPU s  {grown:6.0f} MB  median error"
                f" {np.median(error):.2f} m"
            )


if __name__ == "__main__":
    main()
