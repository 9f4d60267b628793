"""Map recovery: the trajectory of a drive from feature distances alone, by the paper's way and by ours.

Each way is told apart from luck by two things: it is repeated with other images of the same drive, and beside it stand
drawings that need no distances at all. One that scores like these has not recovered the shape of the route.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from mappable.arrays import Bools, Floats, Ints, evenly, path_length
from mappable.errors import BadInputError, MappableError
from mappable.evaluation.protocols.localization import compute as localization
from mappable.evaluation.protocols.localization.compute import calibrated_map, known, rows_to_calibrate
from mappable.evaluation.scoring import NotApplicableError, Scoring
from mappable.evaluation.setup import Setup
from mappable.maps.calibration import Calibration
from mappable.maps.ranging import ranges_between
from mappable.places.sampling import farthest_points
from mappable.randomness import Purpose, generator
from mappable.recovery.align import align, aligned_score
from mappable.recovery.align import score as plain_score
from mappable.recovery.baselines import interpolated, trivial_rows
from mappable.recovery.drive import missing_steps, recover_drive
from mappable.recovery.hints import Anchors
from mappable.recovery.matrices.completion import Completed, s_stress
from mappable.recovery.matrices.mask import (
    MaskReport,
    Threshold,
    choose_threshold,
    connect,
    mask_report,
    oracle_mask,
    paper_mask,
    threshold_mask,
)
from mappable.recovery.matrices.sdp import sdp_trace
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.smacof import smacof

IMAGES, REPETITIONS, KNOWN = 100, 10, 10
FEWEST = 20  # images
PAIRED = 1000  # images at most whose pairs tell what feature distances mean
SOLVED, STEPS = 5, 3000  # repetitions of the SDP, which takes long, and steps of its solver: 20,000 are hardly better
KNOWN_SIGMA = 0.05  # positive radii that a known position may be off
TRIVIAL = ("point", "straight line", "circle")
SDP_MDS, SDP_SMACOF, S_STRESS = "SDP, classical MDS", "SDP, SMACOF", "s-stress in place of the SDP"
PRINTED_MASK, ORACLE_MASK = ", mask as printed (λD ≤ r1²)", ", oracle mask"
OURS, OURS_MASKED = "calibrated ranges", "calibrated ranges, of the mask's pairs alone"
ANCHORED, STEADY = "calibrated ranges and known positions", "a steady pace between known positions"
SHOWN = {SDP_MDS: "mds", S_STRESS: "mds", SDP_SMACOF: "smacof", OURS: "recovered", ANCHORED: "anchored"}


@dataclass(frozen=True)
class Method:
    """Root mean square errors of one way to recover the route, over the repetitions; rigid ones keep the scale."""

    method: str
    group: str
    mean: float
    std: float | None
    percent: float  # of the length of the route
    rigid: float | None  # None where nothing is aligned
    rigid_percent: float | None


@dataclass(frozen=True)
class MaskQuality:
    """How good the paper's mask is on the route itself: means over the repetitions, in percent."""

    tau: float
    precision: float | None
    recall: float | None
    per_row: float | None  # pairs per image


@dataclass(frozen=True)
class MapRecovery:
    """Errors of all ways to recover the route; images, positions (n, k) and matrices (n, n) of the first repetition.

    `positions` have those that figures show, by the names in `SHOWN`.
    """

    sequence: str
    images: Ints  # rows of the table, in order of time
    known: Ints  # rows of the images whose positions are known
    length: float  # of the route
    repetitions: int
    methods: list[Method]
    mask: MaskQuality | None
    notes: list[str]
    truth: Floats
    true: Floats  # distances
    masked: Floats | None  # NaN where the mask leaves a distance out
    completed: Floats | None
    positions: dict[str, Floats]


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([_route(setup), _paired(setup), rows_to_calibrate(setup)])


def depends(scoring: Scoring) -> str:
    """What a result depends on beside the model and the set: λ, a given calibration, and whether there is a solver."""
    about = scoring.about
    scale = f"{about.unit} {about.positive_radius} {about.feature_scale_squared} {about.proportional}"
    return f"{scale} {_has_solver()} {localization.depends(scoring)}"


def score(scoring: Scoring) -> MapRecovery:
    """Errors of all ways to recover the route, mean and standard deviation over the repetitions."""
    setup, route = scoring.setup, _route(scoring.setup)
    if setup.unit != "m":
        raise NotApplicableError(f"its positions are {setup.unit} along a route, which have no shape to recover")
    if len(route) < FEWEST:
        raise NotApplicableError(f"the route to recover has {len(route)} images, but {FEWEST} are needed")
    way = path_length(setup.places.positions[route])
    if not way[-1] > 0:
        raise NotApplicableError("the images of the route to recover are all at one place")
    ruler, (landmarks, why_not) = _Ruler(scoring), calibrated_map(scoring)
    count = min(IMAGES, len(route))
    done = []
    for seed in range(REPETITIONS):
        images = route[np.sort(farthest_points(way[:, None], count, generator(seed, Purpose.SUBSAMPLES)))]
        with threadpool_limits(1):  # the matrices are too small for several threads
            done.append(_Repetition(scoring, images, seed, ruler, landmarks.calibration))
            done[-1].draw()
    first = done[0]
    return MapRecovery(
        sequence=setup.route,
        images=first.rows,
        known=first.rows[first.anchors.points],
        length=float(way[-1]),
        repetitions=REPETITIONS,
        methods=_table(done, float(way[-1])),
        mask=_mask(done, ruler),
        notes=[*ruler.notes, *([why_not] if why_not else []), *_notes(done)],
        truth=first.truth,
        true=first.true,
        masked=first.masked,
        completed=first.completed,
        positions={
            SHOWN[one.method]: one.points for one in first.drawn if one.points is not None and one.method in SHOWN
        },
    )


def _route(setup: Setup) -> Ints:
    """Rows of the stretch that is recovered, in order of time."""
    rows: Ints = setup.queries[setup.places.sequence[setup.queries] == setup.route]
    if not len(rows):
        return rows
    return rows[path_length(setup.places.positions[rows]) <= setup.route_length]


def _paired(setup: Setup) -> Ints:
    """Rows of images whose pairs tell what feature distances mean: those to calibrate by, or else references."""
    images = known(setup)[0]
    images = images if len(images) else setup.references
    return images[evenly(len(images), PAIRED, nearest=True)]


class _Ruler:
    """The paper's way from squared feature distances to square metres: λ, and up to which of them it is trusted."""

    def __init__(self, scoring: Scoring) -> None:
        setup, about, images = scoring.setup, scoring.about, _paired(scoring.setup)
        drives = setup.places.sequence[images]
        pairs = np.triu(drives[:, None] == drives, 1)
        squared = scoring.squared(images, images)[pairs].astype(np.float64)
        metres = scoring.metres(images, images)[pairs]
        near, self.radius = metres <= setup.positive_radius, setup.positive_radius
        if not squared[near].any():
            raise NotApplicableError("no two images of one drive are near: nothing tells what feature distances mean")
        fitted = float(np.square(metres[near]) @ squared[near] / (squared[near] @ squared[near]))
        if about.feature_scale_squared is not None and about.positive_radius is not None and about.unit == setup.unit:
            self.scale = about.positive_radius**2 / about.feature_scale_squared
            how = "r1²/F²" if about.proportional else "r1²/F², to which no loss has made them proportional"
            how += f"; the best fit to pairs within r1 would be {fitted:.4g} m²"
        else:
            self.scale, how = fitted, "the best fit to pairs within r1, as the encoder has no F²"
        self.notes = [f"A squared feature distance of 1 stands for λ = {self.scale:.4g} m²: {how}."]
        self.threshold: Threshold | None = None
        try:
            self.threshold = choose_threshold(squared, metres, self.radius)
            self.notes.append(_told(self.threshold, known(setup)[1]))
        except BadInputError as error:
            self.notes.append(f"There is no mask but the oracle's: {error}.")


def _told(threshold: Threshold, split: str) -> str:
    return (
        f"The mask keeps squared feature distances up to {threshold.squared:.4g}: of such pairs in drives of the split "
        f"{split} {threshold.precision:.1%} are within {threshold.near:g} m, and they are {threshold.recall:.1%} of "
        "all that are."
    )


@dataclass(frozen=True)
class _Drawn:
    """What one way came to in one repetition: points, and root mean squares of how far they are off."""

    method: str
    group: str
    error: float
    rigid: float | None = None  # aligned without scale; None where nothing is aligned
    points: Floats | None = None


class _Repetition:
    """All ways on the same images, and what is noted on the way."""

    def __init__(self, scoring: Scoring, rows: Ints, seed: int, ruler: _Ruler, calibration: Calibration | None) -> None:
        self.rows, self.seed, self.ruler, self.calibration = rows, seed, ruler, calibration
        self.truth, self.true = scoring.setup.places.positions[rows], scoring.metres(rows, rows)
        self.described = scoring.descriptors[rows]
        squared = scoring.squared(rows, rows).astype(np.float64)
        self.squared = (squared + squared.T) / 2  # which rounding made differ
        np.fill_diagonal(self.squared, 0.0)
        points = evenly(len(rows), KNOWN, nearest=True)
        self.anchors = Anchors(points, self.truth[points], KNOWN_SIGMA * ruler.radius)
        self.masked: Floats | None = None
        self.completed: Floats | None = None
        self.mask: Bools | None = None
        self.report: MaskReport | None = None
        if ruler.threshold is not None:
            self.mask = threshold_mask(self.squared, ruler.threshold)
            self.report = mask_report(self.mask, self.true, ruler.threshold.near)
        # λ times a squared feature distance is at most r1², in squared metres: up to r1²/λ, which is F².
        self.printed_mask = paper_mask(self.squared, ruler.radius**2 / ruler.scale)
        self.added = self.assumed = 0
        self.converged: list[bool] = []
        self.failed: list[str] = []
        self.drawn: list[_Drawn] = []

    def draw(self) -> None:
        """Run every method; record the ones that fail."""
        completes = self.seed < SOLVED or not _has_solver()
        ours = self.ours(), self.anchored()
        for ways in (self.trivial(), self.paper(completes), self.printed(completes), self.oracle(completes), *ours):
            try:
                self.drawn.extend(ways)
            except MappableError as error:
                self.failed.append(str(error))

    def trivial(self) -> Iterator[_Drawn]:
        similar, rigid = (trivial_rows(self.truth, scale=scale) for scale in (True, False))
        for name in TRIVIAL:
            yield _Drawn(name, "trivial", similar[name].rmse, rigid[name].rmse)

    def paper(self, completes: bool) -> Iterator[_Drawn]:
        """With the mask that feature distances give."""
        if self.mask is None:
            return
        whole = connect(self.mask)
        self.added = int(np.count_nonzero(whole & ~self.mask)) // 2
        if completes:
            completed = self._completed(whole)
            self.masked = np.where(whole, np.sqrt(self.ruler.scale * self.squared), np.nan)
            self.completed = np.sqrt(completed.squared_distances)
            yield from self._laid_out(completed)

    def printed(self, completes: bool) -> Iterator[_Drawn]:
        """With the mask that the paper prints."""
        if completes:
            yield from self._laid_out(self._completed(connect(self.printed_mask)), PRINTED_MASK)

    def oracle(self, completes: bool) -> Iterator[_Drawn]:
        """With the mask of those pairs that truly are near."""
        if completes:
            mask = connect(oracle_mask(self.true, self.ruler.radius))
            yield from self._laid_out(self._completed(mask), ORACLE_MASK)

    def ours(self) -> Iterator[_Drawn]:
        """With all ranges that the calibration gives, and with those alone that the paper's way is given too."""
        if self.calibration is None:
            return
        ranges = ranges_between(self.calibration, self.described)
        self.assumed = len(missing_steps(ranges))
        yield self._aligned(OURS, "ours", self._recovered(ranges))
        if self.mask is not None:
            masked = ranges.where(self.mask[ranges.i, ranges.j])
            yield self._aligned(OURS_MASKED, "ours", self._recovered(masked))

    def anchored(self) -> Iterator[_Drawn]:
        """With known positions. What ranges are good for shows beside what the pace of a camera alone comes to."""
        count, anchors = len(self.truth), self.anchors
        yield self._in_place("interpolated known positions", interpolated(count, anchors.points, anchors.positions))
        steady = _steady(count, float(path_length(anchors.positions)[-1]))
        yield self._in_place(STEADY, self._anchored(steady))
        if self.calibration is not None:
            ranges = ranges_between(self.calibration, self.described)
            yield self._in_place(ANCHORED, self._anchored(ranges))

    def _completed(self, mask: Bools) -> Completed:
        squared_metres, dimensions = self.ruler.scale * self.squared, self.truth.shape[1]
        if _has_solver():
            found = sdp_trace(squared_metres, mask, dimensions, iterations=STEPS)
        else:
            found = s_stress(squared_metres, mask, dimensions, starts=1)
        self.converged.append(found.converged)
        return found

    def _laid_out(self, completed: Completed, what: str = "") -> Iterator[_Drawn]:
        yield self._aligned((SDP_MDS if _has_solver() else S_STRESS) + what, "paper", completed.positions)
        if _has_solver():
            scaled = smacof(np.sqrt(completed.squared_distances), completed.positions).points
            yield self._aligned(SDP_SMACOF + what, "paper", scaled)

    def _recovered(self, ranges: Ranges) -> Floats:
        return recover_drive(ranges, self.truth.shape[1], seed=self.seed).positions

    def _anchored(self, ranges: Ranges) -> Floats:
        return recover_drive(ranges, anchors=self.anchors, seed=self.seed).positions

    def _aligned(self, method: str, group: str, points: Floats) -> _Drawn:
        similar, rigid = (aligned_score(points, self.truth, scale=scale).rmse for scale in (True, False))
        return _Drawn(method, group, similar, rigid, align(points, self.truth)(points))

    def _in_place(self, method: str, points: Floats) -> _Drawn:
        error = plain_score(points, self.truth).rmse
        return _Drawn(method, "ours, known positions", error, points=points)


def _steady(count: int, length: float) -> Ranges:
    """No feature distances, but that images one after the other are all about as far apart."""
    first, step = np.arange(count - 1), np.full(count - 1, length / (count - 1))
    return Ranges(count, first, first + 1, step, step)


def _table(done: list[_Repetition], length: float) -> list[Method]:
    """The errors of each way, in the order of their first appearance."""
    ways: dict[tuple[str, str], list[_Drawn]] = {}
    for drawn in (drawn for one in done for drawn in one.drawn):
        ways.setdefault((drawn.method, drawn.group), []).append(drawn)
    found = []
    for (method, group), own in ways.items():
        errors = np.array([drawn.error for drawn in own])
        mean, rigid = float(errors.mean()), _mean([drawn.rigid for drawn in own])
        std = float(errors.std(ddof=1)) if len(errors) > 1 else None
        of_length = None if rigid is None else 100.0 * rigid / length
        found.append(Method(method, group, mean, std, 100.0 * mean / length, rigid, of_length))
    return found


def _mask(done: list[_Repetition], ruler: _Ruler) -> MaskQuality | None:
    """How good the mask is on the route itself: means over the repetitions, in percent."""
    reports = [one.report for one in done if one.report is not None]
    if ruler.threshold is None or not reports:
        return None
    return MaskQuality(
        tau=float(ruler.threshold.tau(ruler.radius**2 / ruler.scale)),
        precision=_mean([100.0 * report.precision for report in reports]),
        recall=_mean([100.0 * report.recall for report in reports]),
        per_row=_mean([float(report.per_row.mean()) for report in reports]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Of those that are numbers."""
    numbers = np.array(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return float(numbers.mean()) if len(numbers) else None


def _notes(done: list[_Repetition]) -> Iterator[str]:
    """What must be known of how the rows came about."""
    added, assumed = (float(np.mean([getattr(one, name) for one in done])) for name in ("added", "assumed"))
    solved = [converged for one in done for converged in one.converged]
    yield _printed_mask(done)
    if added:
        yield f"Neighbours in time connect what the mask leaves apart: {added:.1f} pairs a repetition."
    if not _has_solver():
        yield (
            "The paper's semidefinite program needs cvxpy, which is not installed: in its place stands the s-stress, "
            "from shortest paths on, whose matrix is one of points, so that SMACOF changes nothing."
        )
    else:
        left = f"{solved.count(False)} of {len(solved)} solutions had not converged after {STEPS:,} steps"
        yield f"Rows of the SDP are of the first {min(SOLVED, len(done))} repetitions; {left}."
    if assumed:
        yield (
            f"Ours: on average {assumed:.1f} images per repetition have no range to the next. A usual step is assumed"
            " there, as `mappable recover images` does."
        )
    failed = [problem for one in done for problem in one.failed]
    for problem in dict.fromkeys(failed):
        yield f"In {failed.count(problem)} of {len(done)} repetitions rows are missing: {problem}."


def _printed_mask(done: list[_Repetition]) -> str:
    """How many pairs the paper's mask keeps, and how many of them are near."""
    near = done[0].ruler.radius
    reports = [mask_report(one.printed_mask, one.true, near) for one in done]
    kept = float(np.mean([report.per_row.mean() for report in reports]))
    added = float(np.mean([np.count_nonzero(connect(one.printed_mask) & ~one.printed_mask) / 2 for one in done]))
    precision, recall = (_mean([getattr(one, name) for one in reports]) for name in ("precision", "recall"))
    told = f"The mask as printed (λD ≤ r1²) keeps {kept:.1f} of {len(done[0].rows) - 1} pairs per image"
    told += "" if precision is None else f"; {precision:.1%} of them are within {near:g} m"
    told += "" if recall is None else f"; it keeps {recall:.1%} of all pairs within {near:g} m"
    return told + (f"; neighbors in time connect its parts, {added:.1f} pairs per repetition." if added else ".")


def _has_solver() -> bool:
    return find_spec("cvxpy") is not None and find_spec("scs") is not None
