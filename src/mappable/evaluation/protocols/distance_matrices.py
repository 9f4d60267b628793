"""Matrices of geometric and of feature distances between a reference run and a query run, in order of time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats32, Ints, evenly
from mappable.evaluation import paper
from mappable.evaluation.figure import WIDTH, grid_of, new_figure, number, panels_of
from mappable.evaluation.metrics import pearson, spearman
from mappable.evaluation.models import Model, few_of, of_seed
from mappable.evaluation.protocol import Drawing, Protocol, Section, View
from mappable.evaluation.scoring import NotApplicableError, Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Column, table
from mappable.plotting import SHADES, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "distance-matrices"
PANELS_PER_LINE = 4
MOST_IMAGES = 300  # per run


@dataclass(frozen=True)
class Matrices:
    """Plain (not squared) distances (references, queries) between two sequences, and their
    correlations.
    """

    reference_sequence: str
    query_sequence: str
    references: Ints  # rows of the table, one per row of the matrices
    queries: Ints  # rows of the table, one per column
    feature: Floats32
    distances: Floats32
    pearson: float | None
    spearman: float | None


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([setup.references[:0], *_runs(setup)])


def run(scoring: Scoring) -> Matrices:
    """The two matrices of plain (not squared) distances, and their correlations."""
    setup = scoring.setup
    if setup.matrices is None:
        raise NotApplicableError(
            "the set names no pair of a reference sequence and a query sequence"
        )
    references, queries = _runs(setup)
    feature, distances = (
        np.sqrt(scoring.squared(references, queries)),
        scoring.metres(references, queries),
    )
    pairs = feature.ravel(), distances.ravel()
    return Matrices(
        *setup.matrices,
        references,
        queries,
        feature,
        distances.astype(np.float32),
        pearson(*pairs),
        spearman(*pairs),
    )


def _runs(setup: Setup) -> list[Ints]:
    pairs = zip(setup.matrices or (), (setup.references, setup.queries), strict=False)
    found = [setup.rows_of(name, among) for name, among in pairs]
    return [rows[evenly(len(rows), MOST_IMAGES, nearest=True)] for rows in found]


def report(view: View, models: list[Model]) -> Section:
    """The figure, and the correlation of the two matrices per model."""
    first = models[0].first(Matrices)
    sentences = [
        "Correlation of the matrix of feature distances with the matrix of geometric distances."
        f" Each matrix row is an image of {first.reference_sequence}, each column an image of"
        f" {first.query_sequence}, both in time order. The higher the correlation, the better"
        " features can stand in for positions."
    ]
    agreement = [model.spread(Matrices, lambda one: one.pearson) for model in models]
    shown = table(
        "matrices",
        Column("Model", [model.title for model in models]),
        Column("Pearson", agreement, 3),
        Column(
            "Spearman", [model.spread(Matrices, lambda one: one.spearman) for model in models], 3
        ),
        best=agreement,
    )
    return Section(NAME, "Distance matrices", sentences, [shown], (NAME,))


def draw(view: View) -> "Figure":
    """Geometric distances, then feature distances of some models, each with its own color scale.

    At most three models, and the models of the paper's figure 2.
    """
    models = few_of(view.drawn(Matrices), paper.FIGURE_2)
    found = [model.first(Matrices) for model in models]
    shown = {"geometric": (found[0].distances, f"distance [{view.unit}]")}
    for model, one in zip(models, found, strict=True):
        shown[f"{plain(model.title)}\nr = {number(one.pearson)}"] = one.feature, "feature distance"
    down, across = grid_of(len(shown), PANELS_PER_LINE)
    side = min(3.2, (WIDTH - 0.5) / across)
    figure = new_figure(0.4 + (side + 1.2) * down, width=0.5 + side * across)
    panels = panels_of(figure, len(shown), (down, across))
    for axes, (title, (matrix, label)) in zip(panels, shown.items(), strict=True):
        image = axes.imshow(matrix, cmap=SHADES, vmin=0, interpolation="nearest", aspect="auto")
        axes.set_title(title, fontsize=10)
        axes.set_box_aspect(1)
        figure.colorbar(image, ax=axes, orientation="horizontal", label=label, pad=0.02)
    for axes in panels[::across]:
        axes.set_ylabel("reference image")
    runs = (
        f"{plain(found[0].reference_sequence)} (down) against {plain(found[0].query_sequence)}"
        " (across)"
    )
    figure.suptitle(f"{runs}{of_seed(models)}", fontsize=11)
    return figure


CAPTION = (
    "Geometric distances, then feature distances of some models. "
    "The paper's figure 2 shows off-the-shelf, triplet, and triplet + Huber."
)
PROTOCOL = Protocol(NAME, Matrices, rows, run, report, (Drawing(NAME, CAPTION, draw),))
