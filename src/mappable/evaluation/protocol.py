"""What a protocol is: how it scores one model on one set, and its part of the report: sections, tables, drawings."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from mappable.arrays import Ints, Pixels
from mappable.errors import BadInputError
from mappable.evaluation.claims import Claim
from mappable.evaluation.models import Model, models_of
from mappable.evaluation.result import Result
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.summary import RowSummary, summarise
from mappable.evaluation.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL import Image

BOUND = "Upper bound"
Images = Callable[[Ints], Pixels]  # rows of the table to images (n, height, width, 3)
R = TypeVar("R")


class NothingToDrawError(BadInputError):
    """None of the results has what a figure is made of."""


@dataclass(frozen=True)
class Section:
    """A part of the report; `figures` are the names of its drawings, `commands` lines for a terminal.

    A section that `leads` comes before those of all other protocols.
    """

    name: str
    title: str
    sentences: Sequence[str]
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()
    leads: bool = False


@dataclass(frozen=True)
class View:
    """All results of one set; `images` gives those of rows of its table, for drawings that show them.

    With `as_printed`, all models start as the paper's do: same weights, clusters of Pittsburgh.
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
        """Of all models whose accuracy is known."""
        return summarise(self.results)

    @property
    def best(self) -> RowSummary | None:
        """The model that finds most within the positive radius."""
        return max(self.summaries, key=lambda one: one.positive.mean, default=None)

    def models(self, kind: type[object] | None = None) -> list[Model]:
        """Those that a protocol with this kind of result was run with; all of them if None."""
        return models_of(self.results, kind)

    def drawn(self, kind: type[object]) -> list[Model]:
        """The same, for a drawing, which needs at least one."""
        models = self.models(kind)
        if not models:
            raise NothingToDrawError(f"none of the {len(self.results)} results has {kind.__name__}: nothing to draw")
        return models


@dataclass(frozen=True)
class Drawing:
    """A figure by name, with its caption. `draw` gives a figure, or the frames of an animation if it is `moving`.

    It raises NothingToDrawError if no result has what it shows.
    """

    name: str
    caption: str
    draw: "Callable[[View], Figure | list[Image.Image]]"
    moving: bool = False


@dataclass(frozen=True)
class Protocol(Generic[R]):
    """One way to look at a model. `version` rises when its results change, so that older ones are computed again.

    `rows` are those of the table that must be described for it, and `score` gives its result, a dataclass of the type
    `kind`; NotApplicableError says why a set is not suited. `depends` is text that changes with anything else that a
    result depends on. `sections` of the report are made from the models that have a result.
    """

    name: str
    kind: type[R]
    rows: Callable[[Setup], Ints]
    score: Callable[[Scoring], R]
    sections: Callable[[View, list[Model]], Sequence[Section]]
    drawings: tuple[Drawing, ...] = ()
    depends: Callable[[Scoring], str] = lambda scoring: ""
    version: int = 1
    of_a_map: bool = False  # `mappable evaluate` runs it unless told otherwise

    def key(self, scoring: Scoring) -> str:
        """16 hex digits that change with all that its result depends on."""
        described = scoring.descriptors
        told = [
            self.name,
            self.version,
            scoring.setup.fingerprint,
            described.encoder,
            described.images,
            self.depends(scoring),
        ]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def counted(number: int, one: str, many: str) -> str:
    """A number of things.

    >>> counted(1, "model", "models"), counted(1200, "model", "models")
    ('1 model', '1,200 models')
    """
    return f"{number:,} {one if number == 1 else many}"


def named(condition: str) -> str:
    """The name of a condition, which may be empty."""
    return condition or "unnamed"
