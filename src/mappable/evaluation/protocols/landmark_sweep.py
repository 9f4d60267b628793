"""Accuracy against the number of landmarks; every larger map contains the landmarks of the smaller maps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation.figure import UPPER_BOUND, legend_of, new_figure, number, tidy
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import BOUND, Drawing, Protocol, Section, View
from mappable.evaluation.scoring import NotApplicableError, Scoring, retrieval
from mappable.evaluation.tables import Column, table
from mappable.plotting import BLACK, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "landmark-sweep"


@dataclass(frozen=True)
class Sweep:
    """Percent of the queries within both radii for each of the `counts` of landmarks; bounds for a
    perfect encoder.
    """

    queries: Ints  # rows of the table
    landmarks: Ints  # rows of the largest map; a map with n landmarks has the first n
    counts: list[int]
    positive: list[float]
    negative: list[float]
    bound_positive: list[float]
    bound_negative: list[float]


def run(scoring: Scoring) -> Sweep:
    """Accuracy at both radii for each number of landmarks, with the geometric upper bound; landmark
    seed 0.
    """
    setup = scoring.setup
    if setup.landmarks is None or len(setup.counts) < 2:
        raise NotApplicableError("the set has only one number of landmarks")
    counts, most, at = (
        sorted(setup.counts),
        scoring.landmarks(count=max(setup.counts)),
        setup.places.positions,
    )
    errors = [
        np.linalg.norm(at[setup.queries] - at[scoring.nearest(most[:count])[:, 0]], axis=1)
        for count in counts
    ]
    bounds = [scoring.metres(setup.queries, most[:count]).min(axis=1) for count in counts]
    within = [
        [percent_within(one, radius) for one in of]
        for of in (errors, bounds)
        for radius in (setup.positive_radius, setup.negative_radius)
    ]
    return Sweep(setup.queries, most, counts, *within)


def report(view: View, models: list[Model]) -> Section:
    """Accuracy per number of landmarks."""
    first = models[0].first(Sweep)
    sentences = [
        f"Percent of the queries found within {view.positive}, by the number of landmarks in the"
        " map."
    ]
    found = [
        [model.spread(Sweep, lambda one: one.positive[at]) for model in models]  # noqa: B023 - called at once
        for at in range(len(first.counts))
    ]
    swept = [
        Column(f"{count:,}", [*cells, bound], group="Landmarks")
        for count, cells, bound in zip(first.counts, found, first.bound_positive, strict=True)
    ]
    titles = Column("Model", [*(model.title for model in models), BOUND])
    shown = table(NAME, titles, *swept, best=found[-1], references=1)
    return Section(NAME, "Number of landmarks", sentences, [shown], (NAME,))


def draw(view: View) -> "Figure":
    """Accuracy within the positive radius against the number of landmarks, with the geometric
    bound.
    """
    models = view.drawn(Sweep)
    figure = new_figure(4.4)
    axes = figure.add_subplot()
    counts = models[0].first(Sweep).counts
    bound = models[0].mean(Sweep, lambda one: one.bound_positive)
    axes.plot(
        counts,
        bound,
        color=BLACK,
        linewidth=1.8,
        label=f"{UPPER_BOUND}  {number(bound[-1], '.1f')}",
    )
    for model in models:
        percent = model.mean(Sweep, lambda one: one.positive)
        axes.plot(
            counts,
            percent,
            label=f"{plain(model.title)}  {number(percent[-1], '.1f')}",
            **model.look.curve(),
        )
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set(xlabel="landmarks", ylabel=f"queries within {view.positive} [%]", ylim=(0, 101))
    axes.set_title(
        f"{plain(view.setup.name)}: accuracy by number of landmarks", fontsize=11, loc="left"
    )
    tidy(axes)
    legend_of(figure, axes, f"with {counts[-1]:,} [%]")
    return figure


CAPTION = "Queries found within the positive radius, against the number of landmarks."
PROTOCOL = Protocol(NAME, Sweep, retrieval, run, report, (Drawing(NAME, CAPTION, draw),))
