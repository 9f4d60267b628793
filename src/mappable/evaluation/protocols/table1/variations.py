"""The gain of changed settings: rows with changes, compared with the same row without them."""

from typing import TYPE_CHECKING

from mappable.evaluation.claims import between
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import NothingToDrawError, Section, View
from mappable.evaluation.rows import variation_of
from mappable.evaluation.style import look_of, new_figure, tidy
from mappable.evaluation.summary import RowSummary, difference
from mappable.evaluation.tables import Column, Table
from mappable.plotting import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4  # panels per line, at most
PANEL_HEIGHT = 2.1  # inches


def variations_section(view: View, models: list[Model]) -> list[Section]:
    """A table of all changed rows whose unchanged row was trained too; no section if there is none."""
    rows, found = {model.row: model for model in models}, {one.row: one for one in view.summaries}
    varied = [(model, *variation_of(model.row)) for model in models]
    changed = [(model, rows[base], changes) for model, base, changes in varied if changes and base in rows]
    if not changed:
        return []
    gains = [difference(model.results, base.results) for model, base, _ in changed]
    listed = [", ".join(f"{name} {value}" for name, value in changes.items()) for _, _, changes in changed]
    near = [found[model.row].positive for model, _, _ in changed]
    shown = Table(
        "variations",
        [
            Column("Row", [base.title for _, base, _ in changed]),
            Column("Change", listed),
            Column(f"Within {view.positive}, %", near),
            Column(f"Within {view.negative}, %", [found[model.row].negative for model, _, _ in changed]),
            Column("Points", [gain.mean if gain else None for gain in gains], group="Gain of the change"),
            Column("95 % interval", [gain.interval if gain else None for gain in gains], group="Gain of the change"),
        ],
    )
    sentences = [
        "Each line changes one setting, or all the settings that it names. The gain is over the row without the "
        "change, on the same queries and seeds."
    ]
    for row in dict.fromkeys(base.row for _, base, _ in changed):
        one = found[row]
        sentences.append(f"{one.title} without changes: {one.positive.mean:.1f} %{between(one.interval)}.")
    return [Section("variations", "Other settings", sentences, [shown], ("variations",))]


def draw_variations(view: View) -> "Figure":
    """The percentage of queries found with each value of a varied setting; a filled mark is the row's own value."""
    found = {one.row: one for one in view.summaries}
    own = {result.row: result.settings for result in view.results}
    panels: dict[tuple[str, str], dict[str, RowSummary]] = {}  # by row and setting, then by value
    for row, one in found.items():
        base, changes = variation_of(row)
        if len(changes) == 1 and base in found and "loss" not in changes:  # losses make no axis
            (setting, value), *_ = changes.items()
            usual = _text(own[base].get(setting))
            panels.setdefault((base, setting), {usual: found[base]})[_text(value)] = one
    if not panels:
        raise NothingToDrawError("no row has a varied setting")
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure(0.4 + PANEL_HEIGHT * lines)
    axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for each, ((base, setting), values) in zip(axes.flat, panels.items(), strict=False):
        _draw_panel(each, base, values, next(iter(values)))
        each.set_title(plain(setting), fontsize=9)
    for empty in axes.flat[len(panels) :]:
        empty.set_visible(False)
    figure.supylabel(f"found within {view.positive} [%]", fontsize=10)
    return figure


def _draw_panel(axes: "Axes", base: str, values: dict[str, RowSummary], usual: str) -> None:
    look, order = look_of(base), sorted(values, key=_order)
    means = [values[value].positive.mean for value in order]
    axes.plot(range(len(order)), means, color=look.color, linewidth=1.2)
    for at, value in enumerate(order):
        one = values[value]
        if one.interval is not None:
            axes.plot([at, at], [one.interval.low, one.interval.high], color=look.color, linewidth=1.0, alpha=0.5)
        filled = look.color if value == usual else "white"
        axes.plot(at, one.positive.mean, marker="o", color=look.color, markerfacecolor=filled, markersize=6)
    axes.set_xticks(range(len(order)), [plain(value) for value in order], fontsize=8)
    axes.margins(x=0.12)
    tidy(axes)


def _text(value: object) -> str:
    """A value as text; equal numbers give equal text."""
    try:
        return f"{float(str(value)):g}"
    except ValueError:
        return str(value)


def _order(value: str) -> tuple[float, str]:
    try:
        return float(value), ""
    except ValueError:
        return float("inf"), value
