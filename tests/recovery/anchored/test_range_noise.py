"""The noise of ranges: a density that integrates to one, its slope, its limits, and what is learned of it."""

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.stats import truncnorm

from mappable.arrays import Floats
from mappable.recovery.anchored.range_noise import FALSE, LEAST_RANGES, MOST_FALSE, NOISE_COUNT, RangeNoise
from mappable.recovery.ranges import Ranges

SIGMA = 0.5


def measured(metres: Floats, sigma: float = SIGMA) -> RangeNoise:
    """The noise of ranges that were measured so, all of one sigma; from 100 on, none is longer than the longest."""
    first = np.arange(len(metres))
    return RangeNoise(Ranges(len(metres) + 1, first, first + 1, metres, sigma))


def look(noise: RangeNoise, distance: float, shift: float = 0.0) -> RangeNoise:
    noise.look(np.full(len(noise.metres), distance), np.full(len(noise.metres), shift))
    return noise


@pytest.mark.parametrize("shift", [0.0, 0.7])
@pytest.mark.parametrize("distance", [5.0, 9.8, 10.3])
def test_what_is_measured_up_to_the_longest_range_has_a_density_that_integrates_to_one(
    distance: float, shift: float
) -> None:
    """10 m is the longest range: of farther pairs only those measured too short are there."""
    metres = np.linspace(0, 10, 2001)
    noise = look(measured(metres), distance, shift)
    density = np.exp(noise.log_likelihood)
    assert simpson(density, x=metres) == pytest.approx(1, abs=1e-6)
    # The moments are those of a normal distribution cut off at 10 m.
    cut = truncnorm(-np.inf, (10 - distance) / SIGMA - shift, loc=distance + shift * SIGMA, scale=SIGMA)
    assert simpson(metres * density, x=metres) == pytest.approx(cut.mean(), abs=1e-5)
    assert noise.variance[0] * SIGMA**2 == pytest.approx(cut.var(), rel=1e-4)
    # The score has mean 0, and its variance is the expected curvature.
    assert simpson(noise.pull * density, x=metres) == pytest.approx(0, abs=1e-5)
    assert simpson(np.square(noise.pull) * density, x=metres) == pytest.approx(noise.weight[0], rel=1e-4)


def test_spreads_that_do_not_follow_from_the_measured_distances_count_as_they_are() -> None:
    """If sigma follows from the measured distance, a longer true distance has a larger spread; otherwise not."""
    rng = np.random.default_rng(0)
    true = rng.uniform(1, 9, 300)
    metres, first = true + rng.normal(0, 0.1 * true), np.arange(300)
    followed, own = (RangeNoise(Ranges(301, first, first + 1, metres, 0.1 * of)) for of in (metres, true))
    for noise, doubled in ((followed, 2.0), (own, 1.0)):
        before = look(noise, 3.0).spread
        np.testing.assert_allclose(look(noise, 6.0).spread / before, doubled, rtol=0.1)


def test_few_ranges_have_no_longest() -> None:
    metres = np.linspace(1, 9, LEAST_RANGES - 1)
    density = np.exp(look(measured(metres), 5.0).log_likelihood)
    assert simpson(density, x=metres) == pytest.approx(1, abs=1e-6)
    assert np.isinf(measured(metres).limit).all()


@pytest.mark.parametrize("distance", [4.0, 9.9])
def test_the_pull_is_the_slope_of_the_log_likelihood_and_the_influence_that_of_the_cost(distance: float) -> None:
    metres, step = np.linspace(1, 10, 201), 1e-5
    after, before = (look(measured(metres), distance + off) for off in (step, -step))
    middle = look(measured(metres), distance)
    slope = (after.log_likelihood - before.log_likelihood) / (2 * step)
    np.testing.assert_allclose(middle.pull, slope, atol=1e-5)
    # A range may be false, and that it is there at all speaks for near points: pull less what was missed.
    missed = (after.log_share - before.log_share) / (2 * step)
    influence = -middle.chances() * (middle.pull + missed)
    np.testing.assert_allclose(influence, (after.costs() - before.costs()) / (2 * step), atol=1e-5)


def test_a_range_that_is_far_off_costs_what_a_false_one_costs_and_pulls_no_more() -> None:
    noise = look(measured(np.array([5.0, 6.0, 9.0, 40.0])), 5.0)
    chances = noise.chances()
    assert chances[0] > 0.99
    assert (np.diff(chances) <= 0).all()
    assert chances[-1] < 1e-12
    assert noise.costs()[-1] == pytest.approx(-np.log(FALSE[0] / 40.0))
    influence = np.abs(chances * noise.pull)
    assert influence[-1] < 1e-9 < influence[1]
    # A distance that is itself in doubt says less against a range being there.
    assert noise.chances(4.0)[0] < chances[0]


def test_the_spread_is_that_of_the_true_distance() -> None:
    """With sigma 10 % of the measured metres, those measured too short would otherwise count more."""
    metres = np.linspace(1, 10, 300)
    first = np.arange(300)
    noise = RangeNoise(Ranges(301, first, first + 1, metres, 0.1 * metres))
    noise.look(np.full(300, 5.0), np.zeros(300))
    between = (metres > noise.at[0]) & (metres < noise.at[-1])  # what is learned in 30 bins goes on flat beyond them
    np.testing.assert_allclose(noise.spread[between], 0.5, rtol=1e-9)


def test_drawn_noise_and_share_of_false_ranges_have_their_conjugate_posteriors() -> None:
    rng = np.random.default_rng(0)
    count, falses = 60, 6
    noise = measured(5.0 + SIGMA * 1.5 * rng.standard_normal(count))
    true = np.ones(count)
    true[:falses] = 0.0
    squares = float(np.square((noise.metres - 5.0) / SIGMA)[falses:].sum()) + NOISE_COUNT
    degrees = count - falses + NOISE_COUNT
    levels, shares = [], []
    for _ in range(4000):
        look(noise, 5.0).learn(true, 0.0, rng)
        levels.append(noise.noise**2)
        shares.append(noise.false)
    # Scaled inverse chi-squared: mean S / (ν - 2), standard deviation mean * sqrt(2 / (ν - 4)); 4 standard errors.
    mean = squares / (degrees - 2)
    assert np.mean(levels) == pytest.approx(mean, abs=4 * mean * np.sqrt(2 / (degrees - 4) / 4000))
    assert np.std(levels) == pytest.approx(mean * np.sqrt(2 / (degrees - 4)), rel=0.1)
    a, b = falses + FALSE[0] * FALSE[1], count - falses + (1 - FALSE[0]) * FALSE[1]
    deviation = np.sqrt(a * b / (a + b + 1)) / (a + b)
    assert np.mean(shares) == pytest.approx(a / (a + b), abs=4 * deviation / np.sqrt(4000))
    assert np.std(shares) == pytest.approx(deviation, rel=0.1)


def test_without_a_generator_the_likeliest_is_learned_and_never_that_most_are_false() -> None:
    noise = measured(5.0 + SIGMA * np.array([-2.0, 2.0] * 200))
    noise.limit[:] = np.inf
    for _ in range(30):
        look(noise, 5.0).learn(np.ones(400), 0.0)
    assert noise.noise == pytest.approx(np.sqrt((4.0 * 400 + NOISE_COUNT) / (400 + NOISE_COUNT)))
    assert noise.false == pytest.approx(FALSE[0] * FALSE[1] / (400 + FALSE[1]))
    noise.learn(np.zeros(400), 0.0)
    assert noise.false == MOST_FALSE
