"""Positions in metres, their intervals, and images that are not on the map."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats
from mappable.evaluation.models import Model, best_of, few_of, models_of
from mappable.evaluation.protocol import BOUND, NothingToDrawError, Section, View, named
from mappable.evaluation.protocols.localization.compute import (
    Errors,
    Intervals,
    Localization,
    LocatedCondition,
    Rejection,
)
from mappable.evaluation.result import Accuracy
from mappable.evaluation.style import beside, legend_of, new_figure, number, tidy
from mappable.evaluation.tables import Cell, Column, Table, table
from mappable.maps.reliability import draw_distances
from mappable.plotting import GREY, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RECALLS = np.linspace(0.0, 1.0, 201)


def sections(view: View, models: list[Model]) -> list[Section]:
    """Errors of positions, coverage and width of intervals, and rejection."""
    first = models[0].first(Localization)
    sentences = [
        "Three ways to say where a query is: at the nearest landmark by feature (top-1), between the landmarks that "
        "look like it (refined), and with the images before and after it (sequence).",
        f"Where the map is confident it gives an interval, which should hold the true distance in "
        f"{100 * first.coverage:.0f} % of the cases. Narrow intervals that keep this promise are good ones.",
        "Rejection asks whether an image is on the map at all: precision and recall over all thresholds of the feature "
        "distance (average precision, 1 is perfect), and what the calibrated map accepts.",
    ]
    tables = [
        _positions(view, models),
        _intervals(view, models),
        *([_located_by_condition(view, models)] if len(first.by_condition) > 1 else []),
        _rejection(models),
    ]
    figures = "localization", "rejection"
    return [Section("localization", "Localization", sentences, tables, figures, notes=_notes(models))]


def _notes(models: list[Model]) -> list[str]:
    """What is to be known of some models, each said once."""
    told: dict[str, list[str]] = {}
    for model in models:
        if note := model.first(Localization).note:
            told.setdefault(note, []).append(model.title)
    return [f"{'All models' if len(of) == len(models) > 1 else ', '.join(of)}: {note}" for note, of in told.items()]


def _positions(view: View, models: list[Model]) -> Table:
    ways = {"top-1": "Top-1", "refined": "Refined", "sequence": "Sequence"}

    def cell(model: Model, way: str, get: Callable[[Errors], float]) -> Cell:
        return model.spread(Localization, lambda one: get(one.errors[way]) if way in one.errors else None)

    def column(way: str, title: str, digits: int, get: Callable[[Errors], float]) -> Column:
        bound = cell(models[0], "bound", get) if way == "top-1" else None
        return Column(title, [*(cell(model, way, get) for model in models), bound], digits, ways[way])

    medians = {way: column(way, f"median, {view.unit}", 2, lambda one: one.median) for way in ways}
    positives = {way: column(way, f"≤ {view.positive}, %", 1, lambda one: one.positive) for way in ways}
    by_accuracy = [positives[way].cells for way in ("refined", "top-1")]
    return table(
        "positions",
        Column("Model", [*(model.title for model in models), BOUND]),
        *(column for way in ways for column in (medians[way], positives[way])),
        caption="Errors of positions",
        best=next((own for own in by_accuracy if any(cell is not None for cell in own)), ()),
        references=1,
    )


def _intervals(view: View, models: list[Model]) -> Table:
    def column(title: str, get: Callable[[Intervals], float | None], digits: int = 1) -> Column:
        def value(found: Localization) -> float | None:
            return None if found.intervals is None else get(found.intervals)

        return Column(title, [model.spread(Localization, value) for model in models], digits)

    known = [model.first(Localization).intervals for model in models]
    return table(
        "intervals",
        Column("Model", [model.title for model in models]),
        Column("Calibrated on", [None if one is None else one.calibrated_on for one in known]),
        column("Confident, %", lambda one: one.confident),
        column("Hold the truth, %", lambda one: one.covered),
        column(f"Mean width, {view.unit}", lambda one: one.width, 2),
        column(f"Blind width, {view.unit}", lambda one: one.unconditional_width, 2),
        column("Refined, %", lambda one: one.refined),
        caption="Intervals of confident queries; blind is one that knows nothing of the image",
    )


def _located_by_condition(view: View, models: list[Model]) -> Table:
    pairs = [(model, name) for model in models for name in model.first(Localization).by_condition]

    def cell(model: Model, name: str, get: Callable[[LocatedCondition], float | None]) -> Cell:
        return model.spread(Localization, lambda one: get(one.by_condition[name]) if name in one.by_condition else None)

    def column(title: str, get: Callable[[LocatedCondition], float | None], digits: int = 1) -> Column:
        return Column(title, [cell(model, condition, get) for model, condition in pairs], digits)

    return table(
        "located-by-condition",
        Column("Model", [model.title for model, _ in pairs]),
        Column("Condition", [named(condition) for _, condition in pairs]),
        column(f"Top-1: median, {view.unit}", lambda one: one.top1_median, 2),
        column(f"Refined: median, {view.unit}", lambda one: one.median, 2),
        column("Confident, %", lambda one: one.confident),
        column("Intervals hold the truth, %", lambda one: one.covered),
        caption="By condition",
        folded=True,
    )


def _rejection(models: list[Model]) -> Table:
    def column(title: str, get: Callable[[Rejection], float | None], digits: int = 1) -> Column:
        return Column(title, [model.spread(Localization, lambda one: get(one.rejection)) for model in models], digits)

    average = column("Average precision", lambda one: one.average_precision, 3)
    return table(
        "rejection",
        Column("Model", [model.title for model in models]),
        average,
        column("Accepted of those on the map, %", lambda one: one.accepted),
        column("Accepted of those elsewhere, %", lambda one: one.falsely_accepted),
        Column("Images from elsewhere", [len(model.first(Localization).rejection.absent) or None for model in models]),
        caption="Rejection",
        best=average.cells,
    )


def draw_localization(view: View) -> "Figure":
    """Left what the best model says of queries that it is confident of; right coverage of three models by condition."""
    both = models_of([one for one in view.results if one.get(Accuracy)], Localization)  # the former has true distances
    models = [one for one in both if one.first(Localization).confident.any()]
    if not models:
        raise NothingToDrawError("no model is confident of any query: there are no intervals to draw")
    model = best_of(models)
    found, truth = model.first(Localization), model.first(Accuracy).errors
    sure = found.confident
    figure = new_figure(max(4.2, 1.2 + 0.5 * len(found.by_condition)))
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    said = found.low[sure], found.distance[sure], found.high[sure]
    draw_distances(left, said, truth[sure], view.unit, found.coverage)
    covered = number(None if found.intervals is None else found.intervals.covered, ".0f")
    left.set_title(f"{plain(model.title)}: {covered} % of intervals hold the truth", fontsize=10.5)
    tidy(left)
    _coverage(right, few_of(models))
    right.set_title("Coverage, of confident queries", fontsize=10.5)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=4, frameon=False, fontsize=9)
    return figure


def _coverage(axes: "Axes", models: list[Model]) -> None:
    """A line a condition, a mark a model; beside it how many queries it is confident of."""
    first = models[0].first(Localization)
    conditions = list(first.by_condition)
    lines = np.arange(len(conditions))
    lowest = 50.0
    axes.axvline(100 * first.coverage, color=GREY, label="as stated")
    for place, model in enumerate(models):
        covered = _mean_by_condition(model, conditions, lambda one: one.covered)
        confident = _mean_by_condition(model, conditions, lambda one: one.confident)
        heights = lines + 0.22 * (place - (len(models) - 1) / 2)
        axes.plot(covered, heights, linestyle="", markersize=6.5, label=plain(model.title), **model.look.point())
        for y, share in zip(heights, confident, strict=True):
            beside(axes, y, f"{number(share, '.0f')} %", fontsize=8.5, color=model.look.colour)
        lowest = min(lowest, *covered[np.isfinite(covered)], 100.0)
    beside(axes, -0.62, "confident", fontsize=9)
    axes.set_yticks(lines, [plain(name) for name in conditions])
    axes.set(ylim=(len(conditions) - 0.5, -0.5), xlim=(10 * (lowest // 10), 101))
    axes.set_xlabel("intervals that hold the truth [%]")
    tidy(axes)


def _mean_by_condition(model: Model, conditions: list[str], get: Callable[[LocatedCondition], float | None]) -> Floats:
    """The mean over the seeds per condition; NaN where a seed has none."""
    return model.mean(
        Localization, lambda one: np.array([get(one.by_condition[name]) for name in conditions], dtype=np.float64)
    )


def draw_rejection(view: View) -> "Figure":
    """Precision against recall where answers of a large feature distance are rejected."""
    models = view.drawn(Localization)
    figure = new_figure(4.4)
    axes = figure.add_subplot()
    for place, model in enumerate(models):
        curve = model.mean(Localization, lambda one: _precision(one.rejection))
        average = float(model.mean(Localization, lambda one: one.rejection.average_precision))
        style = model.look.curve((7 * place % 20, 20))
        axes.plot(100 * RECALLS, 100 * curve, label=f"{plain(model.title)}  {number(average)}", **style)
    absent = len(models[0].first(Localization).rejection.absent)
    axes.set(xlim=(0, 101), ylim=(0, 101))
    axes.set_xlabel(f"recall: queries accepted and right, of those with a landmark within {view.positive} [%]")
    axes.set_ylabel(f"precision: accepted that are within {view.positive} [%]")
    among = f", with {absent:,} from elsewhere" if absent else ""
    axes.set_title(f"{plain(view.setup.name)}: rejecting by feature distance{among}", fontsize=11, loc="left")
    tidy(axes)
    legend_of(figure, axes, "average precision")
    return figure


def _precision(rejection: Rejection) -> Floats:
    """Precision at `RECALLS`, NaN beyond the highest recall."""
    if not len(rejection.recall):
        return np.full(len(RECALLS), np.nan)
    found: Floats = np.interp(RECALLS, rejection.recall, rejection.precision, right=np.nan)
    return found
