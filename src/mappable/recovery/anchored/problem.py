"""The least-squares problem of anchored recovery.

Ranges, known positions, displacements, relative motions and the motion prior are one sum of squares over pairs of
points, linearized at the present positions.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.anchored.deviations import Deviations
from mappable.recovery.anchored.dissection import plan_elimination
from mappable.recovery.anchored.motion import Motion
from mappable.recovery.anchored.range_noise import PlainNoise, RangeNoise
from mappable.recovery.anchored.relative import Relative, covered, gather
from mappable.recovery.hints import Anchors, Odometry, Turns
from mappable.recovery.ranges import Ranges

CLOSE = 0.7  # of the longest range: closer points usually have a range
FOLLOWING = 3  # lag in order up to which the share of missing ranges is measured
STILL = 1e-3  # of the longest range: shortest step that a camera is assumed to make
LEAST_MISSING = 0.02  # smallest share of missing ranges between close points
WEAK = 0.3  # vagueness above which ranges say less than the order of images does
HELD = 1e12  # inverse variance of a fixed point: all that is estimated rests on it
USUAL_LONGEST = 0.98  # quantile of the ranges that counts as the longest range, so that outliers do not count


class Problem:
    """Everything known about some points, and its linear system at a given state.

    A state (n, d) has the positions of the points and, as last column, the deviations of their ranges. If there are
    relative motions, it also has orientations between these, and the drift of the odometry as an additional last row.
    """

    def __init__(
        self,
        ranges: Ranges,
        known: Anchors,
        sequences: Sequence[Ints],
        odometry: Odometry | None,
        turns: Turns | None,
        start: Floats,
        looseness: float,
        relative: Relative | None = None,
        *,
        plain: bool = False,
    ) -> None:
        """`relative` are motions between the points.

        With `plain`, the problem is the sum of squares as stated: noise, drift and deviations are not estimated.
        """
        self.points, self.dimensions = start.shape
        self.relative, self.plain = relative, plain
        self.spin = 0 if relative is None else relative.spin
        self.hub = None if relative is None or plain else self.points  # row of the state that holds the drift
        self.count = self.points + (self.hub is not None)
        self.fixed = np.arange(0)  # points that do not move
        self.ranges, self.known, self.odometry = ranges, known, odometry
        self.start, self.loosely = start, looseness**-2
        self.noise = PlainNoise(ranges) if plain else RangeNoise(ranges, consecutive(ranges, sequences))
        self.reach = (float(np.quantile(ranges.metres, USUAL_LONGEST)) if len(ranges) else 0.0) or self.noise.longest
        before = _before(sequences, self.count)
        motions = None if relative is None else relative.motions
        led = covered(motions, sequences, self.points)
        self.motion = _motion(ranges, sequences, turns, start, self.reach, vagueness(ranges) > WEAK, led)
        step = self.motion.step if self.motion is not None else 1.0
        self.deviations = Deviations(before, step, self.reach, led=motions is not None)
        pairs = [np.stack([ranges.i, ranges.j], 1), np.stack([self.deviations.before, self.deviations.later], 1)]
        pairs.append(np.zeros((0, 2), int) if odometry is None else np.stack([odometry.i, odometry.j], 1))
        pairs.append(np.zeros((0, 2), int) if motions is None else np.stack([motions.i, motions.j], 1))
        ends = np.arange(0) if motions is None or plain else np.unique(np.concatenate([motions.i, motions.j]))
        pairs.append(np.stack([ends, np.full(len(ends), self.points)], 1))
        if self.motion is not None:
            order = self.motion.order
            pairs += [np.stack([order[:-lag], order[lag:]], 1) for lag in (1, 2, 3)]
        keys = [_keys(some, self.count) for some in pairs]
        all_keys, pair_of = np.unique(np.concatenate(keys), return_inverse=True)
        self.range_pairs, self.next_pairs, self.odometry_pairs, self.motion_pairs, hub_pairs, *self.lag_pairs = (
            np.split(pair_of, np.cumsum([len(some) for some in keys])[:-1])
        )
        self.hub_pairs = np.full(self.count, -1)
        self.hub_pairs[ends] = hub_pairs
        self.swapped = [some[:, 0] > some[:, 1] for some in pairs[5:]]
        self.pair_ends = all_keys // self.count, all_keys % self.count
        self.plan = plan_elimination(self.count, self.dimensions + self.spin + 1, *self.pair_ends, self.hub)
        self.pairs = len(all_keys)
        self.at_i, self.at_j = (gather(ends, self.count) for ends in (ranges.i, ranges.j))
        self.true: Floats = np.ones(len(ranges))  # weights: probabilities, or draws, that a range is true
        state = np.zeros((self.count, self.dimensions + self.spin + 1))
        state[: self.points, : self.dimensions] = start
        if relative is not None:
            state[: self.points, self.dimensions : -1] = relative.first_angles
        self.look(state)

    def look(self, state: Floats) -> None:
        """Linearize everything at this state."""
        self.state, self.positions = state, state[: self.points, : self.dimensions]
        apart = self.positions[self.ranges.i] - self.positions[self.ranges.j]
        distances = np.maximum(np.linalg.norm(apart, axis=1), 1e-6)
        self.directions = apart / distances[:, None]
        self.noise.look(distances, self._shifts(state))
        if self.motion is not None:
            self.motion.look(self.positions)
        if self.relative is not None:
            self.relative.look(state, None if self.hub is None else state[self.hub, :-1])

    def look_nearby(self, state: Floats) -> None:
        """Update the noise of ranges for a state near the last `look`, to first order."""
        k = self.dimensions
        apart = state[self.ranges.i, :k] - state[self.ranges.j, :k]
        self.noise.look(np.maximum((apart * self.directions).sum(1), 1e-6), self._shifts(state))

    def _shifts(self, state: Floats) -> Floats:
        shifts: Floats = state[self.ranges.i, -1] + state[self.ranges.j, -1]
        return shifts

    def strain(self) -> float:
        """Return the largest distance of a point from its known position, in sigmas."""
        off = np.linalg.norm(self.positions[self.known.points] - self.known.positions, axis=1)
        return float((off / self.known.sigma).max())

    def twin(self) -> "Problem":
        """Copy the problem, to try another state without changing this one."""
        twin = copy(self)
        twin.noise, twin.deviations, twin.motion = copy(self.noise), copy(self.deviations), copy(self.motion)
        twin.relative = copy(self.relative)
        return twin

    def objective(self) -> float:
        """Return what a step must decrease: the negative log likelihood, with the present weights `true`."""
        return float(self._costs().sum() - self.true @ self.noise.log_likelihood)

    def costs(self) -> Floats:
        """Return each point's share (n,) of the negative log likelihood, summed over true and false ranges."""
        halves = 0.5 * self.noise.costs()
        ends = np.concatenate([self.ranges.i, self.ranges.j])
        costs: Floats = self._costs() + np.bincount(ends, np.concatenate([halves, halves]), self.count)
        return costs + self._crowding()

    def _crowding(self) -> Floats:
        """Return each point's share (n,) of the cost of close points without a range between them.

        Points that follow each other in order show how often a range between close points is missing.
        """
        costs = np.zeros(self.count)
        if self.motion is None:
            return costs
        pairs = KDTree(self.positions).query_pairs(CLOSE * self.reach, output_type="ndarray")
        missing = ~np.isin(_keys(pairs, self.count), _keys(np.stack([self.ranges.i, self.ranges.j], 1), self.count))
        place = np.full(self.count, np.nan)  # pairs of points without order do not count
        place[self.motion.order] = np.arange(len(self.motion.order))
        one, two = place[pairs].T
        following = np.abs(one - two) <= FOLLOWING
        if following.any():
            share = np.clip(missing[following].mean(), LEAST_MISSING, 1.0)
            strange = missing & ~following & ~(np.isnan(one) & np.isnan(two))
            np.add.at(costs, pairs[strange], -0.5 * np.log(share))
        return costs

    def _costs(self) -> Floats:
        """Return each point's share (n,) of all costs except those of ranges."""
        known = self.known
        costs = np.zeros(self.count)
        costs[: self.points] = 0.5 * self.loosely * np.square(self.positions - self.start).sum(1)
        off = (self.positions[known.points] - known.positions) / known.sigma[:, None]
        costs[known.points] += 0.5 * np.square(off).sum(1)
        costs += self.deviations.costs(self.state[:, -1])
        if self.motion is not None:
            costs[self.motion.order[1:-1]] += self.motion.costs()
        if self.odometry is not None:
            slips = 0.5 * np.square(self._slips(self.odometry) / self.odometry.sigma[:, None]).sum(1)
            costs += np.bincount(self.odometry.j, slips, self.count)
        if self.relative is not None:
            costs += np.bincount(self.relative.motions.j, self.relative.costs(), self.count)
        if self.relative is not None and self.hub is not None:
            costs[self.hub] += 0.5 * self.relative.prior @ np.square(self.state[self.hub, :-1])
        return costs

    def system(self) -> tuple[Floats, Floats, Floats]:
        """Return the matrix, as `diagonal` (n, d, d) and `coupling` (pairs, d, d), and the right side (n, d)."""
        n, k, d = self.count, self.dimensions, self.dimensions + self.spin + 1
        diagonal, coupling = np.zeros((n, d, d)), np.zeros((self.pairs, d, d))
        weight, pull = self.true * self.noise.weight, self.true * self.noise.pull
        # A range has the derivatives (u, s) by the state of i, and (-u, s) by the state of j.
        by_i, turn = self._slopes()
        own = (weight[:, None] * by_i)[:, :, None] * by_i[:, None, :]
        flat = own.reshape(len(own), d**2)
        diagonal += (self.at_i @ flat + self.at_j @ (flat * np.outer(turn, turn).ravel())).reshape(diagonal.shape)
        coupling[self.range_pairs] = own * turn
        right = self.at_i @ (pull[:, None] * by_i) + self.at_j @ (pull[:, None] * by_i * turn)
        axes = np.arange(k)
        inverse = self.known.sigma**-2.0
        diagonal[self.known.points[:, None], axes, axes] += inverse[:, None]
        right[self.known.points, :k] += inverse[:, None] * (self.known.positions - self.positions[self.known.points])
        diagonal[: self.points, axes, axes] += self.loosely
        right[: self.points, :k] += self.loosely * (self.start - self.positions)
        gradient, own_w, next_w = self.deviations.system(self.state[:, -1])
        right[:, -1] += gradient
        diagonal[:, -1, -1] += own_w
        coupling[self.next_pairs, -1, -1] += next_w
        if self.motion is not None:
            gradient, bands = self.motion.system()
            right[self.motion.order, :k] += gradient
            diagonal[self.motion.order, :k, :k] += bands[0]
            for pairs, swapped, band in zip(self.lag_pairs, self.swapped, bands[1:], strict=True):
                coupling[pairs, :k, :k] += np.where(swapped[:, None, None], band.transpose(0, 2, 1), band)
        if self.odometry is not None:
            inverse = self.odometry.sigma**-2.0
            slips = inverse[:, None] * self._slips(self.odometry)
            for ends, toward in ((self.odometry.i, -1.0), (self.odometry.j, 1.0)):
                np.add.at(right[:, :k], ends, toward * slips)
                np.add.at(diagonal, (ends[:, None], axes, axes), inverse[:, None])
            np.add.at(coupling, (self.odometry_pairs[:, None], axes, axes), -inverse[:, None])
        if self.relative is not None:
            system = diagonal, coupling, right
            self.relative.add_to(system, self.motion_pairs, self.hub, self.hub_pairs, self.state)
        if len(self.fixed):
            diagonal[self.fixed], right[self.fixed] = HELD * np.eye(d), 0.0
            coupling[np.isin(self.pair_ends[0], self.fixed) | np.isin(self.pair_ends[1], self.fixed)] = 0.0
        return diagonal, coupling, right

    def _slopes(self) -> tuple[Floats, Floats]:
        """Return the derivatives (edges, d) of ranges by the state of i, and factors (d,) for those by j."""
        by_i = np.zeros((len(self.ranges), self.dimensions + self.spin + 1))
        by_i[:, : self.dimensions] = self.directions
        by_i[:, -1] = 0.0 if self.plain else self.noise.spread
        return by_i, np.array([-1.0] * (self.dimensions + self.spin) + [1.0])

    def draw_motions(self, state: Floats, rng: np.random.Generator) -> Floats:
        """Draw which motions are true, and return the chances (m,) that they are."""
        if self.relative is None or self.hub is None:
            return np.zeros(0)
        return self.relative.draw(state, state[self.hub, :-1], rng)

    def motion_doubt(self, diagonal: Floats, coupling: Floats) -> Floats:
        """Return the covariance (m, d, d) of the residuals of motions, given the blocks of a covariance of states."""
        if self.relative is None:
            return np.zeros((0, 0, 0))
        p, one = self.dimensions + self.spin, self.relative
        i, j = one.motions.i, one.motions.j
        across = coupling[self.motion_pairs, :p, :p]
        across = np.where((i > j)[:, None, None], across.transpose(0, 2, 1), across)
        slopes = [(one.by_i, diagonal[i]), (one.by_j, diagonal[j])]
        crossed = one.by_i @ across @ one.by_j.transpose(0, 2, 1)
        if self.hub is not None:
            slopes.append((one.by_drift, np.broadcast_to(diagonal[self.hub], (len(i), *diagonal.shape[1:]))))
            for ends, slope in ((i, one.by_i), (j, one.by_j)):
                crossed += slope @ coupling[self.hub_pairs[ends], :p, :p] @ one.by_drift.transpose(0, 2, 1)
        doubt: Floats = crossed + crossed.transpose(0, 2, 1)
        for slope, own in slopes:
            doubt += slope @ own[:, :p, :p] @ slope.transpose(0, 2, 1)
        return doubt

    def _slips(self, odometry: Odometry) -> Floats:
        slips: Floats = odometry.metres - (self.positions[odometry.j] - self.positions[odometry.i])
        return slips

    def doubt(self, diagonal: Floats, coupling: Floats) -> Floats:
        """Return the variance (edges,) of the predicted ranges, given the blocks of a covariance."""
        by_i, turn = self._slopes()
        by_j = by_i * turn
        across = coupling[self.range_pairs]
        doubt: Floats = np.einsum("ea,eab,eb->e", by_i, diagonal[self.ranges.i], by_i)
        doubt += np.einsum("ea,eab,eb->e", by_j, diagonal[self.ranges.j], by_j)
        doubt += 2 * np.einsum("ea,eab,eb->e", by_i, across, by_j)
        return doubt


def vagueness(ranges: Ranges) -> float:
    """Return the median relative sigma of the ranges."""
    return float(np.median(ranges.sigma / np.maximum(ranges.metres, 1e-9))) if len(ranges) else 1.0


def consecutive(ranges: Ranges, sequences: Sequence[Ints]) -> Bools:
    """Return True (edges,) for ranges from one point of a sequence to the next."""
    before = _before(sequences, ranges.count)
    found: Bools = (before[ranges.j] == ranges.i) | (before[ranges.i] == ranges.j)
    return found


def _keys(pairs: Ints, count: int) -> Ints:
    keys: Ints = pairs.min(1) * count + pairs.max(1)
    return keys


def _before(sequences: Sequence[Ints], count: int) -> Ints:
    """Return the point (n,) before each point in order, or -1."""
    before = np.full(count, -1)
    for sequence in sequences:
        before[sequence[1:]] = sequence[:-1]
    return before


def _motion(
    ranges: Ranges, sequences: Sequence[Ints], turns: Turns | None, start: Floats, reach: float, vague: bool, led: Bools
) -> Motion | None:
    """Make the motion prior; it does not count at points that relative motions lead to and from (`led`)."""
    long = [sequence for sequence in sequences if len(sequence) > 2]
    if not long:
        return None
    order = np.concatenate(long)
    sequence = np.repeat(np.arange(len(long)), [len(one) for one in long])
    together = sequence[1:] == sequence[:-1]
    near = ranges.metres[consecutive(ranges, long)]
    if len(near) < len(order) // 4 or vague:
        begun = np.linalg.norm(np.diff(start[order], axis=0), axis=1)[together]
        if np.median(begun) > STILL * reach or not len(ranges):
            near = begun
        elif not len(near):  # with only one known position, all points start there
            near = ranges.metres
    inside = together[1:] & together[:-1] & ~(led[order[:-2]] & led[order[1:-1]])
    if not inside.any():
        return None
    motion = Motion(order, inside, max(float(np.median(near)), STILL * reach), reach)
    if turns is not None:
        place = np.full(len(start), -1)
        place[order] = np.arange(len(order))
        at = place[turns.points] - 1
        inside = (at >= 0) & (at < len(motion.inside))
        motion.hint(at[inside], turns.radians[inside], turns.sigma[inside])
    return motion
