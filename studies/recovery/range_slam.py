"""Ranges with odometry: compared with GTSAM and SciPy, and by size.

    python studies/recovery/range_slam.py side            # errors side by side; 15 minutes on one core
    python studies/recovery/range_slam.py sizes           # anchored cities; --most 20000 takes half an hour

Routes have 150 images on 252 m. Ranges reach up to 10 m, and 10 % are missing. Odometry is a motion from each image to
the next. "noisy" has a sigma of 0.05 m and 0.01 radians per step. "drifting" also has steps that are 2 % too long and
turns of 0.001 radians per metre too many; no method knows this. Known positions are at equal steps, with a sigma of
0.5 m. All methods start at the same positions: dead reckoning moved to the known positions, or interpolated positions.
GTSAM uses Levenberg-Marquardt with Cauchy's robust loss on ranges, and SciPy its `soft_l1` loss. Errors are RMSE in
metres; without known positions, after rigid alignment. NEES is the squared error in units of its covariance, per
coordinate: 1 if covariances are honest. GTSAM is optional.
"""

import argparse
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

from learned_noise import learned_profile, measure_learned
from mappable.arrays import Floats
from mappable.recovery.align import align
from mappable.recovery.anchored.guided import guided_start
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.anchored.relative import log_pose, reckon, rotations
from mappable.recovery.baselines import interpolated
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.pipeline import recover
from recovery import forget_peak, peak
from simulated_ranges import NOISES, Kind, measure, route

COUNT, STEP = 150, 1.68
STEP_SIGMA, TURN_SIGMA = 0.05, 0.01
SCALE, BIAS = 0.02, 0.001
KNOWN_SIGMA = 0.5
ODOMETRIES = ("none", "noisy", "drifting")
FIRST = 1_100  # seed of the first route of the table; settings were chosen on lower seeds

Found = tuple[Floats, Floats | None]  # positions (n, 2) and covariances (n, 2, 2)


class World:
    """A route, and what is measured along it."""

    def __init__(self, kind: Kind, noise: str, odometry: str, known: int, false: float, seed: int, count: int = COUNT):
        rng = np.random.default_rng([seed, known])
        self.truth = route(kind, count, seed=seed, length=count * STEP)
        if noise == "learned":
            self.ranges = measure_learned(self.truth, learned_profile(), seed=seed, missing=0.1)
        else:
            self.ranges = measure(self.truth, NOISES[noise], seed=seed, missing=0.1, outliers=false)
        points = np.linspace(0, count - 1, known).round().astype(np.int64)
        places = self.truth[points] + rng.normal(0, KNOWN_SIGMA, (known, 2))
        self.known = Anchors(points, places, KNOWN_SIGMA) if known else None
        self.motions = None if odometry == "none" else self._odometry(rng, drifting=odometry == "drifting")
        self.start, self.frames = self._start()

    def _odometry(self, rng: np.random.Generator, *, drifting: bool) -> Motions:
        x, y = np.gradient(self.truth, axis=0).T
        self.heading = np.unwrap(np.arctan2(y, x))
        back = rotations(self.heading[:-1]).transpose(0, 2, 1)
        metres = np.einsum("mab,mb->ma", back, np.diff(self.truth, axis=0))
        turns = np.diff(self.heading)
        if drifting:
            turns = turns + BIAS * np.linalg.norm(metres, axis=1)
            metres = (1 + SCALE) * metres
        metres = metres + rng.normal(0, STEP_SIGMA, metres.shape)
        turns = turns + rng.normal(0, TURN_SIGMA, turns.shape)
        i = np.arange(len(turns))
        return Motions(i, i + 1, metres, turns, (STEP_SIGMA, TURN_SIGMA))

    def _start(self) -> tuple[Floats, Floats]:
        n = len(self.truth)
        if self.known is None:
            between = np.stack([STEP * np.arange(n), np.zeros(n)], 1)
        else:
            between = interpolated(n, self.known.points, self.known.positions)
        if self.motions is None:
            return between, np.tile(np.eye(2), (n, 1, 1))
        dead = reckon(self.motions, n)
        if self.known is None:
            return dead.positions, dead.frames
        return guided_start(dead, self.ranges, self.known, between)

    def score(self, found: Found) -> tuple[float, float]:
        positions, covariances = found
        if self.known is None:
            moved = align(positions, self.truth, scale=False)
            positions = moved(positions)
            covariances = None  # relative to the first point, which alignment moves
        off = positions - self.truth
        nees = float("nan")
        if covariances is not None:
            nees = float(np.einsum("na,nab,nb->n", off, np.linalg.inv(covariances), off).mean()) / 2
        return float(np.sqrt(np.square(off).sum(1).mean())), nees


def ours(world: World) -> Found:
    if world.known is None and world.motions is None:
        return recover(world.ranges).positions, None
    found = recover_anchored(world.ranges, world.known, motions=world.motions)
    return found.positions, found.covariances


def by_interpolation(world: World) -> Found:
    return world.start, None


def by_scipy(world: World) -> Found:
    """Positions, and headings if there is odometry; robust loss on all residuals."""
    n, motions, known, ranges = len(world.truth), world.motions, world.known, world.ranges
    spin = 0 if motions is None else 1
    angles = np.arctan2(world.frames[:, 1, 0], world.frames[:, 0, 0])
    start = np.column_stack([world.start, angles][: 1 + spin])

    def off(flat: Floats) -> Floats:
        state = flat.reshape(n, 2 + spin)
        at = state[:, :2]
        parts = [(np.linalg.norm(at[ranges.i] - at[ranges.j], axis=1) - ranges.metres) / ranges.sigma]
        if known is not None:
            parts.append(((at[known.points] - known.positions) / KNOWN_SIGMA).ravel())
        else:
            parts.append(1e3 * (state[0] - start[0]))
        if motions is not None:
            here, there = rotations(state[motions.i, 2]), rotations(state[motions.j, 2])
            turned = motions.rotations.transpose(0, 2, 1)
            way = np.einsum("mba,mb->ma", here, at[motions.j] - at[motions.i]) - motions.metres
            error = log_pose(turned @ here.transpose(0, 2, 1) @ there, np.einsum("mab,mb->ma", turned, way))
            parts.append((error / [STEP_SIGMA, STEP_SIGMA, TURN_SIGMA]).ravel())
        return np.concatenate(parts)

    pattern = _pattern(world, n, 2 + spin)
    solved = least_squares(off, start.ravel(), jac_sparsity=pattern, loss="soft_l1", max_nfev=100, x_scale=1.0)
    jacobian = solved.jac.toarray() if hasattr(solved.jac, "toarray") else solved.jac
    whole = np.linalg.pinv(jacobian.T @ jacobian).reshape(n, 2 + spin, n, 2 + spin)
    covariances = whole[np.arange(n), :2, np.arange(n), :2]
    return solved.x.reshape(n, 2 + spin)[:, :2], covariances


def _pattern(world: World, n: int, size: int) -> Any:
    from scipy.sparse import lil_array

    rows: list[list[int]] = [[int(i), int(j)] for i, j in zip(world.ranges.i, world.ranges.j, strict=True)]
    rows += [[int(p)] for p in world.known.points for _ in range(2)] if world.known is not None else [[0]] * size
    if world.motions is not None:
        rows += [[int(i), int(j)] for i, j in zip(world.motions.i, world.motions.j, strict=True) for _ in range(3)]
    pattern = lil_array((len(rows), n * size), dtype=np.int8)
    for row, points in enumerate(rows):
        for point in points:
            pattern[row, point * size : (point + 1) * size] = 1
    return pattern


def by_gtsam(world: World) -> Found:
    gtsam = importlib.import_module("gtsam")
    graph, values, n = gtsam.NonlinearFactorGraph(), gtsam.Values(), len(world.truth)
    posed = world.motions is not None
    angles = np.arctan2(world.frames[:, 1, 0], world.frames[:, 0, 0])
    for point in range(n):
        values.insert(point, gtsam.Pose2(*world.start[point], angles[point]) if posed else world.start[point])
    cauchy = gtsam.noiseModel.mEstimator.Cauchy.Create(1.0)
    factor = gtsam.RangeFactorPose2 if posed else gtsam.RangeFactor2
    ranges = world.ranges
    for i, j, metres, sigma in zip(ranges.i, ranges.j, ranges.metres, ranges.sigma, strict=True):
        model = gtsam.noiseModel.Robust.Create(cauchy, gtsam.noiseModel.Isotropic.Sigma(1, sigma))
        graph.add(factor(int(i), int(j), metres, model))
    if world.motions is not None:
        model = gtsam.noiseModel.Diagonal.Sigmas(np.array([STEP_SIGMA, STEP_SIGMA, TURN_SIGMA]))
        turns = np.arctan2(world.motions.rotations[:, 1, 0], world.motions.rotations[:, 0, 0])
        for i, (x, y), turn in zip(world.motions.i.tolist(), world.motions.metres, turns, strict=True):
            graph.add(gtsam.BetweenFactorPose2(i, i + 1, gtsam.Pose2(x, y, turn), model))
    if world.known is not None:
        model = gtsam.noiseModel.Isotropic.Sigma(2, KNOWN_SIGMA)
        prior = gtsam.PoseTranslationPrior2D if posed else gtsam.PriorFactorPoint2
        for point, place in zip(world.known.points.tolist(), world.known.positions, strict=True):
            graph.add(prior(point, place, model))
    else:
        graph.add(gtsam.PriorFactorPose2(0, values.atPose2(0), gtsam.noiseModel.Isotropic.Sigma(3, 1e-3)))
    solved = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()
    places = [solved.atPose2(one).translation() if posed else solved.atPoint2(one) for one in range(n)]
    try:
        marginals = gtsam.Marginals(graph, solved)
        covariances = np.array([_rotated(marginals, solved, one, posed) for one in range(n)])
    except RuntimeError:  # ranges alone can leave a point undetermined
        return np.array(places), None
    return np.array(places), covariances


def _rotated(marginals: Any, solved: Any, point: int, posed: bool) -> Floats:
    """GTSAM has the covariance of a pose in the frame of the pose."""
    covariance = marginals.marginalCovariance(point)
    if not posed:
        return np.asarray(covariance)
    turn = rotations(np.array([solved.atPose2(point).theta()]))[0]
    return np.asarray(turn @ covariance[:2, :2] @ turn.T)


METHODS: dict[str, Callable[[World], Found]] = {
    "ours": ours,
    "GTSAM": by_gtsam,
    "SciPy": by_scipy,
    "start": by_interpolation,
}


def side(seeds: int, odometries: tuple[str, ...] = ODOMETRIES) -> None:
    """Print a row per case: median error and mean NEES of each method, and seconds."""
    names = [name for name in METHODS if name != "GTSAM" or importlib.util.find_spec("gtsam") is not None]
    head = " | ".join(f"{name}, m | NEES | s" for name in names[:-1])
    print(f"| odometry | noise | known | false, % | {head} | start, m |")
    print("|---" * (5 + 3 * (len(names) - 1)) + "|")
    cases = [("mid", *rest) for rest in product(odometries, (0, 3, 10, 20), (0.0, 0.1))]
    cases += [("learned", odometry, known, 0.0) for odometry, known in product(odometries, (0, 3, 10))]
    for noise, odometry, known, false in cases:
        kind: Kind = "loop" if known == 0 else "open"
        rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
        for seed in range(FIRST, FIRST + seeds):
            world = World(kind, noise, odometry, known, false, seed)
            for name in names:
                if known == 0 and odometry == "none" and name in ("GTSAM", "SciPy"):
                    continue  # nothing holds the map
                begun = time.process_time()
                found = METHODS[name](world)
                rows[name].append((*world.score(found), time.process_time() - begun))
        cells = []
        for name in names:
            values = list(zip(*rows[name], strict=True))
            error = f"{statistics.median(values[0]):.2f}" if values else ""
            nees = f"{statistics.mean(values[1]):.2f}" if values and not np.isnan(values[1]).any() else ""
            cells += (
                [error] if name == "start" else [error, nees, f"{statistics.median(values[2]):.2f}" if values else ""]
            )
        print(f"| {odometry} | {noise} | {known} | {100 * false:.0f} | {' | '.join(cells)} |", flush=True)


def sizes(counts: list[int]) -> None:
    """Anchored cities with mid noise and 1 % false ranges; a known position every 50 images."""
    print("| images | ranges | known | CPU s | memory, MB | error, m | NEES |\n" + "|---" * 7 + "|")
    seconds = []
    for count in counts:
        truth = route("city", count, seed=0, length=float(count))
        ranges: Ranges = measure(truth, NOISES["mid"], seed=0, missing=0.1, outliers=0.01)
        points = np.linspace(0, count - 1, count // 50).round().astype(np.int64)
        places = truth[points] + np.random.default_rng(0).normal(0, KNOWN_SIGMA, (len(points), 2))
        forget_peak()
        before, begun = peak(), time.process_time()
        found = recover_anchored(ranges, Anchors(points, places, KNOWN_SIGMA))
        seconds.append(time.process_time() - begun)
        off = found.positions - truth
        if found.covariances is None:
            raise ValueError("the result has no covariances")
        nees = float(np.einsum("na,nab,nb->n", off, np.linalg.inv(found.covariances), off).mean()) / 2
        error = float(np.sqrt(np.square(off).sum(1).mean()))
        print(
            f"| {count:,} | {len(ranges):,} | {len(points)} | {seconds[-1]:.1f} | {peak() - before:.0f} | {error:.2f} |"
            f" {nees:.2f} |",
            flush=True,
        )
    if len(counts) > 1:
        print(f"seconds grow with images^{np.polyfit(np.log(counts), np.log(seconds), 1)[0]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("side", "sizes"))
    parser.add_argument("--seeds", type=int, default=5, help="routes per row (default: 5)")
    parser.add_argument("--most", type=int, default=5_000, help="largest number of images (default: 5,000)")
    parser.add_argument("--odometry", choices=ODOMETRIES, help="only these rows of `side`")
    given = parser.parse_args()
    with threadpool_limits(1):
        if given.what == "side":
            side(given.seeds, (given.odometry,) if given.odometry else ODOMETRIES)
        else:
            sizes([count for count in (1_000, 2_000, 5_000, 10_000, 20_000) if count <= given.most])


if __name__ == "__main__":
    main()
