"""Find on which side of the line between two known points a route runs.

Between two consecutive known points, all positions can be rotated about the line that joins the two, and no range
between them changes. Only the continuation of the path at both ends favors one side, and that may not be enough. So the
other side is tried, for every second gap at once, and then for the other gaps. Each gap is judged by the cost of its
own points.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import fit

CURVED = 0.5  # of the longest range: a path that leaves the line by less has no sides
ROUNDS = 8  # rounds of the fit of the other side
FARTHER = 50.0  # excess cost above which the other side is impossible


@dataclass(frozen=True)
class Side:
    """The state (m, k + 1) of the `points` (m,) in a gap, including its ends, on the other side."""

    points: Ints
    state: Floats
    excess: float  # cost above that of the first side: the logarithm of the odds against the other side

    @property
    def chance(self) -> float:
        return float(1 / (1 + np.exp(np.clip(self.excess, -FARTHER, FARTHER))))


def other_sides(problem: Problem, state: Floats) -> list[Side]:
    """Find the other side for each gap of a fitted state that has one."""
    found = []
    k = problem.dimensions
    problem.look(state)
    before = problem.costs()
    gaps = [gap for gap in _gaps(problem) if _width(state[gap, :k]) > CURVED * problem.reach]
    for some in (gaps[::2], gaps[1::2]):
        if not some:
            continue
        turned = state.copy()
        for gap in some:
            turned[gap, :k] = _turned(state[gap, :k])
        trial = problem.twin()
        fitted = fit(trial, turned, rounds=ROUNDS).state
        trial.look(fitted)
        after = trial.costs()
        for gap in some:
            moved = np.linalg.norm(fitted[gap, :k] - state[gap, :k], axis=1).max()
            excess = float((after - before)[gap].sum())
            if moved > CURVED * problem.reach and excess < FARTHER:
                found.append(Side(gap, fitted[gap], excess))
    return found


def draw_sides(state: Floats, sides: list[Side], rng: np.random.Generator) -> Floats:
    """Return the state with each gap on one of its sides, drawn by their probabilities."""
    drawn = state.copy()
    for side in sides:
        if rng.random() < side.chance:
            drawn[side.points] = side.state
    return drawn


def _gaps(problem: Problem) -> list[Ints]:
    """Return the points from each known point to the next known point of its sequence, both included, in order."""
    if problem.motion is None:
        return []
    order, inside = problem.motion.order, problem.motion.inside
    known = np.flatnonzero(np.isin(order, problem.known.points)).tolist()
    return [
        order[begin : end + 1] for begin, end in pairwise(known) if end - begin > 2 and inside[begin : end - 1].all()
    ]


def _along(positions: Floats) -> Floats:
    """Project positions (m, k), relative to the first, onto the line from the first to the last."""
    line = positions[-1] - positions[0]
    length = np.linalg.norm(line)
    if length < 1e-9:
        return np.zeros_like(positions)
    seen: Floats = np.outer((positions - positions[0]) @ line, line) / length**2
    return seen


def _turned(positions: Floats) -> Floats:
    """Rotate positions (m, k) by a half turn about the line from the first to the last."""
    turned: Floats = 2 * (positions[0] + _along(positions)) - positions
    return turned


def _width(positions: Floats) -> float:
    """Return the largest distance of positions (m, k) from the line from the first to the last."""
    off = positions - positions[0] - _along(positions)
    return float(np.linalg.norm(off, axis=1).max())
