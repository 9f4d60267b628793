"""The likeliest places of images, by beliefs about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from mappable.arrays import Bools, Floats, Ints
from mappable.maps.place_filter import Belief

NEGLIGIBLE = 1e-3  # landmarks below this share of the likeliest landmark's probability do not count


@dataclass(frozen=True)
class FoundPlaces:
    """The likeliest places of images, by beliefs about them; arrays (n,) if not stated otherwise."""

    likeliest: Ints  # likeliest landmark within the likeliest place
    landmark: Ints  # landmark from which distances are stated: the same, or a given one
    away: Floats  # probability of not being on the map
    spread: Floats  # root mean squared distance of likely landmarks from `landmark`, if the image is on the map
    rival: Ints  # the likeliest landmark of another place; -1 if no other place is likely
    position: Floats  # (n, k) mean position of the place
    covariance: Floats  # (n, k, k) covariance of the place


def find_places(
    beliefs: Sequence[Belief], positions: Floats, radius: float, landmarks: Ints | None = None
) -> FoundPlaces:
    """The likeliest place of each image: the landmark with the most probability within `radius`.

    Distances are stated from `landmarks` (n,), by default from the likeliest landmark of each place.
    """
    given = [None] * len(beliefs) if landmarks is None else landmarks.tolist()
    found = [_place(belief, positions, radius, one) for belief, one in zip(beliefs, given, strict=True)]
    return FoundPlaces(*(np.array(values) for values in zip(*found, strict=True)))


def likely_places(belief: Belief, positions: Floats, radius: float, most: int, least: float) -> list[tuple[int, float]]:
    """At most `most` places, likeliest first: a landmark and the probability within `radius`, at least `least`."""
    chance, found = belief.probability.copy(), list[tuple[int, float]]()
    while len(found) < most:
        best = int(chance.argmax())
        near = np.linalg.norm(positions[belief.rows] - positions[belief.rows[best]], axis=1) <= radius
        mass = float(chance[near].sum())
        if mass < least:
            break
        found.append((int(belief.rows[best]), mass))
        chance[near] = 0.0
    return found


def mass_around(beliefs: Sequence[Belief], positions: Floats, coordinates: Floats, radius: float) -> Floats:
    """Probabilities (n,) that images are at landmarks within `radius` of their coordinates (n, k)."""
    away = [np.linalg.norm(positions[one.rows] - at, axis=1) for one, at in zip(beliefs, coordinates, strict=True)]
    return np.array([one.probability @ (far <= radius) for one, far in zip(beliefs, away, strict=True)])


def _place(belief: Belief, positions: Floats, radius: float, landmark: int | None) -> tuple[Any, ...]:
    likely = np.flatnonzero(belief.probability >= NEGLIGIBLE * belief.probability.max())
    rows, chance = belief.rows[likely], belief.probability[likely]
    at = positions[rows]
    near: Bools = cdist(at, at) <= radius
    masses = near @ chance
    here = near[int(masses.argmax())]
    best, other = int(np.where(here, chance, -1.0).argmax()), int(np.where(here, -1.0, chance).argmax())
    weight = np.where(here, chance, 0.0) / masses.max()
    mean = weight @ at
    covariance = (weight[:, None] * (at - mean)).T @ (at - mean)
    stated = rows[best] if landmark is None else landmark
    spread = np.sqrt(chance @ np.square(at - positions[stated]).sum(1) / chance.sum())
    return rows[best], stated, belief.away, spread, -1 if here.all() else rows[other], mean, covariance
