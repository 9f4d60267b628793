"""Measure F², the squared feature distance that corresponds to the positive radius, before training."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.places.neighbors import find_neighbors
from mappable.places.table import Places
from mappable.randomness import Purpose, generator

# Random training images that are measured; the paper's code used as many for Oxford.
MAX_IMAGES = 10_000
PAIRS_AT_ONCE = 256


def measure_feature_scale(
    places: Places,
    describe: Callable[[Ints], Tensor],
    *,
    positive_radius: float,
    yaw_limit: float | None,
    seed: int,
) -> float:
    """Return the maximum of ||f_i - f_j||² over pairs of training images at most `positive_radius`
    apart.

    `describe` returns the descriptors (k, D) of rows of `places`. At most 10,000 random images are
    measured. A pair must also agree in yaw if there is a `yaw_limit` (radians).
    """
    rows = np.sort(generator(seed, Purpose.FEATURE_SCALE).permutation(len(places))[:MAX_IMAGES])
    near = find_neighbors(places[rows], positive_radius, max_yaw=yaw_limit)
    first = np.repeat(np.arange(len(rows)), near.counts)
    once = first < near.rows
    pairs = np.stack([first[once], near.rows[once]])
    if not pairs.shape[1]:
        raise BadInputError(
            f"no two training places are within the positive radius, {positive_radius:g}"
            f" {places.unit}; raise positive_radius, or set feature_scale_squared to a number"
        )
    descriptors = describe(rows)
    index = torch.from_numpy(pairs).to(descriptors.device)
    largest = [
        (descriptors[first_rows] - descriptors[second_rows]).square().sum(-1).max()
        for first_rows, second_rows in zip(
            *(part.split(PAIRS_AT_ONCE) for part in index), strict=True
        )
    ]
    return float(torch.stack(largest).max())
