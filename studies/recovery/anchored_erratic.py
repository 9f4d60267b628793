"""Accuracy of anchored recovery on erratic paths with precise ranges, for which no model of motion holds.

    python studies/recovery/anchored_erratic.py           # 10 minutes on one core
    python studies/recovery/anchored_erratic.py --quick   # 1 minute: 2 seeds per row

Paths have 80 images with steps of 1 m. `random` draws every direction independently. `turns` changes the direction by a
normal angle of 1 radian (in 3D about both axes). Ranges reach up to 8 m with a sigma of 0.05 m. Known positions are at
equal steps of the sequence. The error is the RMSE in metres, without alignment. NEES is the squared error in units of
its covariance, averaged over images and coordinates. It is 1 if covariances are correct. "bound" is the RMSE that
ranges and known positions determine (the Cramér-Rao bound, median over seeds). To measure another version, set
PYTHONPATH to its src.
"""

import argparse
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from mappable.arrays import Floats
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges

COUNT, LONGEST, SIGMA = 80, 8.0, 0.05
TURN = 1.0  # radians
KNOWN = ((8, 0.05), (8, 0.01))  # number, sigma in metres
SEEDS = 20


@dataclass(frozen=True)
class Erratic:
    truth: Floats
    ranges: Ranges
    known: Anchors

    def bound(self) -> float:
        """The RMSE in metres that ranges and known positions determine, to first order."""
        n, k = self.truth.shape
        apart = self.truth[self.ranges.i] - self.truth[self.ranges.j]
        slopes = np.zeros((len(apart), n, k))
        rows = np.arange(len(apart))
        slopes[rows, self.ranges.i] = apart / np.linalg.norm(apart, axis=1)[:, None] / SIGMA
        slopes[rows, self.ranges.j] = -slopes[rows, self.ranges.i]
        flat = slopes.reshape(len(apart), n * k)
        held = np.zeros((n, k))
        held[self.known.points] = self.known.sigma[:, None] ** -2
        return float(np.sqrt(np.trace(np.linalg.inv(flat.T @ flat + np.diag(held.ravel()))) / n))


def erratic(
    kind: str, dimensions: int, seed: int, *, known: int = 8, sigma: float = 0.05, turn: float = TURN
) -> Erratic:
    """A path in 2 or 3 dimensions, all ranges up to 8 m, and some known positions."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((COUNT - 1, dimensions))
    steps /= np.linalg.norm(steps, axis=1)[:, None]
    if kind == "turns":
        for before, step in pairwise(steps):
            aside = step - (step @ before) * before
            angle = turn * np.linalg.norm(rng.standard_normal(dimensions - 1))
            step[:] = np.cos(angle) * before + np.sin(angle) * aside / np.linalg.norm(aside)
    truth = np.concatenate([np.zeros((1, dimensions)), steps.cumsum(axis=0)])
    i, j = np.triu_indices(COUNT, 1)
    apart = np.linalg.norm(truth[i] - truth[j], axis=1)
    near = apart <= LONGEST
    metres = np.abs(apart[near] + SIGMA * rng.standard_normal(int(near.sum())))
    points = np.linspace(0, COUNT - 1, known).round().astype(np.int64)
    places = truth[points] + sigma * rng.standard_normal((known, dimensions))
    return Erratic(truth, Ranges(COUNT, i[near], j[near], metres, SIGMA), Anchors(points, places, sigma))


def score(case: Erratic, *, ordered: bool, seed: int) -> tuple[float, float, float]:
    """Error (RMSE in metres), NEES per coordinate, and CPU seconds."""
    begun = time.process_time()
    recovered = recover_anchored(case.ranges, case.known, ordered=ordered, seed=seed)
    seconds = time.process_time() - begun
    if recovered.covariances is None:
        raise ValueError("the result has no covariances")
    errors = recovered.positions - case.truth
    squared = np.einsum("na,nab,nb->n", errors, np.linalg.inv(recovered.covariances), errors)
    return float(np.sqrt(np.square(errors).sum(1).mean())), float(squared.mean()) / case.truth.shape[1], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 seeds per row")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    given = parser.parse_args()
    seeds = range(given.first, given.first + (2 if given.quick else SEEDS))
    head = (
        "path, dimensions, known (sigma m), ordered, bound m, median error m, max error m, mean NEES, max NEES, CPU s"
    )
    print("| " + head.replace(", ", " | ") + " |")
    print("|---" * 10 + "|")
    for (known, sigma), kind, dimensions in product(KNOWN, ("random", "turns"), (2, 3)):
        cases = [erratic(kind, dimensions, seed, known=known, sigma=sigma) for seed in seeds]
        bound = statistics.median(case.bound() for case in cases)
        for ordered in (True, False):
            scores = [score(case, ordered=ordered, seed=seed) for case, seed in zip(cases, seeds, strict=True)]
            errors, surprises, seconds = zip(*scores, strict=True)
            print(
                f"| {kind} | {dimensions} | {known} ({sigma}) | {'yes' if ordered else 'no'} | {bound:.3f} |"
                f" {statistics.median(errors):.3f} | {max(errors):.3f} | {statistics.mean(surprises):.2f} |"
                f" {max(surprises):.2f} | {statistics.mean(seconds):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
