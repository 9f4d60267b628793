"""Map recovery: the trajectory of a drive from feature distances alone, with the paper's method and ours.

Two checks separate each method from luck. It is repeated with other images of the same drive. And
it is compared with trivial shapes that need no distances: a method that scores like these has not
recovered the shape of the route.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from mappable.arrays import Floats, Ints, path_length
from mappable.evaluation import paper
from mappable.evaluation.figure import new_figure
from mappable.evaluation.metrics import MeanStd, spread
from mappable.evaluation.models import Model, best_of
from mappable.evaluation.protocol import Drawing, Protocol, Section, View
from mappable.evaluation.route_methods import (
    ANCHORED,
    CHOSEN,
    MDS,
    OURS,
    PRINTED,
    SMACOF,
    TRACE,
    Drawn,
    Repetition,
    Ruler,
    paired_rows,
)
from mappable.evaluation.scoring import NotApplicableError, Scoring, map_rows
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Column, Table, table
from mappable.localization.map import Map
from mappable.places.sampling import farthest_points
from mappable.plotting import plain
from mappable.randomness import Purpose, generator
from mappable.recovery.figure import draw_matrix, draw_path
from mappable.recovery.matrices.mask import mask_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "map-recovery"
IMAGES, REPETITIONS = 100, 10  # images per repetition, at most; repetitions
FEWEST_IMAGES = 20  # of a route that can be recovered
SHOWN = {
    f"{TRACE}, {MDS}": MDS,
    f"{TRACE}, {SMACOF}": SMACOF,
    OURS: "ours",
    ANCHORED: "ours, 10 known",
}
MASKS = {CHOSEN: "chosen threshold", PRINTED: "as printed (λD ≤ r1²)"}
PANELS_PER_LINE = 3


@dataclass(frozen=True)
class Method:
    """Root mean square errors of one method over the repetitions; a rigid alignment keeps the
    recovered scale.
    """

    method: str
    group: str
    mean: float
    std: float | None
    percent: float  # of the length of the route
    rigid: float | None  # None if nothing is aligned
    rigid_percent: float | None


@dataclass(frozen=True)
class Mask:
    """The paper's mask on the route itself: means over the repetitions."""

    precision: float | None  # percent of the kept pairs that are near
    recall: float | None  # percent of the near pairs that are kept
    per_row: float  # pairs per image


@dataclass(frozen=True)
class MapRecovery:
    """Errors of all methods; images, positions (n, k) and matrices (n, n) of the first repetition."""

    sequence: str
    images: Ints  # rows of the table, in order of time
    length: float  # of the route
    repetitions: int
    methods: list[Method]
    masks: dict[str, Mask]
    notes: list[str]
    truth: Floats
    true: Floats  # distances
    masked: Floats | None  # NaN for distances that the mask leaves out
    completed: Floats | None
    positions: dict[str, Floats]  # aligned, of the methods that the figure shows


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([_route(setup), paired_rows(setup), map_rows(setup)])


def run(scoring: Scoring) -> MapRecovery:
    """Errors of all methods, mean and standard deviation over the repetitions."""
    setup, route = scoring.setup, _route(scoring.setup)
    if setup.unit != "m":
        raise NotApplicableError(
            f"positions are in {setup.unit}, not in metres, so there is no shape to recover"
        )
    if len(route) < FEWEST_IMAGES:
        raise NotApplicableError(
            f"the route to recover has {len(route)} images, expected {FEWEST_IMAGES} or more"
        )
    way = path_length(setup.places.positions[route])
    if not way[-1] > 0:
        raise NotApplicableError("all images of the route to recover are at one place")
    ruler, (landmarks, note) = Ruler(scoring), scoring.calibrated_map
    calibration = Map(landmarks).calibration
    done = []
    for seed in range(REPETITIONS):
        random = generator(seed, Purpose.SUBSAMPLES)
        images = route[np.sort(farthest_points(way[:, None], min(IMAGES, len(route)), random))]
        with threadpool_limits(1):  # the matrices are too small for several threads
            done.append(Repetition(scoring, images, seed, ruler, calibration))
            done[-1].draw()
    first = done[0]
    failed = {name: reason for one in done for name, reason in one.failed.items()}
    return MapRecovery(
        sequence=setup.route,
        images=first.rows,
        length=float(way[-1]),
        repetitions=REPETITIONS,
        methods=_methods(done, float(way[-1])),
        masks={
            title: _mask(done, name, ruler.radius)
            for name, title in MASKS.items()
            if name in first.masks
        },
        notes=[
            ruler.note,
            *([note] if note else []),
            *(f"{name}: {reason}" for name, reason in failed.items()),
        ],
        truth=first.truth,
        true=first.true,
        masked=first.masked,
        completed=first.completed,
        positions={SHOWN[one.method]: one.points for one in first.drawn if one.method in SHOWN},  # type: ignore[misc]
    )


def _route(setup: Setup) -> Ints:
    """Rows of the stretch to recover, in order of time."""
    rows: Ints = setup.queries[setup.places.sequence[setup.queries] == setup.route]
    if not len(rows):
        return rows
    return rows[path_length(setup.places.positions[rows]) <= setup.route_length]


def _methods(done: Sequence[Repetition], length: float) -> list[Method]:
    """The errors of each method, in the order of their first appearance."""
    methods: dict[tuple[str, str], list[Drawn]] = {}
    for drawn in (drawn for repetition in done for drawn in repetition.drawn):
        methods.setdefault((drawn.method, drawn.group), []).append(drawn)
    table = []
    for (method, group), every in methods.items():
        error, rigid = (
            spread([drawn.error for drawn in every]),
            _mean([drawn.rigid for drawn in every]),
        )
        percent = None if rigid is None else 100.0 * rigid / length
        table.append(
            Method(
                method, group, error.mean, error.std, 100.0 * error.mean / length, rigid, percent
            )
        )
    return table


def _mask(done: Sequence[Repetition], name: str, near: float) -> Mask:
    reports = [mask_report(one.masks[name], one.true, near) for one in done]
    return Mask(
        precision=_mean([100.0 * one.precision for one in reports]),
        recall=_mean([100.0 * one.recall for one in reports]),
        per_row=float(np.mean([one.per_row.mean() for one in reports])),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the finite values; None if there is none."""
    numbers = np.array(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return float(numbers.mean()) if len(numbers) else None


def report(view: View, models: list[Model]) -> Section:
    """All methods with the features of the best model, which the figure shows too; other models in
    a folded table.
    """
    shown = best_of(models)
    found = shown.first(MapRecovery)
    sentences = [
        f"A route is recovered from feature distances alone: {len(found.images)} images along"
        f" {found.length:,.0f} {view.unit} of {found.sequence}, {found.repetitions} repetitions,"
        f" with the features of {shown.title}. The trivial rows need no image. A method that is no"
        " better than them has not recovered the route. With known positions, compare with a"
        " steady pace between them."
    ]
    notes = [
        (
            "Errors are root mean squares after the best alignment. A rigid alignment keeps the"
            " recovered scale. Methods with known positions are not aligned. Masks: near means"
            " within r1."
        ),
        *found.notes,
    ]
    masks = table(
        "masks",
        Column("The paper's mask", list(found.masks)),
        Column("Kept pairs that are near, %", [one.precision for one in found.masks.values()]),
        Column("Near pairs that are kept, %", [one.recall for one in found.masks.values()]),
        Column("Pairs per image", [one.per_row for one in found.masks.values()]),
    )
    others = [model for model in models if model is not shown]
    tables = [
        _errors(view, [shown]),
        masks,
        *([_errors(view, others, caption="With other models")] if others else []),
    ]
    return Section(NAME, "Map recovery", sentences, tables, (NAME,), notes=notes)


def _errors(view: View, models: list[Model], caption: str = "") -> Table:
    """A row per method, and the paper's numbers if the set is the paper's; a table with a caption
    is folded.
    """
    lines = [(model, method) for model in models for method in model.first(MapRecovery).methods]
    methods = [method for _, method in lines]
    printed = {} if caption else paper.RECOVERY.get(view.setup.name, {})
    errors = [MeanStd(one.mean, one.std) for one in methods]
    return table(
        "recovery-with-others" if caption else "recovery",
        Column(
            "Method",
            [*(one.method for one in methods), *(f"Paper: {name}, 672 m" for name in printed)],
        ),
        Column("Model", [model.title if caption else None for model, _ in lines]),
        Column("Kind", [*(one.group for one in methods), *("printed" for _ in printed)]),
        Column(f"Error, {view.unit}", [*errors, *(one.metres for one in printed.values())]),
        Column(
            "% of length",
            [*(one.percent for one in methods), *(one.percent for one in printed.values())],
            2,
        ),
        Column(f"Rigid, {view.unit}", [one.rigid for one in methods]),
        Column("Rigid, % of length", [one.rigid_percent for one in methods], 2),
        caption=caption,
        references=len(printed),
        folded=bool(caption),
    )


def draw(view: View) -> "Figure":
    """The first repetition of the best model: matrices above; below, trajectories over the true one
    in gray.
    """
    model = best_of(view.drawn(MapRecovery))
    found = model.first(MapRecovery)
    paths = {"true": found.truth, **found.positions}
    lines = -(-(len(paths) + 1) // PANELS_PER_LINE)
    figure = new_figure(2.9 + 2.7 * lines)
    grid = figure.add_gridspec(1 + lines, PANELS_PER_LINE, height_ratios=[2.9] + [2.7] * lines)
    every = {"masked": found.masked, "completed": found.completed, "true": found.true}
    matrices = {name: matrix for name, matrix in every.items() if matrix is not None}
    panels = [figure.add_subplot(grid[0, place]) for place in range(len(matrices))]
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        image = draw_matrix(axes, matrix, name, float(np.nanmax(found.true)), len(matrix))
    figure.colorbar(image, ax=panels, label=f"distance [{view.unit}]", aspect=15, pad=0.02)
    for place, (title, positions) in enumerate(paths.items()):
        axes = figure.add_subplot(grid[1 + place // PANELS_PER_LINE, place % PANELS_PER_LINE])
        dots = draw_path(axes, np.arange(len(positions)), positions, found.truth)
        error = float(np.sqrt(np.mean(np.sum((positions - found.truth) ** 2, axis=1))))
        off = f": {error:.1f} {view.unit} ({100 * error / found.length:.1f} %)" if place else ""
        axes.set_title(title + off, fontsize=10)
        if place % PANELS_PER_LINE:
            axes.set_ylabel("")
    corner = figure.add_subplot(grid[-1, -1])
    corner.set_axis_off()
    bar = corner.inset_axes((0.1, 0.6, 0.9, 0.07))
    figure.colorbar(dots, bar, orientation="horizontal", label="image, in order of time")
    corner.legend(
        *axes.get_legend_handles_labels(),
        loc="lower center",
        bbox_to_anchor=(0.55, 0.05),
        frameon=False,
    )
    what = f"{len(found.images)} images over {found.length:.0f} {view.unit}"
    figure.suptitle(f"{plain(found.sequence)}, {what}, by {plain(model.title)}", fontsize=11)
    return figure


CAPTION = "Measured, completed and true distance matrices; the recovered route and the true route."
PROTOCOL = Protocol(NAME, MapRecovery, rows, run, report, (Drawing(NAME, CAPTION, draw),))
