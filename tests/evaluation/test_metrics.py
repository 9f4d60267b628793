"""Metrics against loops, against SciPy, and on cases small enough to count by hand."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from mappable.arrays import Bools, Floats
from mappable.evaluation.metrics import (
    Correlation,
    correlations,
    interval_scores,
    percent_within,
    precision_recall,
    reach_of_metres,
    recall_at,
    tolerance_curve,
)

ERRORS = st.lists(st.integers(0, 8).map(lambda number: number / 2), min_size=1, max_size=30)  # with many ties


# Errors


def test_an_error_of_exactly_the_radius_is_within_it() -> None:
    errors = np.array([0.0, 9.999, 10.0, np.nextafter(10.0, 11.0)])
    assert percent_within(errors, 10.0) == 75.0
    assert tolerance_curve(errors, np.array([0.0, 10.0, 25.0])).tolist() == [25.0, 75.0, 100.0]


def test_single_precision_is_not_rounded_into_the_radius() -> None:
    assert percent_within(np.array([0.1], dtype=np.float32), 0.1) == 0.0  # 0.1 in single precision is above 0.1
    assert tolerance_curve(np.array([0.1], dtype=np.float32), np.array([0.1])).tolist() == [0.0]


@pytest.mark.medium
@given(ERRORS, ERRORS)
def test_a_curve_counts_queries_for_each_tolerance(errors: list[float], tolerances: list[float]) -> None:
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
        counted = [any(row[: int(count)]) for row, known in zip(positives, has_positive, strict=True) if known]
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
    pearson, spearman = correlations(feature, metres, 10.0, 25.0)
    wide, far = feature.astype(np.float64), metres.astype(np.float64)
    for name, near in {"plain": far >= 0, "within_positive": far <= 10.0, "within_negative": far <= 25.0}.items():
        assert getattr(pearson, name) == pytest.approx(np.corrcoef(wide[near], far[near])[0, 1])
        assert getattr(spearman, name) == pytest.approx(spearmanr(wide[near], far[near]).statistic)
    assert pearson.squared == pytest.approx(np.corrcoef(wide**2, far**2)[0, 1])
    assert spearman.squared == spearman.plain


def test_proportional_distances_correlate_fully_and_the_other_way_round() -> None:
    metres = np.arange(1.0, 20.0)
    assert astuple(correlations(metres / 15, metres, 5.0, 10.0)[0]) == pytest.approx((1.0, 1.0, 1.0, 1.0))
    assert correlations(2 - metres / 15, metres, 5.0, 10.0)[1].plain == pytest.approx(-1.0)


def test_few_pairs_and_constant_distances_have_no_correlation() -> None:
    metres = np.array([1.0, 2.0, 30.0, 40.0])
    for found in correlations(np.array([0.1, 0.3, 0.2, 0.4]), metres, 0.5, 10.0):
        assert found.plain is not None
        assert found.within_positive is None  # of no pair
        assert found.within_negative is None  # of two
    nothing = Correlation(None, None, None, None)
    assert correlations(np.full(4, 0.1), metres, 10.0, 50.0) == (nothing, nothing)
    assert correlations(np.empty(0), np.empty(0), 10.0, 50.0) == (nothing, nothing)


# Intervals


def test_the_ends_belong_to_an_interval() -> None:
    low, high = np.array([0.0, 0.0, 0.0, 2.0]), np.array([4.0, 4.0, 4.0, 4.0])
    assert interval_scores(low, high, np.array([0.0, 4.0, 4.1, 1.9])) == (50.0, 3.5)
    assert interval_scores(low[:0], high[:0], low[:0]) == (None, None)


# Precision and recall


def loop_precision_recall(score: Floats, right: Bools, possible: int) -> tuple[list[float], list[float], float]:
    precision, recall, area, before = [], [], 0.0, 0.0
    for threshold in sorted(set(score.tolist())):
        accepted = [good for value, good in zip(score, right, strict=True) if value <= threshold]
        precision.append(sum(accepted) / len(accepted))
        recall.append(sum(accepted) / possible)
        area += (recall[-1] - before) * precision[-1]
        before = recall[-1]
    return precision, recall, area


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40), st.integers(0, 5))
def test_precision_and_recall_equal_a_loop(answers: list[tuple[int, bool]], missed: int) -> None:
    score, right = np.array([one / 10 for one, _ in answers]), np.array([good for _, good in answers])
    possible = max(int(right.sum()) + missed, 1)
    thresholds, precision, recall, average = precision_recall(score, right, possible)
    expected = loop_precision_recall(score, right, possible)
    assert thresholds.tolist() == sorted(set(score.tolist()))
    assert precision == pytest.approx(expected[0])
    assert recall == pytest.approx(expected[1])
    assert average == pytest.approx(expected[2])


def test_equal_scores_are_accepted_together() -> None:
    thresholds, precision, recall, average = precision_recall(np.full(4, 0.5), np.array([True, True, True, False]), 6)
    assert (thresholds.tolist(), precision.tolist(), recall.tolist(), average) == ([0.5], [0.75], [0.5], 0.375)


def test_a_long_curve_is_thinned_but_not_its_area() -> None:
    random = np.random.default_rng(2)
    score = random.random(5000)
    right = random.random(5000) > score
    whole, thin = (precision_recall(score, right, 3000, most=most) for most in (5000, 50))
    assert (len(whole[0]), len(thin[0]), len(precision_recall(score, right, 3000)[0])) == (5000, 50, 200)
    assert thin[3] == whole[3]
    for all_points, some_points in zip(whole[:3], thin[:3], strict=True):
        assert (some_points[0], some_points[-1]) == (all_points[0], all_points[-1])
    at = np.searchsorted(whole[0], thin[0])
    assert np.array_equal(whole[1][at], thin[1])
    assert np.array_equal(whole[2][at], thin[2])


def test_perfect_wrong_and_no_answers() -> None:
    score = np.array([0.1, 0.2, 0.9])
    assert precision_recall(score, np.array([True, True, False]), 2)[3] == 1.0
    assert precision_recall(score, np.zeros(3, dtype=bool), 2)[3] == 0.0
    assert precision_recall(score, np.zeros(3, dtype=bool), 0)[2].tolist() == [0.0, 0.0, 0.0]
    thresholds, precision, recall, average = precision_recall(score[:0], np.zeros(0, dtype=bool), 2)
    assert (len(thresholds), len(precision), len(recall), average) == (0, 0, 0, 0.0)


def test_metres_reach_as_far_as_features_tell_distances() -> None:
    """Features that are constant beyond 36 m: up to 45 m, to read 36 m back is less than 20 % wrong."""
    at = np.arange(0.0, 400.0, 2.0)
    metres = np.abs(at[:, None] - at)
    assert reach_of_metres(np.minimum(metres, 36.0), metres, 10.0) == pytest.approx(45.0, abs=5.0)
    assert reach_of_metres(metres, metres, 10.0) == 100.0
    noise = np.random.default_rng(0).normal(size=metres.shape)
    assert reach_of_metres(noise, metres, 10.0) == 0.0
    assert reach_of_metres(metres[:4, :4], metres[:4, :4], 10.0) is None
