"""Average several seeds into one row, and test whether one row is better than another.

All of it is about `table1`: how many queries are found within the radii. Results of other queries cannot be put
together; `compare` finds out what several have in common first.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.evaluation.bootstrap import Interval, block_bootstrap
from mappable.evaluation.metrics import Spread, percent_within, spread
from mappable.evaluation.models import models_of
from mappable.evaluation.result import Accuracy, Result

Verdict = Literal["better", "worse", "not decided"]


@dataclass(frozen=True)
class RowSummary:
    """A model on a set. Percentages are of queries within the radii; landmarks are those of landmark seed 0.

    `positive`, `negative` and `median` (of the errors) spread over the seeds of training, `landmarks_positive` and
    `landmarks_negative` over landmark seeds, each of them the mean over seeds of training. `interval` is that of
    `positive`, by the block bootstrap over queries and seeds; None if all queries are in one block. Numbers by
    condition are means over seeds: `queries`, `positive`, `negative`, `median` and `bound`, the percentage with a
    landmark within the positive radius.
    """

    row: str
    title: str
    set: str
    seeds: tuple[int | None, ...]
    queries: int
    positive: Spread
    negative: Spread
    landmarks_positive: Spread | None
    landmarks_negative: Spread | None
    interval: Interval | None
    median: Spread
    recall: dict[str, float]
    by_condition: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Difference:
    """By how many percentage points of queries within the positive radius the first of two models is ahead.

    `interval` is that of the paired block bootstrap over queries and seeds, at 95 %; None if all queries are in one
    block. `seeds` are those that both have and that are compared, one by one; where there is none, all seeds of the
    one are compared with all of the other.
    """

    mean: float
    interval: Interval | None
    seeds: tuple[int, ...]

    @property
    def verdict(self) -> Verdict:
        """Of the first: "better" and "worse" mean that the interval excludes 0."""
        if self.interval is None or self.interval.low <= 0.0 <= self.interval.high:
            return "not decided"
        return "better" if self.interval.above_zero else "worse"

    @property
    def compared(self) -> str:
        """What was compared, in words."""
        if not self.seeds:
            return "all seeds of both, as they have none in common"
        return f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))} of both"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict, "compared": self.compared}


def summarise(results: Sequence[Result]) -> list[RowSummary]:
    """A summary per model, in the order of `models_of`; results without `table1` do not count."""
    return [summary_of(model.results) for model in models_of(results, Accuracy)]


def summary_of(results: Sequence[Result]) -> RowSummary:
    """The summary of one model, of which each result is another seed; all have `table1`."""
    first, errors, found = results[0], errors_of(results), accuracies_of(results)
    radii = {"positive": first.positive_radius, "negative": first.negative_radius}
    within = {name: spread([percent_within(one, radius) for one in errors]) for name, radius in radii.items()}
    return RowSummary(
        row=first.row,
        title=first.title,
        set=first.set,
        seeds=tuple(result.seed for result in results),
        queries=len(first.ids),
        positive=within["positive"],
        negative=within["negative"],
        landmarks_positive=_over_landmarks([one.positive for one in found]),
        landmarks_negative=_over_landmarks([one.negative for one in found]),
        interval=_interval(_right(first, errors), first.blocks),
        median=spread(np.median(errors, axis=1).tolist()),
        recall=_means([one.recall for one in found]),
        by_condition=_by_condition(first, errors),
    )


def difference(first: Sequence[Result], second: Sequence[Result]) -> Difference | None:
    """How much better one model is than another, each with its seeds, on the same queries; None without `table1`."""
    first, second = ([result for result in one if result.get(Accuracy)] for one in (first, second))
    if not first or not second:
        return None
    shared = sorted(_seeds(first) & _seeds(second))
    if shared:
        first, second = ([next(run for run in one if run.seed == seed) for seed in shared] for one in (first, second))
    errors = errors_of([*first, *second])
    one, two = np.split(_right(first[0], errors), [len(first)])
    interval = _interval(one - two, first[0].blocks) if shared else _interval(one, first[0].blocks, minus=two)
    return Difference(float(one.mean() - two.mean()), interval, tuple(shared))


def errors_of(results: Sequence[Result]) -> Floats:
    """The errors (results, queries) of all, which must be of the same queries in the same order."""
    first = results[0]
    for other in results[1:]:
        if not np.array_equal(other.ids, first.ids):
            names = f"{first.title!r} (seed {first.seed}) and {other.title!r} (seed {other.seed})"
            raise BadInputError(f"the results of {names} are of different queries")
    return np.stack([one.errors for one in accuracies_of(results)])


def accuracies_of(results: Sequence[Result]) -> list[Accuracy]:
    """What `table1` found, of those that have it."""
    return [found for result in results if (found := result.get(Accuracy))]


def _seeds(results: Sequence[Result]) -> set[int]:
    return {result.seed for result in results if result.seed is not None}


def _over_landmarks(percent: Sequence[Sequence[float]]) -> Spread | None:
    return spread(np.mean(percent, axis=0).tolist()) if percent[0] else None


def _right(first: Result, errors: Floats) -> Floats:
    """100 where a query is within the positive radius, else 0."""
    return np.where(errors <= first.positive_radius, 100.0, 0.0)


def _interval(values: Floats, blocks: Ints, minus: Floats | None = None) -> Interval | None:
    return None if len(np.unique(blocks)) < 2 else block_bootstrap(values, blocks, seed=0, minus=minus)


def _by_condition(first: Result, errors: Floats) -> dict[str, dict[str, float]]:
    (known,), found = accuracies_of([first]), {}
    for name in sorted(set(first.conditions)):
        own = first.conditions == name
        found[str(name) or "unnamed"] = {
            "queries": int(own.sum()),
            "positive": percent_within(errors[:, own], first.positive_radius),
            "negative": percent_within(errors[:, own], first.negative_radius),
            "median": float(np.median(errors[:, own], axis=1).mean()),
            "bound": percent_within(known.bound[own], first.positive_radius),
        }
    return found


def _means(numbers: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of those that have it."""
    names = dict.fromkeys(name for one in numbers for name in one)
    return {name: float(np.mean([one[name] for one in numbers if name in one])) for name in names}
