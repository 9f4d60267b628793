"""How long recovery without known positions takes and how good it is, beside what one would use instead.

Run it with `python benchmarks/recovery.py`; it takes some minutes, nearly all of them in the semidefinite programs.
Every run is in a process of its own on one thread: CPU seconds of the method alone, behind a small run that imports
what it needs, and how much its memory grew. The semidefinite programs need `mappable[sdp]`, two rows scikit-learn.
"""

import importlib
import importlib.util
import os
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.completion import geodesics
from mappable.recovery.mds import classical_mds
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.sdp import sdp_frobenius, sdp_trace
from mappable.recovery.simulator import NOISES, Kind, measure, route

LENGTH = 672.0  # metres
# Points, radius of the ranges (at 100 points more than 10 m, for else they are a bare chain), seeds.
SMALL = ((100, 3.4 * LENGTH / 99, 5), (200, 10.0, 1))
CITIES = (10_000, 30_000, 100_000)


def ours(ranges: Ranges) -> Floats:
    return recover(ranges).positions


def paths(ranges: Ranges) -> Floats:
    return classical_mds(geodesics(ranges), 2)


def frobenius(ranges: Ranges) -> Floats:
    return sdp_frobenius(*matrix(ranges), 2, limit=ranges.count).positions


def trace(ranges: Ranges) -> Floats:
    return sdp_trace(*matrix(ranges), 2, limit=ranges.count).positions


def sklearn_isomap(ranges: Ranges) -> Floats:
    squared, mask = matrix(ranges)
    radius = ranges.metres.max()
    isomap = importlib.import_module("sklearn.manifold").Isomap(n_neighbors=None, radius=radius, metric="precomputed")
    positions: Floats = isomap.fit_transform(np.where(mask, np.sqrt(squared), 1e6))
    return positions


def sklearn_mds(ranges: Ranges) -> Floats:
    """It knows no masks: what is missing is the shortest path. Started at random four times, as it was for long."""
    mds = importlib.import_module("sklearn.manifold").MDS(metric="precomputed", n_init=4, init="random", random_state=0)
    positions: Floats = mds.fit_transform(np.sqrt(geodesics(ranges)))
    return positions


def matrix(ranges: Ranges) -> tuple[Floats, Bools]:
    """Squared distances and the mask of those that are known."""
    squared, mask = np.zeros((ranges.count, ranges.count)), np.eye(ranges.count, dtype=bool)
    squared[ranges.i, ranges.j] = squared[ranges.j, ranges.i] = np.square(ranges.metres)
    mask[ranges.i, ranges.j] = mask[ranges.j, ranges.i] = True
    return squared, mask


METHODS: dict[str, tuple[Callable[[Ranges], Floats], str]] = {  # and the package that it needs
    "mappable.recover": (ours, "numpy"),
    "paper's SDP (Frobenius), SCS": (frobenius, "cvxpy"),
    "SDP in trace form, SCS": (trace, "cvxpy"),
    "shortest paths, classical MDS": (paths, "numpy"),
    "scikit-learn Isomap": (sklearn_isomap, "sklearn"),
    "scikit-learn MDS on paths": (sklearn_mds, "sklearn"),
}


@dataclass(frozen=True)
class Run:
    seconds: float
    megabytes: float
    of_length: float
    of_gyration: float


def apart(name: str, positions: Floats, ranges: Ranges) -> Run:
    """A run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ranges.npz")
        np.savez(file, positions=positions, i=ranges.i, j=ranges.j, metres=ranges.metres, sigma=ranges.sigma)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(in_child, name, str(file)).result()


def in_child(name: str, file: str) -> Run:
    warnings.simplefilter("ignore")
    method = METHODS[name][0]
    method(measure(route("loop", 60, seed=0, length=100.0), NOISES["mid"], seed=0))
    with np.load(file) as data:
        positions = data["positions"]
        ranges = Ranges(len(positions), data["i"], data["j"], data["metres"], data["sigma"])
    before, start = peak(), time.process_time()
    found = method(ranges)
    seconds, grown = time.process_time() - start, peak() - before
    score = aligned_score(found, positions)
    return Run(seconds, grown, score.of_length, score.of_gyration)


def peak() -> float:
    """The most memory, in megabytes, that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def small() -> None:
    """Beside others, where these can be run at all."""
    for count, radius, seeds in SMALL:
        print(f"\n{count} points on {LENGTH:.0f} m, ranges up to {radius:.1f} m with mid noise, {seeds} seed(s)")
        print(
            "error in % of the length, aligned with scale"
            + f"{'loop':>12}{'open':>8}{'CPU s':>10}{'MB':>7}{'ratio':>9}"
        )
        worlds = {kind: [(route(kind, count, seed=seed), seed) for seed in range(seeds)] for kind in ("loop", "open")}
        trivial = {kind: [trivial_rows(positions) for positions, _ in world] for kind, world in worlds.items()}
        for row in trivial["loop"][0]:
            errors = (statistics.median(each[row].of_length for each in trivial[kind]) for kind in worlds)
            print(f"  {row:42}" + "".join(f"{error:{width}.2f}" for error, width in zip(errors, (12, 8), strict=True)))
        seconds: dict[str, float] = {}
        for name, (_, package) in METHODS.items():
            if importlib.util.find_spec(package) is None:
                print(f"  {name:42}  left out: {package} is not installed")
                continue
            runs = {
                kind: [
                    apart(name, positions, measure(positions, NOISES["mid"], seed=seed, radius=radius))
                    for positions, seed in world
                ]
                for kind, world in worlds.items()
            }
            every = [run for some in runs.values() for run in some]
            seconds[name] = statistics.median(run.seconds for run in every)
            errors = (statistics.median(run.of_length for run in some) for some in runs.values())
            print(
                f"  {name:42}"
                + "".join(f"{error:{width}.2f}" for error, width in zip(errors, (12, 8), strict=True))
                + f"{seconds[name]:10.3f}{statistics.median(run.megabytes for run in every):7.0f}"
                + f"{seconds[name] / seconds['mappable.recover']:9.1f}",
                flush=True,
            )


def large() -> None:
    """Where others cannot: cities, and a sequence so dense that keyframes carry it."""
    print("\nmappable.recover, mid noise, 10 % of the ranges missing and 1 % false")
    print(f"{'':22}{'edges':>12}{'CPU s':>9}{'MB':>7}{'% length':>10}{'% gyration':>12}{'point':>8}{'circle':>8}")
    edges, seconds = [], []
    rows: list[tuple[Kind, int, float]] = [("city", count, float(count)) for count in CITIES]
    for kind, count, length in [*rows, ("loop", 10_000, LENGTH)]:
        positions = route(kind, count, seed=0, length=length)
        ranges = measure(positions, NOISES["mid"], seed=0, missing=0.1, outliers=0.01)
        run, trivial = apart("mappable.recover", positions, ranges), trivial_rows(positions)
        print(
            f"{kind:6}{count:>9,} points{len(ranges):12,}{run.seconds:9.2f}{run.megabytes:7.0f}{run.of_length:10.2f}"
            f"{run.of_gyration:12.1f}{trivial['point'].of_length:8.2f}{trivial['circle'].of_length:8.2f}",
            flush=True,
        )
        if kind == "city":
            edges.append(len(ranges))
            seconds.append(run.seconds)
    print(f"time in cities grows with edges^{np.polyfit(np.log(edges), np.log(seconds), 1)[0]:.2f}")


def main() -> None:
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # for the processes started from here
    small()
    large()


if __name__ == "__main__":
    main()
