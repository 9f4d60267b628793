"""Logistic regression."""

import numpy as np
import pytest

from mappable.maps.odds import Odds


def test_known_odds_are_found_again() -> None:
    random = np.random.default_rng(0)
    numbers = random.normal(size=(20_000, 2)) * [1.0, 10.0] + [5.0, -3.0]
    chance = 1 / (1 + np.exp(-(1.0 + 2.0 * (numbers[:, 0] - 5) - 0.1 * (numbers[:, 1] + 3))))
    found = Odds.fit(numbers, random.random(20_000) < chance)
    assert found.slopes == pytest.approx((2.0, -0.1), rel=0.1)
    assert found.constant == pytest.approx(1.0 - 10.0 - 0.3, rel=0.1)
    assert found.log(np.array([[5.0, -3.0]])) == pytest.approx([1.0], abs=0.15)


def test_even_at_zero() -> None:
    numbers = np.linspace(0.0, 1.0, 200)[:, None]
    found = Odds.fit(numbers, np.arange(200) % 10 != 0, even_at_zero=True)
    assert found.constant == 0.0
    assert found.slopes[0] > 2.0


@pytest.mark.parametrize("holds", [np.ones(50, dtype=bool), np.arange(50) < 25])
def test_without_exception_the_odds_stay_finite(holds: np.ndarray) -> None:
    found = Odds.fit(np.arange(50.0)[:, None], holds)
    assert np.isfinite([found.constant, *found.slopes]).all()
    assert (found.log(np.arange(50.0)[:, None])[holds] > 0).all()
