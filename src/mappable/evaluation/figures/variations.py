"""Accuracy against the value of single settings, a panel a setting."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mappable.evaluation.figures.models import NothingToDrawError
from mappable.evaluation.figures.style import look_of, new_figure, tidy
from mappable.evaluation.result import Result
from mappable.evaluation.rows import variation_of
from mappable.evaluation.setup import Setup
from mappable.evaluation.summary import RowSummary, summarise
from mappable.plotting import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
PANEL = 2.1  # inches of height


def draw_variations(results: Sequence[Result], setup: Setup) -> "Figure":
    """The share of queries found with each value that a row was varied by; its own value is filled."""
    found = {one.row: one for one in summarise(results)}
    own = {result.row: result.settings for result in results}
    panels: dict[tuple[str, str], dict[str, RowSummary]] = {}  # by row and setting, then by value
    for row, one in found.items():
        base, changes = variation_of(row)
        if len(changes) == 1 and base in found and "loss" not in changes:  # which is no axis
            (setting, value), *_ = changes.items()
            usual = _text(own[base].get(setting))
            panels.setdefault((base, setting), {usual: found[base]})[_text(value)] = one
    if not panels:
        raise NothingToDrawError("no row was varied")
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure(0.4 + PANEL * lines)
    axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for each, ((base, setting), values) in zip(axes.flat, panels.items(), strict=False):
        _draw_panel(each, base, values, next(iter(values)))
        each.set_title(plain(setting), fontsize=9)
    for empty in axes.flat[len(panels) :]:
        empty.set_visible(False)
    figure.supylabel(f"found within {setup.positive_radius:g} {setup.unit} [%]", fontsize=10)
    return figure


def _draw_panel(axes: "Axes", base: str, values: dict[str, RowSummary], usual: str) -> None:
    look, order = look_of(base), sorted(values, key=_order)
    means = [values[value].positive.mean for value in order]
    axes.plot(range(len(order)), means, color=look.colour, linewidth=1.2)
    for at, value in enumerate(order):
        one = values[value]
        if one.interval is not None:
            axes.plot([at, at], [one.interval.low, one.interval.high], color=look.colour, linewidth=1.0, alpha=0.5)
        filled = look.colour if value == usual else "white"
        axes.plot(at, one.positive.mean, marker="o", color=look.colour, markerfacecolor=filled, markersize=6)
    axes.set_xticks(range(len(order)), [plain(value) for value in order], fontsize=8)
    axes.margins(x=0.12)
    tidy(axes)


def _text(value: object) -> str:
    """A value as one would write it, numbers that are equal alike."""
    try:
        return f"{float(str(value)):g}"
    except ValueError:
        return str(value)


def _order(value: str) -> tuple[float, str]:
    try:
        return float(value), ""
    except ValueError:
        return float("inf"), value
