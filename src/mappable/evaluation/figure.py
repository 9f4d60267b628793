"""Size, colors and fonts of all figures; they are written as PNG and SVG, with the same bytes for the same results."""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mappable.evaluation.rows import OFF_THE_SHELF, OURS
from mappable.files import write_atomically
from mappable.plotting import (
    BLUE,
    COLORS,
    GRAY,
    GREEN,
    ORANGE,
    PINK,
    SKY,
    VERMILION,
    plain_axes,
)
from mappable.plotting import new_figure as empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Pixels per inch; COARSE is for figures with photographs, whose files are large.
DPI, COARSE = 150, 100
WIDTH = 9.0  # inches: text stays readable if a page shows the figure 900 pixels wide
# Darker than their neighbors, so also safe for color-blind readers.
PURPLE, TEAL = "#5D3A9B", "#004D40"
FAINT = "#d4d4d4"
UPPER_BOUND = "upper bound"
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}},
    "svg": {"metadata": {"Date": None}},
}


@dataclass(frozen=True)
class ModelStyle:
    """Color, line and marker of a model; rows of ours have a hollow marker."""

    color: str
    line: str = "-"
    mark: str = ""
    hollow: bool = False

    def curve(self, every: int | tuple[int, int] = 1) -> dict[str, Any]:
        """Arguments for `Axes.plot`; `every` n-th point has a marker, or (start, n)."""
        return {
            "color": self.color,
            "linestyle": self.line,
            "linewidth": 2.0 if self.line == ":" else 1.6,
            "marker": self.mark,
            "markersize": 5.5,
            "markerfacecolor": self.face,
            "markevery": every,
        }

    def point(self) -> dict[str, Any]:
        """Arguments for single points without a line; every model then has a marker."""
        return {"color": self.color, "marker": self.mark or "o", "markerfacecolor": self.face}

    @property
    def face(self) -> str:
        """The fill color of a marker."""
        return "white" if self.hollow else self.color


LOOKS = {
    OFF_THE_SHELF: ModelStyle(BLUE, ":"),
    "distance": ModelStyle(PURPLE, ":"),
    "huber": ModelStyle(PINK, ":"),
    "triplet": ModelStyle(ORANGE, "--"),
    "quadruplet": ModelStyle(GRAY, "--"),
    "lazy-triplet": ModelStyle(SKY, "--"),
    "lazy-quadruplet": ModelStyle(GREEN, "--"),
    "triplet+distance": ModelStyle(ORANGE, "-", "o"),
    "triplet+huber": ModelStyle(VERMILION, "-", "s"),
    "lazy-quadruplet+distance": ModelStyle(GREEN, "-", "^"),
    "lazy-quadruplet+huber": ModelStyle(TEAL, "-", "D"),
}  # untrained or geometric: dotted; visual: dashed; combined: solid with markers, in a color near its visual loss
OTHERS = tuple(ModelStyle(color, "-", mark) for color, mark in zip(COLORS, "PXv*phd", strict=True))


def look_of(row: str, number: int = 0) -> ModelStyle:
    """The look of a row by its name; models that users name get one by their number."""
    paper = row.removesuffix(OURS)
    if paper not in LOOKS:
        return OTHERS[number % len(OTHERS)]
    look = LOOKS[paper]
    return look if paper == row else replace(look, hollow=True, mark=look.mark or "v")


def new_figure(height: float, dpi: int = DPI, width: float = WIDTH) -> "Figure":
    """An empty figure, sizes in inches, with automatic layout."""
    return empty_figure(width, height, dpi)


def panels_of(figure: "Figure", count: int, shape: tuple[int, int]) -> "list[Axes]":
    """`count` panels with a common y axis, in a grid of `shape` (rows, columns), filled from the
    top left.
    """
    every = list(figure.subplots(*shape, sharey=True, squeeze=False).flat)
    for axes in every[count:]:
        axes.remove()
    return every[:count]


def grid_of(count: int, most_columns: int) -> tuple[int, int]:
    """Rows and columns of a grid of at most `most_columns` columns, filled as evenly as possible.

    >>> grid_of(3, 3), grid_of(4, 3), grid_of(5, 3)
    ((1, 3), (2, 2), (2, 3))
    """
    rows = -(-count // most_columns)
    return rows, -(-count // rows)


def tidy(axes: "Axes") -> None:
    """Draw a faint grid, and no frame at the top and right."""
    plain_axes(axes, grid="#e2e2e2")


def beside(axes: "Axes", y: float, text: str, *, column: int = 0, **style: Any) -> None:
    """Write a number to the right of the axes at height y, in one of several columns."""
    axes.annotate(
        text,
        (1.0, y),
        (14 + 58 * column, 0),
        axes.get_yaxis_transform(),
        "offset points",
        va="center",
        **style,
    )


def legend_of(figure: "Figure | SubFigure", axes: "Axes", title: str) -> None:
    """Put the legend of the axes at the right of the figure; `title` heads the numbers in its
    labels.
    """
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside right upper", frameon=False, fontsize=9, handlelength=3.2, title=title,
        title_fontproperties={"size": 9, "weight": "bold"}, alignment="left",
    )  # fmt: skip


def number(value: float | None, form: str = ".2f") -> str:
    """A number as text; a dash for None or NaN."""
    return "–" if value is None or value != value else format(value, form)


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write NAME.png and NAME.svg into a folder, which is created if missing."""
    from matplotlib import rc_context

    files = []
    with rc_context({"svg.hashsalt": "mappable"}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about characters that the font lacks
        for kind, options in FORMATS.items():
            draw = partial(figure.savefig, format=kind, dpi=figure.dpi, **options)
            files.append(folder / f"{name}.{kind}")
            write_atomically(files[-1], draw)
            figure.set_layout_engine("none")  # the first format has set the layout
    return files
