"""Find other ways in which a route could run between two known points.

Between two consecutive known points, all positions can be rotated about the line that joins the two, and no range
between them changes. In a plane, each turn could also go to the other side: ranges show that a route turns, but not
whether left or right. Only the continuation of the path at both ends, and where it must arrive, favor one way. So other
ways are tried, for every second gap at once, and then for the other gaps. Each gap is judged by the cost of its own
points.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Ints
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import Refined, fit, settle

Complexes = NDArray[np.complex128]
CURVED = 0.5  # of the longest range: a path that leaves the line by less has no sides
ROUNDS = 8  # rounds of the fit of the other side
MANY, FEW_ROUNDS = 1_000, 3  # of more points, only the mirrored way of each gap is tried, with fewer rounds
FARTHER = 50.0  # excess cost above which another way is impossible
# Chosen on open routes with 5 known positions, seeds 300 to 305 of benchmarks/anchored.py.
MODEL = 12.0  # on long paths, differences of cost count by this factor less: real drives do not follow the model
TURNS = 4  # turns of a gap that are mirrored, at most: the strongest
SHARP = 0.3  # of 1 / longest range: smallest curvature of a turn
ANGLE = 0.35  # radians: smallest turn
LONG = 12.0  # longest ranges: on a longer path, turns are a guess
# Strange ways: least length in longest ranges, least length of a bow relative to the line between the ends, curvature
# in 1 / longest range below which no point turns, and most radians. Chosen on routes 23, 52 and 300 of
# benchmarks/anchored.py.
SHORT, DETOUR, GENTLE, TWISTED = 3.0, 1.05, 0.6, 2.4
BRIDGES, DRAWS, ARRIVING = 12, 3000, 1.15  # ways of a long path, drives drawn for them, and scale to arrive at most
ENSEMBLE, WRONG = 40, 0.75  # random drives that stand for a wrong guess, and its probability
BETWEEN, LASTING = 9.0, 1.5  # longest ranges: metres between turns, and length of a turn; as in motion.py
SEARCHES, BETTER = 5, 2.0  # rounds of the search, and decrease of the cost above which another way is taken
# For ways that the fit leaves: rounds, excess cost above which they are impossible, and the factor as above. Chosen
# after route 23 of benchmarks/anchored.py was seen, on it and on routes 300 to 304.
TRIALS, UNSETTLED, SHARP_MODEL = 10, 25.0, 8.0
RELIEFS, STRAINED = 5, 4.0  # rounds, and sigmas from a known position above which the gaps at it are fitted again
STRETCHED = 1.7  # largest factor by which a way is scaled to arrive


@dataclass(frozen=True)
class Side:
    """The state (m, d) of the `points` (m,) in a gap, including its ends, on another way."""

    points: Ints
    state: Floats
    excess: float  # cost above that of the first way
    guessed: bool = False  # the path is long, so its turns are a guess
    sharp: bool = False  # the fit leaves this way because of a sharp turn: it only widens covariances

    @property
    def odds(self) -> float:
        """Return the odds of this way against the first way."""
        factor = MODEL if self.guessed else SHARP_MODEL if self.sharp else 1.0
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
        better = [one for one in better if one.excess < -BETTER and not one.sharp]
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
    positions. Gaps with such an end are moved to their known ends, and all ranges are judged again there.
    """
    known = problem.known
    for _ in range(RELIEFS):
        problem.look(refined.state)
        cost = float(problem.costs().sum())
        off = known.positions - problem.positions[known.points]
        strained = known.points[np.linalg.norm(off, axis=1) > STRAINED * known.sigma]
        gaps = [gap for gap in _gaps(problem) if np.isin(gap[[0, -1]], strained).any()]
        if not gaps:
            break
        state, at = refined.state.copy(), np.zeros((problem.points, problem.dimensions))
        at[known.points] = off
        for gap in gaps:
            part = np.linspace(0.0, 1.0, len(gap))[:, None]
            state[gap, : problem.dimensions] = problem.positions[gap] + (1 - part) * at[gap[0]] + part * at[gap[-1]]
        trial = problem.twin()
        trial.look(state)
        trial.true = trial.noise.chances()
        trial.look(fit(trial, state, rounds=ROUNDS).state)
        if trial.costs().sum() > cost - BETTER:
            break
        problem.true = trial.true
        refined = fit(problem, trial.state, rounds=ROUNDS)
    return refined


def other_sides(problem: Problem, state: Floats, rng: np.random.Generator | None = None) -> list[Side]:
    """Find other ways for each gap of a fitted state that has some."""
    rng = np.random.default_rng(0) if rng is None else rng
    found: list[Side] = []
    k = problem.dimensions
    problem.look(state)
    before = problem.costs()
    gaps = [gap for gap in _gaps(problem) if _width(state[gap, :k]) > CURVED * problem.reach]
    most, rounds = (None, ROUNDS) if problem.count <= MANY else (1, FEW_ROUNDS)
    ways = [_ways(state[gap, :k], problem.reach, rng)[:most] for gap in gaps]
    left: list[list[Ints]] = [[], []]  # gaps whose mirrored way the fit leaves
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
                if number == 0 and moved[0] <= CURVED * problem.reach:
                    left[parity].append(points)
                if min(moved) > CURVED * problem.reach and excess < FARTHER:
                    found.append(
                        Side(points, fitted[points], excess, _length(state[points, :k]) > LONG * problem.reach)
                    )
    if problem.count <= MANY and any(left):
        found += _turning_sides(problem, state, left)
    return found


def _turning_sides(problem: Problem, state: Floats, left: list[list[Ints]]) -> Iterator[Side]:
    """Yield mirrored ways that the fit leaves because it prefers gentle bows to sharp turns.

    From a way with a turn near a known point, the fit can slide to a bow on the other side, even if the turn is true.
    Here, turns are weighed as samples weigh them.
    """
    k = problem.dimensions
    first, before = _with_turns(problem, state)
    for points in filter(None, left):
        mirrored = state.copy()
        for gap in points:
            mirrored[gap, :k] = _turned(state[gap, :k])
        turned, after = _with_turns(problem, mirrored)
        for gap in points:
            moved = np.linalg.norm((turned - first)[gap, :k], axis=1).max()
            excess = float((after - before)[gap].sum())
            if moved > CURVED * problem.reach and excess < UNSETTLED:
                yield Side(gap, turned[gap], excess, sharp=True)


def _with_turns(problem: Problem, state: Floats) -> tuple[Floats, Floats]:
    """Fit a state with the turns that it has, and return it with each point's share (n,) of its cost."""
    trial = problem.twin()
    if trial.motion is None:
        raise ValueError("turns need points in order")
    trial.look(state)
    costs = trial.motion.expect()
    for _ in range(TRIALS):
        state = settle(trial, state, steps=3)
        trial.true = trial.noise.chances()
        costs = trial.motion.expect()
    total = trial.costs()
    total[trial.motion.order[1:-1]] += costs - trial.motion.costs()
    return state, total


def draw_sides(state: Floats, sides: list[Side], count: int, rng: np.random.Generator) -> list[Floats]:
    """Return `count` states with each gap on one of its ways: as often as the probability of the way, to within one."""
    drawn = [state.copy() for _ in range(count)]
    for ways in by_gap([one for one in sides if not one.sharp]):
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
    if _length(path) > LONG * reach:
        return ways + _bridges(path, reach, rng, BRIDGES)
    bends, curvature = _bends(line, reach)
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
            ways.append(_plane(line[0] + factor * way))
    return ways


def _bends(line: Complexes, reach: float) -> tuple[Floats, Floats]:
    """Return the turns (m - 2,) along a path (m,) in radians, and its smooth curvature (m - 2,) per metre."""
    steps = np.diff(line)
    bends = np.angle(steps[1:] / np.where(steps[:-1] == 0, 1.0, steps[:-1]))
    usual = max(float(np.median(np.abs(steps))), 1e-9)
    wide = max(1, round(0.25 * reach / usual))
    return bends, np.convolve(bends, np.ones(2 * wide + 1) / (2 * wide + 1), mode="same") / usual


def strange(problem: Problem, positions: Floats) -> list[Ints]:
    """Return the gaps whose path is not one that a drive usually takes, so that its turns may be wrong.

    A gentle bow is longer than the line between its ends, and nowhere as curved as a turn: the corner was not found.
    Other gaps turn by more than one corner and a half in all: turns to the wrong side need others that make up for it.
    """
    found = []
    for gap in _gaps(problem) if positions.shape[1] == 2 else []:
        line = positions[gap] @ np.array([1, 1j])
        long = SHORT * problem.reach < _length(positions[gap]) <= LONG * problem.reach
        detour = _length(positions[gap]) > DETOUR * abs(line[-1] - line[0])
        curvature = np.abs(_bends(line, problem.reach)[1])
        bend = float(curvature.sum() * np.median(np.abs(np.diff(line))))
        if long and ((detour and curvature.max() < GENTLE / problem.reach) or bend > TWISTED):
            found.append(gap)
    return found


def guess_spread(
    problem: Problem, positions: Floats, sides: list[Side], doubted: list[Ints], rng: np.random.Generator
) -> Floats:
    """Return covariances (n, k, k) that cover a wrong guess of the turns of long and `doubted` paths, and sharp turns.

    With the probability `WRONG`, such a path is any drive of its length that arrives at the next known point.
    """
    n, k = positions.shape
    spread = np.zeros((n, k, k))
    for one in sides:
        if one.sharp:
            off = one.state[:, :k] - positions[one.points]
            spread[one.points] += one.odds / (1 + one.odds) * off[:, :, None] * off[:, None, :]
    long = [gap for gap in _gaps(problem) if k == 2 and _length(positions[gap]) > LONG * problem.reach]
    for gap in [*long, *doubted]:
        ways = _bridges(positions[gap], problem.reach, rng, ENSEMBLE)
        if ways:
            off = np.array(ways) - positions[gap]
            spread[gap] += WRONG * np.einsum("wna,wnb->nab", off, off) / len(ways)
    return spread


def _bridges(path: Floats, reach: float, rng: np.random.Generator, most: int) -> list[Floats]:
    """Draw random drives with the steps of a path, and keep at most `most` that arrive at its end."""
    line = path @ np.array([1, 1j])
    lengths = np.abs(np.diff(line))
    found: list[Floats] = []
    chord, usual = line[-1] - line[0], float(np.median(lengths))
    for _ in range(DRAWS):
        curved = np.zeros(len(lengths))
        at = float(rng.exponential(BETWEEN * reach)) - BETWEEN * reach / 2
        along = np.cumsum(lengths)
        while at < along[-1]:
            lasting = float(rng.normal(LASTING, 0.3)) * reach
            curved[(along > at) & (along <= at + lasting)] = rng.choice([-1.0, 1.0]) / reach
            at += lasting + float(rng.gamma(4.0, BETWEEN * reach / 4.0))
        way = np.concatenate([[0.0], np.cumsum(lengths * np.exp(1j * np.cumsum(curved * usual)))])
        factor = chord / way[-1] if abs(way[-1]) > 1e-9 else 0.0
        if 1 / ARRIVING < abs(factor) < ARRIVING:
            found.append(_plane(line[0] + factor * way))
            if len(found) == most:
                break
    return found


def _length(path: Floats) -> float:
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def _plane(line: Floats) -> Floats:
    return np.stack([line.real, line.imag], 1)


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
