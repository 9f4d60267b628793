"""Recovery with some known positions: ranges place the other points in map coordinates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.progress import track
from mappable.randomness import Purpose, generator
from mappable.recovery.anchored.folds import Fold
from mappable.recovery.anchored.loose import overrules, place
from mappable.recovery.anchored.problem import WEAK, Problem, consecutive, vagueness
from mappable.recovery.anchored.refine import Refined, fit, sample
from mappable.recovery.anchored.sides import Side, draw_sides, other_sides
from mappable.recovery.anchored.starts import bow, drawn_from, grown, harmonic
from mappable.recovery.anchored.undetermined import (
    doubts,
    long_ways,
    misfits,
    spanned,
    undecided_folds,
    undecided_sides,
    unseen,
)
from mappable.recovery.hints import Anchors, Odometry, Turns, among, check_points, whole_numbers
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.unanchored.filtering import common_neighbour_filter

CHAINS, SWEEPS = 10, 100  # how often drawing begins anew, and how often is drawn then
ASIDE = 0.1  # of the longest range: metres beside the middle of others that a point begins at


def recover_anchored(
    ranges: Ranges,
    anchors: Anchors,
    *,
    ordered: bool | Sequence[ArrayLike] = True,
    odometry: Odometry | None = None,
    turns: Turns | None = None,
    seed: int = 0,
    sweeps: int = SWEEPS,
    progress: bool = False,
) -> Recovered:
    """Positions in the anchors' coordinates, with covariances; nothing is aligned afterwards.

    Points are `ordered` if they are the images of one drive one after the other. Else give a list of drives, each the
    numbers of its points in order (landmarks of a map are in none), or False. A camera is taken to go at a steady pace,
    straight on or turning; how steady and how straight is found out, and so are the noise of the ranges, what each
    image does to all its ranges, and which are false. Positions are then the mean of all that fits, and covariances
    tell how much of it there is; both are found by drawing from it, so many `sweeps` ten times, with a bar of
    `progress` or without. With 0 sweeps, positions are what fits best, and covariances cover small deviations from it.

    Without an order, ranges and known positions alone place the points. The same holds for an order that ranges
    contradict: if they place the points precisely, and the path turns too sharply for a camera at a steady pace. Then
    positions are what fits best, and covariances also cover groups of points that could lie on the other side of their
    neighbors.

    Points that no range connects with an anchor are left out: their coordinates are not numbers.
    """
    if sweeps < 0:
        raise BadInputError(f"there are {sweeps} sweeps, but must be at least 0")
    drives = _checked(ranges, anchors, ordered, odometry, turns)
    kept = common_neighbour_filter(ranges)
    parts = _parts(ranges.where(kept), odometry)
    held = np.isin(parts, parts[anchors.points])
    points, number = np.flatnonzero(held), np.cumsum(held) - 1
    origin = anchors.positions.mean(0)
    inside = held[ranges.i] & held[ranges.j]
    solver = _Solver(
        ranges.among(points),
        kept[inside],
        Anchors(number[anchors.points], anchors.positions - origin, anchors.sigma),
        [number[drive] for drive in _unbroken(drives, held)],
        among(odometry, held),  # type: ignore[arg-type]
        among(turns, held),  # type: ignore[arg-type]
    )
    with threadpool_limits(1):  # the systems are too small for several threads
        solution = solver.solve(seed, sweeps, progress)
    refined = solution.refined
    dimensions = anchors.positions.shape[1]
    positions = np.full((ranges.count, dimensions), np.nan)
    covariances = np.full((ranges.count, dimensions, dimensions), np.nan)
    positions[points], covariances[points] = refined.positions + origin, refined.covariances
    false = refined.true <= 0.5
    used = kept.copy()
    used[np.flatnonzero(inside)[solver.judged]] = ~false
    gaps = [] if solution.erratic else solver.gaps(refined.positions)
    ends = [(points[begin], points[end], way) for begin, end, way in gaps]
    said = [
        *spanned(anchors, solver.odometry, held),
        *undecided_sides(points, solution.sides),
        *undecided_folds(points, solution.folds or ()),
        *long_ways(anchors.points, ends),
        *doubts(false, weak=solution.weak, erratic=solution.erratic),
        *misfits(false, refined.noise, doubtful=solution.doubtful),
        *unseen(false, drawn=solution.drawn, folded=solution.folds is not None),
    ]
    return Recovered(positions, np.where(held, 0, 1 + parts), used, refined.noise, tuple(said), covariances)


@dataclass(frozen=True)
class _Solution:
    refined: Refined
    weak: bool  # the ranges say little
    sides: Sequence[Side] = ()  # gaps of drives that have another side
    folds: Sequence[Fold] | None = None  # groups of points that have another side, or None: not searched for
    erratic: bool = False  # the path does not move like a drive
    drawn: bool = False  # positions were drawn
    doubtful: bool = False  # ranges fit worse than their noise explains


class _Solver:
    """The points that are held by anchors, numbered from 0, and all `given` ranges between them, with those `kept`."""

    def __init__(
        self,
        given: Ranges,
        kept: Bools,
        anchors: Anchors,
        drives: list[Ints],
        odometry: Odometry | None,
        turns: Turns | None,
    ) -> None:
        self.given, self.kept, self.ranges = given, kept, given.where(kept)
        self.judged = kept  # True for the given ranges that the solution rests on
        self.anchors, self.drives, self.odometry, self.turns = anchors, drives, odometry, turns
        ranges = self.ranges
        self.reach = float(ranges.metres.max(initial=0.0)) or 1.0
        self.vagueness = vagueness(ranges)
        self.extent = max(float(np.ptp(anchors.positions, axis=0).max() + ranges.count * self.reach), 1.0)
        self.led = np.zeros(ranges.count, dtype=bool)  # True for points with odometry
        if odometry is not None:
            self.extent += float(np.linalg.norm(odometry.metres, axis=1).sum())
            self.led[odometry.i] = self.led[odometry.j] = True

    def solve(self, seed: int, sweeps: int, progress: bool) -> "_Solution":
        between, drawn = self._between_anchors(seed, self.drives), drawn_from(self.ranges, self.anchors, seed)
        rng = generator(seed, Purpose.ANCHORED)
        problem, refined = self._best([between, *drawn[:1]]) if self.drives else (None, None)
        if problem is None or refined is None or problem.motion is None:
            refined, folds, doubtful = self._placed([between, *drawn], seed, rng)
            return _Solution(refined, refined.noise * self.vagueness > WEAK, folds=folds, doubtful=doubtful)
        weak = refined.noise * self.vagueness > WEAK
        if not weak and self.turns is None and overrules(problem, refined, self._loose(refined.positions)):
            refined, folds, doubtful = self._placed([refined.positions, *drawn], seed, rng)
            return _Solution(refined, weak, folds=folds, erratic=True, doubtful=doubtful)
        if not sweeps:
            return _Solution(refined, weak)
        sides: list[Side] = []
        if weak:  # what fits best would have the noise of the ranges in its bends
            problem = self._problem(between)
            refined = Refined(problem.state, refined.covariances, 1.0, refined.true)
        else:
            sides = other_sides(problem, refined.state)
        starts = [draw_sides(refined.state, sides, rng) for _ in range(CHAINS)]
        shown = track(starts, "drawing from all that fits", len(starts)) if progress else starts
        return _Solution(sample(problem, shown, rng, sweeps=sweeps), weak, sides=sides, drawn=True)

    def gaps(self, positions: Floats) -> list[tuple[int, int, float]]:
        """Stretches of drives with a known point at either end or at one, and their lengths in longest ranges.

        Where odometry or turns are known all the way, there is no gap.
        """
        hinted = self.led.copy()
        if self.turns is not None:
            hinted[self.turns.points] = True
        found = []
        for drive in self.drives:
            known = np.flatnonzero(np.isin(drive, self.anchors.points)).tolist()
            for begin, end in pairwise([0, *known, len(drive) - 1] if known else []):
                if end - begin > 1 and not hinted[drive[begin + 1 : end]].all():
                    steps = np.diff(positions[drive[begin : end + 1]], axis=0)
                    way = float(np.linalg.norm(steps, axis=1).sum())
                    found.append((int(drive[begin]), int(drive[end]), way / self.reach))
        return found

    def _problem(self, start: Floats) -> Problem:
        return Problem(self.ranges, self.anchors, self.drives, self.odometry, self.turns, start, self.extent)

    def _loose(self, start: Floats) -> Problem:
        """The problem without order."""
        return Problem(self.ranges, self.anchors, [], self.odometry, None, start, self.extent)

    def _placed(self, starts: list[Floats], seed: int, rng: np.random.Generator) -> tuple[Refined, list[Fold], bool]:
        """The points without order, from all given ranges but those that were not kept and are far off at all starts.

        Other ranges that were not kept count as soon as they fit.
        """
        i, j = self.given.i, self.given.j
        off = [np.abs(np.linalg.norm(start[i] - start[j], axis=1) - self.given.metres) for start in starts]
        self.judged = self.kept | (np.min(off, axis=0) < self.reach)
        ranges, trusted = self.given.where(self.judged), self.kept[self.judged].astype(np.float64)

        def pose(start: Floats) -> Problem:
            problem = Problem(ranges, self.anchors, [], self.odometry, None, start, self.extent)
            problem.true = trusted
            return problem

        return place(pose, starts, rng, self._further(seed))

    def _further(self, seed: int) -> Iterator[Floats]:
        """More starts for points without order, each made when it is asked for."""
        if self.drives:
            yield self._between_anchors(seed, [])
        yield from grown(self.ranges, self.anchors)

    def _best(self, starts: list[Floats]) -> tuple[Problem, Refined]:
        """From several starts the one that explains the ranges better; the truth is not asked."""
        found = []
        for start in starts:
            problem = self._problem(start)
            refined = fit(problem, problem.state)
            found.append((float(problem.costs().sum()), problem, refined))
        _, problem, refined = min(found, key=lambda one: one[0])
        return problem, refined

    def _between_anchors(self, seed: int, drives: list[Ints]) -> Floats:
        """Drives as bows between known positions, and all else where odometry leads or in the middle of what is near.

        Points in no drive are put a little beside that: from the line between two others no way leads to either side.
        """
        known, step = self.anchors, self._step()
        at = np.full((self.ranges.count, known.positions.shape[1]), np.nan)
        at[known.points] = known.positions
        for drive in drives:
            for begin, end in pairwise(np.flatnonzero(np.isin(drive, known.points)).tolist()):
                if not self.led[drive[begin + 1 : end]].all():
                    at[drive[begin : end + 1]] = bow(at[drive[begin]], at[drive[end]], end - begin, step)
        aside = np.isnan(at[:, 0])
        for drive in drives:
            aside[drive] = False
        filled = harmonic(*self._links(), at)
        noise = generator(seed, Purpose.ANCHORED).standard_normal((int(aside.sum()), at.shape[1]))
        filled[aside] += ASIDE * self.reach * noise
        return filled

    def _step(self) -> float:
        """Metres from one image to the next, if ranges tell; else 0."""
        near = consecutive(self.ranges, self.drives)
        return float(np.median(self.ranges.metres[near])) if near.any() and self.vagueness <= WEAK else 0.0

    def _links(self) -> tuple[csr_array, Floats]:
        """How strongly points (n, n) belong together, the nearer the more, and where odometry pulls them (n, k)."""
        i, j, strength = self.ranges.i, self.ranges.j, np.square(1 / (self.ranges.metres + self.ranges.sigma))
        pull = np.zeros((self.ranges.count, self.anchors.positions.shape[1]))
        if self.odometry is not None:
            i, j = np.concatenate([i, self.odometry.i]), np.concatenate([j, self.odometry.j])
            sure = self.odometry.sigma**-2.0
            strength = np.concatenate([strength, sure])
            np.add.at(pull, self.odometry.j, sure[:, None] * self.odometry.metres)
            np.add.at(pull, self.odometry.i, -sure[:, None] * self.odometry.metres)
        one_way = csr_array((strength, (i, j)), shape=(self.ranges.count, self.ranges.count))
        return (one_way + one_way.T).tocsr(), pull


def _parts(ranges: Ranges, odometry: Odometry | None) -> Ints:
    """The part (n,) that each point is in, if points are connected by ranges or odometry."""
    if odometry is None:
        return ranges.parts
    i, j = np.concatenate([ranges.i, odometry.i]), np.concatenate([ranges.j, odometry.j])
    links = csr_array((np.ones(len(i)), (i, j)), shape=(ranges.count, ranges.count))
    labels: Ints = connected_components(links, directed=False)[1].astype(np.int64)
    return labels


def _checked(
    ranges: Ranges,
    anchors: Anchors,
    ordered: bool | Sequence[ArrayLike],
    odometry: Odometry | None,
    turns: Turns | None,
) -> list[Ints]:
    """The drives, if everything names points that there are."""
    check_points("an anchor", anchors.points, ranges.count)
    dimensions = anchors.positions.shape[1]
    if odometry is not None:
        check_points("odometry", np.concatenate([odometry.i, odometry.j]), ranges.count)
        if odometry.metres.shape[1] != dimensions:
            raise BadInputError(f"odometry has {odometry.metres.shape[1]} dimensions, but known positions {dimensions}")
    if turns is not None:
        check_points("a turn", turns.points, ranges.count)
        if dimensions != 2:
            raise BadInputError("turns to the left and right are for maps of two dimensions")
    if ordered is True:
        drives = [np.arange(ranges.count)]
    else:
        drives = [] if ordered is False else [whole_numbers("a drive", drive) for drive in ordered]
    every = np.concatenate(drives) if drives else np.arange(0)
    check_points("a drive", every, ranges.count)
    if len(np.unique(every)) < len(every):
        twice = np.flatnonzero(np.bincount(every) > 1)[0]
        raise BadInputError(f"point {twice} is in the order of drives more than once")
    if turns is not None:
        lost = np.setdiff1d(turns.points, np.concatenate([np.arange(0), *(drive[1:-1] for drive in drives)]))
        if len(lost):
            raise BadInputError(f"the turn at point {lost[0]} has no step before it, or none behind it, in any drive")
    return drives


def _unbroken(drives: list[Ints], held: Bools) -> list[Ints]:
    """Drives without the points that are not held: they break there."""
    found = []
    for drive in drives:
        breaks = np.flatnonzero(~held[drive])
        found += [piece[held[piece]] for piece in np.split(drive, breaks)]
    return [piece for piece in found if len(piece)]
