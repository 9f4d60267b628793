"""Report map recovery: errors of all methods, distance matrices, and trajectories colored by time."""

from typing import TYPE_CHECKING

import numpy as np

from mappable.evaluation import paper
from mappable.evaluation.metrics import MeanStd
from mappable.evaluation.models import Model, best_of
from mappable.evaluation.protocol import Section, View
from mappable.evaluation.protocols.map_recovery.compute import MapRecovery, Method
from mappable.evaluation.protocols.map_recovery.repetition import ANCHORED, STEADY
from mappable.evaluation.style import new_figure
from mappable.evaluation.tables import Column, Table, cell_text, table
from mappable.plotting import plain
from mappable.recovery.figure import draw_matrix, draw_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_BETTER = 0.95  # an error above this share of another error counts as no better
KINDS = {"paper": "the paper's method"}
PATHS = {"mds": "classical MDS", "smacof": "SMACOF", "recovered": "ours", "anchored": "ours, {known} known"}
PANELS_PER_LINE = 3


def sections(view: View, models: list[Model]) -> list[Section]:
    """All methods with the features of the best model, which the figure shows too; other models in a folded table."""
    shown = best_of(models)
    found = shown.first(MapRecovery)
    sentences = _verdicts(found.methods)
    sentences.append(
        f"A route is recovered from feature distances alone: {len(found.images)} images along {found.length:,.0f} "
        f"{view.unit} of {found.sequence}, {found.repetitions} repetitions, with the features of {shown.title}. The "
        "trivial rows need no image. A method that is no better than them has not recovered the route."
    )
    notes = [
        "Errors are root mean squares after the best alignment. A rigid alignment keeps the recovered scale. Methods "
        "with known positions are not aligned."
    ]
    if mask := found.mask:
        notes.append(
            f"The mask keeps pairs below τ = {cell_text(mask.tau, 2)}. {cell_text(mask.precision)} % of the kept "
            f"pairs are near (precision). It keeps {cell_text(mask.recall)} % of all near pairs (recall), "
            f"{cell_text(mask.per_row)} per image."
        )
    notes += found.notes
    tables = [_methods(view, [shown])]
    if len(models) > 1:
        others = [model for model in models if model is not shown]
        tables.append(_methods(view, others, caption="With other models", folded=True))
    return [Section("map-recovery", "Map recovery", sentences, tables, ("map-recovery",), notes=notes)]


def _verdicts(methods: list[Method]) -> list[str]:
    """Sentences that say whether features give more than shapes and pace without any image."""
    mean = {one.method: one.mean for one in methods}
    trivial = [one.method for one in methods if one.group == "trivial"]
    alone = [one.method for one in methods if one.group in ("paper", "ours") and "oracle" not in one.method]
    found = []
    if trivial and alone:
        best, blind = min(alone, key=mean.__getitem__), min(trivial, key=mean.__getitem__)
        compared = _compared(mean[best] / mean[blind])
        found.append(f"Without known positions, the best method without an oracle ({best}) is {compared} a {blind}.")
    if ANCHORED in mean and STEADY in mean:
        compared = _compared(mean[ANCHORED] / mean[STEADY])
        found.append(f"With known positions, ranges are {compared} a steady pace between them.")
    return found


def _compared(ratio: float) -> str:
    return "no better than" if ratio > NO_BETTER else f"{100 * (1 - ratio):.0f} % nearer to the truth than"


def _methods(view: View, models: list[Model], *, caption: str = "", folded: bool = False) -> Table:
    """A row per method, and the paper's numbers if the set is the paper's; a folded table has no trivial rows."""
    found = [(model, row) for model in models for row in model.first(MapRecovery).methods]
    found = [(model, row) for model, row in found if not folded or row.group != "trivial"]
    printed = {} if folded else paper.RECOVERY.get(view.setup.name, {})
    rows = [row for _, row in found]
    titles = [f"Paper: {name}, {paper.RECOVERY_LENGTH:g} m" for name in printed]
    blank = [None] * len(printed)
    return table(
        "recovery-with-others" if folded else "recovery",
        Column("Method", [*(row.method for row in rows), *titles]),
        Column("Model", [*(model.title if folded else None for model, _ in found), *blank]),
        Column("Kind", [*(KINDS.get(row.group, row.group) for row in rows), *("printed" for _ in printed)]),
        Column(
            f"Error, {view.unit}",
            [*(MeanStd(row.mean, row.std) for row in rows), *(one.metres for one in printed.values())],
        ),
        Column("% of length", [*(row.percent for row in rows), *(one.percent for one in printed.values())], 2),
        Column(f"Rigid, {view.unit}", [*(row.rigid for row in rows), *blank]),
        Column("Rigid, % of length", [*(row.rigid_percent for row in rows), *blank], 2),
        caption=caption,
        references=len(printed),
        folded=folded,
    )


def draw(view: View) -> "Figure":
    """The first repetition of the best model: matrices above; below, trajectories over the true one in gray."""
    model = best_of(view.drawn(MapRecovery))
    found = model.first(MapRecovery)
    known = [name for name in PATHS if np.isfinite(found.positions.get(name, np.nan)).any()]
    paths = [("true", found.truth), *((PATHS[name], found.positions[name]) for name in known)]
    lines = -(-(len(paths) + 1) // PANELS_PER_LINE)
    figure = new_figure(2.9 + 2.7 * lines)
    grid = figure.add_gridspec(1 + lines, PANELS_PER_LINE, height_ratios=[2.9] + [2.7] * lines)
    every = {"masked": found.masked, "completed": found.completed, "true": found.true}
    matrices = {name: one for name, one in every.items() if one is not None}  # "true" is the only one without a mask
    panels = [figure.add_subplot(grid[0, place]) for place in range(len(matrices))]
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        image = draw_matrix(axes, matrix, name, float(np.nanmax(found.true)), len(matrix))
    figure.colorbar(image, ax=panels, label=f"distance [{view.unit}]", aspect=15, pad=0.02)
    for place, (title, positions) in enumerate(paths):
        axes = figure.add_subplot(grid[1 + place // PANELS_PER_LINE, place % PANELS_PER_LINE])
        there = np.isfinite(positions).all(axis=1)
        dots = draw_path(axes, np.flatnonzero(there), positions[there], found.truth)
        error = float(np.sqrt(np.mean(np.sum((positions - found.truth)[there] ** 2, axis=1))))
        off = f": {error:.1f} {view.unit} ({100 * error / found.length:.1f} %)" if place else ""
        axes.set_title(title.format(known=len(found.known)) + off, fontsize=10)
        if place % PANELS_PER_LINE:
            axes.set_ylabel("")
    corner = figure.add_subplot(grid[-1, -1])
    corner.set_axis_off()
    figure.colorbar(
        dots, corner.inset_axes((0.1, 0.6, 0.9, 0.07)), orientation="horizontal", label="image, in order of time"
    )
    corner.legend(*axes.get_legend_handles_labels(), loc="lower center", bbox_to_anchor=(0.55, 0.05), frameon=False)
    what = f"{len(found.images)} images over {found.length:.0f} {view.unit}"
    figure.suptitle(f"{plain(found.sequence)}, {what}, by {plain(model.title)}", fontsize=11)
    return figure
