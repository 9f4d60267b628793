"""Compare results on disk: pairing by id, seeds of one model, and results that cannot be compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_results import made_result
from mappable.errors import BadInputError
from mappable.evaluation.compare import compare
from mappable.evaluation.metrics import MeanStd
from mappable.evaluation.result import RESULT, Accuracy, Result

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the result of a model that finds the first `right` of its queries; 6 queries are a
    block.
    """

    def save(
        name: str,
        right: int,
        *,
        first: int = 0,
        queries: int = 60,
        landmarks: int = 20,
        **others: Any,
    ) -> Path:
        errors, numbers = (
            np.where(np.arange(queries) < right, 10.0, 20.0),
            np.arange(first, first + queries),
        )
        two = {
            "landmark_seeds": [0, 1],
            "positive": [100 * right / queries, 0.0],
            "negative": [100.0, 0.0],
        }
        two |= {
            "bound_positive": [100.0, 100.0],
            "bound_negative": [100.0, 100.0],
            "landmarks": np.arange(landmarks),
        }
        facts: dict[str, Any] = {
            "row": name,
            "title": name.title(),
            "settings": {"loss": "triplet", "seed": others.get("seed", 0)},
            "ids": np.array([f"q{number}" for number in numbers], dtype=object),
            "conditions": np.where(numbers % 2 == 0, "sun", "rain").astype(object),
            "blocks": numbers // 6,
        }
        folder = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"
        made_result(errors, two, **facts | others).save(folder)
        return folder

    return save


def refused(match: str, *paths: Path) -> None:
    with pytest.raises(BadInputError, match=match):
        compare(paths)


def test_all_models_are_compared_with_the_first(write: Write) -> None:
    found = compare([write("plain", 12), write("good", 60) / RESULT, write("bad", 6)])
    assert (found.unit, found.positive_radius, found.negative_radius, found.queries) == (
        "m",
        10.0,
        25.0,
        60,
    )
    assert [line.name for line in found.lines] == ["Plain", "Good", "Bad"]
    assert [line.summary.positive.mean for line in found.lines] == pytest.approx(
        [20.0, 100.0, 10.0]
    )
    assert [line.summary.recall["1"] for line in found.lines] == pytest.approx([20.0, 100.0, 10.0])
    first, good, bad = (line.difference for line in found.lines)
    assert first is None
    assert good is not None
    assert bad is not None
    assert (good.mean, good.verdict) == (pytest.approx(80.0), "better")
    assert (bad.mean, bad.verdict) == (pytest.approx(-10.0), "not decided")
    assert found.notes == ()
    assert [one["name"] for one in found.to_json()["models"]] == ["Plain", "Good", "Bad"]


def test_queries_are_paired_by_id_whatever_their_order(write: Write) -> None:
    first, other, back = write("a", 27), write("b", 45), write("b", 45)
    result = Result.load(back)
    found = result.get(Accuracy)
    assert found is not None
    turned = replace(
        found,
        **{
            name: getattr(found, name)[::-1] for name in ("queries", "retrieved", "errors", "bound")
        },
    )
    columns = {name: getattr(result, name)[::-1] for name in ("ids", "conditions", "blocks")}
    replace(result, **columns, scored={"table1": turned}).save(back)
    assert compare([first, back]) == compare([first, other])
    ahead = compare([back, first]).lines[1].difference
    assert ahead is not None
    assert ahead.interval is not None
    assert (ahead.mean, ahead.verdict) == (pytest.approx(-30.0), "worse")


def test_queries_that_some_results_lack_are_left_out_with_recall_and_landmark_seeds(
    write: Write,
) -> None:
    # q0 to q59, q20 to q99; they find q0-29, q20-39.
    whole, part = write("a", 30), write("b", 20, first=20, queries=80)
    found = compare([whole, part])
    assert found.queries == 40
    first, second = (line.summary for line in found.lines)
    assert (first.positive, second.positive) == (MeanStd(25.0, None), MeanStd(50.0, None))
    assert (first.recall, first.landmarks_positive) == ({}, None)
    assert first.by_condition["sun"]["queries"] == 20
    assert found.notes == ()
    (note,) = found.differences
    assert note.startswith("the queries differ: 60 of 100 ")
    seeds = compare([whole, write("a", 36, queries=90, seed=1)])
    assert [line.summary.seeds for line in seeds.lines] == [(0, 1)]
    assert seeds.lines[0].summary.positive.mean == pytest.approx(55.0)  # of 30 and 36 of 60 queries


def test_results_that_differ_in_their_seed_alone_are_one_model(write: Write) -> None:
    rivals = [write("plain", 30, seed=seed) for seed in (0, 1)]
    seeds = [write("good", right, seed=seed) for seed, right in ((0, 48), (1, 60))]
    found = compare([rivals[0], seeds[0], rivals[1], seeds[1]])
    assert [(line.name, line.summary.seeds) for line in found.lines] == [
        ("Plain", (0, 1)),
        ("Good", (0, 1)),
    ]
    assert found.lines[1].summary.positive == MeanStd(
        pytest.approx(90.0), pytest.approx(np.sqrt(200.0))
    )
    assert found.lines[1].difference is not None
    assert found.lines[1].difference.mean == pytest.approx(40.0)
    assert found.notes == ()
    some = compare([*rivals, seeds[1]])
    assert some.notes == ("Good: the difference compares seed 1 of both",)
    assert some.lines[1].difference is not None
    assert some.lines[1].difference.mean == pytest.approx(50.0)


# Errors


@pytest.mark.parametrize(
    "facts",
    [
        {"frame": "hill"},
        {"unit": "frames"},
        {"positive_radius": 1.0},
        {"negative_radius": 40.0},
        {"scored": {}},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_results_that_cannot_be_compared_raise(write: Write, facts: dict[str, Any]) -> None:
    first, other = write("a", 30), write("b", 30, **facts)
    refused(rf"{other}: .*({next(iter(facts)).replace('_', ' ')}|table1)", first, other)
