"""Shared by all pictures: colors, an empty figure, a plain grid, and writing to a file."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from mappable.errors import BadInputError
from mappable.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Safe for color-blind readers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK = COLORS
GRAY, EMPTY = "#8a8a8a", "#e4e4e4"
SHADES = "viridis"  # from dark to light, in color and in gray print
SUFFIXES = (".png", ".svg", ".pdf", ".jpg")


def new_figure(width: float, height: float, dpi: int = 120) -> "Figure":
    """Create an empty figure (size in inches) with automatic layout; it needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=dpi)
    FigureCanvasAgg(figure)
    return figure


def plain_axes(axes: "Axes", grid: str = "#dddddd") -> None:
    """Draw a faint grid behind the data, and no frame at the top and on the right."""
    axes.grid(color=grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def plain(text: str) -> str:
    """Escape dollar signs, so that matplotlib does not read text as a formula."""
    return text.replace("$", r"\$")


def check_suffix(file: Path | str) -> None:
    """Raise if the suffix of a file is not a picture format."""
    if Path(file).suffix.lower() not in SUFFIXES:
        raise BadInputError(
            f"{file}: the suffix is {Path(file).suffix!r}, but pictures are written as"
            f" {', '.join(SUFFIXES)}"
        )


def write_figure(figure: "Figure", file: Path | str) -> None:
    """Write a figure atomically in the format of the file's suffix; create the folder if needed."""
    kind = Path(file).suffix.lower().removeprefix(".")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about letters that the font lacks
            write_atomically(Path(file), lambda stream: figure.savefig(stream, format=kind))
    except ValueError as error:
        raise BadInputError(f"{file}: the picture cannot be written ({error})") from None
