"""Report positions in metres, their intervals, and the rejection of images that are not on the map."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mappable.arrays import Floats, Ints, evenly
from mappable.evaluation.metrics import percent_within, precision_recall, spread
from mappable.evaluation.models import Model, best_of, few_of, models_of, own_map
from mappable.evaluation.protocol import BOUND, NothingToDrawError, Section, View, named
from mappable.evaluation.protocols.localization.compute import Localization
from mappable.evaluation.protocols.localization.ways import WayCounts, count_rules, count_ways
from mappable.evaluation.result import Accuracy
from mappable.evaluation.scoring import by_condition
from mappable.evaluation.style import beside, legend_of, new_figure, number, tidy
from mappable.evaluation.tables import Cell, Column, Table, table
from mappable.plotting import BLUE, GRAY, SKY, VERMILION, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RECALLS = np.linspace(0.0, 1.0, 201)  # at which precision is drawn


def sections(view: View, models: list[Model]) -> list[Section]:
    """Errors of positions, coverage and width of intervals, and rejection."""
    first = models[0].first(Localization)
    sentences = [
        "Three methods locate a query. Nearest (top-1) takes the nearest landmark by feature. Refined finds a position "
        "between landmarks that look like the query. Sequence also uses the images before and after it.",
    ]
    notes = [
        "Each query that is likely on the map gets an interval. It should contain the true distance to the landmark in "
        f"{100 * first.coverage:.0f} % of the cases. Good intervals are narrow and reach this percentage.",
        "Rejection decides whether an image is on the map at all. The table gives the average precision over all "
        "thresholds of the feature distance (1 is perfect), and what the calibrated map accepts.",
        "In the table Rejection, recall counts all queries with a landmark within the positive radius. A match is "
        "correct if the landmark nearest by feature is within that radius. In the table of rules, recall counts "
        "correct answers: refined positions, or positions of the sequence.",
    ]
    own = own_map(models)
    tables = [
        _ways(view, models, folded=not own),
        *([] if own else [_positions(view, models)]),
        _intervals(view, models),
        *([_located_by_condition(view, models)] if len(by_condition(view.setup)) > 1 else []),
        _rejection(view, models),
        _rules(view, models),
    ]
    figures = "localization", "rejection"
    notes += _notes(models)
    return [Section("localization", "Localization", sentences, tables, figures, notes=notes, leads=own)]


def _notes(models: list[Model]) -> list[str]:
    """The notes of all models, each note once with the models that it is about."""
    titles: dict[str, list[str]] = {}
    for model in models:
        if note := model.first(Localization).note:
            titles.setdefault(note, []).append(model.title)
    return [f"{'All models' if len(of) == len(models) > 1 else ', '.join(of)}: {note}" for note, of in titles.items()]


def _ways(view: View, models: list[Model], folded: bool) -> Table:
    """Counts per method and model, from the first seed."""
    radius = view.setup.positive_radius
    counted = [(model, count_ways(model.first(Localization), radius)) for model in models]
    rows = [(model.title, name, one) for model, ways in counted for name, one in ways.items()]
    first = models[0].first(Localization)
    bound = int(np.sum(first.bound <= radius))
    best = [one.percent for _, _, one in rows]

    def stated(count: Callable[[WayCounts], str]) -> list[Cell]:
        """A cell per row; empty without a calibration, and for the bound."""
        return [*(count(one) if one.intervals else None for _, _, one in rows), None]

    return table(
        "ways",
        Column("Model", [*(title for title, _, _ in rows), BOUND] if len(models) > 1 else [None] * (len(rows) + 1)),
        Column("Method", [*(name for _, name, _ in rows), BOUND if len(models) == 1 else ""]),
        Column(
            f"≤ {view.positive}", [*(of(one.found, one.queries) for _, _, one in rows), of(bound, len(first.bound))]
        ),
        Column("%", [*best, 100 * bound / len(first.bound)]),
        Column(f"Median error, {view.unit}", [*(one.median for _, _, one in rows), float(np.median(first.bound))], 2),
        Column("Confident", stated(lambda one: of(one.confident, one.queries))),
        Column("Confident and correct", stated(lambda one: of(one.right, one.confident))),
        Column("Intervals with the truth", stated(lambda one: of(one.held, one.intervals))),
        caption=f"Three methods to locate, in counts of queries; stated coverage {100 * first.coverage:.0f} %",
        best=[*best, None],
        references=1,
        folded=folded,
    )


def _rules(view: View, models: list[Model]) -> Table:
    """Rules for accepting answers per model, from the first seed."""
    counted = [(model, count_rules(model.first(Localization), view.setup.positive_radius)) for model in models]
    rows = [(model.title, name, one) for model, rules in counted for name, one in rules.items()]
    return table(
        "rules",
        Column("Rule", [name for _, name, _ in rows]),
        *([Column("Model", [title for title, _, _ in rows])] if len(models) > 1 else []),
        Column("Average precision", [one.average_precision for _, _, one in rows], 3),
        Column("Accepted", [of(one.accepted, one.answers) for _, _, one in rows]),
        Column("Accepted but wrong", [of(one.wrong, one.accepted) for _, _, one in rows]),
        Column("False discoveries, %", [one.false_discovery for _, _, one in rows]),
        caption="Which answers to accept: ours accept confident answers; plain rules accept as many as single images",
        best=[one.average_precision for _, _, one in rows] if len(models) == 1 else (),
        folded=len(models) > 1,
    )


def of(part: int, whole: int) -> str:
    """A count and its total.

    >>> of(31, 1034)
    '31 of 1,034'
    """
    return f"{part:,} of {whole:,}"


def _positions(view: View, models: list[Model]) -> Table:
    ways = {"top1": "Top-1", "refined": "Refined", "sequence": "Sequence"}

    def column(way: str, title: str, digits: int, number: Callable[[Floats], float]) -> Column:
        def cell(model: Model, kind: str) -> Cell:
            errors = [getattr(one, kind) for one in model.each(Localization)]
            known = [number(own) for own in errors if np.isfinite(own).all()]
            return spread(known) if known else None

        bound = cell(models[0], "bound") if way == "top1" else None
        return Column(title, [*(cell(model, way) for model in models), bound], digits, ways[way])

    radius = view.setup.positive_radius
    medians = {way: column(way, f"median, {view.unit}", 2, lambda own: float(np.median(own))) for way in ways}
    positives = {way: column(way, f"≤ {view.positive}, %", 1, lambda own: percent_within(own, radius)) for way in ways}
    by_accuracy = [positives[way].cells for way in ("refined", "top1")]
    return table(
        "positions",
        Column("Model", [*(model.title for model in models), BOUND]),
        *(column for way in ways for column in (medians[way], positives[way])),
        caption="Errors of positions",
        best=next((own for own in by_accuracy if any(cell is not None for cell in own)), ()),
        references=1,
    )


def _column(models: list[Model], title: str, get: Callable[[Localization], float | None], digits: int = 1) -> Column:
    return Column(title, [model.spread(Localization, get) for model in models], digits)


def _intervals(view: View, models: list[Model]) -> Table:
    return table(
        "intervals",
        Column("Model", [model.title for model in models]),
        Column("Calibrated on", [model.first(Localization).calibrated_on or None for model in models]),
        _column(models, "Confident, %", lambda one: one.calibrated(one.confident)),
        _column(models, "Contain the truth, %", lambda one: one.covered()[0]),
        _column(models, f"Mean width, {view.unit}", lambda one: one.covered()[1], 2),
        _column(models, "Refined, %", lambda one: one.calibrated(one.between)),
        caption="Intervals of confident queries",
    )


def _located_by_condition(view: View, models: list[Model]) -> Table:
    conditions = by_condition(view.setup)
    pairs = [(model, name) for model in models for name in conditions]

    def cell(model: Model, own: Ints, get: Callable[[Localization, Ints], float | None]) -> Cell:
        return model.spread(Localization, lambda one: get(one, own))

    def column(title: str, get: Callable[[Localization, Ints], float | None], digits: int = 1) -> Column:
        return Column(title, [cell(model, conditions[name], get) for model, name in pairs], digits)

    return table(
        "located-by-condition",
        Column("Model", [model.title for model, _ in pairs]),
        Column("Condition", [named(condition) for _, condition in pairs]),
        column(f"Top-1: median, {view.unit}", lambda one, own: float(np.median(one.top1[own])), 2),
        column(f"Refined: median, {view.unit}", lambda one, own: _finite(np.median(one.refined[own])), 2),
        column("Confident, %", lambda one, own: one.calibrated(one.confident[own])),
        column("Intervals contain the truth, %", lambda one, own: one.covered(own)[0]),
        caption="By condition",
        folded=True,
    )


def _rejection(view: View, models: list[Model]) -> Table:
    radius = view.setup.positive_radius
    average = _column(models, "Average precision", lambda one: rejecting(one, radius)[3], 3)
    return table(
        "rejection",
        Column("Model", [model.title for model in models]),
        average,
        _column(
            models, "Accepted images on the map, %", lambda one: one.calibrated(one.confident[one.bound <= radius])
        ),
        _column(models, "Accepted images from elsewhere, %", lambda one: one.calibrated(one.absent_confident)),
        Column("Images from elsewhere", [len(model.first(Localization).absent) or None for model in models]),
        caption="Rejection",
        best=average.cells,
    )


def rejecting(found: Localization, radius: float) -> tuple[Floats, Floats, Floats, float]:
    """Thresholds of the feature distance, precision, recall, average precision; absent images are never correct."""
    distances = np.concatenate([found.feature, found.absent_feature])
    right = np.concatenate([found.top1 <= radius, np.zeros(len(found.absent), dtype=bool)])
    return precision_recall(distances, right, int(np.sum(found.bound <= radius)))


def _finite(number: np.floating[Any]) -> float | None:
    return float(number) if np.isfinite(number) else None


def draw_localization(view: View) -> "Figure":
    """Left: stated distances of the best model's confident queries. Right: coverage of three models by condition."""
    both = models_of([one for one in view.results if one.get(Accuracy)], Localization)  # table1 has true distances
    models = [one for one in both if one.first(Localization).confident.any()]
    if not models:
        raise NothingToDrawError("no model is confident about any query, so no intervals to draw")
    model = best_of(models)
    found, truth = model.first(Localization), model.first(Accuracy).errors
    sure = found.confident
    figure = new_figure(max(4.2, 1.2 + 0.5 * len(by_condition(view.setup))))
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    stated = found.low[sure], found.distance[sure], found.high[sure]
    _draw_distances(left, stated, truth[sure], view.unit, found.coverage)
    covered = number(found.covered()[0], ".0f")
    left.set_title(f"{plain(model.title)}: {covered} % of intervals contain the truth", fontsize=10.5)
    tidy(left)
    _draw_coverage(right, few_of(models), by_condition(view.setup))
    right.set_title("Coverage of confident queries", fontsize=10.5)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_distances(
    axes: "Axes", said: tuple[Floats, Floats, Floats], truly: Floats, unit: str, coverage: float
) -> None:
    """Draw intervals of images, as low end, stated distance and high end (n,), and the true distances (n,)."""
    which = evenly(len(truly), 150)
    which = which[np.argsort(said[1][which], kind="stable")]
    low, metres, high = (one[which] for one in said)
    number = np.arange(len(which))
    axes.fill_between(number, low, high, color=SKY, alpha=0.5, linewidth=0, label=f"{100 * coverage:g} % interval")
    axes.plot(number, metres, color=BLUE, label="stated")
    top = 1.3 * np.quantile(high, 0.98)
    beyond = np.count_nonzero(truly[which] > top)
    label = f"true ({beyond} beyond the top)" if beyond else "true"
    axes.plot(number, np.minimum(truly[which], top), ".", color=VERMILION, markersize=5, label=label)
    axes.set(xlabel="images, by stated distance", ylabel=f"to the nearest landmark, {unit}", ylim=(0, top))
    axes.legend(frameon=False, loc="upper left")


def _draw_coverage(axes: "Axes", models: list[Model], conditions: dict[str, Ints]) -> None:
    """A line per condition, a mark per model; numbers at the right are the percentages of confident queries."""
    lines = np.arange(len(conditions))
    lowest = 50.0
    axes.axvline(100 * models[0].first(Localization).coverage, color=GRAY, label="as stated")
    for place, model in enumerate(models):
        covered = model.mean(Localization, lambda one: _floats(one.covered(own)[0] for own in conditions.values()))
        confident = model.mean(
            Localization, lambda one: _floats(one.calibrated(one.confident[own]) for own in conditions.values())
        )
        heights = lines + 0.22 * (place - (len(models) - 1) / 2)
        axes.plot(covered, heights, linestyle="", markersize=6.5, label=plain(model.title), **model.look.point())
        for y, share in zip(heights, confident, strict=True):
            beside(axes, y, f"{number(share, '.0f')} %", fontsize=8.5, color=model.look.color)
        lowest = min(lowest, *covered[np.isfinite(covered)], 100.0)
    beside(axes, -0.62, "confident", fontsize=9)
    axes.set_yticks(lines, [plain(name) for name in conditions])
    axes.set(ylim=(len(conditions) - 0.5, -0.5), xlim=(10 * (lowest // 10), 101))
    axes.set_xlabel("intervals that contain the truth [%]")
    tidy(axes)


def _floats(numbers: Iterable[float | None]) -> Floats:
    """An array with NaN for None."""
    return np.array(list(numbers), dtype=np.float64)


def draw_rejection(view: View) -> "Figure":
    """Precision against recall, when answers with a large feature distance are rejected."""
    models, radius = view.drawn(Localization), view.setup.positive_radius
    figure = new_figure(4.4)
    axes = figure.add_subplot()
    for place, model in enumerate(models):
        curve = model.mean(Localization, lambda one: _precision(one, radius))
        average = float(model.mean(Localization, lambda one: rejecting(one, radius)[3]))
        style = model.look.curve((7 * place % 20, 20))
        axes.plot(100 * RECALLS, 100 * curve, label=f"{plain(model.title)}  {number(average)}", **style)
    absent = len(models[0].first(Localization).absent)
    axes.set(xlim=(0, 101), ylim=(0, 101))
    axes.set_xlabel(f"recall: accepted and correct, of the queries with a landmark within {view.positive} [%]")
    axes.set_ylabel(f"precision: accepted queries within {view.positive} [%]")
    among = f", with {absent:,} images from elsewhere" if absent else ""
    axes.set_title(f"{plain(view.setup.name)}: rejecting by feature distance{among}", fontsize=11, loc="left")
    tidy(axes)
    legend_of(figure, axes, "average precision")
    return figure


def _precision(found: Localization, radius: float) -> Floats:
    """Precision at `RECALLS`; NaN beyond the highest recall."""
    _, precision, recall, _ = rejecting(found, radius)
    known: Floats = np.interp(RECALLS, recall, precision, right=np.nan)
    return known
