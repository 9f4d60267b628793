"""The two animations, as GIF: distances as one goes along a sequence, and localization along one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mappable.arrays import Floats, Ints, evenly, path_length
from mappable.evaluation.figures.film import Update, record, write_gif
from mappable.evaluation.figures.gallery import Images, judge, show, small
from mappable.evaluation.figures.models import Model, before_and_after, models_of
from mappable.evaluation.figures.style import COARSE, FAINT, as_map, dots, new_figure, number, tidy
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.plotting import BLACK, EMPTY, GREEN, SHADES, VERMILLION, plain

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

FRAMES = 40  # at most


def animate_proportionality(results: Sequence[Result], setup: Setup, file: Path) -> None:
    """From one image after the other of a sequence: how far all others are by feature, on the map and against metres.

    Off-the-shelf and the best model are side by side. Colours on the map are those of the points below it.
    """
    models = before_and_after(models_of(results, "proportionality"))
    rows = models[0].first.arrays("proportionality")["rows"]
    at = setup.places.positions[rows]
    metres: Floats = np.linalg.norm(at[:, None] - at, axis=2)
    figure = new_figure(5.8, COARSE)
    moving: list[Artist] = []
    updates: list[Update] = []
    for column, model in enumerate(models):
        above, below = (figure.add_subplot(2, len(models), column + 1 + len(models) * line) for line in (0, 1))
        artists, update = _distances(above, below, model, at[:, :2], metres)
        moving += artists
        updates.append(update)
        as_map(above, setup.unit)
        tidy(below)
        below.set(xlabel=f"geometric distance [{setup.unit}]", ylabel="feature distance")
        facts = next(iter(model.first.scored["proportionality"].values["sequences"].values()))
        above.set_title(f"{plain(model.title)}: r = {number(facts['pearson']['plain'])}", fontsize=11)
    name = next(iter(models[0].first.scored["proportionality"].values["sequences"]))
    figure.suptitle(f"{plain(name)}: feature distance from one image (star) to all others", fontsize=11)
    shown = evenly(len(rows), FRAMES, nearest=True)

    def go_to(step: int) -> None:
        for update in updates:
            update(int(shown[step]))

    write_gif(file, record(figure, moving, go_to, len(shown)))


def _distances(above: "Axes", below: "Axes", model: Model, at: Floats, metres: Floats) -> "tuple[list[Artist], Update]":
    """The map and the plot of one model: what of them moves, and how to bring it to an image."""
    feature = model.first.arrays("proportionality")["matrix"].astype(np.float64)
    pairs = np.triu_indices(len(feature), 1)
    below.plot(metres[pairs], feature[pairs], ",", color=EMPTY, rasterized=True)
    low, high = np.quantile(feature[pairs], [0.01, 0.99])
    style: dict[str, Any] = {"cmap": SHADES, "vmin": low, "vmax": high, "linewidths": 0}
    images = dots(above, at, c=feature[0], s=30, **style)
    points = below.scatter(metres[0], feature[0], c=feature[0], s=20, **style)
    star = dots(above, at[:1], marker="*", s=260, color=VERMILLION, edgecolors="white", zorder=4)
    below.set(xlim=(0, float(metres.max())), ylim=(0, 1.05 * float(feature.max())))

    def update(image: int) -> None:
        images.set_array(feature[image])
        points.set_array(feature[image])
        points.set_offsets(np.column_stack([metres[image], feature[image]]))
        star.set_offsets(at[image : image + 1])

    return [images, points, star], update


def animate_localization(results: Sequence[Result], setup: Setup, images: Images, file: Path) -> None:
    """Along the test sequence that is hardest: the query, what off-the-shelf and the best model take it for, and where.

    Hardest is the sequence with the fewest queries within the positive radius, by the first of the two.
    """
    models = before_and_after(models_of(results, "table1"))
    own = _hardest(setup, models[0].first.arrays("table1")["errors"])
    queries, at = setup.queries[own], setup.places.positions[:, :2]
    found = [
        (one.first.arrays("table1")["errors"][own], one.first.arrays("table1")["retrieved"][own]) for one in models
    ]
    figure = new_figure(5.0, COARSE)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.9, 2.1))[:, 0]
    left, *panels = upper.subplots(1, 2 + len(models), width_ratios=[1.5] + [1.0] * (1 + len(models)))
    for axes, title in zip(panels, ["query", *(plain(model.title) for model in models)], strict=True):
        show(axes, images(queries[:1])[0])
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(" ", fontsize=9, labelpad=3)
    where, put = _positions(left, models, at[models[0].first.arrays("table1")["landmarks"]])
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
            judge(axes, float(error[number]), setup)
        put(at[rows])
        draw_on(number)

    write_gif(file, record(figure, [*panels, *where, *errors], go_to, len(shown)))


def _hardest(setup: Setup, errors: Floats) -> Ints:
    """Numbers of the queries of one sequence, in order."""
    sequences = setup.places[setup.queries].sequences().values()
    return min(sequences, key=lambda own: percent_within(errors[own], setup.positive_radius))


def _positions(
    axes: "Axes", models: Sequence[Model], landmarks: Floats
) -> "tuple[list[Artist], Callable[[Floats], None]]":
    """The map: the true position, and lines from it to where each model takes it to be."""
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
) -> "tuple[list[Artist], Update]":
    """Errors up to a query, linear up to the positive radius and logarithmic beyond."""
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
    lines = [axes.plot([], [], color=model.look.colour, linewidth=1.4)[0] for model in models]
    shares = [
        f"{plain(one.title)} {percent_within(error, radius):.0f} %" for one, error in zip(models, errors, strict=True)
    ]
    axes.set_title(f"within {radius:g} {setup.unit}: {', '.join(shares)}", fontsize=10)

    def draw_on(number: int) -> None:
        for line, error in zip(lines, errors, strict=True):
            line.set_data(way[: number + 1], error[: number + 1])

    return list(lines), draw_on
