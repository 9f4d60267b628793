"""Compute map recovery: the trajectory of a drive from feature distances alone, with the paper's method and ours.

Two checks separate each method from luck. It is repeated with other images of the same drive. And it is compared with
trivial shapes that need no distances: a method that scores like these has not recovered the shape of the route.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from mappable.arrays import Floats, Ints, path_length
from mappable.evaluation.protocols.localization import compute as localization
from mappable.evaluation.protocols.localization.compute import calibrated_map, rows_to_calibrate
from mappable.evaluation.protocols.map_recovery.repetition import (
    ANCHORED,
    MDS,
    OURS,
    SMACOF,
    TRACE,
    Drawn,
    Repetition,
)
from mappable.evaluation.protocols.map_recovery.ruler import Ruler, paired_rows
from mappable.evaluation.scoring import NotApplicableError, Scoring
from mappable.evaluation.setup import Setup
from mappable.places.sampling import farthest_points
from mappable.randomness import Purpose, generator
from mappable.recovery.matrices.mask import connect, mask_report

IMAGES, REPETITIONS = 100, 10  # images per repetition, at most; repetitions
FEWEST_IMAGES = 20  # of a route that can be recovered
SHOWN = {f"{TRACE}, {MDS}": "mds", f"{TRACE}, {SMACOF}": "smacof", OURS: "recovered", ANCHORED: "anchored"}


@dataclass(frozen=True)
class Method:
    """Root mean square errors of one method over the repetitions; a rigid alignment keeps the recovered scale."""

    method: str
    group: str
    mean: float
    std: float | None
    percent: float  # of the length of the route
    rigid: float | None  # None if nothing is aligned
    rigid_percent: float | None


@dataclass(frozen=True)
class MaskQuality:
    """Quality of the paper's mask on the route itself: means over the repetitions, in percent."""

    tau: float
    precision: float | None
    recall: float | None
    per_row: float | None  # pairs per image


@dataclass(frozen=True)
class MapRecovery:
    """Errors of all methods; images, positions (n, k) and matrices (n, n) of the first repetition.

    `positions` holds the recovered positions that figures show, by the names in `SHOWN`.
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
    masked: Floats | None  # NaN for distances that the mask leaves out
    completed: Floats | None
    positions: dict[str, Floats]


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([_route(setup), paired_rows(setup), rows_to_calibrate(setup)])


def depends(scoring: Scoring) -> str:
    """What a result depends on besides the model and the set: λ and a given calibration."""
    about = scoring.about
    scale = f"{about.unit} {about.positive_radius} {about.feature_scale_squared} {about.proportional}"
    return f"{scale} {localization.depends(scoring)}"


def score(scoring: Scoring) -> MapRecovery:
    """Errors of all methods, mean and standard deviation over the repetitions."""
    setup, route = scoring.setup, _route(scoring.setup)
    if setup.unit != "m":
        raise NotApplicableError(f"positions are in {setup.unit}, not in metres, so there is no shape to recover")
    if len(route) < FEWEST_IMAGES:
        raise NotApplicableError(f"the route to recover has {len(route)} images, expected {FEWEST_IMAGES} or more")
    way = path_length(setup.places.positions[route])
    if not way[-1] > 0:
        raise NotApplicableError("all images of the route to recover are at one place")
    ruler, (landmarks, why_not) = Ruler(scoring), calibrated_map(scoring)
    count = min(IMAGES, len(route))
    done = []
    for seed in range(REPETITIONS):
        images = route[np.sort(farthest_points(way[:, None], count, generator(seed, Purpose.SUBSAMPLES)))]
        with threadpool_limits(1):  # the matrices are too small for several threads
            done.append(Repetition(scoring, images, seed, ruler, landmarks.calibration))
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
    """Rows of the stretch to recover, in order of time."""
    rows: Ints = setup.queries[setup.places.sequence[setup.queries] == setup.route]
    if not len(rows):
        return rows
    return rows[path_length(setup.places.positions[rows]) <= setup.route_length]


def _table(done: list[Repetition], length: float) -> list[Method]:
    """The errors of each method, in the order of their first appearance."""
    methods: dict[tuple[str, str], list[Drawn]] = {}
    for drawn in (drawn for one in done for drawn in one.drawn):
        methods.setdefault((drawn.method, drawn.group), []).append(drawn)
    found = []
    for (method, group), own in methods.items():
        errors = np.array([drawn.error for drawn in own])
        mean, rigid = float(errors.mean()), _mean([drawn.rigid for drawn in own])
        std = float(errors.std(ddof=1)) if len(errors) > 1 else None
        of_length = None if rigid is None else 100.0 * rigid / length
        found.append(Method(method, group, mean, std, 100.0 * mean / length, rigid, of_length))
    return found


def _mask(done: list[Repetition], ruler: Ruler) -> MaskQuality | None:
    """Quality of the mask on the route itself: means over the repetitions, in percent."""
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
    """The mean of the finite values; None if there is none."""
    numbers = np.array(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return float(numbers.mean()) if len(numbers) else None


def _notes(done: list[Repetition]) -> Iterator[str]:
    """Notes on how the rows of the table were computed."""
    added, assumed = (float(np.mean([getattr(one, name) for one in done])) for name in ("added", "assumed"))
    gaps = [gap for one in done for gap in one.gaps]
    yield _printed_mask(done)
    if added:
        yield f"Neighbors in time connect the parts that the mask leaves apart: {added:.1f} pairs per repetition."
    if tried := sum(one.programs for one in done):
        accuracy = f", to a relative duality gap of {max(gaps):.0e} or less" if gaps else ""
        yield f"{len(gaps)} of {tried} semidefinite programs converged{accuracy}."
        yield (
            "If the mask keeps few pairs, many matrices fit the plain form (Frobenius) equally well. Compare its rows"
            " with the chain of equal steps, which solves the same form without any image."
        )
    if assumed:
        yield (
            f"Ours: on average, {assumed:.1f} images per repetition have no range to the next image. A typical step is"
            " assumed there, as the command recover does."
        )
    for name in dict.fromkeys(name for one in done for name in one.failed):
        reasons = [one.failed[name] for one in done if name in one.failed]
        yield f'{len(reasons)} of {len(done)} repetitions lack "{name}": {reasons[0]}.'


def _printed_mask(done: list[Repetition]) -> str:
    """How many pairs the paper's printed mask keeps, and how many of them are near."""
    near = done[0].ruler.radius
    reports = [mask_report(one.printed_mask, one.true, near) for one in done]
    kept = float(np.mean([report.per_row.mean() for report in reports]))
    added = float(np.mean([np.count_nonzero(connect(one.printed_mask) & ~one.printed_mask) / 2 for one in done]))
    precision, recall = (_mean([getattr(one, name) for one in reports]) for name in ("precision", "recall"))
    text = f"The mask as printed (λD ≤ r1²) keeps {kept:.1f} of {len(done[0].rows) - 1} pairs per image."
    text += "" if precision is None else f" {precision:.1%} of them are within {near:g} m."
    text += "" if recall is None else f" It keeps {recall:.1%} of all pairs within {near:g} m."
    return text + (f" Neighbors in time connect its parts: {added:.1f} pairs per repetition." if added else "")
