"""Map recovery: known, completed and true distances, and the trajectories that were recovered, coloured by time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mappable.evaluation.figures.models import best_of, models_of
from mappable.evaluation.figures.style import new_figure
from mappable.evaluation.result import Result
from mappable.evaluation.scoring import Arrays
from mappable.evaluation.setup import Setup
from mappable.plotting import plain
from mappable.recovery.figure import draw_matrix, draw_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MATRICES = ("masked", "completed", "true")
PATHS = {
    "truth": "true",
    "positions_mds": "classical MDS",
    "positions_smacof": "SMACOF",
    "positions_recovered": "ours",
    "positions_anchored": "ours, {known} known",
}
ABREAST = 3


def draw_map_recovery(results: Sequence[Result], setup: Setup) -> "Figure":
    """The first repetition, of the best model: matrices above, trajectories below, each over the true one in grey."""
    model = best_of(models_of(results, "map-recovery"))
    values, arrays = model.first.scored["map-recovery"].values, model.first.arrays("map-recovery")
    paths = {name: arrays[name] for name in PATHS if np.isfinite(arrays.get(name, np.nan)).any()}
    lines = -(-(len(paths) + 1) // ABREAST)
    figure = new_figure(2.9 + 2.7 * lines)
    grid = figure.add_gridspec(1 + lines, ABREAST, height_ratios=[2.9] + [2.7] * lines)
    _draw_matrices([figure.add_subplot(grid[0, place]) for place in range(len(MATRICES))], arrays, setup.unit)
    for place, (name, positions) in enumerate(paths.items()):
        axes = figure.add_subplot(grid[1 + place // ABREAST, place % ABREAST])
        known = np.isfinite(positions).all(axis=1)
        dots = draw_path(axes, np.flatnonzero(known), positions[known], arrays["truth"])
        error = float(np.sqrt(np.mean(np.sum((positions - arrays["truth"])[known] ** 2, axis=1))))
        found = f": {error:.1f} {setup.unit} ({100 * error / values['length']:.1f} %)" if place else ""
        axes.set_title(PATHS[name].format(known=values["known"]) + found, fontsize=10)
        if place % ABREAST:
            axes.set_ylabel("")
    corner = figure.add_subplot(grid[-1, -1])
    corner.set_axis_off()
    figure.colorbar(
        dots, corner.inset_axes((0.1, 0.6, 0.9, 0.07)), orientation="horizontal", label="image, in order of time"
    )
    corner.legend(*axes.get_legend_handles_labels(), loc="lower center", bbox_to_anchor=(0.55, 0.05), frameon=False)
    what = f"{values['images']} images over {values['length']:.0f} {setup.unit}"
    figure.suptitle(f"{plain(values['sequence'])}, {what}, by {plain(model.title)}", fontsize=11)
    return figure


def _draw_matrices(panels: "list[Axes]", arrays: Arrays, unit: str) -> None:
    longest = float(np.nanmax(arrays["true"]))
    for axes, name in zip(panels, MATRICES, strict=True):
        image = draw_matrix(axes, arrays[name], name, longest, len(arrays[name]))
    panels[0].figure.colorbar(image, ax=panels, label=f"distance [{unit}]", aspect=15, pad=0.02)
