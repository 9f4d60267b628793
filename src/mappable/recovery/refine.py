"""Refinement: positions that fit ranges, known positions, odometry and the way a camera moves, and how sure they are.

All of it is one sum of squares about the present positions, over pairs of points; Gauss-Newton steps minimise it. Where
images are in order, positions are then drawn again and again together with all that is unknown besides them (Gibbs
sampling): where there are turns, how sharp they are, how noisy the ranges are, and which of them are false. The mean of
the draws is the best guess, and their covariance tells how sure it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from mappable.arrays import Floats, Ints
from mappable.recovery.elimination import Elimination, Factor, SingularError
from mappable.recovery.motion import Motion
from mappable.recovery.range_noise import RangeNoise
from mappable.recovery.ranges import Ranges


@dataclass(frozen=True)
class Known:
    """Positions (m, k) of some points (m,), each coordinate give or take sigma (m,)."""

    points: Ints
    positions: Floats
    sigma: Floats


@dataclass(frozen=True)
class Steps:
    """Displacements (m, k) from points `i` to points `j` (m,), each coordinate give or take sigma (m,)."""

    i: Ints
    j: Ints
    vectors: Floats
    sigma: Floats


class Problem:
    """All that is known about some points, and the linear system of it at given positions (n, k)."""

    def __init__(
        self,
        ranges: Ranges,
        known: Known,
        sequences: Sequence[Ints],
        odometry: Steps | None,
        start: Floats,
        looseness: float,
    ) -> None:
        self.count, self.dimensions = start.shape
        self.ranges, self.known, self.odometry = ranges, known, odometry
        self.start, self.loosely = start, looseness**-2
        self.motion = _motion(ranges, sequences, start)
        consecutive = np.zeros(len(ranges), dtype=bool)
        pairs = [np.stack([ranges.i, ranges.j], 1)]
        lags: list[Ints] = []
        if self.motion is not None:
            order = self.motion.order
            lags = [np.stack([order[:-lag], order[lag:]], 1) for lag in (1, 2, 3)]
            consecutive = np.isin(_keys(pairs[0], self.count), _keys(lags[0], self.count))
        if odometry is not None:
            lags.append(np.stack([odometry.i, odometry.j], 1))
        pairs += lags
        keys, self.pair_of = np.unique(np.concatenate([_keys(some, self.count) for some in pairs]), return_inverse=True)
        cuts = np.cumsum([len(some) for some in pairs])[:-1]
        self.range_pairs, *self.lag_pairs = np.split(self.pair_of, cuts)
        self.swapped = [some[:, 0] > some[:, 1] for some in lags]
        self.i, self.j = keys // self.count, keys % self.count
        self.plan = Elimination(self.count, self.dimensions, self.i, self.j)
        rows = np.arange(len(ranges))
        ends = np.concatenate([ranges.i, ranges.j])
        ones = np.ones(len(ranges))
        shape = (len(ranges), self.count)
        self.ends = csr_array(
            (np.concatenate([ones, ones]), (np.concatenate([rows, rows]), ends)), shape=shape
        ).T.tocsr()
        self.signs = csr_array(
            (np.concatenate([ones, -ones]), (np.concatenate([rows, rows]), ends)), shape=shape
        ).T.tocsr()
        self.noise = RangeNoise(ranges, consecutive)
        self.true: Floats = np.ones(len(ranges))  # weights: chances, or draws, that a range is not false
        self.positions = start

    def look(self, positions: Floats) -> None:
        """Take everything as it is at these positions."""
        self.positions = positions
        apart = positions[self.ranges.i] - positions[self.ranges.j]
        distances = np.maximum(np.linalg.norm(apart, axis=1), 1e-6)
        self.directions = apart / distances[:, None]
        self.noise.look(distances)
        if self.motion is not None:
            self.motion.look(positions)

    def lengths(self, positions: Floats) -> Floats:
        """The distances (edges,) of positions near those looked at, to first order."""
        apart = positions[self.ranges.i] - positions[self.ranges.j]
        lengths: Floats = np.maximum((apart * self.directions).sum(1), 1e-6)
        return lengths

    def objective(self) -> float:
        """What a step shall lower: the negative logarithm of the likelihood, as things stand."""
        known = np.square((self.positions[self.known.points] - self.known.positions) / self.known.sigma[:, None]).sum()
        loosely = self.loosely * np.square(self.positions - self.start).sum()
        total = 0.5 * float(known + loosely) - float(self.true @ self.noise.log_likelihood)
        if self.motion is not None:
            total += self.motion.penalty()
        if self.odometry is not None:
            total += 0.5 * float(np.square(self._slips() / self.odometry.sigma[:, None]).sum())
        return total

    def system(self) -> tuple[Floats, Floats, Floats]:
        """The matrix, as diagonal (n, k, k) and coupling (pairs, k, k), and the right side (n, k) of the next step."""
        n, k = self.count, self.dimensions
        weight, u = self.true * self.noise.weight, self.directions
        blocks = (weight[:, None] * u)[:, :, None] * u[:, None, :]
        diagonal = (self.ends @ blocks.reshape(-1, k * k)).reshape(n, k, k)
        right = self.signs @ ((self.true * self.noise.pull)[:, None] * u)
        coupling = np.zeros((len(self.i), k, k))
        coupling[self.range_pairs] = -blocks
        axes = np.arange(k)
        inverse = self.known.sigma**-2.0
        diagonal[self.known.points[:, None], axes, axes] += inverse[:, None]
        right[self.known.points] += inverse[:, None] * (self.known.positions - self.positions[self.known.points])
        diagonal[:, axes, axes] += self.loosely
        right += self.loosely * (self.start - self.positions)
        if self.motion is not None:
            gradient, bands = self.motion.system()
            right[self.motion.order] += gradient
            diagonal[self.motion.order] += bands[0]
            for pairs, swapped, band in zip(self.lag_pairs, self.swapped, bands[1:], strict=False):
                coupling[pairs] += np.where(swapped[:, None, None], band.transpose(0, 2, 1), band)
        if self.odometry is not None:
            inverse = self.odometry.sigma**-2.0
            slips = inverse[:, None] * self._slips()
            blocks = inverse[:, None, None] * np.eye(k)
            for ends, sign in ((self.odometry.i, -1.0), (self.odometry.j, 1.0)):
                np.add.at(right, ends, sign * slips)
                np.add.at(diagonal, ends, blocks)
            np.add.at(coupling, self.lag_pairs[-1], -blocks)
        return diagonal, coupling, right

    def _slips(self) -> Floats:
        odometry = self.odometry
        if odometry is None:
            raise ValueError("there is no odometry")
        slips: Floats = odometry.vectors - (self.positions[odometry.j] - self.positions[odometry.i])
        return slips

    def doubt(self, diagonal: Floats, coupling: Floats) -> Floats:
        """The variance (edges,) of the distances, given the blocks of a covariance."""
        across = coupling[self.range_pairs]
        both = diagonal[self.ranges.i] + diagonal[self.ranges.j] - across - across.transpose(0, 2, 1)
        doubt: Floats = np.einsum("ea,eab,eb->e", self.directions, both, self.directions)
        return doubt


def _keys(pairs: Ints, count: int) -> Ints:
    keys: Ints = pairs.min(1) * count + pairs.max(1)
    return keys


def _motion(ranges: Ranges, sequences: Sequence[Ints], start: Floats) -> Motion | None:
    long = [sequence for sequence in sequences if len(sequence) > 2]
    if not long:
        return None
    order = np.concatenate(long)
    sequence = np.repeat(np.arange(len(long)), [len(one) for one in long])
    together = sequence[1:] == sequence[:-1]
    place = np.full(len(start), -2 * len(start))
    place[order] = np.arange(len(order))
    lag = np.abs(place[ranges.i] - place[ranges.j])
    near = ranges.metres[lag == 1]
    if len(near) < len(order) // 4:
        near = np.linalg.norm(np.diff(start[order], axis=0), axis=1)[together]
    return Motion(order, together[1:] & together[:-1], max(float(np.median(near)), 1e-6), float(ranges.metres.max()))


def settle(problem: Problem, positions: Floats, *, steps: int = 30, tolerance: float = 1e-3) -> Floats:
    """Positions of least objective near these, by damped Gauss-Newton steps that never make it worse."""
    problem.look(positions)
    value, damping = problem.objective(), 1e-6
    axes = np.arange(problem.dimensions)
    for _ in range(steps):
        diagonal, coupling, right = problem.system()
        for _ in range(12):
            damped = diagonal.copy()
            damped[:, axes, axes] *= 1 + damping
            try:
                step = problem.plan.factor(damped, coupling).solve(right)
            except SingularError:
                step = np.full_like(positions, np.nan)
            problem.look(positions + step)
            trial = problem.objective()
            if trial <= value:
                break
            damping *= 10
        else:
            problem.look(positions)
            return positions
        positions, value, damping = positions + step, trial, max(damping / 10, 1e-9)
        if np.abs(step).max() < tolerance:
            break
    return positions


@dataclass(frozen=True)
class Refined:
    positions: Floats  # (n, k)
    covariances: Floats  # (n, k, k)
    noise: float
    true: Floats  # (edges,)


def fit(problem: Problem, positions: Floats, *, rounds: int = 25) -> Refined:
    """Positions by Gauss-Newton, in turn with the noise of the ranges and the chances that they are true."""
    noise = problem.noise
    for _ in range(rounds):
        positions = settle(problem, positions, steps=5)
        diagonal, coupling, _ = problem.system()
        own, between = problem.plan.factor(diagonal, coupling).inverse()
        doubt = problem.doubt(own, between) / np.square(noise.spread)
        problem.true = noise.chances(doubt)
        spread = (problem.true @ (noise.squared + np.square(noise.variance) * doubt)) / (problem.true @ noise.variance)
        noise.noise *= float(np.sqrt(spread))
        noise.false = _share((1 - problem.true).sum(), len(problem.true))
        if problem.motion is not None:
            problem.motion.relax()
            problem.motion.pace(positions)
    return Refined(positions, own, noise.noise, problem.true)


def sample(
    problem: Problem,
    start: Floats,
    rng: np.random.Generator,
    *,
    sweeps: int = 250,
    chains: int = 4,
    hot: int = 20,
    heat: float = 3.0,
) -> Refined:
    """Mean and covariance of positions drawn from all that fits, beginning at these."""
    noise, motion = problem.noise, problem.motion
    if motion is None:
        raise ValueError("positions are drawn of points in order only")
    skipped = sweeps // 5
    total = np.zeros_like(start)
    squared = np.zeros((*start.shape, start.shape[1]))
    inner, inners = np.zeros_like(squared), 0
    true, level = np.zeros(len(problem.ranges)), 0.0
    initial = noise.noise, noise.false
    for _ in range(chains):
        mean = positions = start
        noise.noise, noise.false = initial
        problem.look(mean)
        motion.reset()
        for sweep in range(sweeps):
            noise.look(problem.lengths(positions))
            chances = noise.chances()
            problem.true = (rng.random(len(chances)) < chances).astype(np.float64)
            trues = problem.true.sum()
            noise.false = float(rng.beta(len(chances) - trues + FALSE[0] * FALSE[1], trues + FALSE[1]))
            spread = problem.true @ noise.squared / (problem.true @ noise.variance) if trues else 1.0
            motion.draw(positions, rng)
            if sweep < hot:
                motion.precision = motion.precision / heat**2
            if trues:
                noise.noise *= float(np.sqrt(spread * trues / rng.chisquare(trues)))
            mean = settle(problem, mean, steps=1)
            diagonal, coupling, _ = problem.system()
            factor = problem.plan.factor(diagonal, coupling)
            positions = mean + factor.draw(rng)
            if sweep >= skipped:
                off = mean - start
                total += off
                squared += off[:, :, None] * off[:, None, :]
                true += chances
                level += noise.noise
                if sweep % 5 == 0:
                    inner += factor.inverse()[0]
                    inners += 1
    draws = chains * (sweeps - skipped)
    mean = total / draws
    between = squared / draws - mean[:, :, None] * mean[:, None, :]
    return Refined(start + mean, inner / inners + between, level / draws, true / draws)


FALSE = 0.01, 100


def _share(false: float, count: int) -> float:
    return float((false + FALSE[0] * FALSE[1]) / (count + FALSE[1]))


def _next(problem: Problem, positions: Floats) -> tuple[Factor, Floats]:
    diagonal, coupling, right = problem.system()
    factor = problem.plan.factor(diagonal, coupling)
    return factor, positions + factor.solve(right)
