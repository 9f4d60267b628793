"""Multilateration: where one image is, from its ranges to landmarks of known position."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.likely_places import Landmarks

UNLIKELY = log(20)  # cost above that of the best place, from which on another is no alternative
APART = 2.0  # standard deviations, within which two places are one
MISFIT = 2.0  # noise that is worth a sentence


@dataclass(frozen=True)
class Multilaterated:
    """The likeliest place of an image, how well it is known, and where else the image could be."""

    position: Floats  # (k,)
    covariance: Floats  # (k, k) in square metres
    alternatives: Floats  # (a, k): other places that fit nearly as well, the best first
    excess: Floats  # (a,): their cost above that of the position: the logarithm of the odds against each
    used: Bools  # (m,): False for ranges that are held to be false
    noise: float  # spread of the residuals in units of the stated sigma; 1 also if they are smaller
    undetermined: tuple[str, ...]  # a sentence for each thing that the ranges do not decide; never left out


def multilaterate(
    positions: ArrayLike,
    metres: ArrayLike,
    sigma: ArrayLike,
    *,
    near: ArrayLike | None = None,
    near_sigma: float | None = None,
) -> Multilaterated:
    """The place of an image that is `metres` (m,), give or take `sigma`, from landmarks at `positions` (m, 2 or 3).

    A range r to a landmark at the distance d has the likelihood (1 - f) N(r - d; s σ) + f / R: a share f is false, and
    could be anything up to R. The noise s is 1, or more if the others fit worse than stated. Sigma is one number or
    (m,). It may be known besides that the image is `near` (k,), each coordinate give or take `near_sigma`. If a whole
    circle or sphere fits alike, the position is its middle, and the covariance that of all of it.

    >>> multilaterate([[0.0, 0.0], [8.0, 0.0], [0.0, 6.0], [9.0, 9.0]], [5.0, 5.0, 5.0, 7.8], 0.1).position.round(1)
    array([4., 3.])
    """
    places, lengths, spread = _checked(positions, metres, sigma)
    centre = places.mean(0)
    landmarks = Landmarks(places - centre, lengths, spread, *_checked_prior(near, near_sigma, centre))
    found = landmarks.fit(landmarks.starts())
    order = np.argsort(found.cost, kind="stable")
    best, excess = order[0], found.cost - found.cost[order[0]]
    noise = found.likelier_noise(lost=landmarks.q)[best]
    of_best = landmarks.covariance(found, best) * noise / found.noise[best]
    k, q, spanned = len(centre), landmarks.q, landmarks.spanned
    own = landmarks.axes[: k if q == k else spanned]
    at = found.places[:, : len(own)] @ own
    covariance, radius = own.T @ of_best[: len(own), : len(own)] @ own, 0.0
    if q < k:  # the last coordinate stands for all directions square to what landmarks span
        radius, variance = abs(found.places[best, -1]), of_best[-1, -1]
        covariance += (radius**2 / (k - spanned) + variance) * (np.eye(k) - own.T @ own)
        radius = radius if radius**2 > variance else 0.0
    covariance += 1e-12 * np.trace(covariance) * np.eye(k)  # so that it can be inverted
    kept, seen = [best], np.linalg.solve(np.linalg.cholesky(covariance), (at - at[best]).T).T  # in standard deviations
    far = np.square(seen).sum(1) > APART**2
    for other in order[(far & (excess < UNLIKELY))[order]]:
        if np.square(seen[other] - seen[kept]).sum(1).min() > APART**2:
            kept.append(other)
    at, others, used = centre + at, kept[1:], found.chances[best] > 0.5
    result = Multilaterated(at[best], covariance, at[others], excess[others], used, sqrt(noise), ())
    return replace(result, undetermined=tuple(_undetermined(result, spanned, radius, near is not None)))


def _undetermined(result: Multilaterated, spanned: int, radius: float, prior: bool) -> Iterator[str]:
    count, k, others = len(result.used), len(result.position), len(result.alternatives)
    where = ("at one place", "in a line", "in a plane", "in space")[spanned]
    if radius:
        shape = "circle" if k - spanned == 2 else "sphere"
        yield f"the landmarks lie {where}: all of a {shape} of {radius:.1f} m about the position fits alike"
    if others:
        cause = f"the landmarks lie {where}: " if spanned < k else ""
        what = "another place fits" if others == 1 else f"{others} other places fit"
        away, odds = np.linalg.norm(result.alternatives[0] - result.position), exp(result.excess[0])
        yield f"{cause}{what} nearly as well, {away:.1f} m away and at odds of {odds:.1f} to 1"
    if count <= k and not prior:
        yield f"there are too few ranges ({count}) to tell whether one of them is false"
    if result.used.sum() <= max(k, count // 2) and not result.used.all():
        yield f"the ranges contradict each other: {(~result.used).sum()} of {count} are held to be false"
    if result.noise > MISFIT:
        yield f"the ranges fit {result.noise:.1f} times worse than their sigma states"


def _checked(positions: ArrayLike, metres: ArrayLike, sigma: ArrayLike) -> tuple[Floats, Floats, Floats]:
    places, lengths, spread = (np.asarray(values, dtype=np.float64) for values in (positions, metres, sigma))
    if places.ndim != 2 or places.shape[1] not in (2, 3):
        raise BadInputError(f"landmarks are at positions (m, 2) or (m, 3), not {places.shape}")
    if not len(places):
        raise BadInputError("there is no landmark")
    if lengths.shape != (len(places),) or spread.shape not in ((), lengths.shape):
        shapes = f"{lengths.shape} and {spread.shape}"
        raise BadInputError(f"{len(places)} landmarks need as many metres, and one sigma or as many, not {shapes}")
    spread = np.broadcast_to(spread, lengths.shape)
    for wrong, values, problem in (
        (~np.isfinite(places).all(1), places, "has a coordinate that is not a number"),
        (~np.isfinite(lengths) | (lengths < 0), lengths, "has metres that are not 0 or above"),
        (~np.isfinite(spread) | (spread <= 0), spread, "has a sigma that is not above 0"),
    ):
        if wrong.any():
            raise BadInputError(f"landmark {wrong.argmax()} {problem}: {values[wrong.argmax()]}")
    return places, lengths, spread


def _checked_prior(near: ArrayLike | None, near_sigma: float | None, centre: Floats) -> tuple[Floats, float]:
    """The place as seen from the centre, and its weight 1 / σ²."""
    if near is None and near_sigma is None:
        return np.zeros_like(centre), 0.0
    if near is None or near_sigma is None:
        raise BadInputError("near and near_sigma are given together, or not at all")
    place = np.asarray(near, dtype=np.float64)
    if place.shape != centre.shape or not np.isfinite(place).all():
        raise BadInputError(f"near has {len(centre)} coordinates, as landmarks have, not {place}")
    if not 0 < near_sigma < np.inf:
        raise BadInputError(f"near_sigma is {near_sigma}, but must be above 0")
    return place - centre, 1 / near_sigma**2
