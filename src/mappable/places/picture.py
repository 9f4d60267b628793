"""A map picture of a table of places: where the images were taken, by sequence and condition."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mappable.places.table import NO_TIME, Places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # safe for colour-blind eyes
MOST_ARROWS = 60  # viewing directions drawn a colour


def draw_map(places: Places, file: Path | str) -> None:
    """Write a picture (PNG, SVG or PDF by suffix) with one panel a frame, axes to scale and labelled in its unit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [name for name in places.frames if (places.frame == name).any()]
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    spans = [np.ptp(places.positions[places.frame == name, :2], axis=0) for name in names]
    height = max(float(np.clip(7.0 * span[1] / max(span[0], 1e-9), 2.4, 7.5)) for span in spans)
    figure = Figure(figsize=(9.0 * columns, (height + 0.8) * lines), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    for position, name in enumerate(names, 1):
        _draw_frame(figure.add_subplot(lines, columns, position), places[places.frame == name], name)
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def _draw_frame(axes: "Axes", places: Places, name: str) -> None:
    what = "condition" if any(places.condition) else "sequence"
    column = getattr(places, what)
    groups, counts = np.unique(column, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    for rank, group in enumerate(groups[order]):
        here = places[column == group]
        colour = COLOURS[min(rank, len(COLOURS) - 1)]
        label = f"{group or 'no ' + what} ({len(here):,})" if rank < len(COLOURS) else None
        if rank == len(COLOURS) - 1 and len(groups) > len(COLOURS):
            label = f"{len(groups) - rank} others ({counts[order][rank:].sum():,})"
        _draw_group(axes, here, colour, label)
    unit, extent = places.frames[name].unit, np.ptp(places.positions[:, :2], axis=0)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"x [{unit}]")
    axes.set_ylabel(f"y [{unit}]")
    axes.set_title(f"{name}: {len(places):,} places over {extent[0]:,.0f} x {extent[1]:,.0f} {unit}", fontsize=11)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    legend = axes.legend(title=what, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set(sizes=[36], alpha=1.0)


def _draw_group(axes: "Axes", places: Places, colour: str, label: str | None) -> None:
    """Dots where images are, a faint line along each timed sequence, and some viewing directions where known."""
    size = float(np.clip(3000 / max(1, len(places)), 2, 18))
    axes.scatter(places.x, places.y, s=size, color=colour, label=label, linewidths=0, alpha=0.8, zorder=3)
    for rows in places.sequences().values():
        if (places.time[rows] != NO_TIME).all():
            axes.plot(places.x[rows], places.y[rows], color=colour, linewidth=0.8, alpha=0.35, zorder=2)
    looking = np.flatnonzero(np.isfinite(places.yaw))
    some = looking[:: max(1, -(-len(looking) // MOST_ARROWS))]
    if len(some):
        axes.quiver(
            places.x[some],
            places.y[some],
            np.cos(places.yaw[some]),
            np.sin(places.yaw[some]),
            color=colour,
            alpha=0.7,
            scale=28,
            width=0.0025,
            zorder=4,
        )
