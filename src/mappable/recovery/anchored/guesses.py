"""Allow for wrong guesses of turns: which paths between known positions are guesses, and what covers them."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.random_drives import path_bends, path_length, random_drives
from mappable.recovery.anchored.sides import LONG, along_line, gaps_of

# Strange paths: least length in longest ranges, least length of a bow relative to the line between the ends, curvature
# in 1 / longest range below which no point turns, and most radians. Chosen on routes 23, 52 and 300 of
# studies/recovery/anchored.py.
SHORT, DETOUR, GENTLE, TWISTED = 3.0, 1.05, 0.6, 2.4
# Routes that wind: radians above which a path is not straight, and least share of paths that are neither straight nor
# have one corner; or sigmas by which ranges are longer than the path, and least range that counts, in longest ranges.
# Chosen on winding routes 1500 to 1502 and open routes 300 to 305 of benchmarks/simulated_ranges.py.
BENT, ODD = 0.35, 0.4
CUT, AFAR = 0.3, 0.2
# Least ratio of a drive to its path if ranges are weak: the path is nearly straight, because they do not show bends.
# Chosen on the open routes 800 to 829 and 1000 to 1004 of studies/recovery/range_slam.py.
WEAK_STRETCH = 1.3
WRONG, MAYBE = 0.75, 0.3  # probability that a long or strange path is a wrong guess, and any path of a winding route
PRODUCTS = 4_000_000  # ways times ranges, at most: of more ranges, only every second or third counts
ENSEMBLE, EFFECTIVE = 400, 10.0  # random drives that stand for a wrong guess, and how many of them count at least


@dataclass(frozen=True)
class Shape:
    """The path of a gap; `detour` is its length relative to the line between its ends."""

    length: float  # in longest ranges
    detour: float
    curvature: float  # the largest, in 1 / longest range
    bend: float  # radians, the sum of all bends to either side

    @property
    def gentle(self) -> bool:
        """Return whether the path has no corner."""
        return self.curvature < GENTLE

    @property
    def strange(self) -> bool:
        """Return whether drives rarely take such a path, so that its turns may be wrong.

        A gentle bow is longer than the line between its ends: the corner was not found. Other paths turn by more than
        one corner and a half in all: turns to the wrong side need others that make up for it.
        """
        return SHORT < self.length <= LONG and ((self.detour > DETOUR and self.gentle) or self.bend > TWISTED)


def _shape(problem: Problem, path: Floats) -> Shape:
    """Measure a path (m, 2)."""
    line, reach = path @ np.array([1, 1j]), problem.reach
    curvature, length = np.abs(path_bends(line, reach)[1]), path_length(path)
    bend = float(curvature.sum() * np.median(np.abs(np.diff(line))))
    return Shape(length / reach, length / max(abs(line[-1] - line[0]), 1e-9), float(curvature.max()) * reach, bend)


def _winds(shapes: list[Shape], *, cut: bool) -> bool:
    """Return whether a route winds gently instead of turning at corners.

    Then few gaps are straight or have a corner, or the path cuts bends: it is shorter than its ranges.
    """
    some = [one for one in shapes if SHORT < one.length <= LONG]
    odd = [one for one in some if one.strange or (one.gentle and one.bend > BENT)]
    return len(odd) >= max(ODD * len(some), 1) or (cut and len(some) > 0)


def _longer(problem: Problem, positions: Floats, points: Ints) -> tuple[float, float]:
    """Return how much longer the ranges between some points are than their distances: as a factor, and in sigmas."""
    ranges, some = problem.ranges, np.isin(np.arange(problem.count), points)
    own = some[ranges.i] & some[ranges.j] & (problem.true > 0.5) & (ranges.metres > AFAR * problem.reach)
    if not own.any():
        return 1.0, 0.0
    apart = np.linalg.norm(positions[ranges.i[own]] - positions[ranges.j[own]], axis=1)
    longer = ranges.metres[own] - apart
    return float(np.median(ranges.metres[own] / np.maximum(apart, 1e-9))), float(np.median(longer / ranges.sigma[own]))


def _steered(problem: Problem) -> bool:
    """Return whether displacements or turns are known, which tell to which side a path bends."""
    return problem.odometry is not None or (
        problem.motion is not None and bool(np.isfinite(problem.motion.angle_sigma).any())
    )


@dataclass(frozen=True)
class Guess:
    """Positions that allow for wrong guesses of turns between known points, and what was guessed."""

    positions: Floats  # (n, k)
    covariances: Floats  # (n, k, k), to be added to those of the positions
    doubted: list[Ints]  # gaps whose path is strange
    winds: bool  # the route winds gently instead of turning at corners


def guess(problem: Problem, positions: Floats, rng: np.random.Generator, *, weak: bool) -> Guess:
    """Find the paths of positions (n, k) whose turns may be wrong, and how far.

    With some probability, a path is another drive of its length that arrives at the next known point. The probability
    is `WRONG` for a long or strange path, and `MAYBE` for other paths of a route that winds. There, a path without a
    corner could as well bend to the other side: it becomes the mean of both sides.
    """
    n, k = positions.shape
    moved, spread = positions.copy(), np.zeros((n, k, k))
    gaps = gaps_of(problem) if k == 2 else []
    shapes = [_shape(problem, positions[gap]) for gap in gaps]
    cut = _longer(problem, positions, np.arange(n))[1] > CUT  # the path cuts bends
    winds = not weak and not _steered(problem) and _winds(shapes, cut=cut)
    for gap, one in zip(gaps, shapes, strict=True):
        path, usual = positions[gap], winds and SHORT < one.length <= LONG
        if usual and one.gentle:
            moved[gap] = path[0] + along_line(path)
        least = WEAK_STRETCH if weak else 1.0
        stretch = max(_longer(problem, positions, gap)[0], least) if usual or weak else 1.0
        wrong = WRONG if stretch * one.length > LONG or one.strange else MAYBE if usual else 0.0
        ways = np.array(random_drives(path, problem.reach, rng, ENSEMBLE, stretch)) if wrong else np.zeros(0)
        if len(ways):
            off = ways - moved[gap]
            spread[gap] += wrong * np.einsum("w,wna,wnb->nab", _weights(problem, gap, ways), off, off)
        own = path - moved[gap]
        spread[gap] += (1 - wrong) * own[:, :, None] * own[:, None, :]
    return Guess(moved, spread, [gap for gap, one in zip(gaps, shapes, strict=True) if one.strange], winds)


def _weights(problem: Problem, gap: Ints, ways: Floats) -> Floats:
    """Return weights (w,) of ways (w, m, k) of a gap, by the likelihood of the ranges within the gap.

    Differences are divided by a factor, so that at least `EFFECTIVE` ways count: no random drive fits exactly.
    """
    place = np.full(problem.count, -1)
    place[gap] = np.arange(len(gap))
    i, j = place[problem.ranges.i], place[problem.ranges.j]
    own = np.flatnonzero((i >= 0) & (j >= 0))
    own = own[:: 1 + len(own) * len(ways) // PRODUCTS]
    distances = np.linalg.norm(ways[:, i[own]] - ways[:, j[own]], axis=2)
    noise = problem.noise.only(own)
    noise.look(np.maximum(distances, 1e-6), np.zeros(len(own)))
    costs = noise.costs().sum(axis=1)
    factor, weights = 1.0, np.exp(costs.min() - costs)
    while len(ways) > EFFECTIVE > weights.sum() ** 2 / np.square(weights).sum():
        factor *= 1.5
        weights = np.exp((costs.min() - costs) / factor)
    found: Floats = weights / weights.sum()
    return found
