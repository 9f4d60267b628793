"""Quantiles at feature distances, and intervals from them."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.spread import Spread


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
def test_intervals_hold_their_share_of_other_pairs(coverage: float) -> None:
    random = np.random.default_rng(0)
    feature = random.uniform(0.1, 0.9, 8000)
    metres = 10 * feature * random.gamma(2.0, size=8000)
    spread = Spread.fit(feature[:4000], metres[:4000])
    _, low, high = spread.predict(feature[4000:], coverage)
    inside = (low <= metres[4000:]) & (metres[4000:] <= high)
    assert inside.mean() == pytest.approx(coverage, abs=0.025)
    assert inside[feature[4000:] < 0.3].mean() == pytest.approx(coverage, abs=0.06)


def test_the_interval_is_the_shortest() -> None:
    values = np.concatenate([np.linspace(0, 1, 95), np.linspace(100, 200, 5)])
    _, low, high = Spread.fit(np.full(100, 0.5), values).predict(np.array([0.5]), 0.9)
    assert high[0] - low[0] <= 1.0  # from the 5th to the 95th percentile it would reach 100
    _, _, high = Spread.fit(np.full(100, 0.5), values).predict(np.array([0.5]), 0.97)
    assert high[0] > 100


def test_beyond_what_was_seen_the_last_bin_counts() -> None:
    spread = Spread.fit(np.linspace(0, 1, 600), np.linspace(0, 10, 600))
    assert spread.furthest == 1.0
    (inside, beyond), *_ = spread.predict(np.array([1.0, 5.0]), 0.9)
    assert inside == beyond


def test_no_pair_and_no_coverage() -> None:
    with pytest.raises(BadInputError, match="no pair"):
        Spread.fit(np.empty(0), np.empty(0))
    with pytest.raises(BadInputError, match=r"coverage.*0.*1.*90"):
        Spread.fit(np.ones(5), np.ones(5)).predict(np.ones(1), 90)
