"""The estimate for another visit: intervals against a simulation, and visits that are left out."""

from dataclasses import replace

import numpy as np
import pytest

from mappable.features.descriptors import Described
from mappable.localization.advice import advise
from mappable.localization.estimate import PRIOR_DEVIATION, PROBABILITY, estimate, expected, predict
from mappable.places.frames import Frame
from mappable.places.survey import survey
from mappable.places.table import Places

pytestmark = pytest.mark.medium


def test_intervals_hold_as_often_as_stated_if_visits_deviate_as_the_prior_says() -> None:
    random = np.random.default_rng(0)
    for name, middle in (("found", 0.5), ("coverage", 0.7)):
        held = []
        for _ in range(400):
            values = np.clip(random.normal(middle, PRIOR_DEVIATION[name], 4), 0, 1)
            _, low, high = predict(values[:3], name)
            held.append(low <= values[3] <= high)
        assert np.mean(held) == pytest.approx(PROBABILITY, abs=0.06)


def test_more_visits_that_agree_make_the_interval_narrower() -> None:
    widths = [predict(np.full(count, 0.6), "found") for count in (2, 6)]
    assert widths[0][2] - widths[0][1] > widths[1][2] - widths[1][1]
    value, low, high = predict(np.array([1.0, 1.0]), "found in a drive")
    assert (value, high) == (1.0, 1.0)
    assert low > 0.7
    assert predict(np.array([2.0, 2.0]), "median error")[0] == pytest.approx(2.0)


def walls(visits: int = 3, noise: float = 0.02) -> Described:
    """Visits of a street of 160 m whose descriptors change smoothly with the position."""
    random, count = np.random.default_rng(1), 80
    x = np.tile(np.arange(count) * 2.0, visits)
    waves = random.normal(size=(2, 64)) * np.array([[0.15], [3.0]])
    made = np.cos(x[:, None] * waves[0] + waves[1]) + random.normal(scale=noise, size=(len(x), 64))
    names = np.repeat(np.array([f"visit{n}" for n in range(visits)], dtype=object), count)
    places = Places(
        path=[f"{name}/{n}.jpg" for n, name in enumerate(names)],
        x=x,
        y=np.zeros(len(x)),
        sequence=names,
        frames=Frame("town"),
    )
    return Described(
        places, (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32), "made up"
    )


def test_each_visit_is_left_out_and_the_advice_follows_from_what_was_found() -> None:
    described = walls()
    found = estimate(described, 10.0)
    assert [one.name for one in found.visits] == ["visit0", "visit1", "visit2"]
    assert all(one.found > 0.9 for one in found.visits)
    assert {one.name for one in found.expected} == set(PRIOR_DEVIATION)
    assert expected(found.visits, found.source) == found.expected
    seen = survey(described.places)
    advice = advise(found, seen, why_not="there is no time", warnings=2)
    assert len(advice) == 3
    assert any("2 warnings" in text for text in advice)
    unsure = replace(found, visits=tuple(replace(one, confident=0.0) for one in found.visits))
    assert "calibrates the map" in advise(unsure, seen, why_not="", warnings=0)[0]
    split = np.where(described.places.sequence == "visit2", "calibration", "train")
    again = advise(unsure, survey(described.places.replace(split=split)), why_not="", warnings=0)
    assert "calibrates the map" not in "".join(again)
    one_visit = survey(described.places[:80])
    assert "once more" in advise(None, one_visit, why_not="", warnings=0)[0]


def test_the_coverage_of_maps_of_one_visit_says_nothing_about_a_map_that_another_visit_calibrated() -> (
    None
):
    of_one = estimate(walls(2), 10.0)
    assert {one.source for one in of_one.visits} == {"own visit"}
    for source, low in (("own visit", 0.85), ("other visits", 0.75)):
        coverage = next(one for one in expected(of_one.visits, source) if one.name == "coverage")
        assert coverage.value == (0.9 if source == "other visits" else pytest.approx(1.0, abs=0.03))
        assert coverage.low < low + 0.05
