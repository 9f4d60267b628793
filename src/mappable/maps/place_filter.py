"""A Bayesian filter over places: which landmark each image of a drive is at, or that it is not on the map."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from mappable.arrays import Floats, Floats32, Ints, evenly
from mappable.maps.steps import Steps, step_prior

LEVELS, BINS = 64, 96  # squared feature distances and metres at which the likelihood of a step is tabulated
JUMP = 1e-3  # probability of a step to any place of the map; as the next two by the tables of scripts/real.py
LEAVE, ENTER = 0.02, 0.1  # probabilities of leaving the map, and of coming back to it, from one image to the next
FREE = 0.2  # how likely a step of any length is beside the usual one
STRAY = 0.02  # share of steps of any length that images on the map make, to tell them from images that are not
CROWD = 2.0  # spacings within which landmarks share the ground
CELL = 8  # moves within a spacing over which the likelihood of a step is averaged
BACK = 6  # images before one that it may be tied to
CLEARLY = 0.15  # of the plateau: how much nearer by feature another than the image before must be to be taken instead
BELIEVED, AROUND = 8, 12  # of the image before: most likely places, and landmarks nearest to each, that are looked at
SAMPLE = 256  # landmarks by which the sum over all is estimated
PAIRS, KEPT = 4096, 512  # landmarks up to which distances of all pairs, and probabilities of all moves, are kept


@dataclass(frozen=True)
class Sight:
    """What one image says alone: `likelihood` (c,) of landmarks `rows` (c,), of all others `rest`, of none `away`."""

    rows: Ints  # rising
    likelihood: Floats
    rest: float
    away: float


@dataclass(frozen=True)
class Belief:
    """Probabilities (c,) that an image is at landmarks `rows` (c,), and that it is not on the map (`away`)."""

    rows: Ints
    probability: Floats
    away: float


class Layout:
    """Landmarks at positions (m, k), `spacing` apart: what a filter must know about their distances."""

    def __init__(self, positions: Floats, spacing: float) -> None:
        self.positions, self.spacing = positions, spacing if spacing > 0 else 1.0
        self.tree = KDTree(positions)
        farthest = max(float(np.linalg.norm(np.ptp(positions, axis=0))), self.spacing)
        self.first = self.spacing / 4  # distances below are taken for 0; those above are binned by their logarithm
        self.ratio = log(1.001 * farthest / self.first) / (BINS - 2)
        middles = self.first * np.exp(self.ratio * (np.arange(BINS - 1) + 0.5))
        self.centers = np.concatenate([[0.0], np.minimum(middles, farthest)])
        count = len(positions)
        crowd = self.tree.query_ball_point(positions, CROWD * self.spacing, return_length=True)
        self.weights = (1 / crowd) * (count / (1 / crowd).sum())  # (m,) mean 1: parts of the ground, not landmarks
        self.pairs = self.bins(positions, positions) if count <= PAIRS else None
        some = np.arange(count) if self.pairs is not None else evenly(count, SAMPLE)
        bins = self.bins(positions[some], positions) if self.pairs is None else self.pairs
        numbers = (np.arange(len(some))[:, None] * BINS + bins).ravel()
        around = np.bincount(numbers, np.broadcast_to(self.weights, bins.shape).ravel(), len(some) * BINS)
        self.around = around.reshape(-1, BINS) if self.pairs is not None else None  # (m, BINS) weights, by distance
        self.counts = self.weights[some] @ around.reshape(-1, BINS) / self.weights[some].sum()  # the mean of that

    def bins(self, first: Floats, second: Floats) -> NDArray[np.uint8]:
        """Numbers (a, b) of the bins of distances between positions (a, k) and (b, k)."""
        squared = sum(np.square(first[:, axis, None] - second[:, axis]) for axis in range(first.shape[1]))
        with np.errstate(divide="ignore"):
            number = np.floor((0.5 * np.log(squared) - log(self.first)) / self.ratio) + 1
        bins: NDArray[np.uint8] = np.clip(number, 0, BINS - 1).astype(np.uint8)
        return bins


class PlaceFilter:
    """A filter for one drive, whose steps are mostly about the `usual` one; None: of any length."""

    def __init__(self, layout: Layout, steps: Steps, usual: float | None = None) -> None:
        self.layout, self.count = layout, len(layout.positions)
        self.levels = np.linspace(0.0, 1.15 * steps.plateau, LEVELS)
        moves, near = _moves_between_cells(steps, self.levels, layout, usual)
        kernels = (1 - FREE) * moves + FREE * _moves_between_cells(steps, self.levels, layout, None)[0]
        self.kernels = (kernels / (kernels @ layout.counts)[:, None]).astype(np.float32)
        steady = (1 - STRAY) * moves @ layout.counts / (near @ layout.counts)
        stray = STRAY * _moves_between_cells(steps, self.levels, layout, None)[0] @ layout.counts / self.count
        leaves = LEAVE * steps.likelihood(self.levels, np.array([steps.metres[-1]]))[:, 0]
        self.leave = leaves / (leaves + (1 - LEAVE) * (steady + stray))  # by how unlike the image before one is
        self.enter = ENTER * np.minimum(self.levels / steps.plateau, 1.0)  # a camera that stands still enters no map
        self._whole: dict[int, Floats32] = {}
        self._sums: dict[int, Floats] = {}

    def information(self, squared: Floats) -> Floats:
        """How much steps by their squared feature distances (n,) tell of the next place: 0 nothing; in nats."""
        kernels = self.kernels[[self._level(one) for one in squared.tolist()]]
        told: Floats = (kernels * np.log(np.maximum(kernels * self.count, 1e-12))) @ self.layout.counts
        return told

    def start(self, sight: Sight) -> Belief:
        """The belief about the first image of a drive."""
        places = sight.likelihood * self.layout.weights[sight.rows] * (ENTER / self.count)
        return _normalized(sight.rows, np.append(places, sight.away * LEAVE))

    def update(self, belief: Belief, sight: Sight, squared: float) -> Belief:
        """The belief about an image, from that about an image before it, at the `squared` feature distance from it."""
        return self._follow(belief, self.widen(belief, sight), squared)

    def smooth(self, sights: Sequence[Sight], parents: Ints, squared: Floats) -> list[Belief]:
        """Beliefs about the images of a drive by all of it, forward and back.

        Image n is tied to an earlier one, parents[n], at the squared feature distance squared[n]; the first to none.
        """
        forward = [self.start(sights[0])]
        for n in range(1, len(sights)):
            forward.append(self.update(forward[parents[n]], sights[n], float(squared[n])))
        seen = [_at(sight, belief.rows) for sight, belief in zip(sights, forward, strict=True)]
        messages: list[list[tuple[int, Floats]]] = [[] for _ in seen]  # to each image, from those tied to it
        for n in range(len(seen) - 1, 0, -1):
            told = np.append(seen[n].likelihood, seen[n].away) * _product(messages[n])
            messages[parents[n]].append((n, self._report(forward[parents[n]].rows, seen[n].rows, told, squared[n])))
        down = forward[:1]  # beliefs without what images tied to one, and all after these, say
        for n in range(1, len(seen)):
            parent = int(parents[n])
            others = [(child, message) for child, message in messages[parent] if child != n]
            if not others and down[parent] is forward[parent]:
                down.append(forward[n])
            else:
                told = _joined(down[parent]) * _product(others)
                down.append(self._follow(_normalized(down[parent].rows, told), seen[n], float(squared[n])))
        return [_normalized(one.rows, _joined(one) * _product(own)) for one, own in zip(down, messages, strict=True)]

    def _follow(self, belief: Belief, sight: Sight, squared: float) -> Belief:
        leave, enter = (one[self._level(squared)] for one in (self.leave, self.enter))
        moved = belief.probability @ self._moves(belief.rows, sight.rows, squared)
        entered = belief.away * enter / self.count * self.layout.weights[sight.rows]
        places = sight.likelihood * ((1 - leave) * moved + entered)
        away = sight.away * (leave * (1 - belief.away) + (1 - enter) * belief.away)
        return _normalized(sight.rows, np.append(places, away))

    def _report(self, before: Ints, rows: Ints, told: Floats, squared: float) -> Floats:
        """What an image tells about the one it is tied to: a message (a + 1,) from what is `told` (b + 1,) of it."""
        leave, enter = (one[self._level(squared)] for one in (self.leave, self.enter))
        moved = self._moves(before, rows, squared) @ told[:-1]
        message: Floats = np.append(
            (1 - leave) * moved + leave * told[-1],
            enter / self.count * (self.layout.weights[rows] @ told[:-1]) + (1 - enter) * told[-1],
        )
        message /= message.max()
        return message

    def widen(self, belief: Belief, sight: Sight) -> Sight:
        """The sight with landmarks around the likeliest places of a belief, which feature distances alone may miss."""
        if len(sight.rows) == self.count:
            return sight
        likely = belief.rows[np.argsort(-belief.probability, kind="stable")[:BELIEVED]]
        near = self.layout.tree.query(self.layout.positions[likely], min(AROUND, self.count))[1]
        return _at(sight, np.union1d(sight.rows, near))

    def _moves(self, first: Ints, second: Ints, squared: float) -> Floats32:
        """Probabilities (a, b) of moving from landmarks (a,) to others (b,), by the squared feature distance."""
        level = self._level(squared)
        whole = len(first) == self.count and len(second) == self.count
        if whole and level in self._whole:
            return self._whole[level]
        layout, kernel = self.layout, (1 - JUMP) * self.kernels[level] + np.float32(JUMP / self.count)
        if layout.pairs is None:
            bins = layout.bins(layout.positions[first], layout.positions[second])
        else:
            bins = layout.pairs if whole else layout.pairs[first[:, None], second]
        moves: Floats32 = kernel[bins] * layout.weights[second].astype(np.float32)
        if layout.around is not None:
            if level not in self._sums:
                self._sums[level] = layout.around @ kernel
            moves /= self._sums[level][first, None].astype(np.float32)
        if whole and self.count <= KEPT:
            self._whole[level] = moves
        return moves

    def _level(self, squared: float) -> int:
        return min(round(squared / float(self.levels[1])), LEVELS - 1)


def _moves_between_cells(steps: Steps, levels: Floats, layout: Layout, usual: float | None) -> tuple[Floats, Floats]:
    """How likely squared feature distances (l,) are with a move between landmarks at the distances (b,) of `layout`.

    An image is anywhere in the cell of its landmark, so the camera moved up to one spacing more or less than that.
    Both are averaged over such moves: the likelihood (l, b) times the prior of the move, and the prior alone (b,).
    """
    likely, near, total = np.zeros((len(levels), BINS)), np.zeros(BINS), 0.0
    for shift in np.linspace(-1, 1, 2 * CELL + 1)[1:-1]:
        moved, weight = np.abs(layout.centers + shift * layout.spacing), 1 - abs(shift)
        prior = np.ones(BINS) if usual is None else step_prior(np.maximum(moved, layout.spacing / 20), usual)
        likely += weight * steps.likelihood(levels, moved) * prior
        near += weight * prior
        total += weight
    return likely / total, near / total


def tie_images(squared: Floats, plateau: float) -> Ints:
    """The earlier image to which each of n is tied, by squared feature distances (n, b) to those 1, 2, ... before it.

    That is the image before it, unless another one is clearly nearer by feature: so an image of another place in
    between, or one that shows nothing, does not part those around it. The first has -1; missing distances are inf.
    """
    count = len(squared)
    best = squared.argmin(1)
    nearer = squared[np.arange(count), best] < squared[:, 0] - CLEARLY * plateau
    parents: Ints = np.arange(count) - 1 - np.where(nearer, best, 0)
    return parents


def _normalized(rows: Ints, told: Floats) -> Belief:
    told = told / told.sum()
    return Belief(rows, told[:-1], float(told[-1]))


def _joined(belief: Belief) -> Floats:
    return np.append(belief.probability, belief.away)


def _product(messages: Sequence[tuple[int, Floats]]) -> Floats | float:
    product: Floats | float = 1.0
    for _, message in messages:
        product = product * message
        product = product / product.max()
    return product


def _at(sight: Sight, rows: Ints) -> Sight:
    """A sight of `rows`, which hold all of its own."""
    if len(rows) == len(sight.rows):
        return sight
    likelihood = np.full(len(rows), sight.rest)
    likelihood[np.searchsorted(rows, sight.rows)] = sight.likelihood
    return Sight(rows, likelihood, sight.rest, sight.away)
