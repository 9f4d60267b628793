"""What all sections are made of: the results of one set, model by model. Numbers are means over a model's seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mappable.evaluation.claims import Claim
from mappable.evaluation.result import Result
from mappable.evaluation.rows import ROWS
from mappable.evaluation.setup import Setup
from mappable.evaluation.summary import RowSummary, Spread, spread, summarise
from mappable.evaluation.tables import Table

BOUND = "Upper bound"


@dataclass(frozen=True)
class Section:
    """A part of the report; `figures` are the names of those that belong to it, `commands` lines for a terminal."""

    name: str
    title: str
    sentences: Sequence[str]
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class Model:
    """A row of the tables, with a result a seed."""

    row: str
    title: str
    results: Sequence[Result]

    def mean(self, protocol: str, *path: str | int) -> Spread | None:
        """The number at a path in what a protocol found, over the seeds; None where no seed has it."""
        found = [_at(result.values(protocol), path) for result in self.results]
        numbers = [float(number) for number in found if number is not None]
        return spread(numbers) if numbers else None

    def values(self, protocol: str) -> dict[str, Any]:
        """What a protocol found, with the first seed."""
        return self.results[0].values(protocol) or {}


@dataclass(frozen=True)
class View:
    """All results of one set."""

    results: Sequence[Result]
    setup: Setup

    @property
    def unit(self) -> str:
        """Of distances on the ground."""
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
        """Of all models with `table1`."""
        return summarise(self.results)

    @property
    def best(self) -> RowSummary | None:
        """The model that finds most within the positive radius."""
        return max(self.summaries, key=lambda one: one.positive.mean, default=None)

    def models(self, protocol: str | None = None) -> list[Model]:
        """Those that a protocol was run with, in the order of the paper's table; all of them, if None."""
        rows: dict[str, list[Result]] = {name: [] for name in ROWS}
        for result in self.results:
            if protocol is None or protocol in result.scored:
                rows.setdefault(result.row, []).append(result)
        return [Model(row, of[0].title, sorted(of, key=_seed)) for row, of in rows.items() if of]


def counted(number: int, one: str, many: str) -> str:
    """A number of things.

    >>> counted(1, "model", "models"), counted(1200, "model", "models")
    ('1 model', '1,200 models')
    """
    return f"{number:,} {one if number == 1 else many}"


def named(condition: str) -> str:
    """The name of a condition, which may be empty."""
    return condition or "unnamed"


def _at(values: Any, path: Sequence[str | int]) -> Any:
    """What lies at a path in nested mappings and lists; None where there is no such."""
    for step in path:
        if values is None or (isinstance(values, Mapping) and step not in values):
            return None
        values = values[step]
    return values


def _seed(result: Result) -> int:
    return -1 if result.seed is None else result.seed
