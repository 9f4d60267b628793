"""Fit the errors of a tracked camera: covariances that 95 % ellipses hold, and how far errors are alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.stats import chi2, f

from mappable.arrays import Floats
from mappable.maps.deviations import erring_axes
from mappable.maps.drive_model import FARTHEST_CONTRAST, LiveErrors

PRIOR_IMAGES = 10.0  # weight of the prior that the covariance of a place is right, factor 1
HELD = 0.95  # share of errors that ellipses hold
FEWEST = 50  # smallest number of images at the right place that errors are fitted to
DEGREES_OF_FREEDOM = 4.0  # of Student's t distribution of the errors, which makes outliers count little
STEEPEST = 1.0  # largest slope
LAGS = (1, 2, 3, 5, 8)  # numbers of images between two images whose errors are compared
LARGEST_PRODUCT = 4.0  # products of two errors in deviations count at most this
SHARES = np.linspace(0.0, 1.0, 11)  # choices of the share, relative to the largest
LARGEST_SHARE = 0.4  # so that single images are not believed exactly
REACHES = np.geomspace(0.1, 3.0, 25)  # choices of the reach, in radii of a place
FOLLOWED = 2  # how often each image is followed: once among all images, and once among every fourth
LEAST_DEGREES = 5.0  # smallest number of independent errors that calibration is taken to have
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
    if sum(len(one.off) for one in drives) < FEWEST:
        return None
    drives = _erring(drives)
    off, spread, contrast = (
        np.concatenate([getattr(one, name) for one in drives]) for name in ("off", "spread", "contrast")
    )
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
    errors = [_whitened(one.off, made.covariances(one.spread, one.contrast)) for one in drives]
    scale = _scale(errors, drives, radius)
    made = replace(made, factor=made.factor * scale, deviation=made.deviation * scale**0.5)
    share, reach = _likeness([one / scale**0.5 for one in errors], drives, radius, LARGEST_SHARE)
    return replace(made, share=share, reach=reach)


def carried_factor(drives: Sequence[TrackedErrors], radius: float) -> float:
    """Factor for stated covariances of positions that odometry carried."""
    if sum(len(one.off) for one in drives) < FEWEST:
        return 1.0
    drives = _erring(drives)
    scale = _scale([_whitened(one.off, one.covariance) for one in drives], drives, radius)
    return float(np.clip(scale, LEAST_FACTOR, LARGEST_FACTOR))


def _erring(drives: Sequence[TrackedErrors]) -> list[TrackedErrors]:
    """The same errors along the axes in which positions err; see `erring_axes`."""
    some = erring_axes(np.concatenate([one.off for one in drives]))
    return [
        replace(
            one,
            off=one.off[:, some],
            spread=one.spread[:, some][:, :, some],
            covariance=one.covariance[:, some][:, :, some],
        )
        for one in drives
    ]


def _whitened(off: Floats, covariance: Floats) -> Floats:
    whitened: Floats = np.linalg.solve(np.linalg.cholesky(covariance), off[..., None])[..., 0]
    return whitened


def _scale(errors: Sequence[Floats], drives: Sequence[TrackedErrors], radius: float) -> float:
    """Factor for covariances: between one that 95 % ellipses hold, and one with the right mean of squared errors.

    Errors have longer tails than a normal distribution, so no factor does both. Errors (n, k) of each drive are in
    stated deviations. Because they are alike along a drive, they tell less about other drives than independent errors
    of that number. The factor allows for this: errors of another drive follow the F distribution.
    """
    squared, k = np.concatenate([np.square(one).sum(1) for one in errors]), errors[0].shape[1]
    share, reach = _likeness(errors, drives, radius, 1.0)
    independent = 0.0
    for one in drives:
        alike = share * np.exp(-np.abs(one.along[:, None] - one.along) / reach)
        np.fill_diagonal(alike, 1.0)
        independent += len(alike) ** 2 / max(float(np.square(alike).sum()), 1.0)
    degrees = max(k * independent / FOLLOWED, LEAST_DEGREES)
    held = np.quantile(squared, HELD) * k * f.ppf(HELD, k, degrees) / chi2.ppf(HELD, k) ** 2
    mean = squared.mean() / k * degrees / (degrees - 2)
    return float(np.sqrt(held * mean))


def _likeness(
    errors: Sequence[Floats], drives: Sequence[TrackedErrors], radius: float, largest: float
) -> tuple[float, float]:
    """Share and reach at which products of errors of two images best fit share x exp(-way / reach).

    Errors (n, k) of each drive are in stated deviations. The share is at most the `largest`.
    """
    ways, products = [], []
    for own, drive in zip(errors, drives, strict=True):
        for lag in LAGS:
            ways.append(np.abs(drive.along[lag:] - drive.along[:-lag]))
            products.append((own[lag:] * own[:-lag]).mean(1))
    way, product = np.concatenate(ways), np.clip(np.concatenate(products), -LARGEST_PRODUCT, LARGEST_PRODUCT)
    squares = np.concatenate([np.square(one).mean(1) for one in errors])
    level = float(np.minimum(squares, LARGEST_PRODUCT).mean())
    choices = [(share, reach * radius) for share in SHARES * largest for reach in REACHES]
    costs = [np.square(product - level * share * np.exp(-way / reach)).mean() for share, reach in choices]
    share, reach = choices[int(np.argmin(costs))]
    return float(share), float(reach)
