"""The map of the landmarks, among all images that they were chosen from, and the queries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mappable.evaluation.figures.models import NothingToDrawError, models_of
from mappable.evaluation.figures.style import FAINT, as_map, dots, new_figure
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.plotting import BLUE, ORANGE, VERMILLION, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOM = 7.0  # inches for the map itself
MARGINS = 1.2


def draw_landmarks(results: Sequence[Result], setup: Setup) -> "Figure":
    """Landmarks over the references in grey and the queries; queries without a landmark near by are marked."""
    found = models_of(results, "table1")[0].first.arrays("table1")
    at, unit = setup.places.positions[:, :2], setup.unit
    landmarks, far = at[found["landmarks"]], setup.queries[found["bound"] > setup.positive_radius]
    span = np.ptp(at[np.concatenate([setup.references, setup.queries])], axis=0)
    if not span[1] and len(landmarks) == len(setup.references):
        raise NothingToDrawError("all references are landmarks, on one line: it would be a row of dots")
    figure = new_figure(MARGINS + float(np.clip(ROOM * span[1] / max(span[0], 1e-9), 2.0, 7.0)))
    axes = figure.add_subplot()
    for points, size, colour, name in (
        (at[setup.references], 26, FAINT, f"references ({len(setup.references):,})"),
        (at[setup.queries], 5, BLUE, f"queries ({len(setup.queries):,})"),
    ):
        dots(axes, points, s=size, color=colour, linewidths=0, label=name, rasterized=True)
    dots(
        axes, landmarks, s=34, color=ORANGE, edgecolors="black", linewidths=0.7, label=f"landmarks ({len(landmarks):,})"
    )
    if len(far):
        label = f"queries over {setup.positive_radius:g} {unit} from any ({len(far):,})"
        dots(axes, at[far], s=30, marker="x", color=VERMILLION, linewidths=1.2, label=label)
    as_map(axes, unit)
    near = percent_within(found["bound"], setup.positive_radius)
    axes.set_title(
        f"{plain(setup.name)}: {near:.1f} % of queries have a landmark within {setup.positive_radius:g} {unit}",
        fontsize=11,
        loc="left",
    )
    figure.legend(loc="outside lower center", ncols=4, frameon=False, markerscale=1.3, fontsize=9)
    return figure
