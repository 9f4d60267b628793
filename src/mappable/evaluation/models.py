"""Group the results of one row's seeds as a model; choose the few models that a figure shows."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import Floats
from mappable.evaluation.metrics import Spread, spread
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import OFF_THE_SHELF, ROWS
from mappable.evaluation.style import Look, look_of

FEW = 3
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Model:
    """A row of the tables: its results, one per seed, the lowest seed first."""

    row: str
    results: tuple[Result, ...]
    look: Look

    @property
    def title(self) -> str:
        """Its name in tables."""
        return self.results[0].title

    @property
    def combined(self) -> bool:
        """True for a visual and a geometric loss together."""
        return self.row in ROWS and ROWS[self.row].combined

    @property
    def accuracies(self) -> list[float]:
        """Percent of queries within the positive radius, landmark seed 0, per seed; NaN where it is not known."""
        found = [one.get(Accuracy) for one in self.results]
        return [np.nan if one is None else one.positive[0] for one in found]

    @property
    def accuracy(self) -> float:
        """The mean of `accuracies`."""
        return float(np.mean(self.accuracies))

    def each(self, kind: type[R]) -> list[R]:
        """What the protocol with this kind of result found, per seed that has it."""
        return [found for one in self.results if (found := one.get(kind)) is not None]

    def first(self, kind: type[R]) -> R:
        """The same for the lowest seed."""
        return self.each(kind)[0]

    def spread(self, kind: type[R], number: Callable[[R], float | None]) -> Spread | None:
        """A number over the seeds; None if no seed has it."""
        found = [value for one in self.each(kind) if (value := number(one)) is not None]
        return spread(found) if found else None

    def mean(self, kind: type[R], values: Callable[[R], ArrayLike]) -> Floats:
        """The mean of some values over the seeds."""
        mean: Floats = np.array([values(one) for one in self.each(kind)], dtype=np.float64).mean(axis=0)
        return mean


def models_of(
    results: Iterable[Result],
    kind: type[object] | None = None,
    same: Callable[[Result], Hashable] = lambda result: result.row,
) -> list[Model]:
    """The models, in the order of the paper's table, then as they come; with `kind`, only results that have it.

    Results for which `same` gives the same are seeds of one model.
    """
    groups: dict[Hashable, list[Result]] = {row: [] for row in ROWS}
    for result in results:
        if kind is None or result.get(kind) is not None:
            groups.setdefault(same(result), []).append(result)
    rows = dict.fromkeys(of[0].row for of in groups.values() if of)
    others = [row for row in rows if row not in ROWS]
    looks = {row: look_of(row, others.index(row) if row in others else 0) for row in rows}
    return [Model(of[0].row, tuple(sorted(of, key=_seed)), looks[of[0].row]) for of in groups.values() if of]


def own_map(models: Sequence[Model]) -> bool:
    """Whether they are a user's own map, which has no rows of the paper beside it, and no study of the paper's models.

    A name that one of the paper's sets has, too, changes nothing.
    """
    return len(models) == 1 and models[0].row not in ROWS


def _seed(result: Result) -> int:
    return -1 if result.seed is None else result.seed


def of_seed(models: Sequence[Model]) -> str:
    """What to add to the title of a figure that shows one seed of each model, if there are more."""
    several = any(len(model.results) > 1 for model in models)
    return f"; seed {models[0].results[0].seed}" if several else ""


def best_of(models: Sequence[Model]) -> Model:
    """The most accurate combination of losses; if there is none, the most accurate trained model, or of all."""
    trained = [one for one in models if one.row != OFF_THE_SHELF]
    combined = [one for one in trained if one.combined]
    return _by_accuracy(combined or trained or models)[0]


def before_and_after(models: Sequence[Model]) -> list[Model]:
    """Off-the-shelf and the best model, or the one of them that there is."""
    shelf = [one for one in models if one.row == OFF_THE_SHELF]
    return [*shelf, *(one for one in [best_of(models)] if one not in shelf)]


def few_of(models: Sequence[Model], also: Sequence[str] = ()) -> list[Model]:
    """Off-the-shelf, the best model, and its visual loss alone; the best others in place of missing ones.

    Models of the rows `also` come on top of these three.
    """
    known = {one.row: one for one in models}
    ranked, best = _by_accuracy(models), best_of(models)
    visual = [one for one in ranked if one.row in ROWS and ROWS[one.row].visual and not one.combined]
    own = [known[ROWS[best.row].pure]] if best.combined and ROWS[best.row].pure in known else []
    wanted = [*before_and_after(models), *(own or visual[:1]), *ranked]
    rows = list(dict.fromkeys(one.row for one in wanted))[:FEW]
    return [one for one in models if one.row in (*rows, *also)]


def _by_accuracy(models: Sequence[Model]) -> list[Model]:
    return sorted(models, key=lambda one: -np.nan_to_num(one.accuracy, nan=-1.0))
