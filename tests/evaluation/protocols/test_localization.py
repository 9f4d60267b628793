"""The protocol localization on the synthetic street: errors, counts and rules against loops."""

from dataclasses import replace

import numpy as np
import pytest

from mappable.evaluation.acceptance import RULES, SEQUENCE, SINGLE
from mappable.evaluation.answers import count
from mappable.evaluation.protocols import localization
from mappable.evaluation.protocols.localization import NEAREST, REFINED, Localization, rules_of
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.setup import NO_ROWS

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def found(scoring: Scoring) -> Localization:
    return localization.run(scoring)


def test_errors_are_those_of_each_query(scoring: Scoring, found: Localization) -> None:
    at, queries = scoring.setup.places.positions, scoring.setup.queries
    nearest = scoring.nearest(scoring.landmarks())[:, 0]
    metres = scoring.metres(queries, scoring.landmarks())
    np.testing.assert_allclose(
        found.methods[NEAREST].errors, np.linalg.norm(at[queries] - at[nearest], axis=1)
    )
    np.testing.assert_allclose(found.bound, metres.min(axis=1))
    assert found.chance == pytest.approx(100 * np.mean([np.mean(row <= 10.0) for row in metres]))
    medians = [np.median(one.errors) for one in found.methods.values()]
    assert medians == sorted(medians, reverse=True)  # the sequence is best


def test_counts_equal_a_loop(found: Localization) -> None:
    for answers in found.methods.values():
        for which in (np.arange(len(found.queries)), np.arange(0, len(found.queries), 7)):
            one = count(answers, 5.0, which)
            names = ("errors", "confident", "low", "high", "to_landmark")
            queries = list(zip(*(getattr(answers, name)[which] for name in names), strict=True))
            assert one.queries == len(queries)
            assert one.found == sum(error <= 5.0 for error, *_ in queries)
            assert one.confident == sum(bool(sure) for _, sure, *_ in queries)
            assert one.right == sum(bool(sure) and error <= 5.0 for error, sure, *_ in queries)
            assert one.intervals == sum(low == low for _, _, low, *_ in queries)
            assert one.held == sum(low <= truth <= high for _, _, low, high, truth in queries)
            assert one.width == pytest.approx(
                np.mean([high - low for _, _, low, high, _ in queries if low == low])
            )
            assert one.held > 0.8 * one.intervals


def test_images_that_are_not_on_the_map_are_rarely_confident(found: Localization) -> None:
    assert len(found.absent) > 50
    single = found.methods[REFINED]
    assert single.confident.mean() > 0.5
    assert single.absent_confident.mean() < 0.1
    assert found.calibrated_on == "a drive"


def test_rules_accept_equally_many_and_average_precision_equals_a_loop(found: Localization) -> None:
    counted = rules_of(found, 10.0)
    assert tuple(counted) == RULES
    for name, one in counted.items():
        answers = found.methods["sequence" if name == SEQUENCE else REFINED]
        right = [*(answers.errors <= 10.0), *[False] * len(found.absent)]
        hits, precisions = 0, []
        for place, row in enumerate(np.argsort(-found.rules[name], kind="stable"), 1):
            hits += right[row]
            precisions += [hits / place] if right[row] else []
        # Equal ones count together.
        assert one.average_precision == pytest.approx(np.mean(precisions), abs=0.01)
        assert one.answers == len(found.queries) + len(found.absent)
        if name != SEQUENCE:
            assert one.accepted == answers.confident.sum() + answers.absent_confident.sum()
    ours, answers = counted[SINGLE], found.methods[REFINED]
    assert (
        ours.wrong
        == (answers.errors[answers.confident] > 10.0).sum() + answers.absent_confident.sum()
    )
    assert ours.false_discovery == pytest.approx(100 * ours.wrong / ours.accepted)


def test_without_calibration_images_the_visits_of_the_map_calibrate(scoring: Scoring) -> None:
    for rows in (NO_ROWS, scoring.setup.calibration[:12]):
        setup = replace(scoring.setup, calibration=rows, elsewhere=NO_ROWS, absent=NO_ROWS)
        other = localization.run(replace(scoring, setup=setup))
        assert other.calibrated_on in ("own visit", "other visits")
        assert bool(other.note) == bool(len(rows))
