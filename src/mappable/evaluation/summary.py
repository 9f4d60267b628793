"""Average several seeds into one row, and test whether one row is better than another.

Everything here uses `table1`: the percentage of queries found within the radii. All results must
have the same queries; `compare` first reduces results to their common queries.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.evaluation.bootstrap import Interval, block_bootstrap
from mappable.evaluation.metrics import MeanStd, percent_within, spread
from mappable.evaluation.models import models_of
from mappable.evaluation.result import Accuracy, Result

Verdict = Literal["better", "worse", "not decided"]


@dataclass(frozen=True)
class RowSummary:
    """A model on a set: percentages of queries within the radii, with the landmarks of landmark
    seed 0.

    `positive`, `negative` and `median` (of the errors) are mean and deviation over training seeds.
    `landmarks_positive` and `landmarks_negative` are mean and deviation over landmark seeds, each
    averaged over training seeds. `interval` belongs to `positive`: a block bootstrap over queries
    and seeds, or None if all queries are in one block. `by_condition` holds means over seeds:
    `queries`, `positive`, `negative`, `median`, and `bound`, the percentage of queries with a
    landmark within the positive radius.
    """

    row: str
    title: str
    set: str
    seeds: tuple[int | None, ...]
    queries: int
    positive: MeanStd
    negative: MeanStd
    landmarks_positive: MeanStd | None
    landmarks_negative: MeanStd | None
    interval: Interval | None
    median: MeanStd
    recall: dict[str, float]
    by_condition: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Difference:
    """Lead of the first of two models, in percentage points of queries within the positive radius.

    `interval` is the 95 % interval of the paired block bootstrap over queries and seeds; None if
    all queries are in one block. `seeds` are the seeds that both models have, compared one by one.
    If they share none, all seeds of one model are compared with all seeds of the other.
    """

    mean: float
    interval: Interval | None
    seeds: tuple[int, ...]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the first model: "better" and "worse" mean that the interval excludes 0."""
        if self.interval is None or self.interval.low <= 0.0 <= self.interval.high:
            return "not decided"
        return "better" if self.interval.above_zero else "worse"

    @property
    def compared(self) -> str:
        """The compared seeds, as text."""
        if not self.seeds:
            return "all seeds of both, because they share none"
        return f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))} of both"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict, "compared": self.compared}


def summarize(results: Sequence[Result]) -> list[RowSummary]:
    """A summary per model, in the order of `models_of`; results without `table1` are skipped."""
    return [summary_of(model.results) for model in models_of(results, Accuracy)]


def summary_of(results: Sequence[Result]) -> RowSummary:
    """The summary of one model. Each result is one seed, and all have `table1`."""
    first, errors, found = results[0], errors_of(results), accuracies_of(results)
    radii = {"positive": first.positive_radius, "negative": first.negative_radius}
    within = {
        name: spread([percent_within(one, radius) for one in errors])
        for name, radius in radii.items()
    }
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
    """How much better the first model is than the second, on the same queries; None if either has
    no `table1`.
    """
    first, second = ([result for result in one if result.get(Accuracy)] for one in (first, second))
    if not first or not second:
        return None
    shared = sorted(_seeds(first) & _seeds(second))
    if shared:
        first, second = (
            [next(run for run in one if run.seed == seed) for seed in shared]
            for one in (first, second)
        )
    errors = errors_of([*first, *second])
    one, two = np.split(_right(first[0], errors), [len(first)])
    interval = (
        _interval(one - two, first[0].blocks)
        if shared
        else _interval(one, first[0].blocks, minus=two)
    )
    return Difference(float(one.mean() - two.mean()), interval, tuple(shared))


def errors_of(results: Sequence[Result]) -> Floats:
    """Errors (results, queries) of all results, which must have the same queries in the same order."""
    first = results[0]
    for other in results[1:]:
        if not np.array_equal(other.ids, first.ids):
            names = f"{first.title!r} (seed {first.seed}) and {other.title!r} (seed {other.seed})"
            raise BadInputError(f"the results of {names} have different queries")
    return np.stack([one.errors for one in accuracies_of(results)])


def accuracies_of(results: Sequence[Result]) -> list[Accuracy]:
    """The `table1` result of each result that has one."""
    return [found for result in results if (found := result.get(Accuracy))]


def _seeds(results: Sequence[Result]) -> set[int]:
    return {result.seed for result in results if result.seed is not None}


def _over_landmarks(percent: Sequence[Sequence[float]]) -> MeanStd | None:
    return spread(np.mean(percent, axis=0).tolist()) if percent[0] else None


def _right(first: Result, errors: Floats) -> Floats:
    """100 for each query within the positive radius, else 0."""
    return np.where(errors <= first.positive_radius, 100.0, 0.0)


def _interval(values: Floats, blocks: Ints, minus: Floats | None = None) -> Interval | None:
    return (
        None if len(np.unique(blocks)) < 2 else block_bootstrap(values, blocks, seed=0, minus=minus)
    )


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
    """The mean per name, over the mappings that have it."""
    names = dict.fromkeys(name for one in numbers for name in one)
    return {name: float(np.mean([one[name] for one in numbers if name in one])) for name in names}
