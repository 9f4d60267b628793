"""The rows of the paper's table I by name, and the same losses with the settings of our presets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mappable.errors import BadInputError

OFF_THE_SHELF = "off-the-shelf"
PAPER_VALUES: Mapping[str, Any] = {"geometric_weight": 0.5, "feature_scale_squared": 2.0}
PAPER_SETTINGS = (  # of training, which our presets may change
    "margin=0.1",
    "second_margin=0.2",
    "huber_delta=1",
    "positives_from=all",
    "mirrored=0",
    "light=0",
    "averaging=0",
)
OURS = "-ours"


@dataclass(frozen=True)
class Row:
    """A model: its name, its title in tables, and its settings."""

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> str:
        """The loss setting; "" for the untrained encoder."""
        return str(self.settings.get("loss", ""))

    @property
    def visual(self) -> str:
        """The visual part of the loss; "" if it has none."""
        first = self.loss.split("+")[0]
        return "" if first in ("distance", "huber") else first

    @property
    def combined(self) -> bool:
        """True for a combination of a visual and a geometric loss."""
        return "+" in self.loss

    @property
    def ours(self) -> bool:
        """True for a row with the settings of our own presets."""
        return OURS in self.name

    @property
    def pure(self) -> str:
        """For a combination, the name of the row with only its visual loss; else ""."""
        return self.visual if self.combined else ""


def _paper(loss: str, title: str) -> Row:
    geometric = PAPER_VALUES if loss.endswith(("distance", "huber")) else {}
    return Row(loss, title, {"loss": loss, **geometric})


def _ours(loss: str, title: str) -> Row:
    return Row(loss + OURS, f"{title} (ours)", {"loss": loss})


TABLE_1: tuple[Row, ...] = (
    Row(OFF_THE_SHELF, "Off-the-shelf", {"iterations": 0}),
    _paper("distance", "Dist."),
    _paper("huber", "Huber dist."),
    _paper("triplet", "Triplet"),
    _paper("quadruplet", "Quadruplet"),
    _paper("lazy-triplet", "Lazy triplet"),
    _paper("lazy-quadruplet", "Lazy quadruplet"),
    _paper("triplet+distance", "Triplet + dist."),
    _paper("lazy-quadruplet+distance", "Lazy quad. + dist."),
    _paper("triplet+huber", "Triplet + Huber"),
    _paper("lazy-quadruplet+huber", "Lazy quad. + Huber"),
)
OUR_ROWS: tuple[Row, ...] = tuple(
    _ours(row.loss, row.title) for row in TABLE_1 if row.combined or row.loss == "triplet"
)  # other settings are the preset's; the triplet alone shows the gain of the geometric loss
ROWS: Mapping[str, Row] = {row.name: row for row in (*TABLE_1, *OUR_ROWS)}


def rows_named(names: Sequence[str]) -> list[Row]:
    """The rows with these names, in the order of the table; `table1` and `ours` stand for all rows
    of a kind.
    """
    groups = {"table1": TABLE_1, "ours": OUR_ROWS}
    wanted: set[str] = set()
    for name in names:
        if name not in ROWS and name not in groups:
            raise BadInputError(
                f"unknown row {name!r}, expected one of {', '.join([*groups, *ROWS])}"
            )
        wanted |= {row.name for row in groups[name]} if name in groups else {name}
    return [row for name, row in ROWS.items() if name in wanted]
