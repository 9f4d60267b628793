"""Report accuracy: tables with intervals, a bar chart, and a map of the landmarks."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mappable.evaluation import paper
from mappable.evaluation.metrics import percent_within, spread
from mappable.evaluation.models import Model, own_map
from mappable.evaluation.protocol import BOUND, NothingToDrawError, Section, View, counted, named
from mappable.evaluation.result import Accuracy
from mappable.evaluation.style import FAINT, UPPER_BOUND, as_map, beside, dots, new_figure, number, tidy
from mappable.evaluation.summary import difference
from mappable.evaluation.tables import Column, Table, table
from mappable.plotting import BLACK, BLUE, ORANGE, VERMILION, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAP_WIDTH = 7.0  # inches of the map itself
MARGINS = 1.2  # inches of title and legend


def accuracy_section(view: View, models: list[Model]) -> Section:
    """Percent of queries found within the radii, with the paper's numbers if the set is one of the paper's."""
    first = models[0].first(Accuracy)
    choices, without = len(first.landmark_seeds), int(np.sum(first.bound > view.setup.positive_radius))
    several = any(len(model.results) > 1 for model in models)
    sentences = [
        f"Percent of the {len(first.queries):,} queries found within {view.positive} and within {view.negative}, with "
        f"{len(first.landmarks):,} landmarks. A query is found if the landmark nearest to it by feature is at most "
        "that far away. The upper bound is the percentage of a perfect encoder.",
    ]
    notes = [
        f"Brackets hold the 95 % interval of a bootstrap. It draws {'training runs and ' * several}stretches of the "
        f"route, {view.setup.block:g} {view.unit} long."
        + " A ± is the standard deviation over training runs."
        * several,
        f"{counted(without, 'query has', 'queries have')} no landmark within {view.positive}. Such queries count as "
        "not found here, and recall@N leaves them out."
        if without
        else f"Every query has a landmark within {view.positive}.",
    ]
    if choices > 1:
        notes[0] += (
            f" All numbers are for one set of landmarks, except the column with the mean ± deviation over {choices}"
            " landmark sets."
        )
    if view.setup.name in paper.SIZES and not own_map(models):
        sizes = paper.SIZES[view.setup.name]
        notes.append(f"The paper has {sizes.test:,} queries and {sizes.landmarks:,} landmarks.")
    tables = [_accuracy(view, first, own_map(models)), *_gains(view, models), *_by_condition(view), _recall(view)]
    return Section("table1", "Accuracy", sentences, tables, ("table1", "landmarks"), notes=notes)


def _accuracy(view: View, first: Accuracy, own: bool) -> Table:
    found, printed = view.summaries, {} if own else paper.TABLE_1.get(view.setup.name, {})
    theirs = [printed.get(one.row) for one in found]
    choices, median = len(first.landmark_seeds), float(np.median(first.bound))
    over = [one.landmarks_positive if choices > 1 else None for one in found]
    ours, near, far = "Ours" if printed else "Found", f"Within {view.positive}, %", f"Within {view.negative}, %"
    return table(
        "accuracy",
        Column("Model", [*(one.title for one in found), BOUND]),
        Column(ours, [*(one.positive for one in found), first.bound_positive[0]], group=near),
        Column("95 % interval", [*(one.interval for one in found), None], group=near),
        Column("Paper", [*(one and one.positive for one in theirs), None], 2, near),
        Column(f"Over {choices} landmark sets", [*over, spread(first.bound_positive)], group=near),
        Column(ours, [*(one.negative for one in found), first.bound_negative[0]], group=far),
        Column("Paper", [*(one and one.negative for one in theirs), None], 2, far),
        Column(f"Median error, {view.unit}", [*(one.median for one in found), median], 2),
        best=[one.positive for one in found],
        references=1,
    )


def _gains(view: View, models: list[Model]) -> list[Table]:
    """The gain of the best model over each other model, on the same queries and with the same seeds."""
    found = {one.row: one.positive.mean for one in view.summaries}
    best = max(models, key=lambda model: found[model.row])
    others = [model for model in models if model is not best]
    gains = [(model.title, difference(best.results, model.results)) for model in others]
    rows = [(title, gain, ", ".join(map(str, gain.seeds)) or "different") for title, gain in gains if gain]
    shown = table(
        "gains",
        Column("Over", [title for title, _, _ in rows]),
        Column("Points", [gain.mean for _, gain, _ in rows]),
        Column("95 % interval", [gain.interval for _, gain, _ in rows]),
        Column("Seeds", [seeds for _, _, seeds in rows]),
        caption=f"Gain of {best.title} over each other model within {view.positive}, on the same queries",
    )
    return [shown] if len(rows) > 1 else []


def _by_condition(view: View) -> list[Table]:
    found, conditions = view.summaries, view.summaries[0].by_condition
    if len(conditions) < 2:
        return []
    columns = [
        Column(
            f"{named(name)} ({own['queries']:,})",
            [*(one.by_condition[name]["positive"] for one in found), own["bound"]],
        )
        for name, own in conditions.items()
    ]
    return [
        table(
            "by-condition",
            Column("Model", [*(one.title for one in found), BOUND]),
            *columns,
            caption=f"Percent within {view.positive}, by condition (number of queries)",
            best=[one.positive for one in found],
            references=1,
        )
    ]


def _recall(view: View) -> Table:
    found = view.summaries
    return table(
        "recall",
        Column("Model", [one.title for one in found]),
        *(Column(f"recall@{count}", [one.recall.get(count) for one in found]) for count in found[0].recall),
        caption=f"Percent of queries with a landmark within {view.positive} among the N nearest by feature",
        best=[one.positive for one in found],
    )


def draw_accuracy(view: View) -> "Figure":
    """A bar per row: percent of queries within the positive radius, a fainter bar for the negative, dots for seeds."""
    models, setup = view.drawn(Accuracy), view.setup
    first = models[0].first(Accuracy)
    negative = [float(model.mean(Accuracy, lambda one: one.negative[0])) for model in models]
    figure = new_figure(1.5 + 0.34 * len(models))
    axes = figure.add_subplot()
    for place, model in enumerate(models):
        style: dict[str, Any] = {"color": model.look.color, "height": 0.66}
        axes.barh(place, negative[place], alpha=0.3, **style)
        axes.barh(
            place, model.accuracy, hatch="//" if model.look.hollow else "", edgecolor="white", linewidth=0, **style
        )
        if len(model.results) > 1:
            ticks = [place] * len(model.results)
            axes.plot(model.accuracies, ticks, "o", color="white", markeredgecolor=BLACK, markersize=4.5)
        beside(axes, place, number(model.accuracy, ".1f"), weight="bold")
        beside(axes, place, number(negative[place], ".1f"), column=1)
    for column, (bound, radius) in enumerate(
        ((first.bound_positive[0], view.positive), (first.bound_negative[0], view.negative))
    ):
        axes.axvline(bound, color=BLACK, linewidth=1.4, linestyle=":" if column else "-")
        beside(axes, -0.75, f"≤ {radius}", column=column, weight="normal" if column else "bold")
    axes.set_yticks(range(len(models)), [plain(model.title) for model in models])
    axes.set(xlim=(0, 100.5), ylim=(len(models) - 0.4, -0.6), xlabel="queries found [%]")
    single = "; dots: single seeds" if any(len(model.results) > 1 for model in models) else ""
    title = f"{plain(setup.name)}: accuracy (black lines: {UPPER_BOUND}{single})"
    axes.set_title(title, fontsize=11, loc="left")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    return figure


def draw_landmarks(view: View) -> "Figure":
    """Landmarks over the references (gray) and the queries; crosses mark queries without a landmark nearby."""
    found, setup = view.drawn(Accuracy)[0].first(Accuracy), view.setup
    at = setup.places.positions[:, :2]
    landmarks, far = at[found.landmarks], setup.queries[found.bound > setup.positive_radius]
    span = np.ptp(at[np.concatenate([setup.references, setup.queries])], axis=0)
    if not span[1] and len(landmarks) == len(setup.references):
        raise NothingToDrawError("all references are landmarks on one line, the figure would be a row of dots")
    figure = new_figure(MARGINS + float(np.clip(MAP_WIDTH * span[1] / max(span[0], 1e-9), 2.0, 7.0)))
    axes = figure.add_subplot()
    for points, size, color, name in (
        (at[setup.references], 26, FAINT, f"references ({len(setup.references):,})"),
        (at[setup.queries], 5, BLUE, f"queries ({len(setup.queries):,})"),
    ):
        dots(axes, points, s=size, color=color, linewidths=0, label=name, rasterized=True)
    dots(
        axes, landmarks, s=34, color=ORANGE, edgecolors="black", linewidths=0.7, label=f"landmarks ({len(landmarks):,})"
    )
    if len(far):
        label = f"queries over {view.positive} from any landmark ({len(far):,})"
        dots(axes, at[far], s=30, marker="x", color=VERMILION, linewidths=1.2, label=label)
    as_map(axes, view.unit)
    near = percent_within(found.bound, setup.positive_radius)
    axes.set_title(
        f"{plain(setup.name)}: {near:.1f} % of queries have a landmark within {view.positive}",
        fontsize=11,
        loc="left",
    )
    figure.legend(loc="outside lower center", ncols=4, frameon=False, markerscale=1.3, fontsize=9)
    return figure
