"""Deviations of images: the prior is that of a dense covariance, and its mean and spread have known posteriors."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery.anchored.deviations import MEAN_SPREAD, SPREAD, SPREAD_COUNT, Deviations

STEP, REACH = 1.5, 10.0


def chain(count: int) -> Deviations:
    """Images one after the other."""
    return Deviations(np.arange(-1, count - 1), STEP, REACH)


def dense(deviations: Deviations, count: int) -> Floats:
    """The covariance (n, n) of an autoregression of the first order."""
    lag = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    covariance: Floats = deviations.spread**2 * deviations.likeness**lag
    return covariance


def test_the_system_is_the_inverse_of_the_dense_covariance() -> None:
    deviations, w = chain(7), np.random.default_rng(0).normal(size=7)
    deviations.mean, deviations.spread = 0.3, 0.4
    precision = np.linalg.inv(dense(deviations, 7))
    gradient, own, next_ = deviations.system(w)
    np.testing.assert_allclose(np.diag(own) + np.diag(next_, 1) + np.diag(next_, -1), precision, atol=1e-9)
    np.testing.assert_allclose(gradient, -precision @ (w - 0.3), atol=1e-9)
    assert deviations.costs(w).sum() == pytest.approx(0.5 * (w - 0.3) @ precision @ (w - 0.3))


def test_two_drives_and_landmarks_have_nothing_to_do_with_each_other() -> None:
    both = Deviations(np.array([-1, 0, 1, -1, 3, -1]), STEP, REACH)
    parts = [dense(both, 3), dense(both, 2), dense(both, 1)]
    precision = np.zeros((6, 6))
    for part, at in zip(parts, (slice(0, 3), slice(3, 5), slice(5, 6)), strict=True):
        precision[at, at] = np.linalg.inv(part)
    _, own, next_ = both.system(np.zeros(6))
    np.testing.assert_allclose(own, np.diag(precision))
    np.testing.assert_allclose(next_, precision[both.before, both.later])


def test_drawn_mean_and_spread_have_their_joint_posterior() -> None:
    """Gibbs draws against sums over a grid; 4 standard errors, for draws that are nearly independent."""
    rng, count, draws = np.random.default_rng(1), 40, 4000
    deviations = chain(count)
    deviations.reset()
    w = 0.25 + np.linalg.cholesky(dense(deviations, count)) @ rng.standard_normal(count)
    found = np.empty((draws, 2))
    for row in range(draws):
        deviations.learn(w, 0.0, rng)
        found[row] = deviations.mean, deviations.spread
    unit = np.linalg.inv(dense(deviations, count) / deviations.spread**2)
    mean, spread = np.meshgrid(np.linspace(-1.2, 1.7, 400), np.linspace(0.1, 0.5, 400), indexing="ij")
    squares = w @ unit @ w - 2 * mean * (unit @ w).sum() + mean**2 * unit.sum()
    # p(s²) is scaled inverse chi-squared of 20 observations of 0.2; ds² = 2 s ds.
    log = -(count + SPREAD_COUNT + 1) * np.log(spread) - 0.5 * (squares + SPREAD_COUNT * SPREAD**2) / spread**2
    log -= 0.5 * np.square(mean / MEAN_SPREAD)
    weight = np.exp(log - log.max())
    for values, drawn in ((mean, found[:, 0]), (spread, found[:, 1])):
        expected = float((weight * values).sum() / weight.sum())
        deviation = float(np.sqrt((weight * np.square(values - expected)).sum() / weight.sum()))
        assert drawn.mean() == pytest.approx(expected, abs=4 * deviation / np.sqrt(draws))
        assert drawn.std() == pytest.approx(deviation, rel=0.08)


def test_ranges_may_be_biased_together_where_nothing_else_tells_the_scale() -> None:
    drive, led = chain(30), Deviations(np.arange(-1, 29), STEP, REACH, led=True)
    landmarks = Deviations(np.full(30, -1), STEP, REACH)
    for one in (drive, led, landmarks):
        for _ in range(50):
            one.learn(np.full(30, 0.4), 0.0)
    assert drive.mean < led.mean < landmarks.mean < 0.4


def test_without_a_generator_mean_and_spread_settle_where_a_fit_expects_them() -> None:
    deviations = chain(30)
    w = np.random.default_rng(2).normal(0.5, 0.3, 30)
    for _ in range(50):
        deviations.learn(w, 0.0)
    unit = np.linalg.inv(dense(deviations, 30) / deviations.spread**2)
    precision = unit.sum() / deviations.spread**2 + MEAN_SPREAD**-2
    assert deviations.mean == pytest.approx((unit @ w).sum() / deviations.spread**2 / precision)
    squares = (w - deviations.mean) @ unit @ (w - deviations.mean) + SPREAD_COUNT * SPREAD**2
    assert deviations.spread == pytest.approx(np.sqrt(squares / (30 + SPREAD_COUNT)))
    before = deviations.spread
    deviations.learn(w, 0.04)
    assert deviations.spread > before  # what is in doubt may be wider
