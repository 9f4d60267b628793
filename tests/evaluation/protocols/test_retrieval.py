"""Table I, curves, sweep, generalization, pairs and examples: each number equals one from loops."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.result import Accuracy
from mappable.evaluation.scoring import NotApplicableError, Scoring


def nearest_by_loops(scoring: Scoring, queries: list[int], landmarks: list[int]) -> list[list[int]]:
    """All landmarks of each query, nearest descriptor first."""
    vectors = scoring.descriptors.values.astype(np.float64)
    return [
        sorted(landmarks, key=lambda row, q=q: float(np.square(vectors[q] - vectors[row]).sum()))
        for q in queries
    ]


def metres(scoring: Scoring, first: int, second: int) -> float:
    at = scoring.setup.places.positions
    return math.dist(at[first], at[second])


@pytest.fixture(scope="module")
def table1(scoring: Scoring) -> Accuracy:
    return PROTOCOLS["table1"].run(scoring)


def test_landmarks_are_references_and_a_larger_map_contains_a_smaller_one(scoring: Scoring) -> None:
    setup = scoring.setup
    landmarks = scoring.landmarks()
    assert len(set(landmarks)) == setup.landmarks
    assert set(landmarks) <= set(setup.references)
    assert scoring.landmarks(count=25).tolist() == landmarks[:25].tolist()
    assert scoring.landmarks(seed=1)[0] != landmarks[0]


def test_errors_are_distances_to_the_nearest_landmark_by_descriptor(
    scoring: Scoring, table1: Accuracy
) -> None:
    queries, landmarks = scoring.setup.queries.tolist(), table1.landmarks.tolist()
    ranked = nearest_by_loops(scoring, queries, landmarks)
    assert table1.retrieved.tolist() == [one[0] for one in ranked]
    errors = [metres(scoring, query, one[0]) for query, one in zip(queries, ranked, strict=True)]
    assert table1.errors == pytest.approx(errors)
    bound = [min(metres(scoring, query, row) for row in landmarks) for query in queries]
    assert table1.bound == pytest.approx(bound)
    for name, radius in (("positive", 10.0), ("negative", 25.0)):
        within, reachable = getattr(table1, name)[0], getattr(table1, f"bound_{name}")[0]
        assert within == pytest.approx(100 * sum(one <= radius for one in errors) / len(errors))
        assert reachable == pytest.approx(100 * sum(one <= radius for one in bound) / len(bound))
        pairs = [metres(scoring, query, row) <= radius for query in queries for row in landmarks]
        assert getattr(table1, f"chance_{name}") == pytest.approx(100 * np.mean(pairs))
    assert table1.queries.tolist() == queries
    possible = [n for n, one in enumerate(bound) if one <= 10.0]
    for count in (1, 5, 10, 20):
        found = sum(
            any(metres(scoring, queries[n], row) <= 10.0 for row in ranked[n][:count])
            for n in possible
        )
        assert table1.recall[str(count)] == pytest.approx(100 * found / len(possible))


def test_the_sweep_has_a_number_for_each_count(scoring: Scoring, table1: Accuracy) -> None:
    found = PROTOCOLS["landmark-sweep"].run(
        replace(scoring, setup=replace(scoring.setup, counts=(60, 25)))
    )
    assert found.counts == [25, 60]
    assert found.landmarks[:25].tolist() == scoring.landmarks(count=25).tolist()
    assert found.positive[1] == pytest.approx(table1.positive[0])
    assert found.bound_positive[0] <= found.bound_positive[1]
    with pytest.raises(NotApplicableError, match="landmarks"):
        PROTOCOLS["landmark-sweep"].run(
            replace(scoring, setup=replace(scoring.setup, landmarks=None))
        )


def test_a_region_is_searched_by_landmarks_of_its_own_run(scoring: Scoring) -> None:
    values = PROTOCOLS["generalization"].run(scoring).regions["b"]
    region = scoring.setup.regions[0]
    for factor in (1.0, 1.25):
        landmarks, last = [], None
        for row in region.reference.tolist():
            if last is None or metres(scoring, row, last) >= factor * 10.0:
                landmarks.append(row)
                last = row
        found = values[str(factor)]
        assert (found.landmarks.tolist(), found.spacing) == (landmarks, factor * 10.0)
        ranked = nearest_by_loops(scoring, region.queries.tolist(), landmarks)
        right = [
            metres(scoring, q, one[0]) <= 10.0
            for q, one in zip(region.queries.tolist(), ranked, strict=True)
        ]
        assert found.positive == pytest.approx(100 * sum(right) / len(right))
    with pytest.raises(NotApplicableError, match="no region"):
        PROTOCOLS["generalization"].run(replace(scoring, setup=replace(scoring.setup, regions=())))


def test_matrices_have_references_as_rows_and_queries_as_columns(scoring: Scoring) -> None:
    found = PROTOCOLS["distance-matrices"].run(scoring)
    names = found.reference_sequence, found.query_sequence
    places = scoring.setup.places
    first, second = (np.flatnonzero(places.sequence == name) for name in names)
    assert set(places.split[first]) | set(places.split[second]) == {"train", "test"}
    assert places.condition[first[0]] == places.condition[second[0]]
    assert (found.references.tolist(), found.queries.tolist()) == (first.tolist(), second.tolist())
    assert found.distances.shape == (len(first), len(second))
    assert found.distances[3, 5] == pytest.approx(metres(scoring, first[3], second[5]), rel=1e-5)
    feature = np.linalg.norm(
        scoring.descriptors.values[first[3]] - scoring.descriptors.values[second[5]]
    )
    assert found.feature[3, 5] == pytest.approx(feature, abs=1e-3)
