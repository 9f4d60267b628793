"""A picture of a table of places: positions of the images on a map, colored by condition, sequence or overlap."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mappable.arrays import Ints, Strings, evenly
from mappable.errors import BadInputError
from mappable.places.table import NO_TIME, Places
from mappable.plotting import COLORS, check_suffix, new_figure, plain, plain_axes, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ARROWS = 60  # viewing directions drawn per color


def draw_map(
    places: Places,
    file: Path | str,
    color: Literal["condition", "sequence", "overlap"] | None = None,
) -> None:
    """Write a picture (PNG, SVG or PDF by suffix) with one panel per frame, axes to scale and
    labeled in its unit.

    Colors show `color`. By default it is the condition, or the sequence if there are no conditions.
    `overlap` is the number of other visits with a place within the positive radius that fits the
    places.
    """
    check_suffix(file)
    names = [name for name in places.frames if (places.frame == name).any()]
    if not names:
        raise BadInputError(f"{file}: the table has no places to draw")
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    spans = [np.ptp(places.positions[places.frame == name, :2], axis=0) for name in names]
    height = max(np.clip(7.0 * span[1] / max(span[0], 1e-9), 2.4, 7.5) for span in spans)
    figure = new_figure(9.0 * columns, (height + 0.8) * lines)
    for position, name in enumerate(names, 1):
        _draw_frame(
            figure.add_subplot(lines, columns, position), places[places.frame == name], name, color
        )
    write_figure(figure, file)


def _draw_frame(axes: "Axes", places: Places, name: str, color: str | None) -> None:
    what = color or ("condition" if any(places.condition) else "sequence")
    values = _overlap(places) if what == "overlap" else getattr(places, what)
    groups = [group for group, _ in Counter(values.tolist()).most_common()]
    last = len(COLORS) - 1  # the remaining groups share the last color
    color_of = {group: min(rank, last) for rank, group in enumerate(groups)}
    colors = np.array([color_of[group] for group in values])
    for number, group in enumerate(groups[: len(COLORS)]):
        rows = np.flatnonzero(colors == number)
        label = plain(group) or f"no {what}"
        if number == last and len(groups) > len(COLORS):
            label = f"{len(groups) - last:,} others"
        _draw_group(axes, places, rows, COLORS[number], f"{label} ({len(rows):,})")
    _draw_routes(axes, places, colors)
    unit, extent = places.frames[name].unit, np.ptp(places.positions[:, :2], axis=0)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"x [{unit}]")
    axes.set_ylabel(f"y [{unit}]")
    axes.set_title(
        f"{plain(name)}: {len(places):,} places over {extent[0]:,.0f} x {extent[1]:,.0f} {unit}",
        fontsize=11,
    )
    plain_axes(axes)
    legend = axes.legend(
        title=what, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9
    )
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set(sizes=[36], alpha=1.0)


def _overlap(places: Places) -> Strings:
    """The overlap of each place with other visits, as text."""
    from mappable.places.survey import survey

    names = [
        "this visit alone",
        "one other visit",
        "two other visits",
        "three or more other visits",
    ]
    return np.array(names, dtype=object)[np.minimum(survey(places).overlap, 3)]


def _draw_group(axes: "Axes", places: Places, rows: Ints, color: str, label: str) -> None:
    """Dots at the positions of images, and some viewing directions if known."""
    size = float(np.clip(3000 / len(rows), 2, 18))
    axes.scatter(
        places.x[rows],
        places.y[rows],
        s=size,
        color=color,
        label=label,
        linewidths=0,
        alpha=0.8,
        zorder=3,
    )
    looking = rows[np.isfinite(places.yaw[rows])]
    arrows = looking[evenly(len(looking), MAX_ARROWS)]
    if len(arrows):
        x, y, yaw = places.x[arrows], places.y[arrows], places.yaw[arrows]
        axes.quiver(
            x, y, np.cos(yaw), np.sin(yaw), color=color, alpha=0.7, scale=28, width=0.0025, zorder=4
        )


def _draw_routes(axes: "Axes", places: Places, colors: Ints) -> None:
    """A faint line along each sequence in which all images have a time."""
    from matplotlib.collections import LineCollection

    routes = [rows for rows in places.sequences().values() if (places.time[rows] != NO_TIME).all()]
    lines = [places.positions[rows, :2] for rows in routes]
    shades = [COLORS[colors[rows[0]]] for rows in routes]
    axes.add_collection(LineCollection(lines, colors=shades, linewidths=0.8, alpha=0.35, zorder=2))
