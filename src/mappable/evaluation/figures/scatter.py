"""Feature against geometric distance, of all pairs of images of a sequence, as density."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats
from mappable.evaluation.figures.models import few_of, models_of, of_seed
from mappable.evaluation.figures.style import WIDTH, new_figure, number
from mappable.evaluation.result import Result
from mappable.evaluation.scoring import Arrays
from mappable.evaluation.setup import Setup
from mappable.plotting import BLACK, SHADES, VERMILLION, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_proportionality(results: Sequence[Result], setup: Setup) -> "Figure":
    """A panel a model, three at most: how many pairs are so far apart, with the median feature distance as a line."""
    from matplotlib.colors import LogNorm

    models = few_of(models_of(results, "proportionality"))
    found = [model.first.arrays("proportionality") for model in models]
    most = max(float(one["counts"].max()) for one in found)
    farthest, highest = (max(float(one[f"{name}_edges"][-1]) for one in found) for name in ("metres", "feature"))
    figure = new_figure(4.0, width=min(WIDTH, 1.7 + 3.3 * len(models)))
    panels = np.atleast_1d(figure.subplots(1, len(models), sharey=True))
    for axes, model, arrays in zip(panels, models, found, strict=True):
        counts = np.ma.masked_equal(arrays["counts"].T, 0)
        edges = arrays["metres_edges"], arrays["feature_edges"]
        drawn = axes.pcolormesh(*edges, counts, norm=LogNorm(1, max(most, 2)), cmap=SHADES, rasterized=True)
        axes.plot(*_medians(arrays), color="white", linewidth=3.2)
        axes.plot(*_medians(arrays), color=VERMILLION, linewidth=1.7, label="median")
        axes.axvline(setup.positive_radius, color=BLACK, linewidth=1.1, linestyle="--", label="positive radius")
        facts = next(iter(model.first.scored["proportionality"].values["sequences"].values()))
        axes.set(xlim=(0, farthest), ylim=(0, highest), xlabel=f"geometric distance [{setup.unit}]")
        near = number(facts["pearson"]["within negative radius"])
        r = f"r = {number(facts['pearson']['plain'])}, within {setup.negative_radius:g} {setup.unit}: {near}"
        axes.set_title(f"{plain(model.title)}\n{r}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("feature distance")
    figure.colorbar(drawn, ax=list(panels), label="pairs of images", pad=0.02, aspect=30)
    name = next(iter(models[0].first.scored["proportionality"].values["sequences"]))
    figure.suptitle(f"{plain(name)}: {facts['pairs']:,} pairs of images{of_seed(models)}", fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _medians(arrays: Arrays) -> tuple[Floats, Floats]:
    """Middles of the bins of geometric distance, and the median feature distance in each; NaN in those of few pairs."""
    counts, edges = arrays["counts"], arrays["feature_edges"]
    below = np.cumsum(counts, axis=1)
    total = below[:, -1]
    half = [float(np.interp(0.5 * all_of, row, edges[1:])) for row, all_of in zip(below, total, strict=True)]
    metres: Floats = (arrays["metres_edges"][1:] + arrays["metres_edges"][:-1]) / 2
    return metres, np.where(total >= 20, half, np.nan)
