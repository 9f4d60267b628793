"""A Bayesian filter over places: at which landmark each image of a drive is, or that it is off the map."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from mappable.arrays import Floats, Floats32, Ints, evenly
from mappable.maps.steps import Steps, step_prior

LEVELS, BINS = 64, 96  # size of the table of likelihoods of steps: squared feature distances x metres
# The next two lines were chosen by the tables of studies/drives.
JUMP = 1e-3  # probability of a step to any place of the map, before the image shows whether it continues the last one
LEAST_JUMP = 1e-9  # the same for an image that does; chosen by `studies/live run --choose`
LEAVE, ENTER = 0.02, 0.1  # probabilities, per image, of leaving the map and of coming back to it
TURNED = 0.9  # a turn by one radian changes an image as a way with this share of the growth of feature distances
SLIP = 0.02  # share of steps for which odometry is wrong
FREE_STEP = 0.2  # weight of steps of any length, beside steps of about the usual length
STRAY_STEP = 0.02  # share of steps of any length among images on the map; it tells them from images off the map
CROWD_RADIUS = 2.0  # landmarks within this distance share the same ground; in spacings
SHIFTS = 8  # number of positions per spacing over which the likelihood of a step is averaged
SHIFTED = np.linspace(-1, 1, 2 * SHIFTS + 1)[1:-1]  # these positions, in spacings
BACK = 6  # how many images back an image can be tied to
CLEARLY_NEARER = 0.15  # share of the plateau by which an earlier image must be nearer to replace the previous one
LIKELY_PLACES, NEAR_EACH = 8, 12  # likeliest places of the image before, and landmarks near each, that are added
# Landmarks below this share of the likeliest one's probability are forgotten: never one that the camera just jumped to.
UNLIKELY = 1e-6 * LEAST_JUMP
MOST_NEAR, NEAR_CACHED = 64, 4096  # landmarks around one that are searched, and landmarks for which they are kept
SUMMED = 256  # landmarks on which the sum over all landmarks is estimated, in large maps
PAIRS_IN_MEMORY = 4096  # largest number of landmarks for which the distances of all pairs stay in memory
MOVES_IN_MEMORY = 512  # largest number of landmarks for which the probabilities of all moves stay in memory


@dataclass(frozen=True)
class Sight:
    """What one image says alone: how likely it is, given the landmark at which it was taken."""

    rows: Ints  # (c,) landmarks, rising
    likelihood: Floats  # (c,) likelihood at these landmarks
    rest: float  # likelihood at any other landmark
    away: float  # likelihood off the map


@dataclass(frozen=True)
class Belief:
    """Where an image is: probabilities of landmarks, and of being off the map."""

    rows: Ints  # (c,) landmarks
    probability: Floats  # (c,) probability of each
    away: float  # probability of being off the map


@dataclass(frozen=True)
class Motion:
    """How a camera moved between two images, by odometry, in its frame at the first one; in metres and radians."""

    forward: float
    left: float
    turn: float  # counter-clockwise
    variance: float  # of each axis of the motion, in squared metres

    @property
    def way(self) -> float:
        """Length of the motion, in metres."""
        return float(np.hypot(self.forward, self.left))

    def then(self, other: "Motion") -> "Motion":
        """This motion and another one after it."""
        cos, sin = float(np.cos(self.turn)), float(np.sin(self.turn))
        return Motion(
            self.forward + cos * other.forward - sin * other.left,
            self.left + sin * other.forward + cos * other.left,
            self.turn + other.turn,
            self.variance + other.variance,
        )


class Layout:
    """Distances between landmarks at positions (m, k), in the form that the filter needs."""

    def __init__(self, positions: Floats, spacing: float) -> None:
        self.positions, self.spacing = positions, spacing if spacing > 0 else 1.0
        self.tree = KDTree(positions)
        farthest = max(float(np.linalg.norm(np.ptp(positions, axis=0))), self.spacing)
        self.first = self.spacing / 4  # shorter distances count as 0; longer ones are binned by their logarithm
        self.ratio = log(1.001 * farthest / self.first) / (BINS - 2)
        middles = self.first * np.exp(self.ratio * (np.arange(BINS - 1) + 0.5))
        self.centers = np.concatenate([[0.0], np.minimum(middles, farthest)])
        count = len(positions)
        crowd = self.tree.query_ball_point(positions, CROWD_RADIUS * self.spacing, return_length=True)
        self.weights = (1 / crowd) * (
            count / (1 / crowd).sum()
        )  # (m,) share of the ground of each landmark; the mean is 1
        self.pairs = self.bins(positions, positions) if count <= PAIRS_IN_MEMORY else None
        some = np.arange(count) if self.pairs is not None else evenly(count, SUMMED)
        bins = self.bins(positions[some], positions) if self.pairs is None else self.pairs
        numbers = (np.arange(len(some))[:, None] * BINS + bins).ravel()
        around = np.bincount(numbers, np.broadcast_to(self.weights, bins.shape).ravel(), len(some) * BINS)
        self.around = (
            around.reshape(-1, BINS) if self.pairs is not None else None
        )  # (m, BINS) sum of weights per distance
        self.counts = self.weights[some] @ around.reshape(-1, BINS) / self.weights[some].sum()  # (BINS,) their mean
        self.near = lru_cache(NEAR_CACHED)(self._near)

    def _near(self, landmark: int) -> Ints:
        """Rows of the landmarks around a landmark, nearest first."""
        near: Ints = self.tree.query(self.positions[landmark], min(MOST_NEAR, len(self.positions)))[1]
        return np.atleast_1d(near)

    def bins(self, first: Floats, second: Floats) -> NDArray[np.uint8]:
        """Bin numbers (a, b) of the distances between positions (a, k) and (b, k)."""
        squared = sum(np.square(first[:, axis, None] - second[:, axis]) for axis in range(first.shape[1]))
        with np.errstate(divide="ignore"):
            number = np.floor((0.5 * np.log(squared) - log(self.first)) / self.ratio) + 1
        bins: NDArray[np.uint8] = np.clip(number, 0, BINS - 1).astype(np.uint8)
        return bins


class PlaceFilter:
    """A filter for one drive. Most of its steps are about as long as the `usual` one; None: any length."""

    def __init__(self, layout: Layout, steps: Steps, usual: float | None = None) -> None:
        self.layout, self.steps, self.count = layout, steps, len(layout.positions)
        self.levels = np.linspace(0.0, 1.15 * steps.plateau, LEVELS)
        moves, near = _moves_between_cells(steps, self.levels, layout, usual)
        kernels = (1 - FREE_STEP) * moves + FREE_STEP * _moves_between_cells(steps, self.levels, layout, None)[0]
        self.kernels = (kernels / (kernels @ layout.counts)[:, None]).astype(np.float32)
        steady = (1 - STRAY_STEP) * moves @ layout.counts / (near @ layout.counts)
        stray = STRAY_STEP * _moves_between_cells(steps, self.levels, layout, None)[0] @ layout.counts / self.count
        leaves = LEAVE * steps.likelihood(self.levels, np.array([steps.metres[-1]]))[:, 0]
        self.leave = leaves / (
            leaves + (1 - LEAVE) * (steady + stray)
        )  # (LEVELS,) by feature distance from the image before
        jumps = JUMP * steps.likelihood(self.levels, np.array([steps.metres[-1]]))[:, 0]
        self.jump = np.maximum(jumps / (jumps + (1 - JUMP) * (steady + stray)), LEAST_JUMP)  # (LEVELS,)
        self.enter = ENTER * np.minimum(
            self.levels / steps.plateau, 1.0
        )  # (LEVELS,) a camera that stands still cannot enter
        self._whole: dict[int, Floats32] = {}
        self._sums: dict[int, Floats] = {}

    def breaks(self, squared: float) -> bool:
        """Whether a step to any place explains this `squared` feature distance at least as well as a usual step."""
        return bool(self.jump[self._level(squared)] >= JUMP)

    def information(self, squared: Floats) -> Floats:
        """How many nats steps with squared feature distances (n,) tell about the next place (n,); 0 is nothing."""
        kernels = self.kernels[[self._level(one) for one in squared.tolist()]]
        nats: Floats = (kernels * np.log(np.maximum(kernels * self.count, 1e-12))) @ self.layout.counts
        return nats

    def start(self, sight: Sight) -> Belief:
        """The belief about the first image of a drive."""
        places = sight.likelihood * self.layout.weights[sight.rows] * (ENTER / self.count)
        return _normalized(sight.rows, np.append(places, sight.away * LEAVE))

    def update(self, belief: Belief, sight: Sight, squared: float, motion: Motion | None = None) -> Belief:
        """The belief about an image, from the belief about an earlier image at the `squared` feature distance.

        With odometry, `motion` is the motion since that image.
        """
        likely = belief.probability >= UNLIKELY * belief.probability.max()
        some = Belief(belief.rows[likely], belief.probability[likely], belief.away)
        return self._follow(some, self.widen(some, sight), squared, motion)

    def smooth(self, sights: Sequence[Sight], parents: Ints, squared: Floats) -> list[Belief]:
        """Beliefs about the images of a drive that use all of its images, earlier and later ones.

        Image n is tied to the earlier image parents[n], at the squared feature distance squared[n]. The first image is
        tied to none.
        """
        forward = [self.start(sights[0])]
        for n in range(1, len(sights)):
            forward.append(self.update(forward[parents[n]], sights[n], float(squared[n])))
        seen = [_at(sight, belief.rows) for sight, belief in zip(sights, forward, strict=True)]
        messages: list[list[tuple[int, Floats]]] = [[] for _ in seen]  # for each image, from the images tied to it
        for n in range(len(seen) - 1, 0, -1):
            values = np.append(seen[n].likelihood, seen[n].away) * _product(messages[n])
            messages[parents[n]].append((n, self._report(forward[parents[n]].rows, seen[n].rows, values, squared[n])))
        down = forward[:1]  # beliefs without the messages from the images tied to each image
        for n in range(1, len(seen)):
            parent = int(parents[n])
            others = [(child, message) for child, message in messages[parent] if child != n]
            if not others and down[parent] is forward[parent]:
                down.append(forward[n])
            else:
                values = _joined(down[parent]) * _product(others)
                down.append(self._follow(_normalized(down[parent].rows, values), seen[n], float(squared[n])))
        return [_normalized(one.rows, _joined(one) * _product(own)) for one, own in zip(down, messages, strict=True)]

    def _follow(self, belief: Belief, sight: Sight, squared: float, motion: Motion | None = None) -> Belief:
        leave, enter = (one[self._level(squared)] for one in (self.leave, self.enter))
        moved = belief.probability @ self._moves(belief.rows, sight.rows, squared)
        if motion is not None:
            jump = self._jump(motion, squared)
            by_odometry = self._between(
                belief.rows, sight.rows, self._kernel_by(motion), None, self.jump[self._level(squared)]
            )
            moved = (1 - jump) * (belief.probability @ by_odometry) + jump * moved
        entered = belief.away * enter / self.count * self.layout.weights[sight.rows]
        places = sight.likelihood * ((1 - leave) * moved + entered)
        away = sight.away * (leave * (1 - belief.away) + (1 - enter) * belief.away)
        return _normalized(sight.rows, np.append(places, away))

    def _report(self, before: Ints, rows: Ints, values: Floats, squared: float) -> Floats:
        """The message (a + 1,) of an image to its parent, from `values` (b + 1,) of its own places and of none."""
        leave, enter = (one[self._level(squared)] for one in (self.leave, self.enter))
        moved = self._moves(before, rows, squared) @ values[:-1]
        message: Floats = np.append(
            (1 - leave) * moved + leave * values[-1],
            enter / self.count * (self.layout.weights[rows] @ values[:-1]) + (1 - enter) * values[-1],
        )
        message /= message.max()
        return message

    def widen(self, belief: Belief, sight: Sight) -> Sight:
        """The sight, extended by landmarks around the likeliest places of a belief, which the search may miss."""
        if len(sight.rows) == self.count:
            return sight
        likely = belief.rows[np.argsort(-belief.probability, kind="stable")[:LIKELY_PLACES]]
        near = [self.layout.near(row)[:NEAR_EACH] for row in likely.tolist()]
        return _at(sight, np.unique(np.concatenate([sight.rows, *near])))

    def _moves(self, first: Ints, second: Ints, squared: float) -> Floats32:
        """Probabilities (a, b) of moving from landmarks (a,) to landmarks (b,), by the squared feature distance."""
        level = self._level(squared)
        return self._between(first, second, self.kernels[level], level, self.jump[level])

    def _between(self, first: Ints, second: Ints, kernel: Floats32, level: int | None, jump: float) -> Floats32:
        """The same by a kernel (BINS,). Results by the kernel of a `level` are kept."""
        whole = len(first) == self.count and len(second) == self.count
        if whole and level in self._whole:
            return self._whole[level]
        layout, kernel = self.layout, np.float32(1 - jump) * kernel + np.float32(jump / self.count)
        if layout.pairs is None:
            bins = layout.bins(layout.positions[first], layout.positions[second])
        else:
            bins = layout.pairs if whole else layout.pairs[first[:, None], second]
        moves: Floats32 = kernel[bins] * layout.weights[second].astype(np.float32)
        if layout.around is not None:
            if level is None:
                moves /= (layout.around[first] @ kernel)[:, None].astype(np.float32)
            else:
                if level not in self._sums:
                    self._sums[level] = (layout.around @ kernel).astype(np.float64)
                moves /= self._sums[level][first, None].astype(np.float32)
        if whole and level is not None and self.count <= MOVES_IN_MEMORY:
            self._whole[level] = moves
        return moves

    def _jump(self, motion: Motion, squared: float) -> float:
        """Probability that odometry is wrong about a step, because the image changed more or less than it should."""
        turned = motion.way + abs(motion.turn) * self.steps.reach(TURNED)
        metres = np.array([motion.way, turned, self.steps.metres[-1]])
        stayed, turning, far = self.steps.likelihood(np.array([squared]), metres)[0]
        near = max(stayed, turning)
        return float(SLIP * far / (SLIP * far + (1 - SLIP) * near))

    def _kernel_by(self, motion: Motion) -> Floats32:
        """Likelihoods (BINS,) of moves between landmarks by their distance, from the length of the motion.

        Its direction would need the heading at each landmark. Where a camera turns, that of landmarks misleads.
        """
        moved = np.abs(self.layout.centers + SHIFTED[:, None] * self.layout.spacing)
        deviation = max(float(np.sqrt(motion.variance)), self.layout.spacing / SHIFTS)
        kernel = (1 - np.abs(SHIFTED)) @ np.exp(-0.5 * np.square((moved - motion.way) / deviation))
        return (kernel / max(float(kernel @ self.layout.counts), 1e-12)).astype(np.float32)

    def _level(self, squared: float) -> int:
        return min(round(squared / float(self.levels[1])), LEVELS - 1)


def _moves_between_cells(steps: Steps, levels: Floats, layout: Layout, usual: float | None) -> tuple[Floats, Floats]:
    """How likely squared feature distances (l,) are for moves between landmarks at the distances (b,) of `layout`.

    An image can be anywhere around its landmark. So the camera moved up to one spacing more or less than the distance
    of the landmarks. Both results are averages over such moves: the likelihood (l, b) times the prior of the move, and
    the prior alone (b,).
    """
    likely, near, total = np.zeros((len(levels), BINS)), np.zeros(BINS), 0.0
    for shift in SHIFTED:
        moved, weight = np.abs(layout.centers + shift * layout.spacing), 1 - abs(shift)
        prior = np.ones(BINS) if usual is None else step_prior(np.maximum(moved, layout.spacing / 20), usual)
        likely += weight * steps.likelihood(levels, moved) * prior
        near += weight * prior
        total += weight
    return likely / total, near / total


def tie_images(squared: Floats, plateau: float) -> Ints:
    """The earlier image that each image is tied to, by squared feature distances (n, b) to those 1, 2, ... before it.

    An image is tied to the image before it, unless an earlier one is clearly nearer by feature. So a single image that
    shows another place, or nothing, does not separate the images around it. The first image gets -1. Missing distances
    are infinite.
    """
    count = len(squared)
    best = squared.argmin(1)
    nearer = squared[np.arange(count), best] < squared[:, 0] - CLEARLY_NEARER * plateau
    parents: Ints = np.arange(count) - 1 - np.where(nearer, best, 0)
    return parents


def _normalized(rows: Ints, values: Floats) -> Belief:
    values = values / values.sum()
    return Belief(rows, values[:-1], float(values[-1]))


def _joined(belief: Belief) -> Floats:
    return np.append(belief.probability, belief.away)


def _product(messages: Sequence[tuple[int, Floats]]) -> Floats | float:
    product: Floats | float = 1.0
    for _, message in messages:
        product = product * message
        product = product / product.max()
    return product


def _at(sight: Sight, rows: Ints) -> Sight:
    """The sight extended to `rows`, which include all rows of the sight."""
    if len(rows) == len(sight.rows):
        return sight
    likelihood = np.full(len(rows), sight.rest)
    likelihood[np.searchsorted(rows, sight.rows)] = sight.likelihood
    return Sight(rows, likelihood, sight.rest, sight.away)
