"""Summaries of synthetic results: means over seeds, intervals, and which of two models is better."""

import json
from typing import Any

import numpy as np
import pytest

from made_results import made_result
from mappable.arrays import Floats
from mappable.evaluation.bootstrap import block_bootstrap
from mappable.evaluation.metrics import MeanStd
from mappable.evaluation.result import Result
from mappable.evaluation.summary import difference, summarize, summary_of

QUERIES = 60
CONDITIONS = np.array(["sun", "rain"] * (QUERIES // 2), dtype=object)


def made(row: str, errors: Floats, seed: int | None = 0, **others: Any) -> Result:
    """A result with these errors; landmark seed 1 finds 10 % less than landmark seed 0."""
    near, far = (100 * float(np.mean(errors <= radius)) for radius in (10, 25))
    two = {"landmark_seeds": [0, 1], "positive": [near, near - 10], "negative": [far, far - 10]}
    two |= {
        "bound_positive": [100.0, 100.0],
        "bound_negative": [100.0, 100.0],
        "recall": {"1": near, "5": 90.0},
    }
    return made_result(errors, two, **{"row": row, "title": row.title(), "seed": seed} | others)


def errors_with(right: int, queries: int = QUERIES) -> Floats:
    """Errors of 10 m, which is within the radius, for the first queries, and 20 m for the others."""
    return np.where(np.arange(queries) < right, 10.0, 20.0)


def test_seeds_give_mean_and_deviation() -> None:
    first, second = errors_with(30), errors_with(36)
    second[-6:] = 30.0
    (found,) = summarize([made("triplet", first, 0), made("triplet", second, 1)])
    assert (found.row, found.title, found.set) == ("triplet", "Triplet", "street")
    assert (found.seeds, found.queries) == ((0, 1), 60)
    # Of 50 and 60 %.
    assert found.positive == MeanStd(pytest.approx(55.0), pytest.approx(np.sqrt(50.0)))
    assert found.negative == MeanStd(pytest.approx(95.0), pytest.approx(np.sqrt(50.0)))
    # Of 15 and 10 m.
    assert found.median == MeanStd(pytest.approx(12.5), pytest.approx(np.sqrt(12.5)))
    assert found.recall == pytest.approx({"1": 55.0, "5": 90.0})
    # Of 55 and 45 %.
    assert found.landmarks_positive == MeanStd(pytest.approx(50.0), pytest.approx(np.sqrt(50.0)))
    assert found.landmarks_negative == MeanStd(pytest.approx(90.0), pytest.approx(np.sqrt(50.0)))


def test_the_interval_is_a_block_bootstrap_of_the_mean_over_seeds() -> None:
    errors = np.stack([errors_with(30), errors_with(36)])
    found = summary_of([made("triplet", one, seed) for seed, one in enumerate(errors)])
    right = 100.0 * (errors <= 10.0).mean(axis=0)
    assert found.interval == block_bootstrap(right, np.arange(QUERIES) // 6, seed=0)
    assert found.interval.mean == pytest.approx(found.positive.mean)
    assert found.interval.low < found.positive.mean < found.interval.high


def test_numbers_by_condition_are_means_over_seeds() -> None:
    first, second = errors_with(QUERIES), errors_with(QUERIES)
    first[CONDITIONS == "rain"] = 30.0
    second[CONDITIONS == "rain"] = 20.0
    found = summary_of([made("triplet", first, 0), made("triplet", second, 1)]).by_condition
    assert list(found) == ["rain", "sun"]
    assert found["rain"] == {
        "queries": 30,
        "positive": 0.0,
        "negative": 50.0,
        "median": 25.0,
        "bound": 100.0,
    }
    assert found["sun"] == {
        "queries": 30,
        "positive": 100.0,
        "negative": 100.0,
        "median": 10.0,
        "bound": 100.0,
    }
    nameless = made("triplet", first, conditions=np.array([""] * QUERIES, dtype=object))
    assert list(summary_of([nameless]).by_condition) == ["unnamed"]


# Differences


def test_a_model_that_finds_more_all_along_the_route_is_better() -> None:
    low, high = np.full(QUERIES, 20.0), np.full(QUERIES, 20.0)
    low[::6] = 1.0
    high[::2] = 1.0
    found = difference([made("a", high)], [made("b", low)])
    assert found is not None
    assert (found.mean, found.verdict, found.seeds) == (pytest.approx(100 / 3), "better", (0,))
    assert found.compared == "seed 0 of both"
    other = difference([made("b", low)], [made("a", high)])
    assert other is not None
    assert (other.mean, other.verdict) == (pytest.approx(-100 / 3), "worse")
    assert json.loads(json.dumps(found.to_json()))["verdict"] == "better"
