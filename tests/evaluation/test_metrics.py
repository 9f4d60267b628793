"""Metrics against loops, against SciPy, and on cases small enough to count by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from mappable.evaluation.metrics import (
    average_precision,
    chance,
    pearson,
    percent_within,
    recall_at,
    spearman,
    tolerance_curve,
)

# With many ties.
ERRORS = st.lists(st.integers(0, 8).map(lambda number: number / 2), min_size=1, max_size=30)


# Errors


def test_an_error_of_exactly_the_radius_is_within_it() -> None:
    errors = np.array([0.0, 9.999, 10.0, np.nextafter(10.0, 11.0)])
    assert percent_within(errors, 10.0) == 75.0
    assert tolerance_curve(errors, np.array([0.0, 10.0, 25.0])).tolist() == [25.0, 75.0, 100.0]


@pytest.mark.medium
@given(ERRORS, ERRORS)
def test_a_curve_counts_queries_for_each_tolerance(
    errors: list[float], tolerances: list[float]
) -> None:
    curve = tolerance_curve(np.array(errors), np.array(tolerances))
    for percent, tolerance in zip(curve, tolerances, strict=True):
        counted = sum(error <= tolerance for error in errors)
        assert percent == pytest.approx(100 * counted / len(errors))
        assert percent == pytest.approx(percent_within(np.array(errors), tolerance))


# Recall


def test_recall_equals_a_loop() -> None:
    random = np.random.default_rng(0)
    positives, has_positive = random.random((200, 20)) < 0.1, random.random(200) < 0.8
    has_positive |= positives.any(axis=1)
    found = recall_at(positives, has_positive, (1, 5, 10, 20))
    assert list(found) == ["1", "5", "10", "20"]
    for count, percent in found.items():
        counted = [
            any(row[: int(count)])
            for row, known in zip(positives, has_positive, strict=True)
            if known
        ]
        assert percent == pytest.approx(100 * sum(counted) / len(counted))


def test_queries_without_a_positive_do_not_count_and_a_small_map_will_do() -> None:
    positives = np.array([[True], [False], [False]])
    assert recall_at(positives, np.array([True, True, False]), (1, 5)) == {"1": 50.0, "5": 50.0}
    assert recall_at(positives[2:], np.array([False]), (1,)) == {"1": 0.0}


# Correlation


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_correlations_equal_scipy(kind: type) -> None:
    random = np.random.default_rng(1)
    metres = random.integers(0, 60, 500).astype(kind) / 2  # with ties
    feature = np.minimum(metres / 20 + random.normal(0, 0.2, 500), 1.3).astype(kind)
    wide, far = feature.astype(np.float64), metres.astype(np.float64)
    assert pearson(feature, metres) == pytest.approx(pearsonr(wide, far).statistic)
    assert spearman(feature, metres) == pytest.approx(spearmanr(wide, far).statistic)


# Precision and chance


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40))
def test_average_precision_equals_a_loop(answers: list[tuple[int, bool]]) -> None:
    score, right = (
        np.array([one / 10 for one, _ in answers]),
        np.array([good for _, good in answers]),
    )
    area, before = 0.0, 0.0
    for threshold in sorted(set(score.tolist()), reverse=True):
        accepted = [good for value, good in zip(score, right, strict=True) if value >= threshold]
        recall = sum(accepted) / max(int(right.sum()), 1)
        area += (recall - before) * sum(accepted) / len(accepted)
        before = recall
    assert average_precision(score, right) == pytest.approx(area)


def test_chance_is_what_a_random_landmark_finds() -> None:
    random = np.random.default_rng(0)
    metres = random.uniform(0, 20, (50, 30))
    guesses = metres[np.arange(50), random.integers(30, size=(4000, 50))]
    assert chance(metres, 5.0) == pytest.approx(100 * (guesses <= 5.0).mean(), abs=0.5)
