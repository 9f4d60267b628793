"""Accuracy of recovery without known positions: erratic paths with good ranges, and a city of 1,500 images.

    python studies/recovery/erratic.py                 # erratic paths of 80 images, 20 each; 15 CPU seconds
    python studies/recovery/erratic.py --city          # and a city; scikit-learn, if installed, takes minutes

An erratic path has steps of 1 m. Its directions are random, or each turns from the one before: sharply (about 70
degrees) or less (about 45 degrees). Ranges up to 8 m have a noise of 0.05 m, and none is false.

Errors are after the best rigid alignment. "determined" is the error of a fit that starts at the true positions. A map
with an error above 0.5 m is "unsaid" if `undetermined` does not report it. A report names another map, a doubt, or at
least half of that error. To measure another version, set PYTHONPATH to its src.
"""

import argparse
import importlib
import importlib.util
import os
import re
import statistics
import time
from collections.abc import Callable

os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # before numpy starts its threads

import numpy as np
from scipy.optimize import least_squares

from mappable.arrays import Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.matrices.sdp import geodesics
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.unanchored.pipeline import recover
from simulated_ranges import NOISES, measure, route

# Scale of the random vector that is added to a unit direction.
TURNS = {"random": np.inf, "sharp turns": 1.2, "turns": 0.8}
COUNT, RADIUS, SIGMA = 80, 8.0, 0.05  # images; metres
FAR = 0.5  # metres of error that the result should report
DOUBTS = ("left or right", "loosely", "Another map", "far off", "times what their sigma says")
STATED = re.compile(r"determine the shape.* to about ([0-9.e+-]+) m")
CITY, CITY_SEEDS = 1500, 5


def erratic_path(kind: str, dimensions: int, seed: int, count: int = COUNT) -> Floats:
    """Positions (count, k) with steps of 1 m."""
    rng = np.random.default_rng([seed, dimensions, list(TURNS).index(kind)])
    directions = np.empty((count - 1, dimensions))
    heading = np.zeros(dimensions)
    for number in range(count - 1):
        turn = rng.normal(0, 1 / np.sqrt(dimensions - 1), dimensions)
        heading = turn if np.isinf(TURNS[kind]) or not number else heading + TURNS[kind] * turn
        heading /= np.linalg.norm(heading)
        directions[number] = heading
    return np.concatenate([np.zeros((1, dimensions)), directions.cumsum(0)])


def good_ranges(positions: Floats, seed: int) -> Ranges:
    """Ranges of all pairs up to 8 m apart, with noise and without false ones."""
    i, j = np.triu_indices(len(positions), 1)
    true = np.linalg.norm(positions[i] - positions[j], axis=1)
    near = true <= RADIUS
    noise = np.random.default_rng([seed, 1]).normal(0, SIGMA, near.sum())
    return Ranges(len(positions), i[near], j[near], np.abs(true[near] + noise), SIGMA)


def determined(ranges: Ranges, positions: Floats) -> float:
    """The error of the best fit near the true positions, found by SciPy."""

    def residuals(flat: Floats) -> Floats:
        points = flat.reshape(positions.shape)
        lengths = np.linalg.norm(points[ranges.i] - points[ranges.j], axis=1)
        off: Floats = (lengths - ranges.metres) / ranges.sigma
        return off

    def slopes(flat: Floats) -> Floats:
        points = flat.reshape(positions.shape)
        apart = points[ranges.i] - points[ranges.j]
        apart /= (np.linalg.norm(apart, axis=1) * ranges.sigma)[:, None]
        full = np.zeros((len(ranges), *positions.shape))
        full[np.arange(len(ranges)), ranges.i] = apart
        full[np.arange(len(ranges)), ranges.j] = -apart
        return full.reshape(len(ranges), -1)

    found = least_squares(residuals, positions.ravel(), slopes, method="trf", tr_solver="lsmr", max_nfev=30).x
    return aligned_score(found.reshape(positions.shape), positions, scale=False).rmse


def is_said(recovered: Recovered, error: float) -> bool:
    """True if the result reports an error of this size."""
    text = "\n".join(recovered.undetermined)
    stated = STATED.search(text)
    return any(doubt in text for doubt in DOUBTS) or (stated is not None and float(stated[1]) >= error / 2)


def erratic(seeds: int) -> None:
    print(f"erratic paths of {COUNT} images, ranges up to {RADIUS:g} m, sigma {SIGMA:g} m, {seeds} seeds; metres")
    print(f"{'':24}{'determined':>11}{'median':>9}{'highest':>9}{'over 0.5':>10}{'unsaid':>8}{'CPU ms':>8}")
    for dimensions in (2, 3):
        for kind in TURNS:
            errors, seconds, unsaid, limits = [], [], 0, []
            for seed in range(seeds):
                positions = erratic_path(kind, dimensions, seed)
                ranges = good_ranges(positions, seed)
                begun = time.process_time()
                recovered = recover(ranges, dimensions)
                seconds.append(time.process_time() - begun)
                errors.append(aligned_score(recovered.positions, positions, scale=False).rmse)
                unsaid += errors[-1] > FAR and not is_said(recovered, errors[-1])
                limits.append(determined(ranges, positions))
            print(
                f"{dimensions}-D, {kind:19}{statistics.median(limits):11.3f}{statistics.median(errors):9.3f}"
                f"{max(errors):9.3f}{sum(error > FAR for error in errors):10}{unsaid:8}"
                f"{1e3 * statistics.mean(seconds):8.1f}",
                flush=True,
            )


def city() -> None:
    print(
        f"\n{CITY:,} images of a city, mid noise, error in % of the length after alignment with scale, and CPU seconds"
    )
    methods: dict[str, Callable[[Ranges], Floats]] = {"mappable.recover": lambda ranges: recover(ranges).positions}
    if importlib.util.find_spec("sklearn") is not None:
        methods["scikit-learn MDS"] = sklearn_mds
    errors: dict[str, list[float]] = {name: [] for name in methods}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for seed in range(CITY_SEEDS):
        positions = route("city", CITY, seed=seed, length=float(CITY))
        ranges = measure(positions, NOISES["mid"], seed=seed)
        for name, run in methods.items():
            begun = time.process_time()
            found = run(ranges)
            seconds[name].append(time.process_time() - begun)
            errors[name].append(aligned_score(found, positions).of_length)
    for name in methods:
        each = "".join(f"{error:7.2f}" for error in errors[name])
        print(
            f"{name:20}{each}   median {statistics.median(errors[name]):.2f}   {statistics.mean(seconds[name]):.2f} s"
        )


def sklearn_mds(ranges: Ranges) -> Floats:
    """Multidimensional scaling of shortest paths, with four random starts."""
    mds = importlib.import_module("sklearn.manifold").MDS(metric="precomputed", n_init=4, init="random", random_state=0)
    positions: Floats = mds.fit_transform(np.sqrt(geodesics(ranges)))
    return positions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="paths per kind")
    parser.add_argument("--city", action="store_true", help="also recover a city")
    given = parser.parse_args()
    erratic(given.seeds)
    if given.city:
        city()


if __name__ == "__main__":
    main()
