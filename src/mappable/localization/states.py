"""States of the place model: landmarks, points between them, and how a camera moves from one to another."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints, evenly
from mappable.localization.numbers import NUMBERS, PlaceNumbers

MOST_STATES = 2**16  # larger maps get fewer states per landmark
MOST_PAIRS = 2**24  # pairs of states that a step may join; denser maps get fewer classes of speed
CROWD_SAMPLE = 500  # states around which the pairs are counted
LEAST_MOVE = 1e-5  # least probability of a move that is kept


class States:
    """Points (s, k) along the visits of the landmarks (m, k).

    `visits` are rows of landmarks, visit by visit, in the order taken. A state is a blend of two
    landmarks that follow each other: (1 - blend) first + blend second. Landmarks that are far apart
    are not joined.
    """

    def __init__(
        self, positions: Floats, visits: Sequence[Ints], numbers: PlaceNumbers = NUMBERS
    ) -> None:
        self.landmarks, self.numbers = len(positions), numbers
        gaps = [np.linalg.norm(np.diff(positions[rows], axis=0), axis=1) for rows in visits]
        self.spacing = _spacing(positions, np.concatenate(gaps))
        count = int(np.clip(MOST_STATES // len(positions), 1, numbers.states))
        self.fineness = self.spacing / count
        far = [np.flatnonzero(gap > numbers.joined * self.spacing) + 1 for gap in gaps]
        runs = [run for rows, ends in zip(visits, far, strict=True) for run in np.split(rows, ends)]
        self.runs, self.of_landmarks = runs, positions
        parts = [_along(run, count) for run in runs]
        self.first, self.second, self.blend = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        self.positions = self.between(positions)
        run_of = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
        self.tangent = _tangents(self.positions, run_of)
        self.tree = KDTree(self.positions)
        crowd = self.tree.query_ball_point(
            self.positions, self.spacing * (1 + 1e-9), return_length=True
        )
        self.share: Floats = (1 / crowd) / (1 / crowd).sum()  # of the ground, which visits share

    def __len__(self) -> int:
        return len(self.positions)

    def between(self, values: Floats) -> Floats:
        """Values (m, ...) of landmarks at the states (s, ...)."""
        blend = self.blend.reshape(-1, *[1] * (values.ndim - 1))
        mixed: Floats = (1 - blend) * values[self.first] + blend * values[self.second]
        return mixed

    @cached_property
    def speeds(self) -> Floats:
        """Classes of speed, in the unit of the map per image. A camera that stands still has the
        slowest.
        """
        numbers = self.numbers
        classes = np.arange(
            np.log(numbers.slowest), np.log(numbers.fastest) + 1e-9, np.log(numbers.speed_ratio)
        )
        speeds: Floats = self.spacing * np.exp(classes)
        some = self.positions[evenly(len(self), CROWD_SAMPLE)]
        while len(speeds) > 1:
            crowd = self.tree.query_ball_point(
                some, self._reach(speeds[-1]), return_length=True
            ).mean()
            if crowd * len(self) <= MOST_PAIRS:
                break
            speeds = speeds[:-1]
        return speeds

    @cached_property
    def change(self) -> Floats:
        """Probabilities (c, c) of a change from one class of speed to another."""
        count, rate = len(self.speeds), self.numbers.change
        change = np.eye(count) * (1 - rate) + rate / 2 * (np.eye(count, k=1) + np.eye(count, k=-1))
        stochastic: Floats = change / change.sum(1, keepdims=True)
        return stochastic

    @cached_property
    def kernels(self) -> list[csr_matrix]:
        """Probabilities (2s, 2s) of moves, per class of speed; what a row lacks to 1 leaves the map
        (equation 9).
        """
        return [self.kernel(float(speed), self.numbers.step_noise) for speed in self.speeds]

    @cached_property
    def lost(self) -> Floats:
        """Probabilities (c, 2s) that a move leaves the map, per class of speed."""
        return lost(self.kernels)

    def kernel(self, step: float, noise: float) -> csr_matrix:
        """Probabilities (2s, 2s) of moves by about `step`. A state counts twice: along its visit,
        and against it.
        """
        rows, columns, apart, weight = self._moves
        deviation = np.hypot(noise * step, 0.5 * self.fineness)
        move = np.exp(-0.5 * ((apart - step) / deviation) ** 2) * weight
        total = np.bincount(rows, move, 2 * len(self))
        move /= np.maximum(np.maximum(total, np.median(total)), 1e-300)[rows]
        kept = move > LEAST_MOVE
        size = (2 * len(self), 2 * len(self))
        return csr_matrix((move[kept].astype(np.float32), (rows[kept], columns[kept])), size)

    @cached_property
    def _moves(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Pairs of states that one step may join: rows, columns, distance, and share of the ground
        of the second.
        """
        pairs = self.tree.query_pairs(self._reach(self.speeds[-1]), output_type="ndarray")
        start, end = np.concatenate([pairs, pairs[:, ::-1]]).T
        way = self.positions[end] - self.positions[start]
        apart = np.linalg.norm(way, axis=1)
        leaving, arriving = (np.sign((way * self.tangent[state]).sum(1)) for state in (start, end))
        own = np.arange(2 * len(self))
        turned = (own + len(self)) % (2 * len(self))
        ground = np.tile(self.share, 2)
        still = np.zeros(2 * len(self))
        turns = self.numbers.leave
        parts = [(own, own, still, (1 - turns) * ground), (own, turned, still, turns * ground)]
        for sense in (1, -1):
            for later in (1, -1):
                weight = _agrees(leaving, sense) * _agrees(arriving, later)
                kept = weight > 0
                rows = start[kept] + (sense < 0) * len(self)
                columns = end[kept] + (later < 0) * len(self)
                parts.append((rows, columns, apart[kept], (weight * self.share[end])[kept]))
        rows, columns, distance, weight = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        return rows, columns, distance, weight

    def _reach(self, speed: float) -> float:
        return speed * (1 + 2.5 * self.numbers.step_noise) + self.fineness


def lost(kernels: Sequence[csr_matrix]) -> Floats:
    """Probabilities (c, 2s) that a move by one of the kernels leaves the map."""
    left: Floats = 1 - np.stack([np.asarray(kernel.sum(1)).ravel() for kernel in kernels])
    return left


def _along(run: Ints, count: int) -> tuple[Ints, Ints, Floats]:
    """First landmark, second landmark and blend of the states along a run of landmarks."""
    at = np.arange((len(run) - 1) * count + 1) / count
    first = np.minimum(at.astype(np.int64), max(len(run) - 2, 0))
    return run[first], run[np.minimum(first + 1, len(run) - 1)], at - first


def _agrees(direction: Floats, sense: int) -> Floats:
    """1 if a direction (n,) has this sense, 0 if the other one, and a half if the state knows no
    direction.
    """
    agrees: Floats = (1 + sense * direction) / 2
    return agrees


def _tangents(positions: Floats, run: Ints) -> Floats:
    """Unit directions (s, k) of travel at states of runs (s,); 0 for a run of one state."""
    tangents = np.zeros_like(positions)
    step = np.where((run[1:] == run[:-1])[:, None], np.diff(positions, axis=0), 0.0)
    tangents[:-1] += step
    tangents[1:] += step
    unit: Floats = tangents / np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-12)
    return unit


def _spacing(positions: Floats, gaps: Floats) -> float:
    """The usual distance to the next landmark: along visits, or on the ground if there is no order."""
    if (gaps > 0).any():
        return float(np.median(gaps[gaps > 0]))
    unique = np.unique(positions, axis=0)
    return float(np.median(KDTree(unique).query(unique, 2)[0][:, 1])) if len(unique) > 1 else 1.0
