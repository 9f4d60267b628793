"""What localization says, and whether it is so: metres with intervals, and how often these hold the truth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats
from mappable.evaluation.figures.models import Model, NothingToDrawError, best_of, few_of, models_of
from mappable.evaluation.figures.style import beside, new_figure, number, tidy
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.maps.reliability import draw_distances
from mappable.plotting import GREY, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_localization(results: Sequence[Result], setup: Setup) -> "Figure":
    """Left what the best model says of queries that it is confident of; right coverage of three models by condition."""
    both = [one for one in results if "table1" in one.scored]  # which has the true distances
    models = [one for one in models_of(both, "localization") if one.first.arrays("localization")["confident"].any()]
    if not models:
        raise NothingToDrawError("no model is confident of any query: there are no intervals to draw")
    model = best_of(models)
    values, found = model.first.scored["localization"].values, model.first.arrays("localization")
    sure = found["confident"].astype(bool)
    figure = new_figure(max(4.2, 1.2 + 0.5 * len(values["by_condition"])))
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    said = found["low"][sure], found["metres"][sure], found["high"][sure]
    draw_distances(left, said, model.first.arrays("table1")["errors"][sure], setup.unit, values["coverage"])
    left.set_title(
        f"{plain(model.title)}: {number(values['covered'], '.0f')} % of intervals hold the truth", fontsize=10.5
    )
    tidy(left)
    _coverage(right, few_of(models))
    right.set_title("Coverage, of confident queries", fontsize=10.5)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=4, frameon=False, fontsize=9)
    return figure


def _coverage(axes: "Axes", models: list[Model]) -> None:
    """A line a condition, a mark a model; beside it how many queries it is confident of."""
    conditions = list(models[0].first.scored["localization"].values["by_condition"])
    lines = np.arange(len(conditions))
    lowest = 50.0
    axes.axvline(100 * models[0].first.scored["localization"].values["coverage"], color=GREY, label="as stated")
    for place, model in enumerate(models):
        covered, confident = (_by_condition(model, conditions, name) for name in ("covered", "confident"))
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


def _by_condition(model: Model, conditions: list[str], name: str) -> Floats:
    return model.mean("localization", lambda values: [values["by_condition"][one][name] for one in conditions])
