"""F², the squared feature distance that stands for the positive radius, measured on the off-the-shelf network."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.places.neighbours import find_neighbours
from mappable.places.table import Places
from mappable.randomness import Purpose, generator

IMAGES = 10_000  # at most so many are looked at
PAIRS_AT_ONCE = 256


def measure_feature_scale(
    places: Places,
    describe: Callable[[Ints], Tensor],
    *,
    positive_radius: float,
    yaw_limit: float | None,
    seed: int,
) -> float:
    """The maximum of ||f_i - f_j||² over pairs of training images at most `positive_radius` apart.

    `describe` gives the descriptors (k, D) of rows of `places`. Up to 10,000 random images are looked at.
    """
    rows = np.sort(generator(seed, Purpose.FEATURE_SCALE).permutation(len(places))[:IMAGES])
    near = find_neighbours(places[rows], positive_radius, max_yaw=yaw_limit)
    first = np.repeat(np.arange(len(rows)), near.counts)
    once = first < near.rows
    pairs = np.stack([first[once], near.rows[once]])
    if not pairs.shape[1]:
        raise BadInputError(f"no two training places are within the positive radius, {positive_radius:g} {places.unit}")
    descriptors = describe(rows)
    index = torch.from_numpy(pairs).to(descriptors.device)
    largest = [
        (descriptors[one] - descriptors[other]).square().sum(-1).max()
        for one, other in zip(*(part.split(PAIRS_AT_ONCE) for part in index), strict=True)
    ]
    return float(torch.stack(largest).max())
