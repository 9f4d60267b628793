"""Results of several models side by side, on the queries that all of them have."""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Ints, Strings
from mappable.errors import BadInputError
from mappable.evaluation.models import Model, models_of
from mappable.evaluation.result import RESULT, Accuracy, Result
from mappable.evaluation.summary import Difference, RowSummary, accuracies_of, difference, summary_of
from mappable.progress import track


@dataclass(frozen=True)
class Line:
    """A model beside others. `difference` is to the first of them, which has none itself."""

    name: str
    summary: RowSummary
    difference: Difference | None

    def to_json(self) -> dict[str, Any]:
        ahead = None if self.difference is None else self.difference.to_json()
        return {"name": self.name, **asdict(self.summary), "difference": ahead}


@dataclass(frozen=True)
class Comparison:
    """Models side by side, in the order in which they were given. Radii and errors are in `unit`."""

    unit: str
    positive_radius: float
    negative_radius: float
    queries: int
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    differences: tuple[str, ...] = ()  # what else than the model differs, a sentence each

    def to_json(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in ("unit", "positive_radius", "negative_radius", "queries")}
        return (
            facts
            | {"models": [line.to_json() for line in self.lines], "notes": list(self.notes)}
            | {"differences": list(self.differences)}
        )


def compare(paths: Sequence[Path]) -> Comparison:
    """Read results, each a folder or its `result.json`, and compare all models with the first.

    Results that differ in nothing but their seed are one model.
    """
    if len(paths) < 2:
        raise BadInputError(f"at least two results are compared, not {len(paths)}")
    homes = [path.parent if path.name == RESULT else path for path in paths]
    for path, times in Counter(home.resolve() for home in homes).items():
        if times > 1:
            raise BadInputError(f"{path}: is given more than once")
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
    """That a result can be compared with the first."""
    if not result.get(Accuracy):
        reasons = {**result.skipped, **result.failed}
        why = f" ({reasons['table1']})" if "table1" in reasons else ""
        raise BadInputError(f"{path}: has no table1, by which results are compared{why}")
    if result.frame != first.frame:
        raise BadInputError(f"{path}: its frame is {result.frame!r}, but that of {first_path} is {first.frame!r}")
    if result.unit != first.unit:
        raise BadInputError(f"{path}: its unit is {result.unit}, but that of {first_path} is {first.unit}")
    if _radii(result) != _radii(first):
        raise BadInputError(f"{path}: its radii are {_radii(result)}, but those of {first_path} are {_radii(first)}")


def _radii(result: Result) -> str:
    return f"{result.positive_radius:g} and {result.negative_radius:g} {result.unit}"


def _common(results: dict[str, Result]) -> Strings:
    """The ids of the queries that all have, in the order of the first."""
    (first_path, first), *others = results.items()
    common, before = set(first.ids), [first_path]
    for path, result in others:
        common &= set(result.ids)
        if not common:
            such = f"such as {result.ids[0]!r}, is in {'all of ' * (len(before) > 1)}{', '.join(before)}"
            raise BadInputError(f"{path}: none of its {len(result.ids):,} queries, {such}, such as {first.ids[0]!r}")
        before.append(path)
    return first.ids[[one in common for one in first.ids]]


def _only(result: Result, ids: Strings, first: Result, whole: bool) -> Result:
    """The result on these queries, in their order; what is known of all its queries alone is kept if that is `whole`.

    Conditions and blocks are those of the first result.
    """
    rows, same = _numbers(result, ids), _numbers(first, ids)
    (found,) = accuracies_of([result])
    kept = replace(found, **{name: getattr(found, name)[rows] for name in ("queries", "retrieved", "errors", "bound")})
    if not whole:
        kept = replace(kept, landmark_seeds=[], positive=[], negative=[], recall={})
    scored = {"table1": kept}
    return replace(result, ids=ids, conditions=first.conditions[same], blocks=first.blocks[same], scored=scored)


def _numbers(result: Result, ids: Strings) -> Ints:
    """Which of its queries these are."""
    number = {one: at for at, one in enumerate(result.ids)}
    return np.array([number[one] for one in ids], dtype=np.int64)


def _models(results: dict[str, Result]) -> dict[str, Model]:
    """The models by name: the title, with the path of the first result where others have the same title."""
    seen: Counter[object] = Counter()

    def same(result: Result) -> Hashable:
        """What seeds of one model share; a seed for the second time, or none, is another model."""
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
    return [f"{left}; so are recall and landmark seeds, which are known of all queries of a result only"]


def _maps(models: dict[str, Model]) -> list[str]:
    """What differs between the maps that the models were asked with, a sentence for each part; of each the first seed.

    Results of a study do not say which landmarks and calibration they had, and its encoders are what it compares.
    """
    results = {name: model.results[0] for name, model in models.items()}
    counts = {name: _landmarks(result) for name, result in results.items()}
    told = []
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count:,}" for name, count in counts.items())
        told.append(f"the landmarks differ: {listed}")
    elif _differ(results, "landmarks"):
        told.append(f"the landmarks differ: all maps have {next(iter(counts.values())):,}, but not the same ones")
    if _differ(results, "calibration"):
        without = [name for name, result in results.items() if not result.map.get("calibration", "?")]
        told.append("the calibrations differ" + (f": {', '.join(without)} has none" if without else ""))
    encoders = {name: result.encoder for name, result in results.items() if result.map}
    if len(set(encoders.values())) > 1:
        told.append("the encoders differ: " + ", ".join(f"{name} has {one[:8]}" for name, one in encoders.items()))
    return told


def _differ(results: dict[str, Result], part: str) -> bool:
    return len({result.map[part] for result in results.values() if part in result.map}) > 1


def _seeds(lines: Sequence[Line]) -> list[str]:
    """What was compared, where that is not all there is; and where there is no interval."""
    notes = []
    for line in lines[1:]:
        if line.difference is None:
            continue
        seeds = line.summary.seeds, lines[0].summary.seeds
        if any(set(one) - {None} != set(line.difference.seeds) for one in seeds):
            notes.append(f"{line.name}: the difference is that of {line.difference.compared}")
    if lines[0].summary.interval is None:
        notes.append("all queries are in one stretch of the route, so that no difference can be decided")
    return notes
