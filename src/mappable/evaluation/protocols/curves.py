"""Accuracy against tolerance, with the geometric upper bound: each query's distance to its nearest landmark."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.evaluation.figure import UPPER_BOUND, legend_of, new_figure, number, tidy
from mappable.evaluation.metrics import tolerance_curve
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import Drawing, Protocol, Section, View
from mappable.evaluation.result import Accuracy
from mappable.evaluation.scoring import Scoring, by_condition, retrieval
from mappable.plotting import BLACK, GRAY, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 50  # tolerances per curve
PANELS_PER_LINE = 3  # one panel per condition


@dataclass(frozen=True)
class Curves:
    """Percent of the queries within each of the `tolerances`, landmark seed 0; `bound` is for a
    perfect encoder.
    """

    queries: Ints  # rows of the table
    landmarks: Ints  # rows of the table
    tolerances: Floats
    percent: Floats
    bound: Floats
    by_condition: dict[str, Floats]


def run(scoring: Scoring) -> Curves:
    """Curves at 50 tolerances from 0 up, for all queries and by condition."""
    setup, landmarks = scoring.setup, scoring.landmarks()
    at = setup.places.positions
    errors = np.linalg.norm(at[setup.queries] - at[scoring.nearest(landmarks)[:, 0]], axis=1)
    bound = scoring.metres(setup.queries, landmarks).min(axis=1)
    tolerances = np.linspace(0.0, setup.tolerance, POINTS)
    return Curves(
        queries=setup.queries,
        landmarks=landmarks,
        tolerances=tolerances,
        percent=tolerance_curve(errors, tolerances),
        bound=tolerance_curve(bound, tolerances),
        by_condition={
            name: tolerance_curve(errors[own], tolerances)
            for name, own in by_condition(setup).items()
        },
    )


def report(view: View, models: list[Model]) -> Section:
    """The figure, and how to read it."""
    sentences = [
        "Percent of queries found, against the allowed error. A curve that rises early means small"
        " errors. A curve that ends high means few lost queries. The black line is the upper bound:"
        " the nearest landmark on the ground."
    ]
    return Section("curves", "Accuracy against tolerance", sentences, figures=("curves",))


def draw(view: View) -> "Figure":
    """Accuracy against tolerance for all queries, with the geometric bound; below it one panel per
    condition.
    """
    models, setup = view.drawn(Curves), view.setup
    first, accuracy = models[0].first(Curves), models[0].results[0].get(Accuracy)
    conditions = list(first.by_condition) if len(first.by_condition) > 1 else []
    lines = -(-len(conditions) // PANELS_PER_LINE)
    figure = new_figure(4.2 + 2.2 * lines)
    upper = (
        figure.subfigures(2, 1, squeeze=False, height_ratios=[4.2, 2.2 * lines])[0, 0]
        if lines
        else figure
    )
    top = upper.add_subplot()
    bound = models[0].mean(Curves, lambda one: one.bound)
    within = number(accuracy.bound_positive[0] if accuracy else None, ".1f")
    top.plot(first.tolerances, bound, color=BLACK, linewidth=1.8, label=f"{UPPER_BOUND}  {within}")
    _draw_curves(top, view, models)
    top.set(xlabel=f"tolerance [{setup.unit}]", ylabel="queries within the tolerance [%]")
    top.set_title(f"{plain(setup.name)}: queries found, by tolerance", fontsize=11, loc="left")
    legend_of(upper, top, f"at {view.positive} [%]")
    if lines:
        panels = (
            figure.subfigs[1]
            .subplots(lines, PANELS_PER_LINE, sharex=True, sharey=True, squeeze=False)
            .ravel()
        )
        for axes, name in zip(panels, conditions, strict=False):
            _draw_curves(axes, view, models, name)
            axes.set_title(plain(name), fontsize=10, loc="left")
        for axes in panels[len(conditions) :]:
            axes.set_axis_off()
    return figure


def _draw_curves(axes: "Axes", view: View, models: list[Model], condition: str = "") -> None:
    """Curves of all queries, or of one condition; each model has its marks at other tolerances."""
    for radius in (view.setup.positive_radius, view.setup.negative_radius):
        axes.axvline(radius, color=GRAY, linewidth=1.0, linestyle=(0, (1, 2)))
    x = models[0].first(Curves).tolerances
    every = max(1, len(x) // 8)
    for place, model in enumerate(models):
        y = model.mean(
            Curves, lambda one: one.by_condition[condition] if condition else one.percent
        )
        label = f"{plain(model.title)}  {number(model.accuracy, '.1f')}"
        axes.plot(x, y, label=label, **model.look.curve((place % every, every)))
    axes.set(xlim=(0, x[-1]), ylim=(0, 101))
    tidy(axes)


CAPTION = "Queries found, against the allowed error; vertical lines mark the two radii."
PROTOCOL = Protocol("curves", Curves, retrieval, run, report, (Drawing("curves", CAPTION, draw),))
