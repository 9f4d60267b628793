"""Quantiles at feature distances, and intervals from them."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.spread import Spread

COVERAGES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@pytest.mark.parametrize("coverage", COVERAGES)
def test_intervals_hold_their_share_of_other_pairs(coverage: float) -> None:
    random = np.random.default_rng(0)
    feature = random.uniform(0.1, 0.9, 8000)
    metres = 10 * feature * random.gamma(2.0, size=8000)
    spread = Spread.fit(feature[:4000], metres[:4000])
    middle, low, high = spread.predict(feature[4000:], coverage)
    inside = (low <= metres[4000:]) & (metres[4000:] <= high)
    deviation = np.sqrt(coverage * (1 - coverage) / 2000)  # of 4000 pairs that were seen, and 4000 others
    assert inside.mean() == pytest.approx(coverage, abs=3 * deviation)
    assert inside[feature[4000:] < 0.3].mean() == pytest.approx(coverage, abs=6 * deviation)
    assert ((low <= middle) & (middle <= high)).all()


@pytest.mark.parametrize("count", [15, 60])
def test_intervals_of_few_pairs_hold_their_share_too(count: int) -> None:
    random, worlds = np.random.default_rng(count), 25
    held = np.zeros((worlds, len(COVERAGES)))
    for world in range(worlds):
        feature, values = random.uniform(size=(2, count + 200))
        spread = Spread.fit(feature[:count], values[:count])
        for at, coverage in enumerate(COVERAGES):
            _, low, high = spread.predict(feature[count:], coverage)
            held[world, at] = np.mean((low <= values[count:]) & (values[count:] <= high))
    stated = np.array(COVERAGES)
    deviation = np.sqrt(stated * (1 - stated) * (1 / count + 1 / 200) / worlds)
    assert (held.mean(axis=0) >= stated - 3 * deviation).all()
    assert (held.mean(axis=0) <= stated + 1.5 / count + 3 * deviation).all()


def test_an_interval_of_too_few_pairs_is_everything() -> None:
    spread = Spread.fit(np.full(9, 0.5), np.arange(9.0))
    assert np.isfinite(spread.predict(np.array([0.5]), 0.9)).all()
    middle, low, high = spread.predict(np.array([0.5]), 0.91)
    assert (middle[0], low[0], high[0]) == (4.0, -np.inf, np.inf)
    middle, low, high = Spread.fit(np.array([0.5]), np.array([3.0])).predict(np.array([0.4]), 0.1)
    assert (middle[0], low[0], high[0]) == (3.0, -np.inf, np.inf)


def test_an_interval_leaves_out_the_side_with_the_long_tail() -> None:
    values = np.concatenate([np.linspace(0, 1, 95), np.linspace(100, 200, 5)])
    _, low, high = Spread.fit(np.full(100, 0.5), np.random.default_rng(0).permutation(values)).predict(
        np.array([0.5]), 0.9
    )
    assert high[0] - low[0] <= 1.1  # from the 5th to the 95th percentile it would reach 100
    _, _, high = Spread.fit(np.full(100, 0.5), values).predict(np.array([0.5]), 0.97)
    assert high[0] > 100


def test_values_that_are_all_the_same() -> None:
    found = Spread.fit(np.linspace(0, 1, 50), np.full(50, 2.0)).predict(np.array([0.5]), 0.9)
    np.testing.assert_allclose(np.concatenate(found), 2.0)


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
