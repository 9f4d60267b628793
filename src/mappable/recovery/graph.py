"""One factor graph of ranges, known positions, relative motions and a steady pace, solved by GTSAM.

Points are poses if there are motions or drives, because both say how the camera is turned.
Otherwise they are points. GTSAM is an optional package, so this module imports it only when a graph
is built.
"""

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, install_extra
from mappable.odometry import rotations
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges
from mappable.recovery.settings import SETTINGS


def load_gtsam() -> Any:
    """Import GTSAM, or say what to install."""
    try:
        return import_module("gtsam")
    except ImportError:
        raise BadInputError(
            f"known positions and odometry need GTSAM: {install_extra('slam')}"
        ) from None


@dataclass(frozen=True, eq=False)
class Problem:
    """What is measured and known; `drives` lists the points of each drive in order."""

    ranges: Ranges
    dimensions: int
    anchors: Anchors | None = None
    motions: Motions | None = None
    drives: list[Ints] = field(default_factory=list)

    @cached_property
    def pace(self) -> Ints:
        """Return consecutive points (m, 2) of a drive that no motions join."""
        pairs = [np.stack([drive[:-1], drive[1:]], 1) for drive in self.drives if len(drive) > 2]
        steps = np.concatenate([np.zeros((0, 2), dtype=np.int64), *pairs])
        if self.motions is None:
            return steps
        joined = connected(self.ranges.count, self.motions.i, self.motions.j)
        apart: Ints = steps[joined[steps[:, 0]] != joined[steps[:, 1]]]
        return apart

    @property
    def pauses(self) -> list[Ints]:
        """Return the pairs (m, 2) of consecutive points of each pause of odometry."""
        joined = self.pace[1:, 0] == self.pace[:-1, 1]
        return np.split(self.pace, np.flatnonzero(~joined) + 1)

    @property
    def posed(self) -> bool:
        return self.motions is not None or len(self.pace) > 0

    @property
    def reach(self) -> float:
        """Return the length in metres up to which there are ranges."""
        return float(np.quantile(self.ranges.metres, 0.98)) if len(self.ranges) else 1.0

    @cached_property
    def vague(self) -> bool:
        """Return True if ranges are so noisy that they do not measure a step."""
        share = self.ranges.sigma / np.maximum(self.ranges.metres, 1e-9)
        return bool(len(share)) and bool(np.median(share) > SETTINGS.vague)

    @property
    def foldable(self) -> bool:
        """Return True if folds of the map are searched for: few points, and precise ranges."""
        share = self.ranges.sigma / np.maximum(self.ranges.metres, 1e-9)
        precise = len(share) > 0 and bool(np.median(share) <= SETTINGS.precise)
        return precise and 3 < self.ranges.count <= SETTINGS.fold_points and self.motions is None

    @cached_property
    def extent(self) -> float:
        """Return a length in metres that exceeds the size of the map."""
        spread = (
            0.0 if self.anchors is None else float(np.ptp(self.anchors.positions, axis=0).max())
        )
        ways = (
            0.0
            if self.motions is None
            else float(np.linalg.norm(self.motions.metres, axis=1).sum())
        )
        return self.ranges.count * self.reach + spread + ways


def connected(count: int, i: Ints, j: Ints) -> Ints:
    """Return the number (count,) of the connected part of each point."""
    labels: Ints = connected_components(
        csr_array((np.ones(len(i)), (i, j)), shape=(count, count)), directed=False
    )[1]
    return labels


@dataclass(frozen=True, eq=False)
class Model:
    """What is estimated besides positions: the noise of ranges, how the camera moves, and how
    odometry drifts.
    """

    metres: Floats  # (edges,): ranges without what the noise of their images adds
    sigma: Floats  # (edges,)
    true: Bools  # (edges,)
    noise: float  # sigma as estimated, relative to sigma as stated
    step: float  # metres, of a usual step
    turn: float  # radians: spread of the change of direction at a step
    uneven: float  # spread of the length of steps, relative to a usual step
    scale: float = 1.0  # true length of a metre of odometry
    bias: float = 0.0  # radians that odometry turns too far per metre
    # Noise of odometry relative to the stated one: of metres, and of turns.
    loose: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Fit:
    """A local optimum of a graph."""

    positions: Floats  # (n, k)
    frames: Floats  # (n, k, k): orientations
    cost: float  # half the sum of squared residuals in sigmas, after the robust loss
    graph: Any
    values: Any


class Builder:
    """Builds the graph of one problem and one model, and solves it from any start."""

    def __init__(self, problem: Problem, model: Model, *, robust: bool = True) -> None:
        self.gtsam, self.problem, self.model = load_gtsam(), problem, model
        self.k, self.robust = problem.dimensions, robust
        self.between = getattr(self.gtsam, f"BetweenFactorPose{self.k}")
        self.kind = "Pose" if problem.posed else "Point"
        self.graph = self.gtsam.NonlinearFactorGraph()
        self._add_ranges()
        self._add_known()
        if len(problem.pace):
            self._add_pace()
        if problem.motions is not None:
            self._add_motions(problem.motions)

    def fit(self, positions: Floats, frames: Floats | None = None, *, steps: int = 100) -> Fit:
        """Return the optimum near a start; without orientations, the camera looks along its way."""
        if frames is None:
            frames = along(positions)
        start = self._values(positions, frames)
        graph = self.gtsam.NonlinearFactorGraph(self.graph)
        self._hold(graph, start)
        settings = self.gtsam.LevenbergMarquardtParams()
        settings.setMaxIterations(steps)
        # The default ordering overflows the stack on chains of 100,000 poses.
        settings.setOrderingType("METIS" if len(positions) > SETTINGS.long else "COLAMD")
        values = self.gtsam.LevenbergMarquardtOptimizer(graph, start, settings).optimize()
        return Fit(*self._read(values), float(graph.error(values)), graph, values)

    def _noise(self, noise: Any, loss: Any) -> Any:
        return self.gtsam.noiseModel.Robust.Create(loss, noise)

    def _add_ranges(self) -> None:
        ranges, model = self.problem.ranges, self.model
        factor = getattr(
            self.gtsam, f"RangeFactorPose{self.k}" if self.problem.posed else f"RangeFactor{self.k}"
        )
        cauchy = self.gtsam.noiseModel.mEstimator.Cauchy.Create(SETTINGS.cauchy)
        columns = (ranges.i, ranges.j, model.metres, model.sigma)
        for i, j, metres, sigma in zip(
            *(column[model.true].tolist() for column in columns), strict=True
        ):
            noise = self.gtsam.noiseModel.Isotropic.Sigma(1, sigma)
            self.graph.add(
                factor(i, j, metres, self._noise(noise, cauchy) if self.robust else noise)
            )

    def _add_known(self) -> None:
        anchors = self.problem.anchors
        if anchors is None:
            return
        posed = f"PoseTranslationPrior{self.k}D"
        prior = getattr(self.gtsam, posed if self.problem.posed else f"PriorFactorPoint{self.k}")
        for point, position, sigma in zip(
            anchors.points.tolist(), anchors.positions, anchors.sigma.tolist(), strict=True
        ):
            self.graph.add(
                prior(point, position, self.gtsam.noiseModel.Isotropic.Sigma(self.k, sigma))
            )

    def _add_pace(self) -> None:
        """A camera goes on at a steady pace and changes its direction little: a random walk of the
        heading.

        A step that turns by an angle ends aside by half a step times this angle.
        """
        model, size = self.model, 3 if self.k == 2 else 6
        lengths, turned = ([0, 1], [2]) if self.k == 2 else ([3, 4, 5], [0, 1, 2])
        aside = {2: (1, 0.5)} if self.k == 2 else {1: (5, -0.5), 2: (4, 0.5)}
        covariance = np.zeros((size, size))
        covariance[lengths, lengths] = (0.01 * model.step) ** 2
        covariance[lengths[0], lengths[0]] = (model.uneven * model.step) ** 2
        for axis in turned:
            slope = np.eye(size)[axis]
            if axis in aside:
                row, share = aside[axis]
                slope[row] = share * model.step
            covariance += model.turn**2 * np.outer(slope, slope)
        cauchy = self.gtsam.noiseModel.mEstimator.Cauchy.Create(SETTINGS.pace_cauchy)
        noise = self._noise(self.gtsam.noiseModel.Gaussian.Covariance(covariance), cauchy)
        ahead = pose_of(self.gtsam, model.step * np.eye(self.k)[0], np.eye(self.k))
        for before, after in self.problem.pace.tolist():
            self.graph.add(self.between(before, after, ahead, noise))

    def _add_motions(self, motions: Motions) -> None:
        model, k = self.model, self.k
        # GTSAM has the rotation first in 3-D, and last in 2-D.
        order = [0, 1, 2] if k == 2 else [3, 4, 5, 0, 1, 2]
        stretch = np.repeat(model.loose, [k, len(order) - k])
        covariances = (motions.covariance * np.outer(stretch, stretch))[:, order][:, :, order]
        huber = self.gtsam.noiseModel.mEstimator.Huber.Create(SETTINGS.huber)
        turns = motions.rotations
        if k == 2:
            turns = turns @ rotations(-model.bias * np.linalg.norm(motions.metres, axis=1))
        for row, (i, j) in enumerate(zip(motions.i.tolist(), motions.j.tolist(), strict=True)):
            noise = self._noise(self.gtsam.noiseModel.Gaussian.Covariance(covariances[row]), huber)
            move = pose_of(self.gtsam, model.scale * motions.metres[row], turns[row])
            self.graph.add(self.between(i, j, move, noise))

    def _hold(self, graph: Any, start: Any) -> None:
        """Hold every point very loosely where it starts, so that nothing is singular.

        Without known positions, the map begins where the first point starts.
        """
        extent, k = self.problem.extent, self.k
        at = getattr(start, f"at{self.kind}{k}")
        prior = getattr(self.gtsam, f"PriorFactor{self.kind}{k}")
        spread = np.full(k, extent)
        if self.problem.posed:
            turns = np.full(1 if k == 2 else 3, 10.0)
            spread = np.concatenate([spread, turns] if k == 2 else [turns, spread])
        loosely = self.gtsam.noiseModel.Diagonal.Sigmas(spread)
        for point in range(self.problem.ranges.count):
            graph.add(prior(point, at(point), loosely))
        if self.problem.anchors is None and self.problem.posed:
            firmly = self.gtsam.noiseModel.Isotropic.Sigma(len(spread), 1e-3)
            graph.add(prior(0, at(0), firmly))

    def _values(self, positions: Floats, frames: Floats) -> Any:
        values = self.gtsam.Values()
        for point, position in enumerate(positions):
            values.insert(
                point,
                pose_of(self.gtsam, position, frames[point]) if self.problem.posed else position,
            )
        return values

    def _read(self, values: Any) -> tuple[Floats, Floats]:
        rows = getattr(self.gtsam.utilities, f"extract{self.kind}{self.k}")(values)
        if not self.problem.posed:
            return rows, np.tile(np.eye(self.k), (len(rows), 1, 1))
        if self.k == 2:
            return rows[:, :2], rotations(rows[:, 2])
        return rows[:, 9:], rows[:, :9].reshape(-1, 3, 3)

    def covariances(self, fit: Fit) -> Floats:
        """Return the covariances (n, k, k) of positions in square metres, by linear approximation
        at the optimum.
        """
        marginals = self.gtsam.Marginals(fit.graph, fit.values)
        every = np.array(
            [marginals.marginalCovariance(point) for point in range(len(fit.positions))]
        )
        if not self.problem.posed:
            return every
        own = every[:, :2, :2] if self.k == 2 else every[:, 3:, 3:]  # seen from the pose
        turned: Floats = fit.frames @ own @ fit.frames.transpose(0, 2, 1)
        return turned


def pose_of(gtsam: Any, position: Floats, frame: Floats) -> Any:
    """Return GTSAM's pose for a position (k,) and an orientation (k, k)."""
    if len(position) == 2:
        return gtsam.Pose2(position[0], position[1], np.arctan2(frame[1, 0], frame[0, 0]))
    return gtsam.Pose3(gtsam.Rot3(frame), position)


def along(positions: Floats) -> Floats:
    """Return orientations (n, k, k) that look along the way; in 3-D, each is turned least from the
    one before.
    """
    ways = np.gradient(positions, axis=0) if len(positions) > 1 else np.zeros_like(positions)
    lengths = np.linalg.norm(ways, axis=1, keepdims=True)
    ways = np.where(lengths > 1e-9, ways / np.maximum(lengths, 1e-9), np.eye(positions.shape[1])[0])
    if positions.shape[1] == 2:
        return rotations(np.arctan2(ways[:, 1], ways[:, 0]))
    frames, up = np.empty((len(ways), 3, 3)), np.array([0.0, 0.0, 1.0])
    for point, way in enumerate(ways):
        up = up - (up @ way) * way
        up = (
            up / np.linalg.norm(up)
            if np.linalg.norm(up) > 1e-6
            else np.linalg.svd(way[None])[2][-1]
        )
        frames[point] = np.stack([way, np.cross(up, way), up], 1)
    return frames
