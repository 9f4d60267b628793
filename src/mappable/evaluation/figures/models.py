"""Which models a figure shows: results that are seeds of one row together, and the few that stand for all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.evaluation.figures.style import Look, look_of
from mappable.evaluation.result import Result
from mappable.evaluation.rows import OFF_THE_SHELF, ROWS

FEW = 3


class NothingToDrawError(BadInputError):
    """None of the results has what a figure is made of."""


@dataclass(frozen=True, eq=False)
class Model:
    """A row of the table: its results, one a seed, the lowest seed first."""

    row: str
    look: Look
    seeds: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """That of the lowest seed."""
        return self.seeds[0]

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return self.first.title

    @property
    def combined(self) -> bool:
        """True of a visual and a geometric loss together."""
        return self.row in ROWS and ROWS[self.row].combined

    @property
    def accuracy(self) -> float:
        """Percent within the positive radius, landmark seed 0; NaN where nobody looked."""
        return float(np.mean(self.accuracies))

    @property
    def accuracies(self) -> list[float]:
        """The same of each seed."""
        found = [one.values("table1") for one in self.seeds]
        return [np.nan if values is None else float(values["positive"][0]) for values in found]

    def mean(self, protocol: str, get: Callable[[dict[str, Any]], object]) -> Floats:
        """The mean over the seeds of what `get` takes from a protocol's values."""
        values: Floats = np.array([get(one.scored[protocol].values) for one in self.seeds], dtype=np.float64)
        mean: Floats = values.mean(axis=0)
        return mean


def models_of(results: Sequence[Result], protocol: str) -> list[Model]:
    """The rows that have results of a protocol, in the order of the table, those that users named last."""
    having = [one for one in results if protocol in one.scored]
    if not having:
        raise NothingToDrawError(f"none of the {len(results)} results has the protocol {protocol!r}: nothing to draw")
    given = list(dict.fromkeys(one.row for one in having))
    others = [row for row in given if row not in ROWS]
    found = []
    for row in [*(row for row in ROWS if row in given), *others]:
        seeds = sorted((one for one in having if one.row == row), key=lambda one: -1 if one.seed is None else one.seed)
        look = look_of(row, others.index(row) if row in others else 0)
        found.append(Model(row, look, tuple(seeds)))
    return found


def of_seed(models: Sequence[Model]) -> str:
    """What to add to the title of a figure that shows one seed each, where there are more."""
    several = any(len(model.seeds) > 1 for model in models)
    return f"; seed {models[0].first.seed}" if several else ""


def best_of(models: Sequence[Model]) -> Model:
    """The most accurate combination of losses; where there is none, of what trained, or of all."""
    trained = [one for one in models if one.row != OFF_THE_SHELF]
    combined = [one for one in trained if one.combined]
    return _by_accuracy(combined or trained or models)[0]


def before_and_after(models: Sequence[Model]) -> list[Model]:
    """Off-the-shelf and the best model, or the one of them that there is."""
    shelf = [one for one in models if one.row == OFF_THE_SHELF]
    return [*shelf, *(one for one in [best_of(models)] if one not in shelf)]


def few_of(models: Sequence[Model]) -> list[Model]:
    """Off-the-shelf, the best model, and the visual loss of that alone; in place of those missing, the best others."""
    known = {one.row: one for one in models}
    ranked, best = _by_accuracy(models), best_of(models)
    visual = [one for one in ranked if one.row in ROWS and ROWS[one.row].visual and not one.combined]
    own = [known[ROWS[best.row].pure]] if best.combined and ROWS[best.row].pure in known else []
    wanted = [*before_and_after(models), *(own or visual[:1]), *ranked]
    rows = list(dict.fromkeys(one.row for one in wanted))[:FEW]
    return [one for one in models if one.row in rows]


def _by_accuracy(models: Sequence[Model]) -> list[Model]:
    return sorted(models, key=lambda one: -np.nan_to_num(one.accuracy, nan=-1.0))
