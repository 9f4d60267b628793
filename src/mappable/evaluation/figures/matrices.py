"""Matrices of distances between a reference and a query run: in the world, and of features."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mappable.evaluation.figures.models import few_of, models_of, of_seed
from mappable.evaluation.figures.style import WIDTH, new_figure, number
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.plotting import SHADES, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_matrices(results: Sequence[Result], setup: Setup) -> "Figure":
    """Geometric distances, then feature distances of three models at most, each with its own scale."""
    models = few_of(models_of(results, "distance-matrices"))
    values, arrays = (getattr(models[0].first, name)("distance-matrices") for name in ("values", "arrays"))
    shown = {"geometric": (arrays["metres"], f"distance [{setup.unit}]")}
    for model in models:
        r = number(model.first.scored["distance-matrices"].values["pearson"])
        shown[f"{plain(model.title)}\nr = {r}"] = model.first.arrays("distance-matrices")["feature"], "feature distance"
    side = min(3.2, (WIDTH - 0.5) / len(shown))
    figure = new_figure(side + 1.6, width=0.5 + side * len(shown))
    panels = figure.subplots(1, len(shown), sharex=True, sharey=True)
    for axes, (title, (matrix, label)) in zip(panels, shown.items(), strict=True):
        image = axes.imshow(matrix, cmap=SHADES, vmin=0, interpolation="nearest", aspect="auto")
        axes.set_title(title, fontsize=10)
        axes.set_box_aspect(1)
        figure.colorbar(image, ax=axes, orientation="horizontal", label=label, pad=0.02)
    panels[0].set_ylabel("reference image")
    runs = f"{plain(values['reference'])} (down) against {plain(values['queries'])} (across)"
    figure.suptitle(f"{runs}{of_seed(models)}", fontsize=11)
    return figure
