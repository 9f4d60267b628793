"""Map recovery: the trajectory of a drive from feature distances alone, by the paper's way and by ours.

Each way is told apart from luck by two things: it is repeated with other images of the same drive, and beside it stand
drawings that need no distances at all. One that scores like these has not recovered the shape of the route.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import MappableError
from mappable.evaluation.protocols import localization
from mappable.evaluation.protocols.localization import calibrated_map, known, rows_to_calibrate
from mappable.evaluation.protocols.proportionality import evenly
from mappable.evaluation.scoring import Arrays, NotApplicableError, Scored, Scoring
from mappable.evaluation.setup import Setup, along
from mappable.maps.calibration import Calibration
from mappable.maps.ranging import ranges_between
from mappable.progress import track
from mappable.recovery.align import align, aligned_score
from mappable.recovery.align import score as plain_score
from mappable.recovery.anchored import recover_anchored
from mappable.recovery.baselines import interpolated, trivial_rows
from mappable.recovery.completion import Completed, s_stress
from mappable.recovery.hints import Anchors
from mappable.recovery.mask import (
    MaskReport,
    Threshold,
    choose_threshold,
    connect,
    mask_report,
    oracle_mask,
    threshold_mask,
)
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.sdp import sdp_trace
from mappable.recovery.smacof import smacof
from mappable.recovery.study import spread_out

IMAGES, REPETITIONS, KNOWN = 100, 10, 10
FEWEST = 20  # images
PAIRED = 1000  # images at most whose pairs tell what feature distances the mask may keep
STEPS = 1000  # of the SDP's solver: it does not converge in twenty times as many, nor does that change errors much
KNOWN_SIGMA = 0.05  # positive radii that a known position may be off
TRIVIAL = ("point", "straight line", "circle")


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([_route(setup), _paired(setup), rows_to_calibrate(setup)])


def depends(scoring: Scoring) -> str:
    """What a result depends on beside the model and the set: a given calibration, and whether there is a solver."""
    return f"{_has_solver()} {localization.depends(scoring)}"


def score(scoring: Scoring) -> Scored:
    """Errors of all ways to recover the route, mean and standard deviation over the repetitions."""
    setup, route = scoring.setup, _route(scoring.setup)
    if setup.unit != "m":
        raise NotApplicableError(f"its positions are along a route, in {setup.unit}: there is no shape to recover")
    if len(route) < FEWEST:
        raise NotApplicableError(f"the route to recover has {len(route)} images, but {FEWEST} are needed")
    way = along(setup.places.positions[route])
    if not way[-1] > 0:
        raise NotApplicableError("the images of the route to recover are all at one place")
    ruler, (landmarks, why_not) = _Ruler(scoring), calibrated_map(scoring)
    count = min(IMAGES, len(route))
    done = [
        _Repetition(scoring, route[np.sort(spread_out(way, count, seed))], seed, ruler, landmarks.calibration)
        for seed in track(range(REPETITIONS), "recovering maps", REPETITIONS)
    ]
    values = {
        "sequence": setup.route,
        "images": count,
        "length": float(way[-1]),
        "repetitions": REPETITIONS,
        "known": KNOWN,
        "rows": _table(done, float(way[-1])),
        "mask": _mask(done, ruler),
        "notes": [*ruler.notes, *([why_not] if why_not else []), *_notes(done)],
    }
    return Scored(values, done[0].arrays)


def _route(setup: Setup) -> Ints:
    """Rows of the stretch that is recovered, in order of time."""
    rows = setup.queries[setup.places.sequence[setup.queries] == setup.route]
    return rows[along(setup.places.positions[rows]) <= setup.route_length] if len(rows) else rows


def _paired(setup: Setup) -> Ints:
    """Rows of images whose pairs tell what feature distances mean: those to calibrate by, or else references."""
    images = known(setup)[0] if len(known(setup)[0]) else setup.references
    return images[evenly(len(images), PAIRED)]


class _Ruler:
    """The paper's way from squared feature distances to square metres: λ, and the bound of those that are trusted."""

    def __init__(self, scoring: Scoring) -> None:
        setup, about = scoring.setup, scoring.about
        images = _paired(setup)
        drives = setup.places.sequence[images]
        pairs = np.triu(drives[:, None] == drives, 1)
        squared = scoring.squared(images, images)[pairs].astype(np.float64)
        metres = scoring.metres(images, images)[pairs]
        near, self.radius = metres <= setup.positive_radius, setup.positive_radius
        fitted = float(np.square(metres[near]) @ squared[near] / (squared[near] @ squared[near]))
        if about.feature_scale_squared is not None and about.unit == setup.unit and about.positive_radius is not None:
            self.scale = about.positive_radius**2 / about.feature_scale_squared
            how = "r1²/F²" if about.proportional else "r1²/F², to which no loss has made them proportional"
            how += f"; the best fit to pairs within r1 would be {fitted:.4g} m²"
        else:
            self.scale, how = fitted, "the best fit to pairs within r1, as the encoder has no F²"
        self.notes = [f"A squared feature distance of 1 stands for λ = {self.scale:.4g} m²: {how}."]
        self.threshold: Threshold | None = None
        try:
            self.threshold = choose_threshold(squared, metres, self.radius)
        except MappableError as error:
            self.notes.append(f"There is no mask but the oracle's: {error}.")
        else:
            self.notes.append(_told(self.threshold, known(setup)[1]))

    @property
    def tau(self) -> float:
        """The bound relative to F, where F is the feature distance that stands for the positive radius."""
        return self.threshold.tau(self.radius**2 / self.scale) if self.threshold else np.nan


@dataclass(frozen=True)
class _Drawn:
    """What one way came to in one repetition: root mean squares, aligned with and without scale, or not at all."""

    method: str
    group: str
    error: float
    rigid: float | None = None


class _Repetition:
    """All ways on the same images."""

    def __init__(self, scoring: Scoring, rows: Ints, seed: int, ruler: _Ruler, calibration: Calibration | None) -> None:
        self.seed, self.ruler, self.calibration, self.radius = seed, ruler, calibration, scoring.setup.positive_radius
        self.truth = scoring.setup.places.positions[rows]
        self.true = scoring.metres(rows, rows)
        self.described = scoring.descriptors[rows]
        squared = scoring.squared(rows, rows).astype(np.float64)
        self.squared = (squared + squared.T) / 2  # which rounding made differ
        np.fill_diagonal(self.squared, 0.0)
        points = evenly(len(rows), KNOWN)
        self.anchors = Anchors(points, self.truth[points], KNOWN_SIGMA * self.radius)
        self.arrays: Arrays = {"truth": self.truth, "true": self.true}
        self.report: MaskReport | None = None
        self.added = self.linked = 0
        self.converged: list[bool] = []
        self.failed: list[str] = []
        self.drawn: list[_Drawn] = []
        for ways in (self.trivial, self.paper, self.oracle, self.ours, self.with_known_positions):
            self._draw(ways)

    def _draw(self, ways: Callable[[], Iterator[_Drawn]]) -> None:
        try:
            self.drawn += ways()
        except MappableError as error:
            self.failed.append(str(error))

    def trivial(self) -> Iterator[_Drawn]:
        similar, rigid = (trivial_rows(self.truth, scale=scale) for scale in (True, False))
        for name in TRIVIAL:
            yield _Drawn(name, "trivial", similar[name].rmse, rigid[name].rmse)

    def paper(self) -> Iterator[_Drawn]:
        """With the mask that feature distances give."""
        if self.ruler.threshold is None:
            return
        mask = threshold_mask(self.squared, self.ruler.threshold)
        self.report = mask_report(mask, self.true, self.ruler.threshold.near)
        whole = connect(mask).mask
        self.added = int(np.count_nonzero(whole & ~mask)) // 2
        observed = np.where(whole, np.sqrt(self.ruler.scale * self.squared), np.nan)
        completed = self._completed(whole)
        self.arrays |= {"masked": observed, "completed": np.sqrt(completed.squared_distances)}
        yield from self._laid_out(completed, "", {"mds": "positions_mds", "smacof": "positions_smacof"})

    def oracle(self) -> Iterator[_Drawn]:
        """With the mask of those pairs that truly are near."""
        mask = connect(oracle_mask(self.true, self.radius)).mask
        yield from self._laid_out(self._completed(mask), ", oracle mask", {})

    def ours(self) -> Iterator[_Drawn]:
        if self.calibration is None:
            return
        points = recover(self._ranges(self.calibration), self.truth.shape[1], seed=self.seed).positions
        yield self._aligned("calibrated ranges", "ours", points, "positions_recovered")

    def with_known_positions(self) -> Iterator[_Drawn]:
        """Nothing is aligned here. What the ranges are good for shows beside what the pace of a camera alone gives."""
        group, known = "ours, known positions", self.anchors
        between = interpolated(len(self.truth), known.points, known.positions)
        yield _Drawn("interpolated known positions", group, plain_score(between, self.truth).rmse)
        steady = _steady(len(self.truth), float(along(known.positions)[-1]))
        yield self._placed("a steady pace between known positions", group, steady)
        if self.calibration is not None:
            ranges = self._ranges(self.calibration)
            yield self._placed("calibrated ranges and known positions", group, ranges, "positions_anchored")

    def _ranges(self, calibration: Calibration) -> Ranges:
        """Calibrated ranges, and a usual step from an image to the next where there is none."""
        ranges = ranges_between(calibration, self.described)
        following = ranges.j - ranges.i == 1
        missing = np.setdiff1d(np.arange(ranges.count - 1), ranges.i[following])
        self.linked = len(missing)
        step = float(np.median(ranges.metres[following] if following.any() else ranges.metres))
        more = np.full(len(missing), step)
        return Ranges(
            ranges.count,
            np.concatenate([ranges.i, missing]),
            np.concatenate([ranges.j, missing + 1]),
            np.concatenate([ranges.metres, more]),
            np.concatenate([ranges.sigma, more]),
        )

    def _completed(self, mask: Bools) -> Completed:
        squared_metres, dimensions = self.ruler.scale * self.squared, self.truth.shape[1]
        if _has_solver():
            found = sdp_trace(squared_metres, mask, dimensions, iterations=STEPS)
        else:
            found = s_stress(squared_metres, mask, dimensions, starts=1)
        self.converged.append(found.converged)
        return found

    def _laid_out(self, completed: Completed, what: str, kept: dict[str, str]) -> Iterator[_Drawn]:
        if not _has_solver():
            yield self._aligned(f"s-stress for SDP{what}", "paper", completed.positions, kept.get("mds"))
            return
        yield self._aligned(f"SDP, classical MDS{what}", "paper", completed.positions, kept.get("mds"))
        scaled = smacof(np.sqrt(completed.squared_distances), completed.positions).points
        yield self._aligned(f"SDP, SMACOF{what}", "paper", scaled, kept.get("smacof"))

    def _aligned(self, method: str, group: str, points: Floats, kept: str | None) -> _Drawn:
        if kept:
            self.arrays[kept] = align(points, self.truth)(points)
        similar, rigid = (aligned_score(points, self.truth, scale=scale).rmse for scale in (True, False))
        return _Drawn(method, group, similar, rigid)

    def _placed(self, method: str, group: str, ranges: Ranges, kept: str | None = None) -> _Drawn:
        points = recover_anchored(ranges, self.anchors, seed=self.seed, sweeps=0).positions
        if kept:
            self.arrays[kept] = points
        return _Drawn(method, group, plain_score(points, self.truth).rmse)


def _table(done: list[_Repetition], length: float) -> list[dict[str, Any]]:
    """A row a way, in the order of their first appearance."""
    ways: dict[tuple[str, str], list[_Drawn]] = {}
    for one in done:
        for drawn in one.drawn:
            ways.setdefault((drawn.method, drawn.group), []).append(drawn)
    found = []
    for (method, group), own in ways.items():
        errors = np.array([drawn.error for drawn in own])
        rigid = [drawn.rigid for drawn in own if drawn.rigid is not None]
        stiff = float(np.mean(rigid)) if rigid else None
        found.append(
            {
                "method": method,
                "group": group,
                "mean": float(errors.mean()),
                "std": float(errors.std()),
                "percent": 100.0 * float(errors.mean()) / length,
                "rigid": stiff,
                "rigid_percent": None if stiff is None else 100.0 * stiff / length,
            }
        )
    return found


def _mask(done: list[_Repetition], ruler: _Ruler) -> dict[str, float] | None:
    """How good the mask is on the route itself: means over the repetitions."""
    reports = [one.report for one in done if one.report is not None]
    if not reports:
        return None
    return {
        "tau": ruler.tau,
        "precision": 100.0 * float(np.nanmean([report.precision for report in reports])),
        "recall": 100.0 * float(np.mean([report.recall for report in reports])),
        "per_row": float(np.mean([report.per_row.mean() for report in reports])),
    }


def _notes(done: list[_Repetition]) -> Iterator[str]:
    """What must be known of how the rows came about."""
    added, linked = (float(np.mean([getattr(one, name) for one in done])) for name in ("added", "linked"))
    solved = [converged for one in done for converged in one.converged]
    if added:
        yield f"Neighbours in time connect what the mask leaves apart: {added:.1f} pairs a repetition."
    if not _has_solver():
        yield (
            "The paper's semidefinite program needs cvxpy, which is not installed: in its place stands the s-stress, "
            "from shortest paths on, whose matrix is one of points, so that SMACOF changes nothing."
        )
    elif not all(solved):
        yield f"The SDP's solver stops after {STEPS:,} steps: {solved.count(False)} of {len(solved)} had not converged."
    if linked:
        yield f"Ours: {linked:.1f} images a repetition have no range to the next, and are taken to be a usual step off."
    failed = [problem for one in done for problem in one.failed]
    for problem in dict.fromkeys(failed):
        yield f"In {failed.count(problem)} of {len(done)} repetitions rows are missing: {problem}."


def _told(threshold: Threshold, split: str) -> str:
    return (
        f"The mask keeps squared feature distances up to {threshold.squared:.4g}: of such pairs in drives of the split "
        f"{split} {threshold.precision:.1%} are within {threshold.near:g} m, and they are {threshold.recall:.1%} of "
        "all that are."
    )


def _steady(count: int, length: float) -> Ranges:
    """No distances at all, but that images one after the other are about as far apart."""
    first, step = np.arange(count - 1), np.full(count - 1, length / (count - 1))
    return Ranges(count, first, first + 1, step, step)


def _has_solver() -> bool:
    return find_spec("cvxpy") is not None and find_spec("scs") is not None
