"""All methods that recover a route from the feature distances of its images, on the same images.

The paper's method masks and completes squared distances with a semidefinite program, and lays out
points by classical MDS and by SMACOF. Ours recovers from calibrated ranges. Trivial shapes need no
image.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints, evenly, path_length
from mappable.errors import BadInputError, MappableError
from mappable.evaluation.scoring import NotApplicableError, Scoring, some_of
from mappable.evaluation.setup import Setup
from mappable.localization.ranging import ranges_between
from mappable.maps.calibration import Calibration
from mappable.recovery.align import align, aligned_score
from mappable.recovery.align import score as plain_score
from mappable.recovery.baselines import interpolated, trivial_rows
from mappable.recovery.hints import Anchors
from mappable.recovery.matrices.mask import (
    Threshold,
    choose_threshold,
    connect,
    oracle_mask,
    paper_mask,
    threshold_mask,
)
from mappable.recovery.matrices.sdp import Completed, sdp_frobenius, sdp_trace
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.smacof import smacof

MOST_PAIRED = 1000  # images whose pairs fit λ and choose the threshold
KNOWN = 10  # images with known positions
KNOWN_SIGMA = 0.05  # standard deviation of a known position, in positive radii
TRIVIAL = ("point", "straight line", "circle")
CHAIN = "chain of equal steps"
FROBENIUS, TRACE = "SDP (Frobenius)", "SDP (trace form)"
MDS, SMACOF = "classical MDS", "SMACOF"
CHOSEN, PRINTED, ORACLE = "", ", mask as printed (λD ≤ r1²)", ", oracle mask"
# The printed mask runs with the paper's form only: it may keep nearly all pairs, which takes
# minutes to solve.
FORMS = (
    (FROBENIUS, CHOSEN),
    (TRACE, CHOSEN),
    (FROBENIUS, PRINTED),
    (FROBENIUS, ORACLE),
    (TRACE, ORACLE),
)
OURS, OURS_MASKED = "calibrated ranges", "calibrated ranges, of the mask's pairs alone"
INTERPOLATED, STEADY = "interpolated known positions", "a steady pace between known positions"
ANCHORED = "calibrated ranges and known positions"


def paired_rows(setup: Setup) -> Ints:
    """Rows of images whose pairs fit λ and choose the threshold: calibration images, or references
    if none.
    """
    return some_of(setup.calibration if len(setup.calibration) else setup.references, MOST_PAIRED)


class Ruler:
    """The paper's conversion from squared feature distances to squared metres: λ, and the threshold
    of the mask.
    """

    def __init__(self, scoring: Scoring) -> None:
        setup, about, images = scoring.setup, scoring.about, paired_rows(scoring.setup)
        drives = setup.places.sequence[images]
        pairs = np.triu(drives[:, None] == drives, 1)
        squared = scoring.squared(images, images)[pairs].astype(np.float64)
        metres = scoring.metres(images, images)[pairs]
        near, self.radius = metres <= setup.positive_radius, setup.positive_radius
        if not squared[near].any():
            raise NotApplicableError(
                "no two images of one drive are near, so feature distances cannot be scaled"
            )
        self.scale = float(
            np.square(metres[near]) @ squared[near] / (squared[near] @ squared[near])
        )
        how = f"the best fit to pairs within r1, {self.scale:.4g} m²"
        if (
            about.feature_scale_squared is not None
            and about.positive_radius is not None
            and about.unit == setup.unit
        ):
            self.scale = about.positive_radius**2 / about.feature_scale_squared
            how = f"r1²/F² (the best fit to pairs within r1 is {how.rpartition(', ')[2]})"
        self.note = f"A squared feature distance of 1 stands for λ = {self.scale:.4g} m²: {how}."
        self.threshold: Threshold | None = None
        try:
            self.threshold = choose_threshold(squared, metres, self.radius)
        except BadInputError as error:
            self.note += f" There is no mask with a chosen threshold: {error}."


@dataclass(frozen=True)
class Drawn:
    """The result of one method in one repetition: points, and their root mean square errors."""

    method: str
    group: str
    error: float
    rigid: float | None = None  # error after alignment without scale; None if nothing is aligned
    points: Floats | None = None


class Repetition:
    """All methods on the same images (rows of the table, in order of time)."""

    def __init__(
        self, scoring: Scoring, rows: Ints, seed: int, ruler: Ruler, calibration: Calibration
    ) -> None:
        self.rows, self.seed, self.scale = rows, seed, ruler.scale
        self.truth, self.true = scoring.setup.places.positions[rows], scoring.metres(rows, rows)
        squared = scoring.squared(rows, rows).astype(np.float64)
        self.squared = (squared + squared.T) / 2  # rounding makes the two halves differ
        np.fill_diagonal(self.squared, 0.0)
        known = evenly(len(rows), KNOWN, nearest=True)
        self.anchors = Anchors(known, self.truth[known], KNOWN_SIGMA * ruler.radius)
        self.calibration, self.described = calibration, scoring.descriptors[rows]
        # The paper keeps pairs with λD ≤ r1² in squared metres, that is D ≤ r1²/λ, which is F².
        self.masks: dict[str, Bools] = {
            PRINTED: paper_mask(self.squared, ruler.radius**2 / ruler.scale)
        }
        if ruler.threshold is not None:
            self.masks[CHOSEN] = threshold_mask(self.squared, ruler.threshold)
        self.oracle = oracle_mask(self.true, ruler.radius)
        self.masked: Floats | None = None
        self.completed: Floats | None = None
        self.failed: dict[str, str] = {}  # reason by method
        self.drawn: list[Drawn] = []

    def draw(self) -> None:
        """Run every method; record the ones that fail."""
        masks = self.masks | {ORACLE: self.oracle}
        methods = [("trivial shapes", self._trivial())]
        methods += [
            (form + mask, self._solved(form, mask, masks[mask]))
            for form, mask in FORMS
            if mask in masks
        ]
        methods += [(OURS, self._ours(OURS))]
        if CHOSEN in self.masks:
            methods += [(OURS_MASKED, self._ours(OURS_MASKED, self.masks[CHOSEN]))]
        methods += [
            ("known positions", self._between_known()),
            (ANCHORED, self._anchored(ANCHORED)),
        ]
        for name, drawn in methods:
            try:
                self.drawn.extend(drawn)
            except MappableError as error:
                self.failed[name] = str(error)

    def _trivial(self) -> Iterator[Drawn]:
        """Shapes that need no image. The plain SDP of a chain shows what its solver gives for the
        order alone.
        """
        similar, rigid = (trivial_rows(self.truth, scale=scale) for scale in (True, False))
        for name in TRIVIAL:
            yield Drawn(name, "trivial", similar[name].rmse, rigid[name].rmse)
        order = np.arange(len(self.truth))
        chain = np.abs(order[:, None] - order) <= 1
        step = float(path_length(self.truth)[-1]) / (len(self.truth) - 1)
        steps = np.where(chain, step**2, 0.0)
        np.fill_diagonal(steps, 0.0)
        yield from self._laid_out(
            sdp_frobenius(steps, chain, self.truth.shape[1]), CHAIN, "", "trivial"
        )

    def _solved(self, form: str, name: str, mask: Bools) -> Iterator[Drawn]:
        """The paper's method: complete the masked distances, then lay out points by classical MDS
        and by SMACOF.
        """
        whole = connect(mask)
        solve = sdp_frobenius if form == FROBENIUS else sdp_trace
        completed = solve(self.scale * self.squared, whole, self.truth.shape[1])
        if (form, name) == (TRACE, CHOSEN):
            self.masked = np.where(whole, np.sqrt(self.scale * self.squared), np.nan)
            self.completed = np.sqrt(completed.squared_distances)
        yield from self._laid_out(completed, form, name, "paper")

    def _laid_out(self, completed: Completed, form: str, name: str, group: str) -> Iterator[Drawn]:
        yield self._aligned(f"{form}, {MDS}{name}", group, completed.positions)
        scaled = smacof(np.sqrt(completed.squared_distances), completed.positions).points
        yield self._aligned(f"{form}, {SMACOF}{name}", group, scaled)

    def _ranges(self) -> Ranges:
        """All ranges that the calibration gives."""
        return ranges_between(self.calibration, self.described)

    def _ours(self, name: str, mask: Bools | None = None) -> Iterator[Drawn]:
        """Our method without known positions, with all ranges or those of a mask."""
        ranges = self._ranges()
        if mask is not None:
            ranges = ranges.where(mask[ranges.i, ranges.j])
        found = recover(ranges, self.truth.shape[1], assume_steps=True, seed=self.seed)
        yield self._aligned(name, "ours", found.positions)

    def _between_known(self) -> Iterator[Drawn]:
        """Known positions without any image; the steady pace shows how much of the accuracy needs
        no ranges.
        """
        count, anchors = len(self.truth), self.anchors
        yield self._in_place(INTERPOLATED, interpolated(count, anchors.points, anchors.positions))
        first = np.arange(count - 1)
        step = np.full(count - 1, float(path_length(anchors.positions)[-1]) / (count - 1))
        yield from self._anchored(STEADY, Ranges(count, first, first + 1, step, step))

    def _anchored(self, name: str, ranges: Ranges | None = None) -> Iterator[Drawn]:
        """Our method with known positions."""
        found = recover(
            ranges or self._ranges(), anchors=self.anchors, assume_steps=True, seed=self.seed
        )
        yield self._in_place(name, found.positions)

    def _aligned(self, method: str, group: str, points: Floats) -> Drawn:
        similar, rigid = (
            aligned_score(points, self.truth, scale=scale).rmse for scale in (True, False)
        )
        return Drawn(method, group, similar, rigid, align(points, self.truth)(points))

    def _in_place(self, method: str, points: Floats) -> Drawn:
        error = plain_score(points, self.truth).rmse
        return Drawn(method, "ours, known positions", error, points=points)
