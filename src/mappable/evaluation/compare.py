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
from mappable.evaluation.result import RESULT, Accuracy, Result
from mappable.evaluation.summary import Difference, RowSummary, accuracies_of, difference, summary_of
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
        facts = {name: getattr(self, name) for name in ("unit", "positive_radius", "negative_radius", "queries")}
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
    homes = [path.parent if path.name == RESULT else path for path in paths]
    for path, times in Counter(home.resolve() for home in homes).items():
        if times > 1:
            raise BadInputError(f"{path}: given {times} times, expected once")
    results = {str(path): Result.load(path) for path in paths}
    first_path, first = next(iter(results.items()))
    for one, result in results.items():
        _check(one, result, first_path, first)
    ids = _common(results)
    whole = all(len(result.ids) == len(ids) for result in results.values())
    models = _models({path: _only(result, ids, first, whole) for path, result in results.items()})
    rival = next(iter(models.values()))
    lines = tuple(
        Line(name, summary_of(one.results), None if one is rival else difference(one.results, rival.results))
        for name, one in track(models.items(), "comparing", len(models))
    )
    differences = (*_left_out(results, ids), *_maps(models))
    radii = first.positive_radius, first.negative_radius
    return Comparison(first.unit, *radii, len(ids), lines, tuple(_seeds(lines)), differences)


def _check(path: str, result: Result, first_path: str, first: Result) -> None:
    """Raise if a result cannot be compared with the first."""
    if not result.get(Accuracy):
        reasons = {**result.skipped, **result.failed}
        why = f" ({reasons['table1']})" if "table1" in reasons else ""
        raise BadInputError(f"{path}: no table1 result to compare{why}")
    if result.frame != first.frame:
        raise BadInputError(f"{path}: frame is {shown(result.frame)}, expected {shown(first.frame)} as in {first_path}")
    if result.unit != first.unit:
        raise BadInputError(f"{path}: unit is {result.unit}, expected {first.unit} as in {first_path}")
    if _radii(result) != _radii(first):
        raise BadInputError(f"{path}: radii are {_radii(result)}, expected {_radii(first)} as in {first_path}")


def _radii(result: Result) -> str:
    return f"{result.positive_radius:g} and {result.negative_radius:g} {result.unit}"


def _common(results: dict[str, Result]) -> Strings:
    """The ids of the queries that all results have, in the order of the first."""
    (first_path, first), *others = results.items()
    common, before = set(first.ids), [first_path]
    for path, result in others:
        common &= set(result.ids)
        if not common:
            shared = f"shared with {'all of ' * (len(before) > 1)}{', '.join(before)}"
            ids = f"its first query is {shown(result.ids[0])}, theirs is {shown(first.ids[0])}"
            raise BadInputError(f"{path}: none of its {len(result.ids):,} queries is {shared}; {ids}")
        before.append(path)
    return first.ids[[one in common for one in first.ids]]


def _only(result: Result, ids: Strings, first: Result, whole: bool) -> Result:
    """The result reduced to these queries, in their order, with conditions and blocks of the first result.

    Recall and landmark seeds are known only for all queries of a result, so they are kept only if `whole`.
    """
    rows, same = _numbers(result, ids), _numbers(first, ids)
    (found,) = accuracies_of([result])
    kept = replace(found, **{name: getattr(found, name)[rows] for name in ("queries", "retrieved", "errors", "bound")})
    if not whole:
        kept = replace(kept, landmark_seeds=[], positive=[], negative=[], recall={})
    scored = {"table1": kept}
    return replace(result, ids=ids, conditions=first.conditions[same], blocks=first.blocks[same], scored=scored)


def _numbers(result: Result, ids: Strings) -> Ints:
    """The index of each id among the queries of the result."""
    number = {one: at for at, one in enumerate(result.ids)}
    return np.array([number[one] for one in ids], dtype=np.int64)


def _models(results: dict[str, Result]) -> dict[str, Model]:
    """The models by name: the title, plus the path of the first result if several models have this title."""
    seen: Counter[object] = Counter()

    def same(result: Result) -> Hashable:
        """A key that the seeds of one model share; a repeated seed, or a missing seed, is another model."""
        settings = {name: value for name, value in result.settings.items() if name != "seed"}
        landmarks = _landmarks(result), result.map.get("landmarks")
        shared = result.row, result.set, landmarks, json.dumps(settings, sort_keys=True)
        seen[shared, result.seed] += 1
        return *shared, result.seed is None and id(result), seen[shared, result.seed]

    models = models_of(results.values(), same=same)
    times = Counter(model.title for model in models)
    paths = {id(result): path for path, result in reversed(results.items())}
    return {
        model.title if times[model.title] == 1 else f"{model.title} ({paths[id(model.results[0])]})": model
        for model in models
    }


def _landmarks(result: Result) -> int:
    return len(accuracies_of([result])[0].landmarks)


def _left_out(results: dict[str, Result], ids: Strings) -> list[str]:
    every = set().union(*(result.ids for result in results.values()))
    if len(every) == len(ids):
        return []
    left = f"the queries differ: {len(every) - len(ids):,} of {len(every):,} are not in all results and are left out"
    return [f"{left}; recall and landmark seeds are left out too, because they need all queries of a result"]


def _maps(models: dict[str, Model]) -> list[str]:
    """One sentence per part in which the maps of the models differ, judged by the first seed of each model.

    Results of a study do not record their landmarks and calibration. Their encoders differ on purpose.
    """
    results = {name: model.results[0] for name, model in models.items()}
    counts = {name: _landmarks(result) for name, result in results.items()}
    found = []
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count:,}" for name, count in counts.items())
        found.append(f"the landmarks differ: {listed}")
    elif _differ(results, "landmarks"):
        found.append(f"the landmarks differ: all maps have {next(iter(counts.values())):,}, but not the same ones")
    if _differ(results, "calibration"):
        without = [name for name, result in results.items() if not result.map.get("calibration", "?")]
        found.append("the calibrations differ" + (f": {', '.join(without)} has none" if without else ""))
    encoders = {name: result.encoder for name, result in results.items() if result.map}
    if len(set(encoders.values())) > 1:
        found.append("the encoders differ: " + ", ".join(f"{name} has {one[:8]}" for name, one in encoders.items()))
    return found


def _differ(results: dict[str, Result], part: str) -> bool:
    return len({result.map[part] for result in results.values() if part in result.map}) > 1


def _seeds(lines: Sequence[Line]) -> list[str]:
    """Notes on seeds that were not compared one by one, and on a missing interval."""
    notes = []
    for line in lines[1:]:
        if line.difference is None:
            continue
        seeds = line.summary.seeds, lines[0].summary.seeds
        if any(set(one) - {None} != set(line.difference.seeds) for one in seeds):
            notes.append(f"{line.name}: the difference compares {line.difference.compared}")
    if lines[0].summary.interval is None:
        notes.append("all queries are in one stretch of the route, so no difference can be decided")
    return notes
