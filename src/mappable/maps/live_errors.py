"""Fit the errors of a tracked camera: covariances that 95 % ellipses hold, and how far errors are alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.stats import chi2

from mappable.arrays import Floats
from mappable.maps.deviations import erring
from mappable.maps.drive_model import FARTHEST_CONTRAST, LiveErrors

PRIOR_IMAGES = 10.0  # weight of the prior that the covariance of a place is right, factor 1
HELD = 0.95  # share of errors that ellipses hold
FEWEST = 50  # smallest number of images at the right place that errors are fitted to
DEGREES_OF_FREEDOM = 4.0  # of Student's t distribution of the errors, which makes outliers count little
STEEPEST = 1.0  # largest slope
LAGS = (1, 2, 3, 5, 8)  # numbers of images between two images whose errors are compared
LARGEST_PRODUCT = 4.0  # products of two errors in deviations count at most this
SHARES = np.linspace(0.0, 0.4, 5)  # choices of the share; at most 0.4, so that single images are not believed exactly
REACHES = np.geomspace(0.1, 3.0, 25)  # choices of the reach, in radii of a place
LEAST_FACTOR, LARGEST_FACTOR = 0.5, 4.0  # of positions that odometry carried


@dataclass(frozen=True)
class TrackedErrors:
    """Errors of some images (n,) of one drive, in order."""

    along: Floats  # (n,) metres along the drive
    off: Floats  # (n, k) errors of positions
    spread: Floats  # (n, k, k) covariance over the place
    covariance: Floats  # (n, k, k) stated covariance of the position
    contrast: Floats  # (n,)


def fit_live(drives: Sequence[TrackedErrors], radius: float) -> LiveErrors | None:
    """Fit the errors of images that stand alone; None if there are too few. `radius` is that of a place."""
    off, spread, contrast = (
        np.concatenate([getattr(one, name) for one in drives]) for name in ("off", "spread", "contrast")
    )
    if len(off) < FEWEST:
        return None
    off, spread = erring(off, spread)
    usual, k = float(np.median(contrast)), off.shape[1]
    below = np.clip(usual - contrast, -FARTHEST_CONTRAST, FARTHEST_CONTRAST)
    values, axes = np.linalg.eigh(spread)
    along = np.square(np.einsum("nij,ni->nj", axes, off))
    start = float(np.log(along.mean() + 1e-12))

    def cost(parameters: Floats) -> float:
        factor, level, slope = parameters
        variance = np.exp(factor) * np.maximum(values, 0.0) + np.exp(level + slope * below)[:, None]
        squared = (along / variance).sum(1)
        scores = np.log(variance).sum(1) + (DEGREES_OF_FREEDOM + k) * np.log1p(squared / DEGREES_OF_FREEDOM)
        return float(scores.sum() + PRIOR_IMAGES * factor**2) / len(off)

    bounds = [(-7.0, 5.0), (start - 6, start + 6), (0.0, STEEPEST)]
    factor, level, slope = minimize(cost, [0.0, start, 0.2], method="L-BFGS-B", bounds=bounds).x.tolist()
    made = LiveErrors(float(np.exp(factor)), float(np.exp(0.5 * level)), slope, usual, 0.0, radius, 1.0)
    scale = _scale(off, made.covariances(spread, contrast))
    made = replace(made, factor=made.factor * scale, deviation=made.deviation * scale**0.5)
    share, reach = _likeness(drives, made, radius)
    return replace(made, share=share, reach=reach)


def carried_factor(drives: Sequence[TrackedErrors]) -> float:
    """Factor for stated covariances of positions that odometry carried."""
    off, covariance = (np.concatenate([getattr(one, name) for one in drives]) for name in ("off", "covariance"))
    if len(off) < FEWEST:
        return 1.0
    return float(np.clip(_scale(*erring(off, covariance)), LEAST_FACTOR, LARGEST_FACTOR))


def _scale(off: Floats, covariance: Floats) -> float:
    """Factor for covariances: between one that 95 % ellipses hold, and one with the right mean of squared errors.

    Errors have longer tails than a normal distribution, so no factor does both.
    """
    squared, k = np.square(_whitened(off, covariance)).sum(1), off.shape[1]
    return float(np.sqrt(np.quantile(squared, HELD) / chi2.ppf(HELD, k) * squared.mean() / k))


def _whitened(off: Floats, covariance: Floats) -> Floats:
    whitened: Floats = np.linalg.solve(np.linalg.cholesky(covariance), off[..., None])[..., 0]
    return whitened


def _likeness(drives: Sequence[TrackedErrors], made: LiveErrors, radius: float) -> tuple[float, float]:
    """Share and reach at which products of errors (in deviations) of two images best fit share x exp(-way / reach)."""
    ways, products, squares = [], [], []
    for drive in drives:
        errors = _whitened(drive.off, made.covariances(drive.spread, drive.contrast))
        squares.append(np.square(errors).mean(1))
        for lag in LAGS:
            ways.append(np.abs(drive.along[lag:] - drive.along[:-lag]))
            products.append((errors[lag:] * errors[:-lag]).mean(1))
    way, product = np.concatenate(ways), np.clip(np.concatenate(products), -LARGEST_PRODUCT, LARGEST_PRODUCT)
    level = float(np.minimum(np.concatenate(squares), LARGEST_PRODUCT).mean())
    choices = [(share, reach * radius) for share in SHARES for reach in REACHES]
    costs = [np.square(product - level * share * np.exp(-way / reach)).mean() for share, reach in choices]
    share, reach = choices[int(np.argmin(costs))]
    return float(share), float(reach)
