"""Table I: percent of queries whose nearest landmark by feature is within the radii, with the upper bound."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mappable.evaluation import paper
from mappable.evaluation.figure import FAINT, UPPER_BOUND, beside, new_figure, number, tidy
from mappable.evaluation.metrics import chance, percent_within, recall_at, spread, wide_radius
from mappable.evaluation.models import Model, own_map
from mappable.evaluation.protocol import (
    BOUND,
    CHANCE,
    Drawing,
    NothingToDrawError,
    Protocol,
    Section,
    View,
)
from mappable.evaluation.result import Accuracy
from mappable.evaluation.scoring import LANDMARK_SEEDS, Scoring, retrieval
from mappable.evaluation.summary import difference
from mappable.evaluation.tables import Column, Table, table
from mappable.plotting import BLACK, BLUE, ORANGE, VERMILION, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECALLS = (1, 5, 10, 20)
MAP_WIDTH, MARGINS = 7.0, 1.2  # inches of the map of landmarks, and of its title and legend


def run(scoring: Scoring) -> Accuracy:
    """Percentages per landmark seed; errors of every query, and all other fields, are of landmark
    seed 0.
    """
    setup, at = scoring.setup, scoring.setup.places.positions
    radii = setup.positive_radius, setup.negative_radius
    # If all references are landmarks, all seeds give the same map.
    seeds = LANDMARK_SEEDS if setup.landmarks is not None else LANDMARK_SEEDS[:1]
    # Per seed: found and bound within the positive radius, then the negative radius.
    within: list[list[float]] = []
    for seed in reversed(seeds):
        landmarks = scoring.landmarks(seed)
        nearest = scoring.nearest(landmarks, max(RECALLS))
        apart = np.linalg.norm(at[setup.queries][:, None] - at[nearest], axis=2)
        metres = scoring.metres(setup.queries, landmarks)
        errors, bound = apart[:, 0], metres.min(axis=1)
        within.insert(
            0,
            [
                percent_within(distances, radius)
                for radius in radii
                for distances in (errors, bound)
            ],
        )
    positive, bound_positive, negative, bound_negative = (
        list(numbers) for numbers in zip(*within, strict=True)
    )
    return Accuracy(
        queries=setup.queries,
        landmarks=landmarks,
        retrieved=nearest[:, 0],
        errors=errors,
        bound=bound,
        landmark_seeds=list(seeds),
        positive=positive,
        negative=negative,
        bound_positive=bound_positive,
        bound_negative=bound_negative,
        chance_positive=chance(metres, setup.positive_radius),
        chance_negative=chance(metres, setup.negative_radius),
        recall=recall_at(apart <= setup.positive_radius, bound <= setup.positive_radius, RECALLS),
    )


def report(view: View, models: list[Model]) -> Section:
    """Percent of queries found within the radii, with the paper's numbers if the set is one of the
    paper's.
    """
    first, setup = models[0].first(Accuracy), view.setup
    sentences = [
        (
            f"Percent of the {len(first.queries):,} queries found within {view.positive} and within"
            f" {view.negative}, with {len(first.landmarks):,} landmarks. A query is found if the"
            " landmark nearest to it by feature is at most that far away. The upper bound is the"
            " percentage of a perfect encoder, and chance that of a random landmark."
        ),
    ]
    if wide_radius(setup.places.positions[first.landmarks], setup.positive_radius):
        sentences.append(
            f"{view.positive} is more than a quarter of the extent of the map: nearly any answer is"
            " near."
        )
    runs = "training runs and " if any(len(model.results) > 1 for model in models) else ""
    notes = [
        (
            f"Brackets hold the 95 % interval of a bootstrap. It draws {runs}stretches of the"
            f" route, {setup.block:g} {view.unit} long. A ± is the standard deviation over training"
            " runs, or over landmark sets."
        ),
        (
            f"{np.sum(first.bound > setup.positive_radius):,} queries have no landmark within"
            f" {view.positive}. They count as not found here, and recall@N leaves them out."
        ),
    ]
    if setup.name in paper.SIZES and not own_map(models):
        sizes = paper.SIZES[setup.name]
        notes.append(f"The paper has {sizes.test:,} queries and {sizes.landmarks:,} landmarks.")
    tables = [
        _accuracy(view, first, own_map(models)),
        _gains(view, models),
        _by_condition(view),
        _recall(view),
    ]
    return Section("table1", "Accuracy", sentences, tables, ("table1", "landmarks"), notes=notes)


def _accuracy(view: View, first: Accuracy, own: bool) -> Table:
    found, printed = view.summaries, {} if own else paper.TABLE_1.get(view.setup.name, {})
    theirs = [printed.get(one.row) for one in found]
    choices, median = len(first.landmark_seeds), float(np.median(first.bound))
    over = [one.landmarks_positive if choices > 1 else None for one in found]
    ours, near, far = (
        "Ours" if printed else "Found",
        f"Within {view.positive}, %",
        f"Within {view.negative}, %",
    )
    positive = [one.positive for one in found]
    return table(
        "accuracy",
        Column("Model", [*(one.title for one in found), BOUND, CHANCE]),
        Column(ours, [*positive, first.bound_positive[0], first.chance_positive], group=near),
        Column("95 % interval", [one.interval for one in found], group=near),
        Column("Paper", [one and one.positive for one in theirs], 2, near),
        Column(f"Over {choices} landmark sets", [*over, spread(first.bound_positive)], group=near),
        Column(
            ours,
            [*(one.negative for one in found), first.bound_negative[0], first.chance_negative],
            group=far,
        ),
        Column("Paper", [one and one.negative for one in theirs], 2, far),
        Column(f"Median error, {view.unit}", [*(one.median for one in found), median], 2),
        best=positive,
        references=2,
    )


def _gains(view: View, models: list[Model]) -> Table:
    """The gain of the best model over each other model, on the same queries and with the same
    seeds.
    """
    found = {one.row: one.positive.mean for one in view.summaries}
    best = max(models, key=lambda model: found[model.row])
    gains = {
        model.title: difference(best.results, model.results)
        for model in models
        if model is not best
    }
    known = {title: gain for title, gain in gains.items() if gain is not None}
    return table(
        "gains",
        Column("Over", list(known)),
        Column("Points", [gain.mean for gain in known.values()]),
        Column("95 % interval", [gain.interval for gain in known.values()]),
        Column(
            "Seeds", [", ".join(map(str, gain.seeds)) or "different" for gain in known.values()]
        ),
        caption=(
            f"Gain of {best.title} over each other model within {view.positive}, on the same"
            " queries"
        ),
    )


def _by_condition(view: View) -> Table:
    found, conditions = view.summaries, view.summaries[0].by_condition
    shown = conditions if len(conditions) > 1 else {}
    columns = [
        Column(
            f"{name} ({own['queries']:,})",
            [*(one.by_condition[name]["positive"] for one in found), own["bound"]],
        )
        for name, own in shown.items()
    ]
    return table(
        "by-condition",
        Column("Model", [*(one.title for one in found), BOUND]),
        *columns,
        caption=f"Percent within {view.positive}, by condition (number of queries)",
        best=[one.positive for one in found],
        references=1,
    )


def _recall(view: View) -> Table:
    found = view.summaries
    return table(
        "recall",
        Column("Model", [one.title for one in found]),
        *(
            Column(f"recall@{count}", [one.recall.get(count) for one in found])
            for count in found[0].recall
        ),
        caption=(
            f"Percent of queries with a landmark within {view.positive} among the N nearest by"
            " feature"
        ),
        best=[one.positive for one in found],
    )


def draw_accuracy(view: View) -> "Figure":
    """A bar per row: percent of queries within the positive radius, a fainter bar for the negative,
    dots for seeds.
    """
    models = view.drawn(Accuracy)
    first = models[0].first(Accuracy)
    figure = new_figure(1.5 + 0.34 * len(models))
    axes = figure.add_subplot()
    for place, model in enumerate(models):
        negative = float(model.mean(Accuracy, lambda one: one.negative[0]))
        style: dict[str, Any] = {"color": model.look.color, "height": 0.66}
        hatch = "//" if model.look.hollow else ""
        axes.barh(place, negative, alpha=0.3, **style)
        axes.barh(place, model.accuracy, hatch=hatch, edgecolor="white", linewidth=0, **style)
        if len(model.results) > 1:
            ticks = [place] * len(model.results)
            axes.plot(
                model.accuracies, ticks, "o", color="white", markeredgecolor=BLACK, markersize=4.5
            )
        beside(axes, place, number(model.accuracy, ".1f"), weight="bold")
        beside(axes, place, number(negative, ".1f"), column=1)
    for column, (bound, radius) in enumerate(
        ((first.bound_positive[0], view.positive), (first.bound_negative[0], view.negative))
    ):
        axes.axvline(bound, color=BLACK, linewidth=1.4, linestyle=":" if column else "-")
        beside(axes, -0.75, f"≤ {radius}", column=column, weight="normal" if column else "bold")
    axes.set_yticks(range(len(models)), [plain(model.title) for model in models])
    axes.set(xlim=(0, 100.5), ylim=(len(models) - 0.4, -0.6), xlabel="queries found [%]")
    axes.set_title(
        f"{plain(view.setup.name)}: accuracy (black lines: {UPPER_BOUND})", fontsize=11, loc="left"
    )
    tidy(axes)
    axes.grid(visible=False, axis="y")
    return figure


def draw_landmarks(view: View) -> "Figure":
    """Landmarks over the references (gray) and the queries; crosses mark queries without a landmark
    nearby.
    """
    found, setup = view.drawn(Accuracy)[0].first(Accuracy), view.setup
    at = setup.places.positions[:, :2]
    far = setup.queries[found.bound > setup.positive_radius]
    span = np.ptp(at[np.concatenate([setup.references, setup.queries])], axis=0)
    if not span[1] and len(found.landmarks) == len(setup.references):
        raise NothingToDrawError(
            "all references are landmarks on one line, the figure would be a row of dots"
        )
    figure = new_figure(
        MARGINS + float(np.clip(MAP_WIDTH * span[1] / max(span[0], 1e-9), 2.0, 7.0))
    )
    axes = figure.add_subplot()
    landmark: dict[str, Any] = {"color": ORANGE, "edgecolors": "black", "linewidths": 0.7}
    for rows, name, size, style in (
        (setup.references, "references", 26, {"color": FAINT, "linewidths": 0, "rasterized": True}),
        (setup.queries, "queries", 5, {"color": BLUE, "linewidths": 0, "rasterized": True}),
        (found.landmarks, "landmarks", 34, landmark),
        (
            far,
            f"queries over {view.positive} from any landmark",
            30,
            {"color": VERMILION, "marker": "x"},
        ),
    ):
        if len(rows):
            axes.scatter(at[rows, 0], at[rows, 1], s=size, label=f"{name} ({len(rows):,})", **style)
    tidy(axes)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel=f"x [{view.unit}]", ylabel=f"y [{view.unit}]")
    near = f"{found.bound_positive[0]:.1f} % of queries have a landmark within {view.positive}"
    axes.set_title(f"{plain(setup.name)}: {near}", fontsize=11, loc="left")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, markerscale=1.3, fontsize=9)
    return figure


DRAWINGS = (
    Drawing(
        "table1",
        "Queries found within the positive radius (dark) and the negative radius (light).",
        draw_accuracy,
    ),
    Drawing(
        "landmarks", "The landmarks of the map, with all references and queries.", draw_landmarks
    ),
)
PROTOCOL = Protocol("table1", Accuracy, retrieval, run, report, DRAWINGS, of_a_map=True)
