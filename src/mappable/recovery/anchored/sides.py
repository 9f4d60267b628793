"""Find other ways in which a route could run between two known points.

Between two consecutive known points, all positions can be rotated about the line that joins the two, and no range
between them changes. In a plane, each turn could also go to the other side: ranges show that a route turns, but not
whether left or right. Only the continuation of the path at both ends, and where it must arrive, favor one way. So other
ways are tried, for every second gap at once, and then for the other gaps. Each gap is judged by the cost of its own
points.
"""

from dataclasses import dataclass
from itertools import chain, combinations, pairwise

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.random_drives import path_bends, path_length, plane, random_drives
from mappable.recovery.anchored.refine import Refined, fit, settle

CURVED = 0.5  # of the longest range: a path that leaves the line by less has no sides
ROUNDS = 8  # rounds of the fit of the other side
MANY, FEW_ROUNDS = 1_000, 3  # of more points, only the mirrored way of each gap is tried, with fewer rounds
FARTHER = 50.0  # excess cost above which another way is impossible
# Chosen on open routes with 5 known positions, seeds 300 to 305 of studies/recovery/anchored.py.
MODEL = 12.0  # on long paths, differences of cost count by this factor less: real drives do not follow the model
TURNS = 4  # turns of a gap that are mirrored, at most: the strongest
SHARP = 0.3  # of 1 / longest range: smallest curvature of a turn
ANGLE = 0.35  # radians: smallest turn
LONG = 12.0  # longest ranges: on a longer path, turns are a guess
BRIDGES = 12  # random drives that are tried instead of a long path
SEARCHES, BETTER = 5, 2.0  # rounds of the search, and decrease of the cost above which another way is taken
RELIEFS, STRAINED = 5, 4.0  # rounds, and sigmas from a known position above which the gaps at it are fitted again
STRETCHED = 1.7  # largest factor by which a way is scaled to arrive


@dataclass(frozen=True)
class Side:
    """The state (m, d) of the `points` (m,) in a gap, including its ends, on another way."""

    points: Ints
    state: Floats
    excess: float  # cost above that of the first way
    guessed: bool = False  # the path is long, so its turns are a guess

    @property
    def odds(self) -> float:
        """Return the odds of this way against the first way."""
        factor = MODEL if self.guessed else 1.0
        return float(np.exp(-np.clip(self.excess / factor, -FARTHER, FARTHER)))


def by_gap(sides: list[Side]) -> list[list[Side]]:
    """Return the other ways of each gap."""
    gaps: dict[tuple[int, int], list[Side]] = {}
    for side in sides:
        gaps.setdefault((int(side.points[0]), int(side.points[-1])), []).append(side)
    return list(gaps.values())


def best_sides(problem: Problem, refined: Refined, rng: np.random.Generator) -> tuple[Refined, list[Side]]:
    """Search for the fit of lowest cost: while another way fits better, it replaces the way of its gap."""
    sides: list[Side] = []
    for search in range(SEARCHES):
        sides = other_sides(problem, refined.state, rng)
        better = [min(ways, key=lambda one: one.excess) for ways in by_gap(sides)]
        better = [one for one in better if one.excess < -BETTER]
        if not better or search == SEARCHES - 1:
            break
        state = refined.state.copy()
        for one in better:
            state[one.points] = one.state
        refined = fit(problem, state)
    return refined, sides


def relieved(problem: Problem, refined: Refined) -> Refined:
    """Fit gaps again whose ends are far from their known positions, while that lowers the cost.

    Where two drives part, one can lie on the wrong side of the other. Ranges then pull both away from their known
    positions. Gaps with such an end are moved to their known ends, and all ranges are judged again.
    """
    known = problem.known
    for _ in range(RELIEFS):
        problem.look(refined.state)
        off = known.positions - problem.positions[known.points]
        strained = known.points[np.linalg.norm(off, axis=1) > STRAINED * known.sigma]
        gaps = gaps_of(problem)
        moved = [number for number, gap in enumerate(gaps) if np.isin(gap[[0, -1]], strained).any()]
        trial = _better(problem, refined.state, gaps, moved)
        if trial is None:
            break
        problem.true = trial.true
        refined = fit(problem, trial.state, rounds=ROUNDS)
    return refined


def _better(problem: Problem, state: Floats, gaps: list[Ints], moved: list[int]) -> Problem | None:
    """Return the fit with some gaps moved, or with fewer of them, if it costs less: gaps that then fit worse stay."""
    before, tried = problem.costs(), len(gaps) + 1
    while 0 < len(moved) < tried:
        tried = len(moved)
        for alone in (True, False):
            trial = _moved(problem, state, gaps, moved, alone=alone)
            change = trial.costs() - before
            if change.sum() <= -BETTER:
                return trial
        moved = [number for number in moved if change[gaps[number]].sum() < 0]
    return None


def _moved(problem: Problem, state: Floats, gaps: list[Ints], moved: list[int], *, alone: bool) -> Problem:
    """Move some gaps to the known positions of their ends, and fit.

    With `alone`, they are first fitted by their own ranges and those to the gaps next to them, which undoes a fold
    between the ends.
    """
    known, k = problem.known, problem.dimensions
    state, at = state.copy(), np.zeros((problem.points, k))
    at[known.points] = known.positions - problem.positions[known.points]
    for gap in (gaps[number] for number in moved):
        part = np.linspace(0.0, 1.0, len(gap))[:, None]
        state[gap, :k] = problem.positions[gap] + (1 - part) * at[gap[0]] + part * at[gap[-1]]
    trial = problem.twin()
    trial.look(state)
    trial.true = trial.noise.chances()
    if alone:
        number = np.full(problem.points, -2)
        for place, gap in enumerate(gaps):
            number[gap] = place
        i, j = number[problem.ranges.i], number[problem.ranges.j]
        trial.true = np.where(np.isin(i, moved) | np.isin(j, moved), np.abs(i - j) <= 1, trial.true)
        state = settle(trial, state)
        trial.look(state)
        trial.true = trial.noise.chances()
    trial.look(fit(trial, state, rounds=ROUNDS).state)
    return trial


def other_sides(problem: Problem, state: Floats, rng: np.random.Generator | None = None) -> list[Side]:
    """Find other ways for each gap of a fitted state that has some."""
    rng = np.random.default_rng(0) if rng is None else rng
    found: list[Side] = []
    k = problem.dimensions
    problem.look(state)
    before = problem.costs()
    gaps = [gap for gap in gaps_of(problem) if _width(state[gap, :k]) > CURVED * problem.reach]
    most, rounds = (None, ROUNDS) if problem.count <= MANY else (1, FEW_ROUNDS)
    ways = [_ways(state[gap, :k], problem.reach, rng)[:most] for gap in gaps]
    for number in range(max(map(len, ways), default=0)):
        for parity in (0, 1):
            some = [gap for gap in range(parity, len(gaps), 2) if number < len(ways[gap])]
            if not some:
                continue
            turned = state.copy()
            for gap in some:
                turned[gaps[gap], :k] = ways[gap][number]
            trial = problem.twin()
            fitted = fit(trial, turned, rounds=rounds).state
            trial.look(fitted)
            after = trial.costs()
            for gap in some:
                points = gaps[gap]
                known = [state[points], *(one.state for one in found if one.points is points)]
                moved = [np.linalg.norm((fitted[points] - one)[:, :k], axis=1).max() for one in known]
                excess = float((after - before)[points].sum())
                if min(moved) > CURVED * problem.reach and excess < FARTHER:
                    found.append(
                        Side(points, fitted[points], excess, path_length(state[points, :k]) > LONG * problem.reach)
                    )
    return found


def draw_sides(state: Floats, sides: list[Side], count: int, rng: np.random.Generator) -> list[Floats]:
    """Return `count` states with each gap on one of its ways: as often as the probability of the way, to within one."""
    drawn = [state.copy() for _ in range(count)]
    for ways in by_gap(sides):
        odds = np.cumsum([1.0, *(one.odds for one in ways)])
        dice = (rng.permutation(count) + rng.random()) / count
        for one, chosen in zip(drawn, np.searchsorted(odds / odds[-1], dice, "right").tolist(), strict=True):
            if chosen:
                one[ways[chosen - 1].points] = ways[chosen - 1].state
    return drawn


def _ways(path: Floats, reach: float, rng: np.random.Generator) -> list[Floats]:
    """Return other ways (m, k) between the ends of a path: all of it, or some of its turns, to the other side.

    On a long path, turns themselves are a guess. Its other ways are random drives of the same length.
    """
    ways = [_turned(path)]
    if path.shape[1] != 2:
        return ways
    line = path @ np.array([1, 1j])
    steps = np.diff(line)
    if path_length(path) > LONG * reach:
        return ways + random_drives(path, reach, rng, BRIDGES)
    bends, curvature = path_bends(line, reach)
    sharp = np.where(np.abs(curvature) > SHARP / reach, np.sign(curvature), 0.0)
    pieces = np.split(np.arange(len(bends)), np.flatnonzero(np.diff(sharp)) + 1)
    turns = [piece for piece in pieces if sharp[piece[0]] and abs(bends[piece].sum()) > ANGLE]
    turns = sorted(turns, key=lambda piece: -abs(float(bends[piece].sum())))[:TURNS]
    chord = line[-1] - line[0]
    for some in chain.from_iterable(combinations(turns, size) for size in range(1, len(turns) + 1)):
        mirrored = bends.copy()
        mirrored[np.concatenate(some)] *= -1
        heading = np.angle(steps[0]) + np.concatenate([[0.0], np.cumsum(mirrored)])
        way = np.concatenate([[0.0], np.cumsum(np.abs(steps) * np.exp(1j * heading))])
        factor = chord / way[-1] if abs(way[-1]) > 1e-9 else 0.0
        if 1 / STRETCHED < abs(factor) < STRETCHED:
            ways.append(plane(line[0] + factor * way))
    return ways


def gaps_of(problem: Problem) -> list[Ints]:
    """Return the points from each known point to the next known point of its sequence, both included, in order."""
    if problem.motion is None:
        return []
    order, inside = problem.motion.order, problem.motion.inside
    known = np.flatnonzero(np.isin(order, problem.known.points)).tolist()
    return [
        order[begin : end + 1] for begin, end in pairwise(known) if end - begin > 2 and inside[begin : end - 1].all()
    ]


def along_line(positions: Floats) -> Floats:
    """Project positions (m, k), relative to the first, onto the line from the first to the last."""
    line = positions[-1] - positions[0]
    length = np.linalg.norm(line)
    if length < 1e-9:
        return np.zeros_like(positions)
    seen: Floats = np.outer((positions - positions[0]) @ line, line) / length**2
    return seen


def _turned(positions: Floats) -> Floats:
    """Rotate positions (m, k) by a half turn about the line from the first to the last."""
    turned: Floats = 2 * (positions[0] + along_line(positions)) - positions
    return turned


def _width(positions: Floats) -> float:
    """Return the largest distance of positions (m, k) from the line from the first to the last."""
    off = positions - positions[0] - along_line(positions)
    return float(np.linalg.norm(off, axis=1).max())
