"""The protocol localization on the synthetic street."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.evaluation.protocols.localization import compute as localization
from mappable.evaluation.protocols.localization.compute import Localization
from mappable.evaluation.protocols.localization.report import rejecting
from mappable.evaluation.protocols.localization.rules import (
    RULES,
    SEQUENCE,
    SINGLE,
    first_to_second,
    spread_of_top,
)
from mappable.evaluation.protocols.localization.ways import best_way, count_rules, count_ways
from mappable.evaluation.records import Arrays, from_json, to_json
from mappable.evaluation.scoring import Descriptors, Scoring
from mappable.evaluation.setup import NO_ROWS
from mappable.localization.fitting import calibrate
from mappable.maps.landmarks import Landmarks


@pytest.fixture(scope="module")
def scored(scoring: Scoring) -> Localization:
    return localization.score(scoring)


def top1(scoring: Scoring) -> np.ndarray:
    """Distance of each query to its nearest landmark by feature."""
    at = scoring.setup.places.positions
    return np.linalg.norm(at[scoring.setup.queries] - at[scoring.nearest(scoring.landmarks())[:, 0]], axis=1)


def written(found: Localization) -> tuple[Any, Arrays]:
    arrays: Arrays = {}
    return to_json(found, arrays, "localization"), arrays


def with_setup(scoring: Scoring, **changes: object) -> Scoring:
    return replace(scoring, setup=replace(scoring.setup, **changes))


@pytest.mark.medium
def test_errors_are_those_of_each_query(scoring: Scoring, scored: Localization) -> None:
    bound = scoring.metres(scoring.setup.queries, scoring.landmarks()).min(axis=1)
    np.testing.assert_allclose(scored.top1, top1(scoring))
    np.testing.assert_allclose(scored.bound, bound)
    medians = [np.median(own) for own in (scored.sequence, scored.refined, scored.top1)]
    assert medians == sorted(medians)


def test_intervals_contain_the_truth_about_as_often_as_stated(scoring: Scoring, scored: Localization) -> None:
    sure, (covered, width) = scored.confident, scored.covered()
    inside = (scored.low <= scored.to_landmark) & (scored.to_landmark <= scored.high)
    assert scored.calibrated_on == "a drive"
    assert scored.calibrated(sure) == pytest.approx(100 * sure.mean())
    assert covered == pytest.approx(100 * inside[sure].mean())
    assert covered >= 85
    assert width == pytest.approx((scored.high - scored.low)[sure].mean())
    night = scoring.setup.places.condition[scoring.setup.queries] == "night"
    assert scored.covered(np.flatnonzero(night))[0] == pytest.approx(100 * inside[sure & night].mean())


def test_images_that_are_not_on_the_map_are_never_correct(scoring: Scoring, scored: Localization) -> None:
    setup, (thresholds, precision, recall, _) = scoring.setup, rejecting(scored, 10.0)
    everyone = np.concatenate([setup.queries, setup.absent])
    nearest = np.sqrt(scoring.squared(everyone, scoring.landmarks()).min(axis=1))
    right = np.concatenate([top1(scoring) <= 10.0, np.zeros(len(setup.absent), dtype=bool)])
    for place in (0, 50, -1):
        accepted = nearest <= thresholds[place] + 1e-6
        assert precision[place] == pytest.approx(right[accepted].mean())
        assert recall[place] == pytest.approx(right[accepted].sum() / len(setup.queries))
    assert scored.absent.tolist() == setup.absent.tolist()
    assert scored.calibrated(scored.confident) > 50
    assert scored.calibrated(scored.absent_confident) < 10


def test_the_result_is_json_and_arrays(scored: Localization) -> None:
    facts, arrays = written(scored)
    again = from_json(Localization, json.loads(json.dumps(facts, allow_nan=False)), arrays)
    np.testing.assert_equal(written(again), (facts, arrays))
    assert again.queries.tolist() == scored.queries.tolist()


def test_it_is_known_which_landmark_was_nearest(scoring: Scoring, scored: Localization) -> None:
    at = scoring.setup.places.positions
    assert set(scored.nearest) <= set(scored.landmarks)
    np.testing.assert_allclose(np.linalg.norm(at[scored.queries] - at[scored.nearest], axis=1), top1(scoring))


def test_counts_of_methods_equal_a_loop(scored: Localization) -> None:
    counted = count_ways(scored, 5.0)
    assert list(counted) == ["nearest", "refined", "sequence"]
    single = scored.confident, scored.low, scored.high, scored.to_landmark
    drive = scored.sequence_confident, scored.sequence_low, scored.sequence_high, scored.sequence_distance
    for name, errors, stated in (
        ("nearest", scored.top1, single),
        ("refined", scored.refined, single),
        ("sequence", scored.sequence, drive),
    ):
        one = counted[name]
        queries = list(zip(errors, *stated, strict=True))
        assert one.queries == len(queries) == len(scored.queries)
        assert one.found == sum(error <= 5.0 for error, *_ in queries)
        assert one.confident == sum(bool(sure) for _, sure, *_ in queries)
        assert one.right == sum(bool(sure) and error <= 5.0 for error, sure, *_ in queries)
        assert one.intervals == sum(low == low for _, _, low, _, _ in queries)
        assert one.held == sum(low <= truth <= high for _, _, low, high, truth in queries)
    assert counted["sequence"].held > 0.8 * counted["sequence"].intervals
    assert best_way(counted) == "sequence"
    assert best_way({"nearest": counted["nearest"], "sequence": counted["nearest"]}) == "nearest"


def test_rules_accept_equally_many_and_average_precision_equals_a_loop(scored: Localization) -> None:
    counted = count_rules(scored, 10.0)
    assert tuple(counted) == RULES
    answers = len(scored.queries) + len(scored.absent)
    for name, one in counted.items():
        errors = scored.sequence if name == SEQUENCE else scored.refined
        right = [*(errors <= 10.0), *[False] * len(scored.absent)]
        hits, precisions = 0, []
        for place, row in enumerate(np.argsort(-scored.rules[name], kind="stable"), 1):
            hits += right[row]
            precisions += [hits / place] if right[row] else []
        assert one.average_precision == pytest.approx(np.mean(precisions), abs=0.01)  # equal ones count together
        assert one.answers == answers
        if name != SEQUENCE:
            assert one.accepted == scored.confident.sum() + scored.absent_confident.sum()
    ours, wrong = counted[SINGLE], scored.refined[scored.confident] > 10.0
    assert ours.wrong == wrong.sum() + scored.absent_confident.sum()
    assert ours.false_discovery == pytest.approx(100 * ours.wrong / ours.accepted)


def test_plain_rules_by_hand() -> None:
    positions = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]])
    squared = np.array([[1.0, 1.0, 4.0], [1.0, 4.0, 16.0]])
    rows = np.array([[0, 1, 2], [2, 0, 1]])
    np.testing.assert_allclose(first_to_second(rows, squared, positions, 2.5), [0.5, 0.5])
    # The farthest candidate takes the place of the next place.
    np.testing.assert_allclose(first_to_second(rows, squared, positions, 10.0), [0.5, 0.25])
    weight = np.exp(-(squared[0] - 1.0) / squared[0].std())
    mean = np.average([0.0, 1.0, 9.0], weights=weight)
    variance = np.average(np.square(np.array([0.0, 1.0, 9.0]) - mean), weights=weight)
    assert spread_of_top(rows, squared, positions)[0] == pytest.approx(variance)


@pytest.mark.medium
def test_the_requested_rows_suffice(scoring: Scoring, scored: Localization) -> None:
    rows = np.unique(localization.rows(scoring.setup))
    assert len(rows) < len(scoring.setup.places)
    few = replace(scoring, descriptors=Descriptors(rows, scoring.descriptors[rows], scoring.descriptors.encoder))
    np.testing.assert_equal(written(localization.score(few)), written(scored))


@pytest.mark.medium
def test_a_given_calibration_is_used(scoring: Scoring, scored: Localization) -> None:
    setup, described, landmarks = scoring.setup, scoring.descriptors, np.sort(scoring.landmarks())
    own = calibrate(
        Landmarks.build(setup.places[landmarks], described[landmarks], described.encoder),
        (setup.places[setup.calibration], described[setup.calibration]),
        coverage=0.5,
    )
    given = replace(with_setup(scoring, calibration=NO_ROWS, elsewhere=NO_ROWS), calibration=own)
    found = localization.score(given)
    assert found.coverage == 0.5
    assert found.covered()[0] < scored.covered()[0]
    assert localization.depends(given) != localization.depends(scoring)


@pytest.mark.medium
def test_without_calibration_images_the_visits_of_the_map_calibrate(scoring: Scoring) -> None:
    for rows in (NO_ROWS, scoring.setup.calibration[:12]):
        found = localization.score(with_setup(scoring, calibration=rows, elsewhere=NO_ROWS, absent=NO_ROWS))
        assert found.calibrated_on in ("own visit", "other visits")
        assert bool(found.note) == bool(len(rows))
        assert found.calibrated(found.absent_confident) is None
        json.dumps(written(found)[0], allow_nan=False)
