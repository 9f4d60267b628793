"""Accuracy of anchored recovery, compared with interpolation of the known positions and robust least squares.

    python studies/recovery/anchored.py            # 20 minutes on two cores
    python studies/recovery/anchored.py --quick    # 2 minutes: fewer seeds

Routes of 672 m have 400 images, and routes that wind have 200 images on 400 m. Ranges reach up to 10 m; 10 % miss
and 1 % are false. Known positions are at equal steps, with an error of 0.5 m. The profile `learned` has ranges like a
trained encoder. The methods get no other input: they estimate spacing, noise and which ranges are false. Errors are
medians in % of the length, without alignment. "surprise" is the mean squared error in units of its covariance, divided
by 2 dimensions. It is 1 if covariances are correct. Seconds are CPU seconds per route.
"""

import argparse
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import csr_array

from learned_noise import learned_profile, measure_learned
from mappable.arrays import Floats
from mappable.recovery.align import score
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.baselines import interpolated
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges
from mappable.threads import cores
from route_cases import ANCHOR_SIGMA, LEARNED, LENGTH, MISSING, Case, draw
from simulated_ranges import NOISES, Kind, measure, route

COUNT = 400
TABLE: tuple[tuple[Kind, str, tuple[int, ...], int], ...] = (  # route, noise, known positions, seeds
    ("open", "mid", (10, 20), 50),
    ("open", "mid", (3, 5), 10),
    ("open", "high", (10, 20), 20),
    ("open", "learned", (10, 20), 20),
    ("loop", "mid", (3, 5, 10, 20), 10),
    ("loop", "high", (10, 20), 10),
    ("loop", "learned", (10, 20), 20),
)
WINDING: tuple[Kind, ...] = ("wandering", "curling", "snaking")
WINDING_COUNT, WINDING_LENGTH, WINDING_KNOWN = 200, 400.0, (5, 7)
WINDING_FIRST, WINDING_SEEDS = 2000, 10  # seeds below 2000 were used to choose settings
OUTLIERS, OUTLIER_SEEDS = (0.0, 0.01, 0.05), 20
PLAIN_SEEDS = 5  # for the least squares fit
STEPS, STEPS_SEEDS = ("jumping", "swelling"), 10  # ways in which steps are uneven


@dataclass(frozen=True)
class Task:
    case: Case
    outliers: float | None = None  # None: as in the case
    plain: bool = False  # use robust least squares
    steps: str | None = None  # None: equal steps


@dataclass(frozen=True)
class Run:
    error: float  # % of the length
    interpolated: float
    surprise: float
    seconds: float


def run(task: Task) -> Run:
    case = task.case
    truth, ranges, anchors = draw(case) if task.steps is None else draw_uneven(case, task.steps)
    if anchors is None:
        raise ValueError("the case has no known positions")
    if task.outliers is not None:
        noise = NOISES[case.noise]
        ranges = measure(truth, noise, seed=case.seed, missing=MISSING, outliers=task.outliers)
    between = interpolated(len(truth), anchors.points, anchors.positions)
    begun = time.process_time()
    if task.plain:
        positions, surprise = robust_least_squares(ranges, anchors, between), float("nan")
    else:
        recovered = recover_anchored(ranges, anchors, seed=case.seed)
        positions, errors = recovered.positions, recovered.positions - truth
        if recovered.covariances is None:
            raise ValueError("the result has no covariances")
        squared = np.einsum("na,nab,nb->n", errors, np.linalg.inv(recovered.covariances), errors)
        surprise = float(squared.mean()) / truth.shape[1]
    seconds = time.process_time() - begun
    return Run(score(positions, truth).of_length, score(between, truth).of_length, surprise, seconds)


def draw_uneven(case: Case, steps: str) -> tuple[Floats, Ranges, Anchors]:
    """Like `draw`, with uneven steps: each differs by 30 % from the next, or they grow and shrink by 65 % in waves."""
    rng = np.random.default_rng(case.seed)
    dense = route(case.kind, 20 * case.count, seed=case.seed, length=case.length)
    waves = 2 * np.pi * rng.uniform(3, 8) * np.linspace(0, 1, case.count - 1) + rng.uniform(0, 2 * np.pi)
    lengths = rng.gamma(1 / 0.3**2, 0.3**2, case.count - 1) if steps == "jumping" else np.exp(0.5 * np.sin(waves))
    along = np.concatenate([[0.0], lengths.cumsum()])
    truth = dense[np.rint(along / along[-1] * (len(dense) - 1)).astype(np.int64)]
    if case.noise == LEARNED:
        ranges = measure_learned(truth, learned_profile(), seed=case.seed, missing=MISSING)
    else:
        ranges = measure(truth, NOISES[case.noise], seed=case.seed, missing=MISSING, outliers=0.01)
    points = np.linspace(0, case.count - 1, case.anchors).round().astype(np.int64)
    known = truth[points] + rng.normal(0, ANCHOR_SIGMA, (case.anchors, 2))
    return truth, ranges, Anchors(points, known, ANCHOR_SIGMA)


def robust_least_squares(ranges: Ranges, anchors: Anchors, start: Floats) -> Floats:
    """The usual first attempt: SciPy's least squares with a robust loss, starting at interpolated known positions."""
    shape, edges = start.shape, len(ranges)
    known = np.repeat(anchors.sigma, shape[1])
    rows = np.arange(edges)
    slots = (2 * np.array([ranges.i, ranges.i, ranges.j, ranges.j])) + [[0], [1], [0], [1]]
    fixed = (2 * anchors.points[:, None] + [0, 1]).ravel()

    def off(flat: Floats) -> Floats:
        at = flat.reshape(shape)
        distances = np.linalg.norm(at[ranges.i] - at[ranges.j], axis=1)
        pulled = (at[anchors.points] - anchors.positions).ravel() / known
        return np.concatenate([(distances - ranges.metres) / ranges.sigma, pulled])

    def slopes(flat: Floats) -> csr_array:
        at = flat.reshape(shape)
        apart = at[ranges.i] - at[ranges.j]
        unit = (apart / np.maximum(np.linalg.norm(apart, axis=1), 1e-9)[:, None] / ranges.sigma[:, None]).T
        values = np.concatenate([unit.ravel(), -unit.ravel(), 1 / known])
        where = np.concatenate([np.tile(rows, 4), edges + np.arange(len(fixed))])
        columns = np.concatenate([slots.ravel(), fixed])
        return csr_array((values, (where, columns)), shape=(edges + len(fixed), flat.size))

    found = least_squares(off, start.ravel(), jac=slopes, loss="soft_l1", max_nfev=100)
    positions: Floats = found.x.reshape(shape)
    return positions


def cases(kind: Kind, noise: str, known: int, seeds: int) -> list[Case]:
    return [Case(kind, noise, COUNT, seed, LENGTH, anchors=known) for seed in range(seeds)]


def line(name: str, runs: list[Run]) -> str:
    errors = sorted(one.error for one in runs)
    between = statistics.median(one.interpolated for one in runs)
    middle = statistics.median(errors)
    better = statistics.mean(one.error < one.interpolated for one in runs)
    return (
        f"{name:34}{len(runs):6}{between:14.2f}{middle:10.3f} ({errors[0]:.2f} to {errors[-1]:.2f})"
        f"{between / middle:8.1f}x{100 * better:8.0f} %{statistics.mean(one.surprise for one in runs):10.2f}"
        f"{statistics.median(one.seconds for one in runs):9.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer seeds")
    given = parser.parse_args()
    share = 10 if given.quick else 1
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # for the processes that start below
    print(
        f"{'':34}{'seeds':>6}{'interpolated':>14}{'anchored (lowest, highest)':>28}{'ratio':>6}{'better':>10}"
        f"{'surprise':>10}{'CPU s':>9}"
    )
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        for kind, noise, numbers, seeds in TABLE:
            for known in numbers:
                wanted = cases(kind, noise, known, max(2, seeds // share))
                runs = list(pool.map(run, [Task(case) for case in wanted]))
                print(line(f"{kind}, {noise}, {known} known", runs), flush=True)
        for known, kind in product(WINDING_KNOWN, WINDING):
            fresh = range(WINDING_FIRST, WINDING_FIRST + max(2, WINDING_SEEDS // share))
            wanted = [Case(kind, "mid", WINDING_COUNT, seed, WINDING_LENGTH, anchors=known) for seed in fresh]
            runs = list(pool.map(run, [Task(case) for case in wanted]))
            print(line(f"{kind}, mid, {known} known", runs), flush=True)
        for outliers in OUTLIERS:
            wanted = cases("open", "mid", 10, max(2, OUTLIER_SEEDS // share))
            runs = list(pool.map(run, [Task(case, outliers) for case in wanted]))
            print(line(f"open, mid, 10 known, {100 * outliers:.0f} % false", runs), flush=True)
        for noise, known, steps in product(("mid", LEARNED), (10, 20), STEPS):
            wanted = cases("open", noise, known, max(2, STEPS_SEEDS // share))
            runs = list(pool.map(run, [Task(case, steps=steps) for case in wanted]))
            print(line(f"open, {noise}, {known} known, {steps}", runs), flush=True)
        for known in (10, 20):
            wanted = cases("open", "mid", known, max(2, PLAIN_SEEDS // share))
            runs = list(pool.map(run, [Task(case, plain=True) for case in wanted]))
            print(line(f"least squares instead, {known} known", runs), flush=True)


if __name__ == "__main__":
    main()
