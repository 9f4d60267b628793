"""Group the results of one row's seeds as a model; choose the few models that a figure shows."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import Floats
from mappable.evaluation.figure import ModelStyle, look_of
from mappable.evaluation.metrics import MeanStd, spread
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import OFF_THE_SHELF, ROWS

MOST_SHOWN = 3  # models in a figure with one panel per model
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Model:
    """A row of the tables with its results, one per seed, lowest seed first."""

    row: str
    results: tuple[Result, ...]
    look: ModelStyle

    @property
    def title(self) -> str:
        """Its name in tables."""
        return self.results[0].title

    @property
    def combined(self) -> bool:
        """True for a combination of a visual and a geometric loss."""
        return self.row in ROWS and ROWS[self.row].combined

    @property
    def accuracies(self) -> list[float]:
        """Percent of queries within the positive radius (landmark seed 0), one per seed; NaN if not
        known.
        """
        found = [one.get(Accuracy) for one in self.results]
        return [np.nan if one is None else one.positive[0] for one in found]

    @property
    def accuracy(self) -> float:
        """The mean of `accuracies`."""
        return float(np.mean(self.accuracies))

    def each(self, kind: type[R]) -> list[R]:
        """The results of this kind, one per seed that has it."""
        return [found for one in self.results if (found := one.get(kind)) is not None]

    def first(self, kind: type[R]) -> R:
        """The result of this kind for the lowest seed that has it."""
        return self.each(kind)[0]

    def spread(self, kind: type[R], number: Callable[[R], float | None]) -> MeanStd | None:
        """Mean and deviation of a number over the seeds; None if no seed has it."""
        found = [value for one in self.each(kind) if (value := number(one)) is not None]
        return spread(found) if found else None

    def mean(self, kind: type[R], values: Callable[[R], ArrayLike]) -> Floats:
        """The mean of an array over the seeds."""
        mean: Floats = np.array([values(one) for one in self.each(kind)], dtype=np.float64).mean(
            axis=0
        )
        return mean


def models_of(
    results: Iterable[Result],
    kind: type[object] | None = None,
    same: Callable[[Result], Hashable] = lambda result: result.row,
) -> list[Model]:
    """The models in the order of the paper's table, then others in the given order.

    With `kind`, only results of that kind count. Results with equal `same(result)` are seeds of one
    model.
    """
    groups: dict[Hashable, list[Result]] = {row: [] for row in ROWS}
    for result in results:
        if kind is None or result.get(kind) is not None:
            groups.setdefault(same(result), []).append(result)
    rows = dict.fromkeys(of[0].row for of in groups.values() if of)
    others = [row for row in rows if row not in ROWS]
    looks = {row: look_of(row, others.index(row) if row in others else 0) for row in rows}
    return [
        Model(of[0].row, tuple(sorted(of, key=_seed)), looks[of[0].row])
        for of in groups.values()
        if of
    ]


def own_map(models: Sequence[Model]) -> bool:
    """Whether the models are a user's own map: one model that is not a row of a study of the
    paper's models.

    The report then leaves out the paper's numbers, even if the map has the name of one of the
    paper's sets.
    """
    return len(models) == 1 and models[0].row not in ROWS


def _seed(result: Result) -> int:
    return -1 if result.seed is None else result.seed


def of_seed(models: Sequence[Model]) -> str:
    """Text for the title of a figure that shows one seed of each model; "" if there is only one
    seed.
    """
    several = any(len(model.results) > 1 for model in models)
    return f"; seed {models[0].results[0].seed}" if several else ""


def best_of(models: Sequence[Model]) -> Model:
    """The most accurate combination of losses; else the most accurate trained model; else the most
    accurate model.
    """
    trained = [one for one in models if one.row != OFF_THE_SHELF]
    combined = [one for one in trained if one.combined]
    return _by_accuracy(combined or trained or models)[0]


def few_of(models: Sequence[Model], also: Sequence[str] = ()) -> list[Model]:
    """Off-the-shelf, the best model, and its visual loss alone; the next best models replace
    missing ones.

    Models of the rows `also` are added to these three.
    """
    known = {one.row: one for one in models}
    ranked, best = _by_accuracy(models), best_of(models)
    visual = [
        one for one in ranked if one.row in ROWS and ROWS[one.row].visual and not one.combined
    ]
    own = [known[ROWS[best.row].pure]] if best.combined and ROWS[best.row].pure in known else []
    shelf = [one for one in models if one.row == OFF_THE_SHELF]
    wanted = [*shelf, best, *(own or visual[:1]), *ranked]
    rows = list(dict.fromkeys(one.row for one in wanted))[:MOST_SHOWN]
    return [one for one in models if one.row in (*rows, *also)]


def _by_accuracy(models: Sequence[Model]) -> list[Model]:
    return sorted(models, key=lambda one: -np.nan_to_num(one.accuracy, nan=-1.0))
