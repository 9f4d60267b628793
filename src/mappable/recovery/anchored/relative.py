"""Relative motions as terms of the least-squares problem: odometry, and the edges of pose graphs.

A pose is a position and an orientation. The measured motion from pose i to pose j is compared with the motion between
the estimated poses. The residual is the logarithm of their difference, which is also GTSAM's residual. It has
translations first, then rotations. In 2-D the orientation is an angle. In 3-D it is a rotation vector, relative to the
orientation at the start.

Odometry drifts: wheels are a little larger than stated, a gyroscope has a bias, a camera looks a little aside. These
errors are unknowns of the whole drive: the logarithm of the scale, in 2-D the angle between camera and odometry, and
the turn per metre.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.spatial.transform import Rotation

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.hints import Motions

# Series of the inverse Jacobian of the logarithm: Bernoulli numbers divided by factorials, for powers 2, 4, 6 and 8.
SERIES = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600)
# Widths of the Cauchy priors of drift (share, radians, radians per metre): most odometry hardly drifts, but it may
# drift much. Chosen on routes 600 to 604 of studies/recovery/range_slam.py.
SCALE_WIDTH, ASIDE_WIDTH, BIAS_WIDTH = 0.01, 0.005, 5e-4
HELD_SCALE_WIDTH = 1e-4  # of a scale that is not estimated
FIRST_WIDTH = 4.5  # times these widths: the prior with which a fit begins
SLIPS, SLIPPED = 0.01, 30.0  # share of false motions, and their error in stated spreads
UNTURNED = 1e-6  # inverse variance of an orientation that nothing determines, in radians
STATED_COUNT = 20  # weight of the stated spreads, in observations


@dataclass(frozen=True)
class DeadReckoning:
    """Poses that follow from motions alone: each part has coordinates of its own."""

    positions: Floats  # (n, k)
    frames: Floats  # (n, k, k)
    parts: Ints  # (n,)


class Relative:
    """Relative motions between the poses of a state, with their noise.

    A state has the position, then the orientation of each point. `frames` (n, k, k) are orientations at the start.
    With `scaled`, the drift has a scale; else the lengths of motions are right.
    """

    def __init__(self, motions: Motions, frames: Floats, *, scaled: bool = True) -> None:
        self.motions, self.frames = motions, frames
        self.k = motions.metres.shape[1]
        self.spin = 1 if self.k == 2 else 3
        self.length = np.linalg.norm(motions.metres, axis=1)
        self.root = np.linalg.cholesky(np.linalg.inv(motions.covariance)).transpose(0, 2, 1)
        self.scales = np.ones(2)  # noise of translations and of rotations, in stated spreads
        self.true: Floats = np.ones(len(motions))  # weight of each motion
        aside = [ASIDE_WIDTH] if self.k == 2 else [1.0, 1.0]
        scale = SCALE_WIDTH if scaled else HELD_SCALE_WIDTH
        self.widths = np.array([scale, *aside, *[BIAS_WIDTH] * self.spin])
        self.prior: Floats = (FIRST_WIDTH * self.widths) ** -2.0  # inverse variances (k + spin,) of the drift

    @property
    def first_angles(self) -> Floats:
        """Return the orientations (n, spin) at the start, as a state has them."""
        if self.k == 2:
            return np.arctan2(self.frames[:, 1, 0], self.frames[:, 0, 0])[:, None]
        return np.zeros((len(self.frames), 3))

    def orientations(self, state: Floats) -> Floats:
        """Return the rotation matrices (n, k, k) of a state."""
        angles = state[: len(self.frames), self.k : self.k + self.spin]
        if self.k == 2:
            return rotations(angles[:, 0])
        turned: Floats = self.frames @ Rotation.from_rotvec(angles).as_matrix()
        return turned

    def look(self, state: Floats, drift: Floats | None) -> None:
        """Linearize at a state, with `drift` (k + spin,) if it is estimated."""
        i, j, k = self.motions.i, self.motions.j, self.k
        frames = self.orientations(state)
        at_i, at_j = frames[i], frames[j]
        back = at_j.transpose(0, 2, 1)
        turn, way = self._expected(drift)
        turned_back = turn.transpose(0, 2, 1)
        apart = state[j, :k] - state[i, :k]
        off = _apply(turned_back, _apply(at_i.transpose(0, 2, 1), apart) - way)
        error = log_pose(turned_back @ at_i.transpose(0, 2, 1) @ at_j, off)
        right, left = inverse_jacobian(error), inverse_jacobian(-error)
        lever = _apply(back, -apart)
        inner = self._additive(state)
        by_i, by_j = np.zeros((2, len(i), k + self.spin, k + self.spin))
        by_j[:, :k, :k], by_i[:, :k, :k] = back, -back
        by_j[:, k:, k:] = inner[j]
        if k == 2:
            by_i[:, k:, k:] = -1.0
            by_i[:, :k, k] = -np.stack([lever[:, 1], -lever[:, 0]], 1)
        else:
            around = back @ at_i @ inner[i]
            by_i[:, k:, k:] = -around
            by_i[:, :k, k:] = -cross(lever) @ around
        white = self.root / np.repeat(self.scales, [k, self.spin])
        self.white = white
        self.error = error
        self.residual = _apply(white, error)
        self.by_i, self.by_j = white @ right @ by_i, white @ right @ by_j
        by_drift = np.zeros_like(by_i)
        if drift is not None:
            by_drift[:, :k, 0] = -_apply(turned_back, way)
            if k == 2:
                by_drift[:, :k, 1] = -_apply(turned_back, np.stack([-way[:, 1], way[:, 0]], 1))
            by_drift[:, k:, k:] = -self.length[:, None, None] * np.eye(self.spin)
        self.by_drift = white @ left @ by_drift

    def _expected(self, drift: Floats | None) -> tuple[Floats, Floats]:
        """Return rotations (m, k, k) and translations (m, k) of the motions, corrected for the drift."""
        turn, way = self.motions.rotations, self.motions.metres
        if drift is None:
            return turn, way
        bias = self.length[:, None] * drift[self.k :]
        way = np.exp(drift[0]) * way
        if self.k == 2:
            return turn @ rotations(bias[:, 0]), way @ rotations(drift[1:2])[0].T
        return turn @ Rotation.from_rotvec(bias).as_matrix(), way

    def corrected(self, state: Floats, points: Ints) -> Motions:
        """Return the motions as they count in a state: without drift, and with the estimated noise.

        `points` has the user's numbers of the points.
        """
        turn, way = self._expected(state[len(self.frames), :-1])
        scales = np.repeat(self.scales, [self.k, self.spin])
        noise = self.motions.covariance * scales[:, None] * scales / self.true[:, None, None]
        return Motions(points[self.motions.i], points[self.motions.j], way, turn, noise)

    def _additive(self, state: Floats) -> Floats:
        """Return (n, spin, spin): small rotations of a pose by small changes of its orientation in the state."""
        if self.k == 2:
            return np.ones((len(self.frames), 1, 1))
        angles = state[: len(self.frames), 3:6]
        size = np.maximum(np.linalg.norm(angles, axis=1), 1e-6)[:, None, None]
        hat = cross(angles)
        jacobian: Floats = np.eye(3) - (1 - np.cos(size)) / size**2 * hat + (size - np.sin(size)) / size**3 * hat @ hat
        return jacobian

    def costs(self) -> Floats:
        """Return half the weighted squares (m,) of the residuals."""
        costs: Floats = 0.5 * self.true * np.square(self.residual).sum(1)
        return costs

    def add_to(
        self, system: tuple[Floats, Floats, Floats], pairs: Ints, hub: int | None, hub_pairs: Ints, state: Floats
    ) -> None:
        """Add the motions, and the priors of orientations and drift, to a linear system.

        `pairs` (m,) are rows of `coupling` per motion. `hub` is the row of the drift, coupled to points by `hub_pairs`.
        """
        diagonal, coupling, right = system
        i, j, p = self.motions.i, self.motions.j, self.k + self.spin
        weighted = self.true[:, None] * self.residual
        terms = [(i, self.by_i), (j, self.by_j)]
        across = np.einsum("mra,m,mrb->mab", self.by_i, self.true, self.by_j)
        across = np.where((i > j)[:, None, None], across.transpose(0, 2, 1), across)
        np.add.at(coupling[:, :p, :p], pairs, across)
        if hub is not None:
            for ends, slopes in terms:
                crossed = np.einsum("mra,m,mrb->mab", slopes, self.true, self.by_drift)
                np.add.at(coupling[:, :p, :p], hub_pairs[ends], crossed)
            terms.append((np.full(len(i), hub), self.by_drift))
            axes = np.arange(p)
            diagonal[hub, axes, axes] += self.prior
            right[hub, :p] -= self.prior * state[hub, :p]
        for ends, slopes in terms:
            added = gather(ends, len(diagonal))
            squares = np.einsum("mra,m,mrb->mab", slopes, self.true, slopes)
            diagonal[:, :p, :p] += (added @ squares.reshape(len(ends), p * p)).reshape(-1, p, p)
            right[:, :p] -= added @ np.einsum("mra,mr->ma", slopes, weighted)
        axes = np.arange(self.k, p)
        diagonal[: len(self.frames), axes[:, None], axes[:, None]] += UNTURNED

    def doubt(self) -> None:
        """Weigh motions by a Cauchy distribution, which leaves a contradiction in few motions."""
        self.true = 1 / (1 + np.square(self.residual).mean(1))

    def learn(self, doubt: Floats, squared_drift: Floats) -> None:
        """Update which motions are true, their noise, and the prior of the drift.

        `doubt` (m, d, d) is the covariance of the residuals. `squared_drift` (k + spin,) is the expected square.
        """
        self.prior = 2 / (np.square(self.widths) + squared_drift)
        d = self.residual.shape[1]
        chance = self._chances(np.square(self.residual).sum(1) + np.einsum("maa->m", doubt))
        self.true = chance + (1 - chance) / SLIPPED**2
        covariance = np.linalg.inv(self.root.transpose(0, 2, 1) @ self.root)
        unwhite = np.linalg.inv(self.white)
        spread = unwhite @ doubt @ unwhite.transpose(0, 2, 1) + self.error[:, :, None] * self.error[:, None, :]
        for number, axes in enumerate((slice(0, self.k), slice(self.k, d))):
            own = np.linalg.solve(covariance[:, axes, axes], spread[:, axes, axes])
            squares = float(self.true @ np.einsum("maa->m", own)) / own.shape[1]
            self.scales[number] = np.sqrt((squares + STATED_COUNT) / (float(self.true.sum()) + STATED_COUNT))

    def draw(self, state: Floats, drift: Floats, rng: np.random.Generator) -> Floats:
        """Draw which motions are true at a state near the last `look`, and return the chances (m,) that they are."""
        near = copy(self)
        near.look(state, drift)
        chance = self._chances(np.square(near.residual).sum(1))
        self.true = np.where(rng.random(len(chance)) < chance, 1.0, SLIPPED**-2.0)
        return chance

    def _chances(self, squared: Floats) -> Floats:
        """Return the chances (m,) that motions are true, given their squared residuals."""
        inside = np.log1p(-SLIPS) - 0.5 * squared
        outside = np.log(SLIPS) - 0.5 * squared / SLIPPED**2 - self.residual.shape[1] * np.log(SLIPPED)
        chance: Floats = np.exp(inside - np.logaddexp(inside, outside))
        return chance


def reckon(motions: Motions, count: int) -> DeadReckoning:
    """Add up motions from the first point of each part, along as few motions as possible."""
    k = motions.metres.shape[1]
    rows = np.arange(len(motions)) + 1
    links = csr_array((np.concatenate([rows, -rows]), (np.r_[motions.i, motions.j], np.r_[motions.j, motions.i])),
                      shape=(count, count))  # fmt: skip
    pattern = csr_array((np.ones(len(links.data)), links.indices, links.indptr), shape=links.shape)
    parts = connected_components(pattern, directed=False)[1].astype(np.int64)
    positions, frames = np.zeros((count, k)), np.tile(np.eye(k), (count, 1, 1))
    row_of = {(a, b): row for row, (a, b) in enumerate(zip(motions.i.tolist(), motions.j.tolist(), strict=True))}
    for first in np.unique(parts, return_index=True)[1].tolist():
        order, before = breadth_first_order(pattern, first, directed=False)
        for point in order[1:].tolist():
            source = int(before[point])
            row = row_of.get((source, point))
            if row is not None:
                frames[point] = frames[source] @ motions.rotations[row]
                positions[point] = positions[source] + frames[source] @ motions.metres[row]
            else:
                row = row_of[point, source]
                frames[point] = frames[source] @ motions.rotations[row].T
                positions[point] = positions[source] - frames[point] @ motions.metres[row]
    return DeadReckoning(positions, frames, parts)


def covered(motions: Motions | None, sequences: Sequence[Ints], count: int) -> Bools:
    """Return True (n,) for points from which motions lead to the next point of their sequence, maybe by others."""
    found = np.zeros(count, dtype=bool)
    if motions is None:
        return found
    links = csr_array((np.ones(len(motions)), (motions.i, motions.j)), shape=(count, count))
    parts = connected_components(links, directed=False)[1]
    for sequence in sequences:
        found[sequence[:-1]] = parts[sequence[:-1]] == parts[sequence[1:]]
    return found


def gather(ends: Ints, count: int) -> csr_array:
    """Return a matrix (count, m) that adds rows (m,) up at their `ends`."""
    rows = np.arange(len(ends))
    return csr_array((np.ones(len(ends)), (ends, rows)), shape=(count, len(ends)))


def rotations(angles: Floats) -> Floats:
    """Return rotation matrices (m, 2, 2) by angles (m,) in radians."""
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)


def log_pose(rotation: Floats, off: Floats) -> Floats:
    """Return the logarithms (m, d) of poses with rotations (m, k, k) and translations `off` (m, k)."""
    if rotation.shape[1] == 2:
        angle = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
        half = angle / 2
        a = np.where(np.abs(half) < 1e-6, 1.0, half / np.tan(np.where(np.abs(half) < 1e-6, 1.0, half)))
        return np.stack([a * off[:, 0] + half * off[:, 1], a * off[:, 1] - half * off[:, 0], angle], 1)
    turn = Rotation.from_matrix(rotation).as_rotvec()
    size = np.linalg.norm(turn, axis=1)
    small = size < 1e-5
    safe = np.where(small, 1.0, size)
    factor = np.where(small, 1 / 12, (1 - safe / (2 * np.tan(safe / 2))) / safe**2)
    hat = cross(turn)
    inverse = np.eye(3) - 0.5 * hat + factor[:, None, None] * hat @ hat
    return np.concatenate([_apply(inverse, off), turn], 1)


def inverse_jacobian(error: Floats) -> Floats:
    """Return (m, d, d): changes of the logarithms `error` (m, d) by small motions after them, as a series."""
    m, d = error.shape
    twice = np.zeros((m, d, d))
    if d == 3:
        x, y, angle = error.T
        twice[:, 0, 1], twice[:, 1, 0], twice[:, 0, 2], twice[:, 1, 2] = -angle, angle, y, -x
    else:
        twice[:, :3, :3] = twice[:, 3:, 3:] = cross(error[:, 3:])
        twice[:, :3, 3:] = cross(error[:, :3])
    squared = twice @ twice
    total = np.eye(d) + 0.5 * twice
    power = squared
    for factor in SERIES:
        total = total + factor * power
        power = power @ squared
    return total


def cross(vectors: Floats) -> Floats:
    """Return the matrices (m, 3, 3) of cross products with vectors (m, 3)."""
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    rows = [np.stack(row, 1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
    return np.stack(rows, 1)


def _apply(matrices: Floats, vectors: Floats) -> Floats:
    applied: Floats = np.einsum("mab,mb->ma", matrices, vectors)
    return applied
