"""Time and accuracy of recovery, compared with plain GTSAM, scikit-learn and the paper's semidefinite program.

    python benchmarks/recovery.py [--json FILE]

Every row is the median over five simulated routes. Errors are RMSE in metres; after rigid alignment
if no position is known. Seconds are CPU seconds on one thread. The semidefinite program is solved
to a relative duality gap of 1e-7. Last, sdp.py compares its solvers. Plain GTSAM starts at dead
reckoning or at straight lines, has a robust loss on ranges, and takes noise as stated. It needs
`mappable[slam]`, and scikit-learn's row needs `pip install scikit-learn`.
"""

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

# Before numpy starts its threads.
os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

import numpy as np

from learned_noise import learned_profile, measure_learned
from mappable.arrays import Bools, Floats
from mappable.recovery.align import align
from mappable.recovery.baselines import circle, interpolated, line
from mappable.recovery.graph import Problem
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.matrices.sdp import geodesics, sdp_frobenius
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.starts import reckoned
from simulated_ranges import NOISES, Kind, measure, odometry, route

SEEDS, FIRST = 5, 1_200
KNOWN_SIGMA = 0.5  # metres
CITIES = (10_000, 30_000)


@dataclass(frozen=True)
class Drive:
    truth: Floats
    ranges: Ranges
    known: Anchors | None
    motions: Motions | None


def simulate(
    kind: Kind, count: int, length: float, noise: str, seed: int, known: int = 0, moving: str = ""
) -> Drive:
    """A route with its ranges, known positions and odometry (noisy or drifting)."""
    truth = route(kind, count, seed=seed, length=length)
    if noise == "learned":
        ranges = measure_learned(truth, learned_profile(), seed=seed, missing=0.1)
    else:
        radius = max(10.0, 3.4 * length / (count - 1))  # shorter ranges form a bare chain
        ranges = measure(truth, NOISES[noise], seed=seed, radius=radius, missing=0.1, outliers=0.01)
    rng = np.random.default_rng([seed, known])
    points = np.linspace(0, count - 1, known).round().astype(np.int64)
    places = truth[points] + rng.normal(0, KNOWN_SIGMA, (known, 2))
    anchors = Anchors(points, places, KNOWN_SIGMA) if known else None
    return Drive(
        truth,
        ranges,
        anchors,
        Motions(*odometry(truth, rng, drifting=moving == "drifting")) if moving else None,
    )


def ours(drive: Drive) -> Floats:
    return recover(drive.ranges, anchors=drive.known, motions=drive.motions).positions


def plain_gtsam(drive: Drive) -> Floats:
    """One graph with the noise as stated; poses if there is odometry."""
    gtsam: Any = importlib.import_module("gtsam")
    graph, start, n = gtsam.NonlinearFactorGraph(), gtsam.Values(), len(drive.truth)
    motions, known, model = drive.motions, drive.known, gtsam.noiseModel
    if motions is not None:
        positions, frames = reckoned(Problem(drive.ranges, 2, known, motions), motions)
        angles = np.arctan2(frames[:, 1, 0], frames[:, 0, 0])
        for point in range(n):
            start.insert(point, gtsam.Pose2(*positions[point], angles[point]))
        turns = np.arctan2(motions.rotations[:, 1, 0], motions.rotations[:, 0, 0])
        for row, (i, j) in enumerate(zip(motions.i.tolist(), motions.j.tolist(), strict=True)):
            noise = model.Gaussian.Covariance(motions.covariance[row])
            graph.add(
                gtsam.BetweenFactorPose2(i, j, gtsam.Pose2(*motions.metres[row], turns[row]), noise)
            )
    elif known is not None:
        positions = interpolated(n, known.points, known.positions)
        for point in range(n):
            start.insert(point, positions[point])
    factor = gtsam.RangeFactor2 if motions is None else gtsam.RangeFactorPose2
    cauchy = model.mEstimator.Cauchy.Create(1.0)
    ranges = drive.ranges
    for i, j, metres, sigma in zip(
        ranges.i.tolist(), ranges.j.tolist(), ranges.metres, ranges.sigma, strict=True
    ):
        graph.add(
            factor(i, j, metres, model.Robust.Create(cauchy, model.Isotropic.Sigma(1, sigma)))
        )
    if known is None:
        graph.add(gtsam.PriorFactorPose2(0, start.atPose2(0), model.Isotropic.Sigma(3, 1e-3)))
    else:
        prior = gtsam.PriorFactorPoint2 if motions is None else gtsam.PoseTranslationPrior2D
        for point, place in zip(known.points.tolist(), known.positions, strict=True):
            graph.add(prior(point, place, model.Isotropic.Sigma(2, KNOWN_SIGMA)))
    solved = gtsam.LevenbergMarquardtOptimizer(graph, start).optimize()
    if motions is None:
        return np.asarray(gtsam.utilities.extractPoint2(solved))
    return np.asarray(gtsam.utilities.extractPose2(solved)[:, :2])


def converged_sdp(drive: Drive) -> Floats:
    return sdp_frobenius(*matrix(drive.ranges), 2).positions


def sklearn_mds(drive: Drive) -> Floats:
    """It has no masks, so shortest paths replace missing distances. Four random starts, its former
    default.
    """
    mds = importlib.import_module("sklearn.manifold").MDS(
        metric="precomputed", n_init=4, init="random", random_state=0
    )
    positions: Floats = mds.fit_transform(np.sqrt(geodesics(drive.ranges)))
    return positions


def matrix(ranges: Ranges) -> tuple[Floats, Bools]:
    """Squared distances, and a mask of the known ones."""
    squared, mask = np.zeros((ranges.count, ranges.count)), np.eye(ranges.count, dtype=bool)
    squared[ranges.i, ranges.j] = squared[ranges.j, ranges.i] = np.square(ranges.metres)
    mask[ranges.i, ranges.j] = mask[ranges.j, ranges.i] = True
    return squared, mask


def straight(drive: Drive) -> Floats:
    if drive.known is not None:
        return interpolated(len(drive.truth), drive.known.points, drive.known.positions)
    return line(
        np.linalg.norm(np.diff(drive.truth, axis=0, prepend=drive.truth[:1]), axis=1).cumsum()
    )


def round_trip(drive: Drive) -> Floats:
    return circle(
        np.linalg.norm(np.diff(drive.truth, axis=0, prepend=drive.truth[:1]), axis=1).cumsum()
    )


Method = Callable[[Drive], Floats]
ALONE: dict[str, Method] = {
    "straight line": straight,
    "circle": round_trip,
    "mappable.recover": ours,
    "the paper's SDP, converged": converged_sdp,
    "scikit-learn MDS of paths": sklearn_mds,
}
HELD: dict[str, Method] = {
    "straight lines": straight,
    "mappable.recover": ours,
    "plain GTSAM": plain_gtsam,
}
NEEDS: dict[Method, str] = {sklearn_mds: "sklearn", plain_gtsam: "gtsam"}


def compare(title: str, methods: dict[str, Method], drives: list[Drive]) -> list[dict[str, Any]]:
    """Run all methods on each drive in turn; return a row per method."""
    print(f"\n{title}\n{'':30}{'error m':>10}{'worst m':>10}{'CPU s':>10}")
    rows = []
    for name, method in methods.items():
        package = NEEDS.get(method, "numpy")
        if importlib.util.find_spec(package) is None:
            print(f"{name:30}  skipped: {package} is not installed")
            continue
        errors, seconds = [], []
        for drive in drives:
            begun = time.process_time()
            positions = method(drive)
            seconds.append(time.process_time() - begun)
            if drive.known is None:
                positions = align(positions, drive.truth, scale=False)(positions)
            errors.append(float(np.sqrt(np.square(positions - drive.truth).sum(1).mean())))
        row = {
            "case": title,
            "method": name,
            "error, m": statistics.median(errors),
            "worst, m": max(errors),
        }
        rows.append(row | {"CPU s": statistics.median(seconds)})
        print(
            f"{name:30}{row['error, m']:10.2f}{row['worst, m']:10.2f}{rows[-1]['CPU s']:10.3f}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(FIRST, FIRST + SEEDS)
    kinds: tuple[Kind, ...] = ("loop", "open")
    rows = []
    for kind in kinds:
        for noise in ("mid", "learned"):
            drives = [simulate(kind, 100, 672.0, noise, seed) for seed in seeds]
            rows += compare(f"{kind}, 100 images, {noise}, nothing known", ALONE, drives)
    for moving in ("noisy", "drifting", ""):
        for known in (3, 10):
            drives = [simulate("open", 150, 252.0, "mid", seed, known, moving) for seed in seeds]
            rows += compare(
                f"open, 150 images, mid, odometry {moving or 'none'}, {known} known", HELD, drives
            )
    for count in CITIES:
        drives = [simulate("city", count, float(count), "mid", FIRST)]
        rows += compare(
            f"city, {count:,} images, mid, nothing known", {"mappable.recover": ours}, drives
        )
    if given.json is not None:
        origin = {
            "command": "python benchmarks/recovery.py --json FILE",
            "date": date.today().isoformat(),
        }
        origin["hardware"] = "one core, shared with other work"
        given.json.write_text(json.dumps({"origin": origin, "rows": rows}, indent=1) + "\n")
    if importlib.util.find_spec("cvxpy") is not None:
        import sdp

        sdp.main([])


if __name__ == "__main__":
    main()
