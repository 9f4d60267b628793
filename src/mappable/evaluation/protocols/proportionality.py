"""Correlation of feature distance and ground distance, over all pairs of images of an unseen sequence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Ints, evenly
from mappable.evaluation import paper
from mappable.evaluation.metrics import MOST_RADII, Correlation, correlations, reach_of_metres
from mappable.evaluation.models import Model, few_of, of_seed, own_map
from mappable.evaluation.protocol import Drawing, Protocol, Section, View
from mappable.evaluation.scoring import NotApplicableError, Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.style import WIDTH, grid_of, new_figure, number, panels_of
from mappable.evaluation.tables import Column, Table, table
from mappable.plotting import BLACK, SHADES, VERMILION, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 80  # per axis of the histogram
MOST_IMAGES = 2500  # per sequence; a longer sequence is subsampled evenly
PANELS_PER_LINE = 3
FEWEST_PAIRS = 20  # in a bin of geometric distance whose median is drawn


@dataclass(frozen=True)
class SequencePairs:
    """Correlations of feature and geometric distance, over all pairs of images of one sequence."""

    condition: str
    images: Ints  # rows of the table
    pairs: int
    pearson: Correlation
    spearman: Correlation
    reach: float | None = None  # see `reach_of_metres`


@dataclass(frozen=True)
class Proportionality:
    """Correlations by sequence; for the first sequence, a histogram of all pairs."""

    sequences: dict[str, SequencePairs]
    counts: Floats  # pairs (distance, feature)
    distance_edges: Floats
    feature_edges: Floats

    @property
    def first(self) -> tuple[str, SequencePairs]:
        """The name and the correlations of the sequence that is drawn."""
        return next(iter(self.sequences.items()))


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([setup.references[:0], *(_images(setup, name) for name in setup.proportional)])


def score(scoring: Scoring) -> Proportionality:
    """Correlations of plain (not squared) distances per sequence; for the first also the histogram."""
    setup = scoring.setup
    if not setup.proportional:
        raise NotApplicableError("the set names no sequence for this protocol")
    found: dict[str, SequencePairs] = {}
    density: tuple[Floats, Floats, Floats] | None = None
    for name in setup.proportional:
        images = _images(setup, name)
        first, second = np.triu_indices(len(images), 1)
        if len(first) < 3:
            continue
        feature = np.sqrt(scoring.squared(images, images))
        metres = scoring.metres(images, images)
        pairs = feature[first, second].astype(np.float64), metres[first, second]
        agree = correlations(*pairs, setup.positive_radius, setup.negative_radius)
        reach = reach_of_metres(feature, metres, setup.positive_radius)
        found[name] = SequencePairs(str(setup.places.condition[images[0]]), images, len(first), *agree, reach)
        density = density or _density(*pairs)
    if density is None:
        raise NotApplicableError("no sequence has three images or more")
    return Proportionality(found, *density)


def _images(setup: Setup, sequence: str) -> Ints:
    images = setup.rows_of(sequence, setup.queries)
    return images[evenly(len(images), MOST_IMAGES, nearest=True)]


def _density(feature: Floats, metres: Floats) -> tuple[Floats, Floats, Floats]:
    return np.histogram2d(metres, feature, bins=BINS, range=((0.0, metres.max()), (0.0, feature.max())))


def sections(view: View, models: list[Model]) -> list[Section]:
    """Correlations over the pairs of the first sequence, and a folded table for the others."""
    name, *others = sequences = models[0].first(Proportionality).sequences
    printed = paper.PEARSON["cold"]
    sentences = [
        "Correlation of feature distance and distance on the ground, over all "
        f"{sequences[name].pairs:,} pairs of the {len(sequences[name].images):,} images of {name}. A straight line "
        "would give 1. Metres reach as far as calibrated feature distances err by less than 20 %."
    ]
    notes = [
        "Metres: feature distances are calibrated on the first half of the sequence, and judged on the second half by "
        f"the median relative error, from half a positive radius to {MOST_RADII} positive radii."
    ]
    if not own_map(models):
        notes += [
            f"The paper reports Pearson correlations of {printed['lazy-quadruplet']} (lazy quadruplet) and "
            f"{printed['lazy-quadruplet+distance']} (with the distance loss added), on the COLD sequence seq2_sunny3."
        ]
    tables = [_correlations(view, models, [name])]
    if others:
        tables.append(_correlations(view, models, others, caption="Other sequences", folded=True))
    return [Section("proportionality", "Proportionality", sentences, tables, ("proportionality",), notes=notes)]


def _correlations(
    view: View, models: list[Model], names: Sequence[str], *, caption: str = "", folded: bool = False
) -> Table:
    pairs = [(model, name) for model in models for name in names]

    def column(title: str, kind: str, get: Callable[[Correlation], float | None]) -> Column:
        def value(found: Proportionality, name: str) -> float | None:
            return get(getattr(found.sequences[name], kind)) if name in found.sequences else None

        cells = [model.spread(Proportionality, lambda one: value(one, name)) for model, name in pairs]  # noqa: B023 - called at once
        return Column(title, cells, 3, kind.capitalize())

    def columns(kind: str) -> list[Column]:
        return [
            column("all", kind, lambda one: one.plain),
            column("squared", kind, lambda one: one.squared),
            column(f"≤ {view.positive}", kind, lambda one: one.within_positive),
            column(f"≤ {view.negative}", kind, lambda one: one.within_negative),
        ]

    def reach(found: Proportionality, name: str) -> float | None:
        return found.sequences[name].reach if name in found.sequences else None

    reaches = [model.spread(Proportionality, lambda one: reach(one, name)) for model, name in pairs]  # noqa: B023 - called at once
    pearson, spearman = columns("pearson"), columns("spearman")
    return table(
        "other-correlations" if folded else "correlations",
        Column("Model", [model.title for model, _ in pairs]),
        Column("Sequence", [name if folded else None for _, name in pairs]),
        *pearson,
        *(one for one in spearman if one.title != "squared"),  # squaring keeps the ranks, so it equals "all"
        Column(f"Metres reach, {view.unit}", reaches),
        Column("Paper (COLD)", [None if folded else paper.PEARSON["cold"].get(model.row) for model, _ in pairs], 3),
        caption=caption,
        best=[] if folded else pearson[0].cells,
        folded=folded,
    )


def draw(view: View) -> "Figure":
    """A panel per model: number of pairs by distance, with the median feature distance as a line.

    At most three models, and the models of the paper's figure 1.
    """
    from matplotlib.colors import LogNorm

    models, setup = few_of(view.drawn(Proportionality), paper.FIGURE_1), view.setup
    found = [model.first(Proportionality) for model in models]
    most = max(float(one.counts.max()) for one in found)
    down, across = grid_of(len(models), PANELS_PER_LINE)
    figure = new_figure(0.7 + 3.3 * down, width=min(WIDTH, 1.7 + 3.3 * across))
    panels = panels_of(figure, len(models), (down, across))
    for axes, model, one in zip(panels, models, found, strict=True):
        counts = np.ma.masked_equal(one.counts.T, 0)
        norm = LogNorm(1, max(most, 2))
        drawn = axes.pcolormesh(one.distance_edges, one.feature_edges, counts, norm=norm, cmap=SHADES, rasterized=True)
        axes.plot(*_medians(one), color="white", linewidth=3.2)
        axes.plot(*_medians(one), color=VERMILION, linewidth=1.7, label="median")
        axes.axvline(setup.positive_radius, color=BLACK, linewidth=1.1, linestyle="--", label="positive radius")
        name, facts = one.first
        axes.set(
            xlim=(0, max(float(one.distance_edges[-1]) for one in found)),
            ylim=(0, max(float(one.feature_edges[-1]) for one in found)),
            xlabel=f"geometric distance [{setup.unit}]",
        )
        r = f"r = {number(facts.pearson.plain)}, within {view.negative}: {number(facts.pearson.within_negative)}"
        axes.set_title(f"{plain(model.title)}\n{r}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[::across]:
        axes.set_ylabel("feature distance")
    figure.colorbar(drawn, ax=panels, label="pairs of images", pad=0.02, aspect=30)
    name, facts = found[0].first
    figure.suptitle(f"{plain(name)}: {facts.pairs:,} pairs of images{of_seed(models)}", fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _medians(found: Proportionality) -> tuple[Floats, Floats]:
    """Centers of the bins of geometric distance, and the median feature distance per bin; NaN for few pairs."""
    below = np.cumsum(found.counts, axis=1)
    total, edges = below[:, -1], found.feature_edges[1:]
    half = [float(np.interp(0.5 * all_of, row, edges)) for row, all_of in zip(below, total, strict=True)]
    metres: Floats = (found.distance_edges[1:] + found.distance_edges[:-1]) / 2
    return metres, np.where(total >= FEWEST_PAIRS, half, np.nan)


CAPTION = (
    "Feature distance against geometric distance, for all pairs of a sequence; brighter means more pairs. "
    "The paper's figure 1 shows lazy quadruplet, and lazy quadruplet + dist."
)
DRAWINGS = (Drawing("proportionality", CAPTION, draw),)
PROTOCOL = Protocol("proportionality", Proportionality, rows, score, sections, DRAWINGS, of_a_map=True, version=2)
