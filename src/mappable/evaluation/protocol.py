"""Define a protocol: how it scores one model on one set, and its sections, tables and drawings in the report."""

import hashlib
import json
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

BOUND = "Upper bound"
Images = Callable[[Ints], Pixels]  # rows of the table to images (n, height, width, 3)
R = TypeVar("R")


class NothingToDrawError(BadInputError):
    """No result has the data that a figure shows."""


@dataclass(frozen=True)
class Section:
    """A part of the report; `figures` are names of drawings, `commands` are lines for a terminal.

    `sentences` come before the tables, `notes` (methods and caveats) after them. A section that `leads` comes before
    the sections of all other protocols.
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
    """All results of one set. `images` reads the images of table rows, for drawings that show images.

    With `as_printed`, all models start as the paper's do: same weights, clusters from Pittsburgh images.
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

    @property
    def best(self) -> RowSummary | None:
        """The model that finds the most queries within the positive radius."""
        return max(self.summaries, key=lambda one: one.positive.mean, default=None)

    def models(self, kind: type[object] | None = None) -> list[Model]:
        """The models that have a result of this kind; all models if None."""
        return models_of(self.results, kind)

    def drawn(self, kind: type[object]) -> list[Model]:
        """The models that have a result of this kind, for a drawing; raises if there is none."""
        models = self.models(kind)
        if not models:
            raise NothingToDrawError(f"none of the {len(self.results)} results has {kind.__name__}, nothing to draw")
        return models


@dataclass(frozen=True)
class Drawing:
    """A figure with a name and a caption. `draw` raises NothingToDrawError if no result has its data."""

    name: str
    caption: str
    draw: "Callable[[View], Figure]"


@dataclass(frozen=True)
class Protocol(Generic[R]):
    """One test of a model. Raise `version` when its results change, so that older results are computed again.

    `rows` returns the table rows whose images need descriptors. `score` returns the result, a dataclass of type
    `kind`, or raises NotApplicableError with the reason. `depends` returns text that changes with anything else that
    the result depends on. `sections` makes the report sections from the models that have a result.
    """

    name: str
    kind: type[R]
    rows: Callable[[Setup], Ints]
    score: Callable[[Scoring], R]
    sections: Callable[[View, list[Model]], Sequence[Section]]
    drawings: tuple[Drawing, ...] = ()
    depends: Callable[[Scoring], str] = lambda scoring: ""
    version: int = 1
    of_a_map: bool = False  # `mappable evaluate` runs it by default

    def key(self, scoring: Scoring) -> str:
        """16 hex digits that change with everything that the result depends on."""
        described = scoring.descriptors
        facts = [
            self.name,
            self.version,
            scoring.setup.fingerprint,
            described.encoder,
            described.images,
            self.depends(scoring),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def counted(number: int, one: str, many: str) -> str:
    """A count with its noun.

    >>> counted(1, "model", "models"), counted(1200, "model", "models")
    ('1 model', '1,200 models')
    """
    return f"{number:,} {one if number == 1 else many}"


def named(condition: str) -> str:
    """The name of a condition, or "unnamed" if it is empty."""
    return condition or "unnamed"
