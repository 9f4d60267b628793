"""Streets: the shape of a route that comes back to itself, if it goes straight on but for turns by right angles.

Where a route turns, points some steps apart are nearer to each other than along a straight line. This tells where there
are turns, but not to which side. Which of them there are, and to which side each goes, is decided by where the route
comes back to: of all choices, few bring the ends of the ranges there together. That streets are straight is more than
distances know, and what the shape rests on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.spatial import KDTree
from scipy.special import log_ndtr

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges

Signs = npt.NDArray[np.int8]

ORDERED = 0.5  # share of the points that have a range to the next, if they are in order
LEAST_RANGES = 100
RIGHT = np.pi / 2
SKEW = 0.15  # radians that a turn is off a right angle
RADII = 0.8, 1.1, 1.4  # of turns; these and the following are in units of the longest range
APART = 2.0  # turns, at least, and how far along a route that comes back is no longer near in order
LOOSE = 1.5  # by how much a choice may fail to close before its turns are fitted
WOBBLE = 0.03  # to the side of a street, from one time to the next
SLACKS = 30.0, 3.0, 1.0  # times as much, from round to round of a fit
TOUCHING = 0.6  # points no farther from each other should have a range
EVIDENCE = 18.0  # in the logarithm of the likelihood, of the four clearest turns
LEAST_EVIDENCE = -4.0  # of one that a route may have nevertheless
CLEAR = 12.0  # of one that it surely has
PRICE = 6.0  # of a turn: it could be anywhere along a street, and to either side
PLACES, TURNS = 12, 9  # at most, where turns may be, and of them in a route
TRIED = 16  # choices that are fitted
STEPS = 8  # of a round
SURE = 0.95  # chance that the route has the shape of the best of them,
ALIKE = 1.0  # give or take so many per cent of its length


def along_streets(ranges: Ranges, noise: float = 1.0) -> Floats | None:
    """Positions (count, 2) in order along straight streets with right-angled turns, or None if ranges do not decide it.

    They are not more than a start: how the route wavers within its streets is not in them. `noise` is the deviation of
    the ranges, in units of their sigma. Those that are false should be gone. If the route turns at other angles after
    all, the answer may well be wrong.
    """
    in_order = len(ranges) >= LEAST_RANGES and (ranges.j - ranges.i == 1).sum() >= ORDERED * ranges.count
    if not in_order or ranges.parts.any():
        return None
    view = _View(ranges, noise)
    if not view.far.any():
        return None
    evidence, arcs = view.evidence()
    places = _peaks(evidence, round(APART * view.longest / view.step))
    if np.sort(evidence[places])[-4:].sum() < EVIDENCE:
        return None
    choices = _choices(evidence[places] > CLEAR)
    costs = view.gaps(choices, places) + (choices != 0) @ (PRICE - evidence[places])
    tried = []
    for choice in choices[np.argsort(costs, kind="stable")[:TRIED]]:
        on = choice != 0
        tried.append(view.fit(_Turns(places[on] * view.step, choice[on] * RIGHT, arcs[places[on]])))
    if not tried:
        return None
    costs = np.array([cost for cost, _ in tried])
    best = tried[int(np.argmin(costs))][1]
    chances = np.exp(costs.min() - costs)
    alike = [aligned_score(positions, best).of_length < ALIKE for _, positions in tried]
    return best if chances[alike].sum() > SURE * chances.sum() else None


@dataclass(frozen=True)
class _Turns:
    at: Floats  # (turns,): metres along the route
    angles: Floats  # (turns,): radians
    arcs: Floats  # (turns,): metres

    def path(self, count: int, step: float) -> Floats:
        along = step * (np.arange(count - 1) + 0.5)
        turned = np.clip((along - self.at[:, None]) / self.arcs[:, None] + 0.5, 0, 1)
        headings = self.angles @ turned
        steps = step * np.stack([np.cos(headings), np.sin(headings)], 1)
        path: Floats = np.concatenate([np.zeros((1, 2)), steps.cumsum(0)])
        return path

    def moved(self, by: Floats) -> "_Turns":
        """With each place, angle and arc changed by so many of what is usual, (3 * turns,)."""
        places, angles, arcs = by.reshape(3, -1)
        return _Turns(self.at + self.arcs / 3 * places, self.angles + SKEW * angles, self.arcs * np.exp(0.3 * arcs))


class _View:
    """Ranges as straight streets see them: each by how many steps it leads along, or where it comes back to."""

    def __init__(self, ranges: Ranges, noise: float) -> None:
        self.ranges, self.longest = ranges, float(ranges.metres.max())
        slope, least = np.polyfit(ranges.metres, noise * ranges.sigma, 1)
        self.slope, self.least = max(float(slope), 0.0), max(float(least), 0.1 * noise * float(ranges.sigma.min()))
        self.lags = ranges.j - ranges.i
        few = self.lags <= 3
        weights = self.lags[few] / np.square(ranges.sigma[few])
        self.step = float(weights @ ranges.metres[few] / (weights @ self.lags[few]))
        self.far: Bools = self.step * self.lags > APART * self.longest

    def log_likelihood(self, metres: Floats, distances: Floats | float) -> Floats:
        """Of measured distances, given the true ones, and that none above the longest range is kept."""
        sigma = self.least + self.slope * distances
        kept = log_ndtr((self.longest - distances) / sigma)
        likely: Floats = -0.5 * np.square((metres - distances) / sigma) - np.log(sigma) - kept
        return likely

    def evidence(self) -> tuple[Floats, Floats]:
        """How much more likely near ranges are with a right-angled turn at each point (count,), and its arc."""
        count, farthest = self.ranges.count, int(1.1 * self.longest / self.step)
        best, arcs = np.full(count, -np.inf), np.zeros(count)
        for radius in RADII:
            arc = RIGHT * radius * self.longest
            half = int(arc / 2 / self.step) + farthest + 1
            turn = _Turns(np.array([half * self.step]), np.array([RIGHT]), np.array([arc])).path(2 * half, self.step)
            gain = np.zeros(count + 4 * half)
            for lag in range(2, farthest + 1):
                own = self.lags == lag
                first, metres = self.ranges.i[own], self.ranges.metres[own]
                straight = self.log_likelihood(metres, lag * self.step)
                distances = np.linalg.norm(turn[lag:] - turn[:-lag], axis=1)
                for start in np.flatnonzero(distances < lag * self.step - 1e-3).tolist():
                    gain[first - start + 3 * half] += self.log_likelihood(metres, distances[start]) - straight
            own_gain = gain[2 * half : 2 * half + count]
            arcs[own_gain > best] = arc
            best = np.maximum(best, own_gain)
        return best, arcs

    def gaps(self, choices: Signs, places: Ints) -> Floats:
        """By how much choices (c, places) of turns fail to close, roughly: half the sum of squares, (c,)."""
        ends = self.step * np.concatenate([[0], places, [self.ranges.count]])
        headings = np.pad(choices, ((0, 0), (1, 0))).cumsum(1, dtype=np.int8)
        directions = np.array([1, 1j, -1, -1j], dtype=np.complex64)[headings % 4]
        far = np.flatnonzero(self.far)  # sorted by i
        total = np.zeros(len(choices))
        for edge in far[np.linspace(0, len(far) - 1, 6).astype(np.int64)].tolist():
            begin, end = self.step * self.ranges.i[edge], self.step * self.ranges.j[edge]
            legs = np.maximum(np.minimum(ends[1:], end) - np.maximum(ends[:-1], begin), 0.0)
            beyond = np.abs(directions @ legs) - self.ranges.metres[edge]
            total += np.square(np.maximum(beyond, 0.0) / (LOOSE * self.longest)) / 4
        return total

    def fit(self, turns: _Turns) -> tuple[float, Floats]:
        """The turns moved so as to fit all ranges: what is left as a cost, and the positions (count, 2)."""
        metres, wobble = self.ranges.metres, np.where(self.far, WOBBLE * self.longest, 0.0)
        wavering = SLACKS[0] * wobble
        unknown = np.zeros(3 * len(turns.at) + 1)

        def positions(by: Floats) -> Floats:
            return turns.moved(by[1:]).path(self.ranges.count, self.step * float(1 + 0.001 * by[0]))

        def noise(by: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            path = positions(by)
            distances = np.linalg.norm(path[self.ranges.i] - path[self.ranges.j], axis=1)
            sigma = np.hypot(self.least + self.slope * distances, wavering)
            room = np.maximum((self.longest - distances) / sigma, -30.0)
            log_kept = log_ndtr(room)
            return distances, sigma, log_kept, np.exp(-0.5 * np.square(room) - log_kept) / np.sqrt(2 * np.pi)

        for slack in SLACKS:
            wavering = slack * wobble
            distances, sigma, _, missed = noise(unknown)
            room = (self.longest - distances) / sigma
            spread = sigma * np.sqrt(np.clip(1 - room * missed - np.square(missed), 0.05, 1.0))

            def residuals(by: Floats, spread: Floats = spread) -> Floats:
                distances, sigma, _, missed = noise(by)
                return np.concatenate([(metres - distances + sigma * missed) / spread, by])

            unknown = least_squares(residuals, unknown, max_nfev=STEPS).x
        distances, sigma, log_kept, _ = noise(unknown)
        misfit = 0.5 * np.square((metres - distances) / sigma) + np.log(sigma) + log_kept
        path = positions(unknown)
        cost = misfit.sum() + 0.5 * unknown @ unknown + PRICE * len(turns.at) + self.absent(path)
        return float(cost), path

    def absent(self, path: Floats) -> int:
        """How many ranges there should be, but are not, where the path comes near itself."""
        pairs = KDTree(path).query_pairs(TOUCHING * self.longest, output_type="ndarray")
        pairs = pairs[self.step * (pairs[:, 1] - pairs[:, 0]) > APART * self.longest]
        count = self.ranges.count
        known = np.isin(pairs[:, 0] * count + pairs[:, 1], self.ranges.i * count + self.ranges.j)
        return int((~known).sum())


def _peaks(evidence: Floats, apart: int) -> Ints:
    """The points of most evidence, in order, none within `apart` of another."""
    left = evidence.copy()
    found: list[int] = []
    while len(found) < PLACES and left.max() >= LEAST_EVIDENCE:
        found.append(int(np.argmax(left)))
        left[max(found[-1] - apart, 0) : found[-1] + apart + 1] = -np.inf
    return np.array(sorted(found), dtype=np.int64)


def _choices(clear: Bools) -> Signs:
    """All ways (c, places) to turn at some places: 1 as the first turn, -1 to the other side, 0 not at all.

    At those that are `clear` (places,) there is a turn in any case.
    """
    must, may = np.flatnonzero(clear), np.flatnonzero(~clear)

    def each() -> Iterator[Signs]:
        for more in range(0 if len(must) else 1, min(len(may), TURNS - len(must)) + 1):
            sides = np.array([(1, *others) for others in product((1, -1), repeat=len(must) + more - 1)], dtype=np.int8)
            for some in combinations(may.tolist(), more):
                choices = np.zeros((len(sides), len(clear)), dtype=np.int8)
                choices[:, np.sort([*must, *some])] = sides
                yield choices

    return np.concatenate([np.zeros((0, len(clear)), dtype=np.int8), *each()])
