"""Time and accuracy of recovery without known positions, compared with the alternatives.

    python benchmarks/recovery.py

The semidefinite programs are solved to a relative duality gap of 1e-7. Last, sdp.py compares their solvers. Every
method runs in its own process on one thread, after a small run that imports what it needs. The table has the CPU
seconds of the method alone, and the peak growth of its memory. Two rows need scikit-learn.
"""

import importlib
import importlib.util
import os
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from learned_noise import learned_profile, measure_learned
from mappable.arrays import Bools, Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.matrices.sdp import geodesics, sdp_frobenius, sdp_trace
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.filtering import common_neighbor_filter
from mappable.recovery.unanchored.mds import classical_mds, landmark_geodesic_mds
from mappable.recovery.unanchored.pipeline import recover
from mappable.recovery.unanchored.smacof import sparse_smacof
from simulated_ranges import NOISES, Kind, measure, route

LENGTH = 672.0  # metres
RADIUS, LEAST_STEPS = 10.0, 3.4  # metres; smallest reach of ranges in steps, because shorter ranges form a bare chain
LEARNED = "learned"
SEEDS = 5
ALIASED_FROM, ALIASED_SEEDS = 300, 16  # nothing was tuned on these
KINDS: tuple[Kind, ...] = ("loop", "open")
CLEAR = Path("/proc/self/clear_refs")
CITIES = (10_000, 30_000, 100_000)


def ours(ranges: Ranges) -> Floats:
    return recover(ranges).positions


def paths(ranges: Ranges) -> Floats:
    return classical_mds(geodesics(ranges), 2)


def frobenius(ranges: Ranges) -> Floats:
    return sdp_frobenius(*matrix(ranges), 2).positions


def trace(ranges: Ranges) -> Floats:
    return sdp_trace(*matrix(ranges), 2).positions


def sklearn_isomap(ranges: Ranges) -> Floats:
    squared, mask = matrix(ranges)
    radius = ranges.metres.max()
    isomap = importlib.import_module("sklearn.manifold").Isomap(n_neighbors=None, radius=radius, metric="precomputed")
    positions: Floats = isomap.fit_transform(np.where(mask, np.sqrt(squared), 1e6))
    return positions


def sklearn_mds(ranges: Ranges) -> Floats:
    """It has no masks, so shortest paths replace missing distances. Four random starts, its former default."""
    mds = importlib.import_module("sklearn.manifold").MDS(metric="precomputed", n_init=4, init="random", random_state=0)
    positions: Floats = mds.fit_transform(np.sqrt(geodesics(ranges)))
    return positions


def matrix(ranges: Ranges) -> tuple[Floats, Bools]:
    """Squared distances, and a mask of the known ones."""
    squared, mask = np.zeros((ranges.count, ranges.count)), np.eye(ranges.count, dtype=bool)
    squared[ranges.i, ranges.j] = squared[ranges.j, ranges.i] = np.square(ranges.metres)
    mask[ranges.i, ranges.j] = mask[ranges.j, ranges.i] = True
    return squared, mask


OURS = "mappable.recover"
METHODS: dict[str, tuple[Callable[[Ranges], Floats], str]] = {  # and the package that the method needs
    OURS: (ours, "numpy"),
    "the paper's SDP (Frobenius)": (frobenius, "numpy"),
    "the SDP in trace form": (trace, "numpy"),
    "shortest paths, classical MDS": (paths, "numpy"),
    "scikit-learn Isomap": (sklearn_isomap, "sklearn"),
    "scikit-learn MDS on paths": (sklearn_mds, "sklearn"),
}
SMALL = ((100, "mid"), (100, LEARNED), (200, "mid"), (200, LEARNED))  # points and noise


@dataclass(frozen=True)
class Run:
    seconds: float
    megabytes: float
    of_length: float
    of_gyration: float


def apart(name: str, worlds: Sequence[tuple[Floats, Ranges]]) -> list[Run]:
    """Runs one after the other in their own process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(warm_up, name).result()
        return [pool.submit(in_child, name, positions, ranges).result() for positions, ranges in worlds]


def warm_up(name: str) -> None:
    """Run a small case, which imports what the method needs."""
    warnings.simplefilter("ignore")
    METHODS[name][0](measure(route("loop", 25, seed=0, length=100.0), NOISES["mid"], seed=0, radius=15.0))


def in_child(name: str, positions: Floats, ranges: Ranges) -> Run:
    forget_peak()
    before, start = peak(), time.process_time()
    found = METHODS[name][0](ranges)
    seconds, grown = time.process_time() - start, peak() - before
    score = aligned_score(found, positions)
    return Run(seconds, grown, score.of_length, score.of_gyration)


def forget_peak() -> None:
    """Reset the peak of memory, if the system can."""
    if CLEAR.exists():
        CLEAR.write_text("5")


def peak() -> float:
    """The peak memory of this process in megabytes since the reset."""
    if CLEAR.exists():  # getrusage reports at least the memory of the parent process
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def measured(positions: Floats, noise: str, seed: int) -> Ranges:
    if noise == LEARNED:
        return measure_learned(positions, learned_profile(), seed=seed)
    radius = max(RADIUS, LEAST_STEPS * LENGTH / (len(positions) - 1))
    return measure(positions, NOISES[noise], seed=seed, radius=radius)


def small() -> None:
    """Compare with other methods, on problems that these can solve."""
    for count, noise in SMALL:
        print(f"\n{count} points on {LENGTH:.0f} m, {noise} noise; medians over seeds")
        print(
            f"{'error in % of the length, aligned with scale':46}{'loop':>8}{'open':>8}{'CPU s':>10}{'MB':>6}"
            f"{'times ours':>12}{'worse than ours':>18}"
        )
        routes = {kind: [route(kind, count, seed=seed) for seed in range(SEEDS)] for kind in KINDS}
        trivial = {kind: [trivial_rows(positions) for positions in own] for kind, own in routes.items()}
        for row in trivial["loop"][0]:
            errors = (statistics.median(each[row].of_length for each in trivial[kind]) for kind in KINDS)
            print(f"  {row:44}" + "".join(f"{error:8.2f}" for error in errors))
        found: dict[str, dict[Kind, list[Run]]] = {}
        for name, (_, package) in METHODS.items():
            if importlib.util.find_spec(package) is None:
                print(f"  {name:44}  skipped: {package} is not installed")
            else:
                worlds = [
                    (positions, measured(positions, noise, seed))
                    for kind in KINDS
                    for seed, positions in enumerate(routes[kind])
                ]
                runs = apart(name, worlds)
                found[name] = {kind: runs[number * SEEDS :][:SEEDS] for number, kind in enumerate(KINDS)}
                print(f"  {name:44}" + compared(found[name], found[OURS]), flush=True)


def compared(runs: dict[Kind, list[Run]], own: dict[Kind, list[Run]]) -> str:
    """A table row: medians, and how often these runs are worse than ours on the same routes."""
    every = [run for kind in KINDS for run in runs[kind]]
    same = [run for kind in KINDS for run in own[kind][: len(runs[kind])]]
    worse = sum(one.of_length > two.of_length for one, two in zip(every, same, strict=True))
    seconds, our_seconds = (statistics.median(run.seconds for run in some) for some in (every, same))
    return (
        "".join(f"{statistics.median(run.of_length for run in runs[kind]):8.2f}" for kind in KINDS)
        + f"{seconds:10.3f}{max(run.megabytes for run in every):6.0f}{seconds / our_seconds:12.1f}"
        + f"{f'{worse} of {len(every)}':>18}"
    )


def large() -> None:
    """Problems that the others cannot solve: cities, and a dense sequence that needs keyframes."""
    print("\nmappable.recover, 10 % of the ranges missing; with mid noise, 1 % false")
    print(f"{'':30}{'edges':>12}{'CPU s':>9}{'MB':>7}{'% length':>10}{'% gyration':>12}{'point':>8}{'circle':>8}")
    edges, seconds = [], []
    cities: list[tuple[Kind, int, float, str]] = [("city", count, float(count), "mid") for count in CITIES]
    for kind, count, length, noise in [
        *cities,
        ("loop", 10_000, LENGTH, "mid"),
        ("city", CITIES[0], float(CITIES[0]), LEARNED),
    ]:
        positions = route(kind, count, seed=0, length=length)
        if noise == LEARNED:
            ranges = measure_learned(positions, learned_profile(), seed=0, missing=0.1)
        else:
            ranges = measure(positions, NOISES[noise], seed=0, missing=0.1, outliers=0.01)
        (run,), trivial = apart(OURS, [(positions, ranges)]), trivial_rows(positions)
        print(
            f"{kind:6}{count:>9,} points {noise:7}{len(ranges):12,}{run.seconds:9.2f}{run.megabytes:7.0f}"
            f"{run.of_length:10.2f}{run.of_gyration:12.1f}"
            f"{trivial['point'].of_length:8.2f}{trivial['circle'].of_length:8.2f}",
            flush=True,
        )
        if (kind, noise) == ("city", "mid"):
            edges.append(len(ranges))
            seconds.append(run.seconds)
    print(f"time in cities grows with edges^{np.polyfit(np.log(edges), np.log(seconds), 1)[0]:.2f}")


def aliased() -> None:
    """Routes with stretches that look alike: `recover`, with and without the filter of whole closures."""
    print(f"\nloop of 400 points on {LENGTH:.0f} m, 10 % of the ranges missing, {ALIASED_SEEDS} seeds, % of the length")
    print(f"{'noise':8}{'aliased':>10}{'circle':>8}{'no closure filter':>20}{'recover':>10}{'below 2.5 %':>14}")
    for noise in ("low", "mid", "high"):
        for share in (0.0, 0.01, 0.05):
            errors = []
            for seed in range(ALIASED_FROM, ALIASED_FROM + ALIASED_SEEDS):
                positions = route("loop", 400, seed=seed)
                ranges = measure(positions, NOISES[noise], seed=seed, missing=0.1, aliased=share)
                near = ranges.where(common_neighbor_filter(ranges))
                plain = sparse_smacof(near, landmark_geodesic_mds(near, 2, seed=0)).points
                scores = [aligned_score(found, positions) for found in (plain, recover(ranges).positions)]
                errors.append([score.of_length for score in (trivial_rows(positions)["circle"], *scores)])
            circle, before, ours = np.median(errors, 0)
            below = sum(one[-1] < 2.5 for one in errors)
            print(f"{noise:8}{100 * share:8.0f} %{circle:8.2f}{before:20.2f}{ours:10.2f}{below:8} of {len(errors)}")


def main() -> None:
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # for the processes that start below
    large()
    aliased()
    small()
    import sdp  # loads cvxpy, whose memory is not part of the rows above

    sdp.main()


if __name__ == "__main__":
    main()
