"""Animate a drive: each query, the landmark image that each model retrieves, and its position."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Ints, evenly, path_length
from mappable.evaluation.film import FRAMES, record
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.models import Model, before_and_after
from mappable.evaluation.protocol import NothingToDrawError, View
from mappable.evaluation.result import Accuracy
from mappable.evaluation.setup import Setup
from mappable.evaluation.style import COARSE, FAINT, as_map, dots, new_figure, show, show_error, small, tidy
from mappable.plotting import BLACK, GREEN, plain

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from PIL import Image


def animate_drive(view: View) -> "list[Image.Image]":
    """Follow the hardest test sequence: the query, and what off-the-shelf and the best model retrieve, and where.

    The hardest sequence has the lowest percentage of queries within the positive radius, by off-the-shelf. If there
    is no off-the-shelf model, the best model decides.
    """
    models, setup, images = before_and_after(view.drawn(Accuracy)), view.setup, view.images
    if images is None:
        raise NothingToDrawError("no images to show")
    first = models[0].first(Accuracy)
    own = _hardest(setup, first.errors)
    queries, at = setup.queries[own], setup.places.positions[:, :2]
    found = [(one.errors[own], one.retrieved[own]) for one in (model.first(Accuracy) for model in models)]
    figure = new_figure(5.0, COARSE)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.9, 2.1))[:, 0]
    left, *panels = upper.subplots(1, 2 + len(models), width_ratios=[1.5] + [1.0] * (1 + len(models)))
    for axes, title in zip(panels, ["query", *(plain(model.title) for model in models)], strict=True):
        show(axes, images(queries[:1])[0])
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(" ", fontsize=9, labelpad=3)
    where, put = _positions(left, models, at[first.landmarks])
    as_map(left, setup.unit)
    way = path_length(setup.places.positions[queries])
    errors, draw_on = _running_errors(lower.add_subplot(), models, way, [error for error, _ in found], setup)
    name = setup.places.sequence[queries[0]]
    figure.suptitle(f"{plain(name)}: nearest landmark by feature, one query after the other", fontsize=11)
    shown = evenly(len(queries), FRAMES, nearest=True)

    def go_to(step: int) -> None:
        number = int(shown[step])
        rows = np.array([queries[number], *(retrieved[number] for _, retrieved in found)])
        for axes, picture in zip(panels, images(rows), strict=True):
            axes.images[0].set_data(small(picture))
        for axes, (error, _) in zip(panels[1:], found, strict=True):
            show_error(axes, float(error[number]), setup)
        put(at[rows])
        draw_on(number)

    return record(figure, [*panels, *where, *errors], go_to, len(shown))


def _hardest(setup: Setup, errors: Floats) -> Ints:
    """Indices of the queries of the hardest sequence, in order."""
    sequences = setup.places[setup.queries].sequences().values()
    return min(sequences, key=lambda own: percent_within(errors[own], setup.positive_radius))


def _positions(
    axes: "Axes", models: Sequence[Model], landmarks: Floats
) -> "tuple[list[Artist], Callable[[Floats], None]]":
    """The map: the true position, and a line from it to the position that each model finds."""
    dots(axes, landmarks, s=16, color=FAINT, linewidths=0, label="landmarks")
    lines = [axes.plot([], [], markevery=[1], label=plain(one.title), **one.look.point())[0] for one in models]
    truth = axes.plot([], [], "*", color=BLACK, markersize=15, markeredgecolor="white", label="true position")[0]
    axes.figure.legend(loc="outside lower left", ncols=4, fontsize=9, frameon=False)

    def put(points: Floats) -> None:
        truth.set_data(*points[:1].T)
        for line, point in zip(lines, points[1:], strict=True):
            line.set_data(*np.stack([points[0], point]).T)

    return [*lines, truth], put


def _running_errors(
    axes: "Axes", models: Sequence[Model], way: Floats, errors: list[Floats], setup: Setup
) -> "tuple[list[Artist], Callable[[int], None]]":
    """Errors up to a query, on an axis that is linear up to the positive radius and logarithmic beyond."""
    radius = setup.positive_radius
    axes.axhspan(0, radius, color=GREEN, alpha=0.12, linewidth=0)
    axes.set_yscale("symlog", linthresh=radius)
    ticks = [0, radius / 2, radius, *(radius * 10**power for power in range(1, 5))]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    top = 1.3 * max(float(np.max(errors)), 2 * radius)
    axes.set(xlim=(0, max(float(way[-1]), 1e-9)), ylim=(0, top))
    axes.set(xlabel=f"along the sequence [{setup.unit}]", ylabel=f"error [{setup.unit}]")
    tidy(axes)
    lines = [axes.plot([], [], color=model.look.color, linewidth=1.4)[0] for model in models]
    shares = [
        f"{plain(one.title)} {percent_within(error, radius):.0f} %" for one, error in zip(models, errors, strict=True)
    ]
    axes.set_title(f"within {radius:g} {setup.unit}: {', '.join(shares)}", fontsize=10)

    def draw_on(number: int) -> None:
        for line, error in zip(lines, errors, strict=True):
            line.set_data(way[: number + 1], error[: number + 1])

    return list(lines), draw_on
