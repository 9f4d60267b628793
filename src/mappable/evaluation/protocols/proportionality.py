"""Do feature distances follow metres? Pearson's correlation and how far metres reach, over pairs of test images.

Pairs that look the same way are judged within the positive radius r1, the negative radius r2, 2 r2
and without limit, for images of one visit and of two visits. The paper's number is over all pairs
of one visit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.evaluation import paper
from mappable.evaluation.figure import WIDTH, grid_of, new_figure, number, panels_of
from mappable.evaluation.metrics import MeanStd, pearson
from mappable.evaluation.models import Model, few_of, of_seed, own_map
from mappable.evaluation.protocol import Drawing, Protocol, Section, View
from mappable.evaluation.scoring import (
    NotApplicableError,
    Scoring,
    calibration_rows,
    landmarks_of,
    some_of,
)
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Column, Table, table
from mappable.features.centering import without_visit_means
from mappable.learning.metric import ERROR, Metric, Relations, curve_to_metres, relations, same_view
from mappable.plotting import BLACK, SHADES, VERMILION, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "proportionality"
BINS = 80  # per axis of the histogram
MOST_IMAGES = 2500  # of the paper's sequence, evenly chosen
MOST_PAIRED = 1500  # of all sequences together, whose pairs look the same way
PANELS_PER_LINE = 3
FEWEST_PAIRS = 20  # in a bin of geometric distance whose median is drawn
DESCRIPTOR, METRIC = "descriptor", "fitted metres"
WITHIN = {"r1": "≤ r1", "r2": "≤ r2", "2 r2": "≤ 2 r2", "all": "all"}


@dataclass(frozen=True)
class Proportionality:
    """The paper's correlation over all pairs of one sequence, with their histogram, and relations
    of same-view pairs.

    `relations` has the keys "one visit" and "across visits", then "descriptor" and "fitted metres".
    """

    sequence: str
    images: Ints  # rows of the sequence
    pairs: int
    pearson: float | None
    counts: Floats  # pairs (distance, feature)
    distance_edges: Floats
    feature_edges: Floats
    relations: dict[str, dict[str, Relations]]


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([_sequence(setup), _paired(setup), _known(setup)])


def run(scoring: Scoring) -> Proportionality:
    """Plain (not squared) distances of all pairs of the first sequence; then pairs that look the
    same way.
    """
    setup, images = scoring.setup, _sequence(scoring.setup)
    first, second = np.triu_indices(len(images), 1)
    if len(first) < 3:
        raise NotApplicableError(
            "the set names no sequence of three images or more for this protocol"
        )
    feature = np.sqrt(scoring.squared(images, images))[first, second].astype(np.float64)
    metres = scoring.metres(images, images)[first, second]
    counts, *edges = np.histogram2d(
        metres, feature, bins=BINS, range=((0.0, metres.max()), (0.0, feature.max()))
    )
    return Proportionality(
        sequence=setup.proportional[0],
        images=images,
        pairs=len(first),
        pearson=pearson(feature, metres),
        counts=counts,
        distance_edges=edges[0],
        feature_edges=edges[1],
        relations=_relations(scoring),
    )


def _relations(scoring: Scoring) -> dict[str, dict[str, Relations]]:
    """Relations of distances between test images, calibrated on images of the map and its
    calibration.
    """
    setup, known, tested = scoring.setup, _known(scoring.setup), _paired(scoring.setup)
    known_images, test_images = (
        without_visit_means(scoring.descriptors[images], setup.places.sequence[images])
        for images in (known, tested)
    )
    metric = Metric.fit(known_images, setup.places.positions[known], reach=setup.negative_radius)
    features = metric.features(test_images)
    related = partial(relations, near=setup.positive_radius, far=setup.negative_radius)
    found: dict[str, dict[str, Relations]] = {}
    for name, across in (("one visit", False), ("across visits", True)):
        fitted, pairs = (_pairs(setup, images, across) for images in (known, tested))
        truth = scoring.metres(tested, tested)[pairs]
        if not len(truth):
            continue
        curve = None
        if fitted.any():
            curve = curve_to_metres(
                _apart(known_images)[fitted], scoring.metres(known, known)[fitted]
            )
        found[name] = {
            DESCRIPTOR: related(_apart(test_images)[pairs], truth, curve=curve),
            METRIC: related(metric.distances(features, features)[pairs], truth),
        }
    return found


def _apart(unit: Floats32) -> Floats:
    """Plain distances (n, n) between vectors of length one."""
    distances: Floats = np.sqrt(np.maximum(2.0 - 2.0 * (unit @ unit.T), 0.0))
    return distances


def _pairs(setup: Setup, images: Ints, across: bool) -> Bools:
    """Pairs (n, n) that look the same way, each once."""
    places = setup.places[images]
    pairs: Bools = np.triu(same_view(places, places, across=across), 1)
    return pairs


def _sequence(setup: Setup) -> Ints:
    """Images of the paper's sequence."""
    first = (
        setup.rows_of(setup.proportional[0], setup.queries)
        if setup.proportional
        else setup.queries[:0]
    )
    return some_of(first, MOST_IMAGES)


def _paired(setup: Setup) -> Ints:
    """Test images of all sequences."""
    tested = setup.queries[
        np.isin(setup.places.sequence[setup.queries].astype(str), setup.proportional)
    ]
    return some_of(tested, MOST_PAIRED)


def _known(setup: Setup) -> Ints:
    """Images with known positions that fit the metres: landmarks and calibration images."""
    return some_of(
        np.unique(np.concatenate([landmarks_of(setup), calibration_rows(setup)])), MOST_PAIRED
    )


def report(view: View, models: list[Model]) -> Section:
    """A row per model, kind of pairs and distance; the paper's number beside them."""
    first = models[0].first(Proportionality)
    sentences = [
        (
            "Pearson's correlation of feature distance and distance on the ground, for pairs of"
            f" test images that look the same way (within 30 degrees). r1 is {view.positive} and r2"
            f" is {view.negative}. A feature that saturates has a low correlation over all pairs,"
            " so read the numbers within r2 first."
        ),
        (
            f"Metres reach as far as their median relative error stays below {100 * ERROR:.0f} %,"
            " from r1 on."
        ),
    ]
    notes = [
        (
            "Descriptor: distances without the mean of each visit, turned into metres by a rising"
            " curve. Fitted metres: a linear map in closed form. Both are fitted to landmarks and"
            " calibration images, and judged on test images."
        ),
        f"As in the paper: all {first.pairs:,} pairs of {first.sequence}, plain descriptors.",
    ]
    printed = {} if own_map(models) else paper.PEARSON["cold"]
    as_paper = [model.spread(Proportionality, lambda one: one.pearson) for model in models]
    whole = table(
        "pearson",
        Column("Model", [model.title for model in models]),
        Column("As in the paper: all pairs of one visit", as_paper, 3),
        Column("Paper (COLD)", [printed.get(model.row) for model in models], 3),
        best=as_paper,
    )
    return Section(
        NAME, "Proportionality", sentences, [_same_view(view, models), whole], (NAME,), notes=notes
    )


def _same_view(view: View, models: list[Model]) -> Table:
    """Pearson within each radius and the reach; the last rows are the numbers of pairs."""
    shown = models[0].first(Proportionality).relations
    lines = [
        (model, visits, way) for visits, ways in shown.items() for way in ways for model in models
    ]

    def cells(get: Callable[[Relations], float | None]) -> list[MeanStd | None]:
        def value(found: Proportionality, visits: str, way: str) -> float | None:
            known = found.relations.get(visits, {}).get(way)
            return None if known is None else get(known)

        return [
            model.spread(Proportionality, lambda one: value(one, visits, way))  # noqa: B023
            for model, visits, way in lines
        ]

    counts = [next(iter(ways.values())).pairs for ways in shown.values()]
    return table(
        "same-view",
        Column("Pairs", [*(visits for _, visits, _ in lines), *shown]),
        Column("Distance", [*(way for _, _, way in lines), *("number of pairs" for _ in shown)]),
        Column("Model", [model.title if len(models) > 1 else None for model, _, _ in lines]),
        *(
            Column(
                title,
                [*cells(lambda one: one.pearson[name]), *(pairs[name] for pairs in counts)],  # noqa: B023
                3,
                "Pearson",
            )
            for name, title in WITHIN.items()
        ),
        Column(f"Metres reach, {view.unit}", cells(lambda one: one.reach)),
        caption="Pairs that look the same way",
        references=len(counts),
    )


def draw(view: View) -> "Figure":
    """A panel per model: number of pairs by distance, with the median feature distance as a line.

    At most three models, and the models of the paper's figure 1.
    """
    from matplotlib.colors import LogNorm

    models, setup = few_of(view.drawn(Proportionality), paper.FIGURE_1), view.setup
    found = [model.first(Proportionality) for model in models]
    norm = LogNorm(1, max(2.0, *(float(one.counts.max()) for one in found)))
    down, across = grid_of(len(models), PANELS_PER_LINE)
    figure = new_figure(0.7 + 3.3 * down, width=min(WIDTH, 1.7 + 3.3 * across))
    panels = panels_of(figure, len(models), (down, across))
    for axes, model, one in zip(panels, models, found, strict=True):
        counts = np.ma.masked_equal(one.counts.T, 0)
        drawn = axes.pcolormesh(
            one.distance_edges, one.feature_edges, counts, norm=norm, cmap=SHADES, rasterized=True
        )
        axes.plot(*_medians(one), color="white", linewidth=3.2)
        axes.plot(*_medians(one), color=VERMILION, linewidth=1.7, label="median")
        axes.axvline(
            setup.positive_radius,
            color=BLACK,
            linewidth=1.1,
            linestyle="--",
            label="positive radius",
        )
        axes.set(
            xlim=(0, max(float(each.distance_edges[-1]) for each in found)),
            ylim=(0, max(float(each.feature_edges[-1]) for each in found)),
            xlabel=f"geometric distance [{setup.unit}]",
        )
        axes.set_title(f"{plain(model.title)}\nr = {number(one.pearson)}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[::across]:
        axes.set_ylabel("feature distance")
    figure.colorbar(drawn, ax=panels, label="pairs of images", pad=0.02, aspect=30)
    what = f"{plain(found[0].sequence)}: all {found[0].pairs:,} pairs of images{of_seed(models)}"
    figure.suptitle(what, fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _medians(found: Proportionality) -> tuple[Floats, Floats]:
    """Centers of the bins of geometric distance, and the median feature distance per bin; NaN for
    few pairs.
    """
    below = np.cumsum(found.counts, axis=1)
    total, edges = below[:, -1], found.feature_edges[1:]
    half = [
        float(np.interp(0.5 * pairs, row, edges)) for row, pairs in zip(below, total, strict=True)
    ]
    metres: Floats = (found.distance_edges[1:] + found.distance_edges[:-1]) / 2
    return metres, np.where(total >= FEWEST_PAIRS, half, np.nan)


CAPTION = (
    "Feature distance against geometric distance, for all pairs of a sequence; brighter means more"
    " pairs. The paper's figure 1 shows lazy quadruplet, and lazy quadruplet + dist."
)
PROTOCOL = Protocol(NAME, Proportionality, rows, run, report, (Drawing(NAME, CAPTION, draw),))
