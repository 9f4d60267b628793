"""Time and memory of `Localizer.update`, by the number of landmarks; the encoder is not counted.

    python studies/live/cost.py                           # 100 to 100,000 landmarks of 1,024 numbers
    python studies/live/cost.py --numbers 32768 --landmarks 1000 10000
    python studies/live/cost.py --updates 100000          # memory over that many updates, on 1,000 landmarks

The map is made up: landmarks every 5 m along rows of a winding road, with descriptors that change
smoothly with the position, plus noise. A camera drives along it in steps of 2 m, and is carried off
every 100 images. Times are medians and 99 % quantiles over all updates, on one thread.
"""

import argparse
import gc
import resource
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from threadpoolctl import threadpool_limits

from mappable.arrays import Floats, Floats32
from mappable.localization.fitting import calibrate
from mappable.localization.localizer import Localizer
from mappable.localization.map import Map
from mappable.maps.landmarks import Landmarks
from mappable.odometry import Odometry
from mappable.places.frames import Frame
from mappable.places.table import Places

# Metres, metres, metres over which descriptors change, noise.
SPACING, STEP, SCALE, NOISE = 5.0, 2.0, 8.0, 0.25
ROW, APART = 2000.0, 60.0  # metres: length of a row, and distance between two rows
PIECE = 100  # images after which the camera is carried off
PAGE = resource.getpagesize()


def road(along: Floats, sway: float) -> Floats:
    """Positions (n, 2) along the road, `sway` metres beside it."""
    row = np.floor(along / ROW)
    x = along - row * ROW
    return np.column_stack([x, APART * row + 15 * np.sin(x / 60) + sway])


def describe(positions: Floats, numbers: int, seed: int) -> Floats32:
    """Descriptors (n, numbers) of images at positions (n, 2)."""
    waves, random = np.random.default_rng(0), np.random.default_rng(seed)
    ways, phase = waves.normal(size=(2, numbers)) / SCALE, waves.uniform(0, 2 * np.pi, numbers)
    made = np.empty((len(positions), numbers), dtype=np.float32)
    for start in range(0, len(positions), 1000):
        some = np.cos(positions[start : start + 1000] @ ways + phase)
        some += NOISE * random.standard_normal(some.shape)
        made[start : start + 1000] = some / np.linalg.norm(some, axis=1, keepdims=True)
    return made


def localizer_of(landmarks: int, numbers: int) -> Localizer:
    """A localizer on a calibrated map."""
    at = road(SPACING * np.arange(float(landmarks)), 0.0)
    paths = [f"{row}.jpg" for row in range(landmarks)]
    places = Places(path=paths, x=at[:, 0], y=at[:, 1], frames=Frame("road"), dimensions=2)
    bare = Landmarks.build(places, describe(at, numbers, 1), "made-up")
    known = road(np.linspace(0, min(SPACING * landmarks, 1000.0), 300), 0.5)
    table = Places(
        path=[f"known/{row}.jpg" for row in range(len(known))],
        x=known[:, 0],
        y=known[:, 1],
        frames=Frame("road"),
    )
    fitted = calibrate(bare, (table, describe(known, numbers, 2)))
    return Localizer(Map(bare.with_calibration(fitted)))


def drive(localizer: Localizer, numbers: int, updates: int, odometry: bool) -> dict[str, float]:
    """Follow a camera; milliseconds per update, and how many estimates are trusted and right."""
    random, length = np.random.default_rng(4), SPACING * len(localizer.map)
    start = np.repeat(
        random.uniform(0, max(length - PIECE * STEP, 1.0), -(-updates // PIECE)), PIECE
    )[:updates]
    truth = road(np.minimum(start + STEP * (np.arange(updates) % PIECE), length), 0.5)
    wall, cpu, right, trusted = [], [], 0, 0
    for begin in range(0, updates, 1000):
        seen = describe(truth[begin : begin + 1000], numbers, 5 + begin)
        for n, descriptor in enumerate(seen, begin):
            off = truth[n] - truth[n - 1] if n % PIECE else np.zeros(2)
            moved = Odometry(float(off[0]), float(off[1]), 0.0) if odometry else None
            begun, used = perf_counter(), process_time()
            found = localizer.update(descriptor, float(n), moved)
            wall.append(perf_counter() - begun)
            cpu.append(process_time() - used)
            trusted += found.trusted
            right += found.trusted and bool(
                np.linalg.norm(np.array(found.position) - truth[n]) < 10
            )
    return {
        "median": 1e3 * float(np.median(wall)),
        "99 %": 1e3 * float(np.quantile(wall, 0.99)),
        "CPU median": 1e3 * float(np.median(cpu)),
        "trusted": trusted / updates,
        "right": right / max(1, trusted),
    }


def megabytes() -> float:
    """Memory of this process now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--landmarks", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--numbers", type=int, default=1024)
    parser.add_argument("--updates", type=int, help="measure memory over this many updates")
    given = parser.parse_args()
    with threadpool_limits(1):
        if given.updates:
            localizer, done = localizer_of(1000, given.numbers), 0
            while done < given.updates:
                drive(localizer, given.numbers, 10_000, odometry=done % 20_000 > 0)
                localizer._time = None  # the clock starts again
                done += 10_000
                print(f"{done:,} updates: {megabytes():.1f} MB", flush=True)
            return
        print(
            "| landmarks | odometry | median, ms | 99 %, ms | CPU median, ms | trusted, % | of them"
            " right, % |"
        )
        print("|---|---|---|---|---|---|---|")
        for landmarks in given.landmarks:
            localizer = localizer_of(landmarks, given.numbers)
            for odometry in (False, True):
                localizer.reset()
                found = drive(localizer, given.numbers, 500, odometry)
                numbers = f"{found['median']:.2f} | {found['99 %']:.2f} | {found['CPU median']:.2f}"
                shares = f"{100 * found['trusted']:.0f} | {100 * found['right']:.1f}"
                print(
                    f"| {landmarks:,} | {'yes' if odometry else 'no'} | {numbers} | {shares} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
