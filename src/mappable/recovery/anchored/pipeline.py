"""Recovery with some known positions: ranges place the other points in map coordinates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.progress import track
from mappable.randomness import Purpose, generator
from mappable.recovery import hints
from mappable.recovery.anchored import undetermined
from mappable.recovery.anchored.folds import Fold
from mappable.recovery.anchored.guesses import Guess, guess
from mappable.recovery.anchored.guided import contradictions, coverage, fit_guided, guided_start
from mappable.recovery.anchored.loose import DOUBTFUL, overrules, place
from mappable.recovery.anchored.problem import WEAK, Problem, vagueness
from mappable.recovery.anchored.refine import Refined, fit, sample
from mappable.recovery.anchored.relative import Relative, covered, reckon
from mappable.recovery.anchored.sides import Side, best_sides, draw_sides, relieved
from mappable.recovery.anchored.starts import between_anchors, between_by_shape, drawn_from, grown
from mappable.recovery.hints import Anchors, Motions, Odometry, Turns, among
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.unanchored.filtering import common_neighbor_filter
from mappable.recovery.unanchored.undetermined import aligned_error

CHAINS, SWEEPS = 10, 100  # number of Markov chains, and draws per chain
# Maps with more points than this have fewer chains, and fewer draws per chain: their time grows with points * draws.
MANY, MANY_CHAINS, MANY_DRAWS, LEAST_SWEEPS = 1_000, 2, 5e5, 50
FITTING = 0.97  # share of ranges that fit, above which no other start is tried for many points
STRAINED = 6.0  # sigmas: distance from a known position above which another start is tried for many points
TRIED = 8  # rounds of the fit of each start; the best is then fitted to the end
GAUGE = 1e-6  # metres: sigma of the first point of a map without known positions


def recover_anchored(
    ranges: Ranges,
    anchors: Anchors | None,
    *,
    ordered: bool | Sequence[ArrayLike] = True,
    odometry: Odometry | None = None,
    motions: Motions | None = None,
    turns: Turns | None = None,
    seed: int = 0,
    sweeps: int | None = None,
    progress: bool = False,
    gauge: int | None = None,
    start: tuple[Floats, Floats] | None = None,
) -> Recovered:
    """Recover positions in the coordinates of the anchors, with covariances; nothing is aligned afterwards.

    `ordered` is True if the points are the images of one drive, in order. It is False if the points have no order.
    Otherwise it is a list of drives, each with the numbers of its points in order; landmarks of a map are in no drive.

    With an order, the camera is assumed to go at a steady pace, straight on or turning. Recovery estimates how steady
    and how straight the motion is, how noisy the ranges are, and which ranges are false. It also estimates the
    deviation that an image adds to all its ranges. Positions and covariances are the mean and covariance of samples of
    all maps that fit. Ten chains of `sweeps` draws each make the samples, with a bar if `progress`. The default is 100
    draws; with more than 1,000 points, there are two chains, and fewer draws. With 0 sweeps, positions are the best
    fit, and covariances cover small deviations from it only.

    Without an order, ranges and known positions alone place the points. The same holds if ranges contradict the order.
    They do if they place the points precisely, and the path turns too sharply for a camera at a steady pace. Then
    positions are the best fit. Covariances also cover groups of points that could lie on the other side of their
    neighbors.

    `motions` are relative motions, such as odometry. Their noise and drift are estimated, and they replace the
    assumptions about motion wherever they lead. Anchors may be None if there are motions: then the map begins at the
    point `gauge` (default: the first point with a motion), at the origin, in the direction of the x axis.
    `start` has positions (n, k) and orientations (n, k, k) from which one more fit begins; the best fit counts.

    Points that are not connected to an anchor by ranges, odometry or motions get NaN coordinates.
    """
    if sweeps is not None and sweeps < 0:
        raise BadInputError(f"sweeps must be 0 or more, got {sweeps}")
    if anchors is None:
        if motions is None or not len(motions):
            raise BadInputError("recovery needs known positions or motions: give one of them, or use mappable.recover")
        gauge = int(min(motions.i.min(), motions.j.min())) if gauge is None else gauge
        anchors = Anchors([gauge], np.zeros((1, motions.metres.shape[1])), GAUGE)
    drives = hints.check_hints(ranges, anchors, ordered, odometry, turns, motions)
    kept = common_neighbor_filter(ranges)
    parts = hints.connected_parts(ranges.where(kept), odometry, motions)
    held = np.isin(parts, parts[anchors.points])
    points, number = np.flatnonzero(held), np.cumsum(held) - 1
    origin = anchors.positions.mean(0)
    inside = held[ranges.i] & held[ranges.j]
    solver = _Solver(
        ranges.among(points),
        kept[inside],
        Anchors(number[anchors.points], anchors.positions - origin, anchors.sigma),
        [number[drive] for drive in hints.unbroken(drives, held)],
        among(odometry, held),
        among(turns, held),
        among(motions, held),
        None if gauge is None else int(number[gauge]),
        None if start is None else (start[0][points] - origin, start[1][points]),
    )
    with threadpool_limits(1):  # the systems are too small for several threads
        solution = solver.solve(seed, sweeps, progress)
    refined, guessed = solution.refined, solution.guess
    dimensions = anchors.positions.shape[1]
    positions = np.full((ranges.count, dimensions), np.nan)
    covariances = np.full((ranges.count, dimensions, dimensions), np.nan)
    positions[points], covariances[points] = refined.positions + origin, refined.covariances
    false = refined.true <= 0.5
    used = kept.copy()
    used[np.flatnonzero(inside)[solver.judged]] = ~false
    gaps = [] if solution.erratic else solver.gaps(refined.positions, points)
    said = [
        *(
            undetermined.spanned(anchors, solver.odometry, held, led=motions is not None)
            if gauge is None
            else undetermined.unplaced(held, gauge)
        ),
        *undetermined.strained(anchors, positions),
        *(undetermined.untested(len(points)) if guessed else []),
        *solver.contradictions(points, false),
        *undetermined.undecided_sides(points, solution.sides),
        *undetermined.doubted_ways(points, guessed.doubted if guessed else []),
        *(undetermined.winding() if guessed and guessed.winds else []),
        *undetermined.undecided_folds(points, solution.folds or ()),
        *undetermined.long_ways(
            gaps, covered=guessed is not None and dimensions == 2, weak=solution.weak or guessed is None
        ),
        *undetermined.doubts(false, weak=solution.weak, erratic=solution.erratic),
        *undetermined.misfits(false, refined.noise, doubtful=solution.doubtful),
        *(
            []
            if solution.guided
            else undetermined.unseen(false, drawn=guessed is not None, folded=solution.folds is not None)
        ),
    ]
    found = Recovered(positions, np.where(held, 0, 1 + parts), used, refined.noise, tuple(said), covariances)
    if solver.guided is None or solver.guided.relative is None:
        return found
    frames = np.full((ranges.count, dimensions, dimensions), np.nan)
    frames[points] = solver.guided.relative.orientations(refined.state)
    motions_used = solver.guided.relative.corrected(refined.state, points)
    return replace(found, frames=frames, motions=motions_used, expected=solution.expected)


@dataclass(frozen=True)
class _Solution:
    refined: Refined
    weak: bool  # the ranges are so noisy that they say little
    sides: Sequence[Side] = ()  # gaps of drives that could run on another side
    guess: Guess | None = None  # what is guessed about turns; None if positions are not drawn
    folds: Sequence[Fold] | None = None  # groups of points that could lie on another side; None if not searched for
    erratic: bool = False  # the path does not move like a drive
    doubtful: bool = False  # ranges fit worse than their noise explains
    guided: bool = False  # motions lead from each point to the next
    expected: float | None = None  # metres: error of the best estimator after alignment, if no position is known


class _Solver:
    """The points that are connected to anchors, numbered from 0; all `given` ranges between them, and those `kept`."""

    def __init__(
        self,
        given: Ranges,
        kept: Bools,
        anchors: Anchors,
        drives: list[Ints],
        odometry: Odometry | None,
        turns: Turns | None,
        motions: Motions | None = None,
        gauge: int | None = None,
        start: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.start = start
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
        self.motions, self.gauge = motions, gauge
        self.guided: Problem | None = None  # the problem with motions, and the fit of it that was not chosen
        self.other: Refined | None = None
        if motions is not None:
            self.extent += float(np.linalg.norm(motions.metres, axis=1).sum())
            self.led[motions.i] = self.led[motions.j] = True

    def solve(self, seed: int, sweeps: int | None, progress: bool) -> "_Solution":
        rng = generator(seed, Purpose.ANCHORED)
        if self.motions is not None:
            return self._guided(self.motions, seed, sweeps, progress)
        between, drawn = self._between(seed, self.drives), drawn_from(self.ranges, self.anchors, seed)
        drawn += [] if self.start is None else [self.start[0]]
        starts = [between, *drawn[:1]]
        if drawn and self.ranges.count > MANY and between.shape[1] == 2:
            starts.insert(0, between_by_shape(between, drawn[0], self.anchors, self.drives))
        problem, refined = self._best(starts) if self.drives else (None, None)
        if problem is None or refined is None or problem.motion is None:
            refined, folds, doubtful = self._placed([between, *drawn], seed, rng)
            return _Solution(refined, refined.noise * self.vagueness > WEAK, folds=folds, doubtful=doubtful)
        weak = refined.noise * self.vagueness > WEAK
        if not weak and self.turns is None and overrules(problem, refined, self._loose(refined.positions)):
            refined, folds, doubtful = self._placed([refined.positions, *drawn], seed, rng)
            return _Solution(refined, weak, folds=folds, erratic=True, doubtful=doubtful)
        if sweeps == 0:
            return _Solution(refined, weak)
        sides: list[Side] = []
        if weak:  # the bends of the best fit would be range noise
            problem = self._problem(between)
            refined = Refined(problem.state, refined.covariances, 1.0, refined.true)
        else:
            refined, sides = best_sides(problem, refined, rng)
        refined, found = _sampled(problem, refined, sides, rng, sweeps, progress, weak=weak)
        return _Solution(refined, weak, sides=sides, guess=found)

    def _guided(self, motions: Motions, seed: int, sweeps: int | None, progress: bool) -> "_Solution":
        """Fit from dead reckoning; draw samples only where motions are missing, because turns there are uncertain."""
        rough = self._between(seed, self.drives)
        reckoned = reckon(motions, self.ranges.count)
        starts = [guided_start(reckoned, self.ranges, self.anchors, rough)]
        starts += [] if self.start is None else [self.start]
        fits = [fit_guided(self._led(motions, *start)) for start in starts]
        problem, refined, self.other = min(fits, key=lambda one: float(one[0].costs().sum()))
        self.guided = problem
        if self.gauge is not None:
            refined.covariances[self.gauge] = GAUGE**2 * np.eye(problem.dimensions)
        doubtful = refined.noise > DOUBTFUL
        expected = None if self.gauge is None else _best_error(problem, refined.state, seed)
        if problem.motion is None or sweeps == 0:
            whole = problem.motion is None
            return _Solution(refined, weak=False, doubtful=doubtful, guided=whole, expected=expected)
        rng = generator(seed, Purpose.ANCHORED)
        refined, sides = best_sides(problem, refined, rng)
        refined, found = _sampled(problem, refined, sides, rng, sweeps, progress)
        return _Solution(refined, False, sides=sides, guess=found, expected=expected)

    def _led(self, motions: Motions, start: Floats, frames: Floats) -> Problem:
        """Return the problem with motions; without known positions, the point `gauge` stays at the origin."""
        if self.gauge is not None:
            turn = frames[self.gauge].T
            start, frames = (start - start[self.gauge]) @ turn.T, turn @ frames
        posed = self.ranges, self.anchors, self.drives, self.odometry, self.turns, start, self.extent
        # Weak ranges may all be too short: they are no measure of the steps unless known positions confirm it.
        scaled = len(self.anchors) >= 2 or vagueness(self.ranges) <= WEAK
        problem = Problem(*posed, Relative(motions, frames, scaled=scaled))
        problem.fixed = np.arange(0) if self.gauge is None else np.array([self.gauge])
        return problem

    def contradictions(self, points: Ints, false: Bools) -> Iterator[str]:
        """Report what motions do not cover, and what they contradict."""
        if self.guided is None or self.other is None or self.motions is None:
            return
        led = covered(self.motions, self.drives, self.ranges.count)
        yield from coverage(led, reckon(self.motions, self.ranges.count).parts, self.drives)
        yield from contradictions(self.guided, self.other, points, self.ranges, false)

    def gaps(self, positions: Floats, points: Ints) -> list[tuple[int | None, int | None, float]]:
        """Find stretches of drives without hints: the point at each end, and the length in longest ranges.

        An end is None if neither a known position nor motions from one place it. `points` has the user's numbers.
        """
        hinted, led = self.led.copy(), covered(self.motions, self.drives, self.ranges.count)
        if self.turns is not None:
            hinted[self.turns.points] = True
        found = []
        for drive in self.drives:
            known = np.flatnonzero(np.isin(drive, self.anchors.points)).tolist()
            for begin, end in pairwise([0, *known, len(drive) - 1] if known else []):
                placed = begin in known, end in known
                while placed[0] and begin < end and led[drive[begin]]:
                    begin += 1
                while placed[1] and begin < end and led[drive[end - 1]]:
                    end -= 1
                if end - begin > 1 and not hinted[drive[begin + 1 : end]].all():
                    steps = np.diff(positions[drive[begin : end + 1]], axis=0)
                    way = float(np.linalg.norm(steps, axis=1).sum())
                    ends = [
                        int(points[drive[at]]) if has else None for at, has in zip((begin, end), placed, strict=True)
                    ]
                    found.append((ends[0], ends[1], way / self.reach))
        return found

    def _between(self, seed: int, drives: list[Ints]) -> Floats:
        given = self.odometry, self.motions
        return between_anchors(self.ranges, self.anchors, drives, given, self.led, self.reach, self.vagueness, seed)

    def _problem(self, start: Floats) -> Problem:
        return Problem(self.ranges, self.anchors, self.drives, self.odometry, self.turns, start, self.extent)

    def _loose(self, start: Floats) -> Problem:
        """Return the problem without order."""
        return Problem(self.ranges, self.anchors, [], self.odometry, None, start, self.extent)

    def _placed(self, starts: list[Floats], seed: int, rng: np.random.Generator) -> tuple[Refined, list[Fold], bool]:
        """Place the points without order, and allow ranges that the filter did not keep.

        Such a range counts as soon as it fits, if it is within one longest range of any start.
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
        """Yield more starts for points without order; each is computed on demand."""
        if self.drives:
            yield self._between(seed, [])
        yield from grown(self.ranges, self.anchors)

    def _best(self, starts: list[Floats]) -> tuple[Problem, Refined]:
        """Fit from several starts, and return the fit of lowest cost; of many points, the first start that fits."""
        found = []
        for start in starts:
            problem = self._problem(start)
            refined = fit(problem, problem.state, rounds=TRIED)
            found.append((float(problem.costs().sum()), problem, refined))
            fits = problem.count > MANY and refined.noise <= DOUBTFUL and problem.strain() < STRAINED
            if fits and (refined.true > 0.5).mean() > FITTING:
                break
        _, problem, refined = min(found, key=lambda one: one[0])
        refined = fit(problem, refined.state, rounds=25 if problem.count <= MANY else TRIED)
        return problem, relieved(problem, refined)


def _best_error(problem: Problem, state: Floats, seed: int) -> float:
    """Return the error (metres, after alignment) that the measurements leave to any estimator: the Cramér-Rao bound.

    All unknowns of the problem count, such as orientations and drift.
    """
    problem.look(state)
    diagonal, coupling, _ = problem.system()
    factor, n, k = problem.plan.factor(diagonal, coupling), problem.points, problem.dimensions

    def solve(probes: Floats) -> Floats:
        columns = []
        for one in probes.T:
            right = np.zeros_like(problem.state)
            right[:n, :k] = one.reshape(n, k)
            columns.append(factor.solve(right)[:n, :k].ravel())
        return np.stack(columns, 1)

    return aligned_error(problem.positions, solve, seed)


def _sampled(
    problem: Problem,
    refined: Refined,
    sides: list[Side],
    rng: np.random.Generator,
    sweeps: int | None,
    progress: bool,
    *,
    weak: bool = False,
) -> tuple[Refined, Guess]:
    """Draw samples from starts whose gaps lie on one of their sides; allow for wrong guesses of turns."""
    chains, usual = _effort(problem.count)
    if any(side.guessed for side in sides):  # many ways need many chains
        chains, usual = 2 * chains, max(LEAST_SWEEPS, usual // 2)
    starts = draw_sides(refined.state, sides, chains, rng)
    shown = track(starts, "sampling maps that fit", len(starts)) if progress else starts
    drawn = sample(problem, shown, rng, sweeps=usual if sweeps is None else sweeps)
    found = guess(problem, drawn.positions, rng, weak=weak)
    state = drawn.state.copy()
    state[: problem.points, : problem.dimensions] = found.positions
    return replace(drawn, state=state, covariances=drawn.covariances + found.covariances), found


def _effort(count: int) -> tuple[int, int]:
    """Return the number of chains, and of draws per chain, for this many points."""
    if count <= MANY:
        return CHAINS, SWEEPS
    return MANY_CHAINS, max(LEAST_SWEEPS, round(min(SWEEPS, MANY_DRAWS / MANY_CHAINS / count)))
