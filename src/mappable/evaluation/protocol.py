"""Define a protocol: how it measures one model on one set, and its tables and drawings in the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from mappable.arrays import Ints, Pixels
from mappable.errors import BadInputError
from mappable.evaluation.models import Model, models_of
from mappable.evaluation.result import Result
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.summary import RowSummary, summarize
from mappable.evaluation.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUND, CHANCE = "Upper bound", "Chance"
Images = Callable[[Ints], Pixels]  # rows of the table to images (n, height, width, 3)
R = TypeVar("R")


class NothingToDrawError(BadInputError):
    """No result has the data that a figure shows."""


@dataclass(frozen=True)
class Section:
    """A part of the report; `figures` are names of drawings, `commands` are lines for a terminal.

    `sentences` come before the tables, `notes` (methods and caveats) after them. A section that
    `leads` comes before the sections of all other protocols.
    """

    name: str
    title: str
    sentences: Sequence[str]
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()
    leads: bool = False


@dataclass(frozen=True)
class View:
    """All results of one set. `images` reads the images of table rows, for drawings that show
    images.

    With `as_printed`, all models start as the paper's do: same weights, clusters from Pittsburgh
    images.
    """

    results: Sequence[Result]
    setup: Setup
    images: Images | None = None
    as_printed: bool = False

    @property
    def unit(self) -> str:
        """The unit of distances on the ground."""
        return self.setup.unit

    @property
    def positive(self) -> str:
        """The positive radius, as text."""
        return f"{self.setup.positive_radius:g} {self.unit}"

    @property
    def negative(self) -> str:
        """The negative radius, as text."""
        return f"{self.setup.negative_radius:g} {self.unit}"

    @cached_property
    def summaries(self) -> list[RowSummary]:
        """Summaries of all models whose accuracy is known."""
        return summarize(self.results)

    def models(self, kind: type[object] | None = None) -> list[Model]:
        """The models that have a result of this kind; all models if None."""
        return models_of(self.results, kind)

    def drawn(self, kind: type[object]) -> list[Model]:
        """The models that have a result of this kind, for a drawing; raises if there is none."""
        models = self.models(kind)
        if not models:
            raise NothingToDrawError(
                f"none of the {len(self.results)} results has {kind.__name__}, nothing to draw"
            )
        return models


@dataclass(frozen=True)
class Drawing:
    """A figure with a name and a caption. `draw` raises NothingToDrawError if no result has its
    data.
    """

    name: str
    caption: str
    draw: "Callable[[View], Figure]"


@dataclass(frozen=True)
class Protocol(Generic[R]):
    """One test of a model.

    `rows` returns the table rows whose images need descriptors. `run` returns the result, a
    dataclass of type `kind`, or raises NotApplicableError with the reason. `report` makes the
    section of the models that have a result.
    """

    name: str
    kind: type[R]
    rows: Callable[[Setup], Ints]
    run: Callable[[Scoring], R]
    report: Callable[[View, list[Model]], Section]
    drawings: tuple[Drawing, ...] = ()
    of_a_map: bool = False  # `mappable evaluate` runs it by default
