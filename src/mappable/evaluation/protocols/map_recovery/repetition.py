"""Run all methods to recover a route on the same images."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints, evenly, path_length
from mappable.errors import MappableError
from mappable.evaluation.protocols.map_recovery.ruler import Ruler
from mappable.evaluation.scoring import Scoring
from mappable.localization.ranging import ranges_between
from mappable.maps.calibration import Calibration
from mappable.recovery.align import align, aligned_score
from mappable.recovery.align import score as plain_score
from mappable.recovery.baselines import interpolated, trivial_rows
from mappable.recovery.hints import Anchors
from mappable.recovery.matrices.mask import MaskReport, connect, mask_report, oracle_mask, paper_mask, threshold_mask
from mappable.recovery.matrices.sdp import Completed, sdp_frobenius, sdp_trace
from mappable.recovery.pipeline import missing_steps, recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.smacof import smacof

KNOWN = 10  # images with known positions
KNOWN_SIGMA = 0.05  # standard deviation of a known position, in positive radii
TRIVIAL = ("point", "straight line", "circle")
CHAIN = "chain of equal steps"
FROBENIUS, TRACE = "SDP (Frobenius)", "SDP (trace form)"
MDS, SMACOF = "classical MDS", "SMACOF"
PRINTED_MASK, ORACLE_MASK = ", mask as printed (λD ≤ r1²)", ", oracle mask"
OURS, OURS_MASKED = "calibrated ranges", "calibrated ranges, of the mask's pairs alone"
ANCHORED, STEADY = "calibrated ranges and known positions", "a steady pace between known positions"


@dataclass(frozen=True)
class Drawn:
    """The result of one method in one repetition: points, and their root mean square errors."""

    method: str
    group: str
    error: float
    rigid: float | None = None  # error after alignment without scale; None if nothing is aligned
    points: Floats | None = None


class Repetition:
    """All methods on the same images, with counts and reasons for the notes of the report."""

    def __init__(self, scoring: Scoring, rows: Ints, seed: int, ruler: Ruler, calibration: Calibration | None) -> None:
        self.rows, self.seed, self.ruler, self.calibration = rows, seed, ruler, calibration
        self.truth, self.true = scoring.setup.places.positions[rows], scoring.metres(rows, rows)
        self.described = scoring.descriptors[rows]
        squared = scoring.squared(rows, rows).astype(np.float64)
        self.squared = (squared + squared.T) / 2  # rounding makes the two halves differ
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
        # The paper keeps pairs with λD ≤ r1² in squared metres, that is D ≤ r1²/λ, which is F².
        self.printed_mask = paper_mask(self.squared, ruler.radius**2 / ruler.scale)
        self.added = 0 if self.mask is None else int(np.count_nonzero(connect(self.mask) & ~self.mask)) // 2
        self.assumed = 0
        self.programs = 0  # semidefinite programs that were tried
        self.gaps: list[float] = []  # relative duality gaps of those that converged
        self.failed: dict[str, str] = {}  # reason by method
        self.drawn: list[Drawn] = []

    def draw(self) -> None:
        """Run every method; record the ones that fail."""
        masks = {"": self.mask, PRINTED_MASK: self.printed_mask, ORACLE_MASK: oracle_mask(self.true, self.ruler.radius)}
        # The printed mask runs with the paper's form only: it may keep nearly all pairs, which takes minutes to solve.
        forms = [
            (FROBENIUS, ""),
            (TRACE, ""),
            (FROBENIUS, PRINTED_MASK),
            (FROBENIUS, ORACLE_MASK),
            (TRACE, ORACLE_MASK),
        ]
        methods = [("trivial rows", self.trivial())]
        methods += [
            (form + name, self.solved(form, name, mask)) for form, name in forms if (mask := masks[name]) is not None
        ]
        methods += [(OURS, self.ours()), (OURS_MASKED, self.ours_masked()), ("known positions", self.anchored())]
        for name, drawn in methods:
            try:
                self.drawn.extend(drawn)
            except MappableError as error:
                self.failed[name] = str(error)

    def trivial(self) -> Iterator[Drawn]:
        """Shapes that need no image. The plain SDP of a chain shows what its solver gives for the order alone."""
        similar, rigid = (trivial_rows(self.truth, scale=scale) for scale in (True, False))
        for name in TRIVIAL:
            yield Drawn(name, "trivial", similar[name].rmse, rigid[name].rmse)
        count = len(self.truth)
        step = float(path_length(self.truth)[-1]) / (count - 1)
        chain = np.abs(np.subtract.outer(np.arange(count), np.arange(count))) <= 1
        completed = sdp_frobenius(
            np.where(chain, step**2, 0.0) * ~np.eye(count, dtype=bool), chain, self.truth.shape[1]
        )
        yield from self._laid_out(completed, CHAIN, "", "trivial")

    def solved(self, form: str, name: str, mask: Bools) -> Iterator[Drawn]:
        """The paper's method: complete the masked distances, then lay out points by classical MDS and by SMACOF."""
        whole = connect(mask)
        solve = sdp_frobenius if form == FROBENIUS else sdp_trace
        self.programs += 1
        completed = solve(self.ruler.scale * self.squared, whole, self.truth.shape[1])
        self.gaps.append(completed.gap)
        if form == TRACE and not name:
            self.masked = np.where(whole, np.sqrt(self.ruler.scale * self.squared), np.nan)
            self.completed = np.sqrt(completed.squared_distances)
        yield from self._laid_out(completed, form, name, "paper")

    def _laid_out(self, completed: Completed, form: str, name: str, group: str) -> Iterator[Drawn]:
        yield self._aligned(f"{form}, {MDS}{name}", group, completed.positions)
        scaled = smacof(np.sqrt(completed.squared_distances), completed.positions).points
        yield self._aligned(f"{form}, {SMACOF}{name}", group, scaled)

    def ours(self) -> Iterator[Drawn]:
        """Our method with all ranges that the calibration gives."""
        if self.calibration is not None:
            ranges = ranges_between(self.calibration, self.described)
            self.assumed = len(missing_steps(ranges))
            yield self._aligned(OURS, "ours", self._recovered(ranges))

    def ours_masked(self) -> Iterator[Drawn]:
        """Our method with the ranges of only those pairs that the paper's method gets."""
        if self.calibration is not None and self.mask is not None:
            ranges = ranges_between(self.calibration, self.described)
            masked = ranges.where(self.mask[ranges.i, ranges.j])
            yield self._aligned(OURS_MASKED, "ours", self._recovered(masked))

    def anchored(self) -> Iterator[Drawn]:
        """Methods with known positions; the steady pace shows how much of the accuracy needs no ranges."""
        count, anchors = len(self.truth), self.anchors
        yield self._in_place("interpolated known positions", interpolated(count, anchors.points, anchors.positions))
        steady = _steady(count, float(path_length(anchors.positions)[-1]))
        yield self._in_place(STEADY, self._anchored(steady))
        if self.calibration is not None:
            ranges = ranges_between(self.calibration, self.described)
            yield self._in_place(ANCHORED, self._anchored(ranges))

    def _recovered(self, ranges: Ranges) -> Floats:
        return recover(ranges, self.truth.shape[1], assume_steps=True, seed=self.seed).positions

    def _anchored(self, ranges: Ranges) -> Floats:
        return recover(ranges, anchors=self.anchors, assume_steps=True, seed=self.seed).positions

    def _aligned(self, method: str, group: str, points: Floats) -> Drawn:
        similar, rigid = (aligned_score(points, self.truth, scale=scale).rmse for scale in (True, False))
        return Drawn(method, group, similar, rigid, align(points, self.truth)(points))

    def _in_place(self, method: str, points: Floats) -> Drawn:
        error = plain_score(points, self.truth).rmse
        return Drawn(method, "ours, known positions", error, points=points)


def _steady(count: int, length: float) -> Ranges:
    """Ranges without features: consecutive images are equally far apart."""
    first, step = np.arange(count - 1), np.full(count - 1, length / (count - 1))
    return Ranges(count, first, first + 1, step, step)
