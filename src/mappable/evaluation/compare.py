"""Compare results of several models on the queries that all of them have."""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Ints, Strings
from mappable.errors import BadInputError, shown
from mappable.evaluation.models import Model, models_of
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.summary import (
    Difference,
    RowSummary,
    accuracies_of,
    difference,
    summary_of,
)
from mappable.progress import track


@dataclass(frozen=True)
class Line:
    """One model of a comparison. `difference` is to the first model; the first has None."""

    name: str
    summary: RowSummary
    difference: Difference | None

    def to_json(self) -> dict[str, Any]:
        ahead = None if self.difference is None else self.difference.to_json()
        return {"name": self.name, **asdict(self.summary), "difference": ahead}


@dataclass(frozen=True)
class Comparison:
    """The compared models, in the given order. Radii and errors are in `unit`."""

    unit: str
    positive_radius: float
    negative_radius: float
    queries: int
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    differences: tuple[str, ...] = ()  # one sentence per thing that differs besides the model

    def to_json(self) -> dict[str, Any]:
        facts = {
            name: getattr(self, name)
            for name in ("unit", "positive_radius", "negative_radius", "queries")
        }
        return (
            facts
            | {"models": [line.to_json() for line in self.lines], "notes": list(self.notes)}
            | {"differences": list(self.differences)}
        )


def compare(paths: Sequence[Path]) -> Comparison:
    """Read results, each a folder or its `result.json`, and compare all models with the first.

    Results that differ only in their seed are one model.
    """
    if len(paths) < 2:
        raise BadInputError(f"compare needs two results or more, got {len(paths)}")
    results = {str(path): Result.load(path) for path in paths}
    if len({Path(path).resolve() for path in results}) < len(paths):
        raise BadInputError("a result is given twice, expected different ones")
    (first_path, first), *_ = results.items()
    for path, result in results.items():
        _check(path, result, first_path, first)
    common = set.intersection(*(set(result.ids) for result in results.values()))
    if not common:
        raise BadInputError(
            f"{', '.join(results)}: there is no query that all of these results have"
        )
    ids = first.ids[[one in common for one in first.ids]]
    whole = all(len(result.ids) == len(ids) for result in results.values())
    models = _models({path: _only(result, ids, first, whole) for path, result in results.items()})
    rival = next(iter(models.values()))
    lines = tuple(
        Line(
            name,
            summary_of(one.results),
            None if one is rival else difference(one.results, rival.results),
        )
        for name, one in track(models.items(), "comparing", len(models))
    )
    every = len(set().union(*(result.ids for result in results.values())))
    differences = _differences({name: model.results[0] for name, model in models.items()})
    if every > len(ids):
        left_out = (
            f"{every - len(ids):,} of {every:,} are not in all results and are left out, with"
            " recall"
        )
        differences.insert(0, f"the queries differ: {left_out} and landmark seeds")
    radii = first.positive_radius, first.negative_radius
    return Comparison(first.unit, *radii, len(ids), lines, tuple(_notes(lines)), tuple(differences))


def _check(path: str, result: Result, first_path: str, first: Result) -> None:
    """Raise if a result cannot be compared with the first."""
    if not result.get(Accuracy):
        why = {**result.skipped, **result.failed}.get("table1", "the protocol was not run")
        raise BadInputError(f"{path}: no table1 result to compare ({why})")
    for name in ("frame", "unit", "positive_radius", "negative_radius"):
        value, expected = getattr(result, name), getattr(first, name)
        if value != expected:
            what = name.replace("_", " ")
            raise BadInputError(
                f"{path}: {what} is {shown(value)}, expected {shown(expected)} as in {first_path}"
            )


def _only(result: Result, ids: Strings, first: Result, whole: bool) -> Result:
    """The result reduced to these queries, in their order, with conditions and blocks of the first
    result.

    Recall and landmark seeds are known only for all queries of a result, so they are kept only if
    `whole`.
    """
    rows, same = _numbers(result, ids), _numbers(first, ids)
    (found,) = accuracies_of([result])
    kept = replace(
        found,
        **{
            name: getattr(found, name)[rows] for name in ("queries", "retrieved", "errors", "bound")
        },
    )
    if not whole:
        kept = replace(kept, landmark_seeds=[], positive=[], negative=[], recall={})
    conditions, blocks = first.conditions[same], first.blocks[same]
    return replace(result, ids=ids, conditions=conditions, blocks=blocks, scored={"table1": kept})


def _numbers(result: Result, ids: Strings) -> Ints:
    """The index of each id among the queries of the result."""
    number = {one: at for at, one in enumerate(result.ids)}
    return np.array([number[one] for one in ids], dtype=np.int64)


def _models(results: dict[str, Result]) -> dict[str, Model]:
    """The models by name: the title, plus the path of the first result if several models have this
    title.
    """
    seen: Counter[object] = Counter()

    def same(result: Result) -> Hashable:
        """A key that the seeds of one model share; a repeated seed, or a missing seed, is another
        model.
        """
        settings = {name: value for name, value in result.settings.items() if name != "seed"}
        landmarks = _landmarks(result), result.map.get("landmarks")
        shared = result.row, result.set, landmarks, json.dumps(settings, sort_keys=True)
        seen[shared, result.seed] += 1
        return *shared, result.seed is None and id(result), seen[shared, result.seed]

    models = models_of(results.values(), same=same)
    times = Counter(model.title for model in models)
    paths = {id(result): path for path, result in reversed(results.items())}
    return {
        (
            model.title
            if times[model.title] == 1
            else f"{model.title} ({paths[id(model.results[0])]})"
        ): model
        for model in models
    }


def _landmarks(result: Result) -> int:
    return len(accuracies_of([result])[0].landmarks)


def _differences(results: dict[str, Result]) -> list[str]:
    """One sentence per part in which the maps of the models differ, judged by the first seed of
    each model.

    Results of a study do not record their maps. Their encoders differ on purpose.
    """
    maps = {name: result for name, result in results.items() if result.map}
    parts = {
        "landmarks": {name: f"{_landmarks(result):,}" for name, result in results.items()},
        "landmarks themselves": {
            name: result.map.get("landmarks", "") for name, result in maps.items()
        },
        "calibrations": {
            name: result.map.get("calibration", "") or "none" for name, result in maps.items()
        },
        "encoders": {name: result.encoder for name, result in maps.items()},
    }
    return [
        f"the {part} differ: " + ", ".join(f"{name} has {text[:8]}" for name, text in texts.items())
        for part, texts in parts.items()
        if len(set(texts.values())) > 1
    ]


def _notes(lines: Sequence[Line]) -> list[str]:
    """Notes on seeds that were not compared one by one, and on a missing interval."""
    notes = []
    for line in lines[1:]:
        seeds = {*line.summary.seeds, *lines[0].summary.seeds} - {None}
        if line.difference is not None and seeds != set(line.difference.seeds):
            notes.append(f"{line.name}: the difference compares {line.difference.compared}")
    if lines[0].summary.interval is None:
        notes.append("all queries are in one stretch of the route, so no difference can be decided")
    return notes
