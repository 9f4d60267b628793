"""Accuracy as curves and bars: against tolerance, against the number of landmarks, by row, and of rejection."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mappable.arrays import Floats
from mappable.evaluation.figures.models import Model, models_of
from mappable.evaluation.figures.style import beside, new_figure, number, tidy
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.plotting import BLACK, GREY, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

ABREAST = 3  # panels of conditions
BOUND = "best possible"
RECALLS = np.linspace(0.0, 1.0, 201)


def draw_curves(results: Sequence[Result], setup: Setup) -> "Figure":
    """Accuracy against tolerance, of all queries and below it by condition, with the geometric bound."""
    models = models_of(results, "curves")
    conditions = list(models[0].first.scored["curves"].values["by_condition"])
    conditions = conditions if len(conditions) > 1 else []
    lines = -(-len(conditions) // ABREAST)
    figure = new_figure(4.2 + 2.2 * lines)
    upper = figure.subfigures(2, 1, squeeze=False, height_ratios=[4.2, 2.2 * lines])[0, 0] if lines else figure
    top = upper.add_subplot()
    bound = models[0].mean("curves", lambda values: values["bound"])
    table = models[0].first.values("table1")
    within = number(table["bound"]["positive"][0] if table else None, ".1f")
    top.plot(_tolerances(models), bound, color=BLACK, linewidth=1.8, label=f"{BOUND}  {within}")
    _curves(top, models, setup)
    top.set(xlabel=f"tolerance [{setup.unit}]", ylabel="queries within the tolerance [%]")
    top.set_title(f"{plain(setup.name)}: queries localised, by tolerance", fontsize=11, loc="left")
    _legend(upper, top, f"at {_radius(setup)} [%]")
    if lines:
        panels = figure.subfigs[1].subplots(lines, ABREAST, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, name in zip(panels, conditions, strict=False):
            _curves(axes, models, setup, name)
            axes.set_title(plain(name), fontsize=10, loc="left")
        for axes in panels[len(conditions) :]:
            axes.set_axis_off()
    return figure


def _tolerances(models: list[Model]) -> Floats:
    return np.array(models[0].first.scored["curves"].values["tolerances"])


def _curves(axes: "Axes", models: list[Model], setup: Setup, condition: str = "") -> None:
    """Those of all queries, or of one condition; marks of different models are at different tolerances."""
    for radius in (setup.positive_radius, setup.negative_radius):
        axes.axvline(radius, color=GREY, linewidth=1.0, linestyle=(0, (1, 2)))
    x = _tolerances(models)
    every = max(1, len(x) // 8)
    for place, model in enumerate(models):
        y = model.mean("curves", lambda values: values["by_condition"][condition] if condition else values["percent"])
        label = f"{plain(model.title)}  {number(model.accuracy, '.1f')}"
        axes.plot(x, y, label=label, **model.look.curve((place % every, every)))
    axes.set(xlim=(0, x[-1]), ylim=(0, 101))
    tidy(axes)


def draw_sweep(results: Sequence[Result], setup: Setup) -> "Figure":
    """Accuracy within the positive radius against the number of landmarks, with the geometric bound."""
    models = models_of(results, "landmark-sweep")
    figure = new_figure(4.4)
    axes = figure.add_subplot()
    counts = models[0].first.scored["landmark-sweep"].values["counts"]
    bound = models[0].mean("landmark-sweep", lambda values: values["bound"]["positive"])
    axes.plot(counts, bound, color=BLACK, linewidth=1.8, label=f"{BOUND}  {number(bound[-1], '.1f')}")
    for model in models:
        percent = model.mean("landmark-sweep", lambda values: values["positive"])
        axes.plot(counts, percent, label=f"{plain(model.title)}  {number(percent[-1], '.1f')}", **model.look.curve())
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set(xlabel="landmarks", ylabel=f"queries within {setup.positive_radius:g} {setup.unit} [%]", ylim=(0, 101))
    axes.set_title(f"{plain(setup.name)}: accuracy by number of landmarks", fontsize=11, loc="left")
    tidy(axes)
    _legend(figure, axes, f"with {counts[-1]:,} [%]")
    return figure


def draw_accuracy(results: Sequence[Result], setup: Setup) -> "Figure":
    """A bar a row: percent of queries within the positive radius, with dots for seeds, and fainter the negative."""
    models = models_of(results, "table1")
    bounds = models[0].first.scored["table1"].values["bound"]
    negative = [float(model.mean("table1", lambda values: values["negative"][0])) for model in models]
    figure = new_figure(1.5 + 0.34 * len(models))
    axes = figure.add_subplot()
    for place, model in enumerate(models):
        style: dict[str, Any] = {"color": model.look.colour, "height": 0.66}
        axes.barh(place, negative[place], alpha=0.3, **style)
        axes.barh(
            place, model.accuracy, hatch="//" if model.look.hollow else "", edgecolor="white", linewidth=0, **style
        )
        if len(model.seeds) > 1:
            ticks = [place] * len(model.seeds)
            axes.plot(model.accuracies, ticks, "o", color="white", markeredgecolor=BLACK, markersize=4.5)
        beside(axes, place, number(model.accuracy, ".1f"), weight="bold")
        beside(axes, place, number(negative[place], ".1f"), column=1)
    for column, which in enumerate(("positive", "negative")):
        radius, weight = getattr(setup, f"{which}_radius"), "normal" if column else "bold"
        axes.axvline(bounds[which][0], color=BLACK, linewidth=1.4, linestyle=":" if column else "-")
        beside(axes, -0.75, f"≤ {radius:g} {setup.unit}", column=column, weight=weight)
    axes.set_yticks(range(len(models)), [plain(model.title) for model in models])
    axes.set(xlim=(0, 100.5), ylim=(len(models) - 0.4, -0.6), xlabel="queries localised [%]")
    axes.set_title(_accuracy_title(setup, models), fontsize=11, loc="left")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    return figure


def _accuracy_title(setup: Setup, models: list[Model]) -> str:
    seeds = max(len(model.seeds) for model in models)
    dots = "; dots: single seeds" if seeds > 1 else ""
    return f"{plain(setup.name)}: accuracy (black lines: {BOUND}{dots})"


def draw_rejection(results: Sequence[Result], setup: Setup) -> "Figure":
    """Precision against recall where answers of a large feature distance are rejected."""
    models = models_of(results, "localization")
    figure = new_figure(4.4)
    axes = figure.add_subplot()
    for place, model in enumerate(models):
        curve = np.mean([_precision(one.scored["localization"].values["rejection"]) for one in model.seeds], axis=0)
        average = float(model.mean("localization", lambda values: values["rejection"]["average_precision"]))
        style = model.look.curve((7 * place % 20, 20))
        axes.plot(100 * RECALLS, 100 * curve, label=f"{plain(model.title)}  {number(average)}", **style)
    absent = models[0].first.scored["localization"].values["rejection"]["absent"]
    axes.set(xlim=(0, 101), ylim=(0, 101))
    axes.set_xlabel(f"recall: queries accepted and right, of those with a landmark within {_radius(setup)} [%]")
    axes.set_ylabel(f"precision: accepted that are within {_radius(setup)} [%]")
    among = f", with {absent:,} from elsewhere" if absent else ""
    axes.set_title(f"{plain(setup.name)}: rejecting by feature distance{among}", fontsize=11, loc="left")
    tidy(axes)
    _legend(figure, axes, "average precision")
    return figure


def _radius(setup: Setup) -> str:
    return f"{setup.positive_radius:g} {setup.unit}"


def _precision(rejection: dict[str, Any]) -> Floats:
    """Precision at `RECALLS`, NaN beyond the highest recall."""
    recall, precision = (np.array(rejection[name], dtype=np.float64) for name in ("recall", "precision"))
    if not len(recall):
        return np.full(len(RECALLS), np.nan)
    found: Floats = np.interp(RECALLS, recall, precision, right=np.nan)
    return found


def _legend(figure: "Figure | SubFigure", axes: "Axes", title: str) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside right upper", frameon=False, fontsize=9, handlelength=3.2, title=title,
        title_fontproperties={"size": 9, "weight": "bold"}, alignment="left",
    )  # fmt: skip
