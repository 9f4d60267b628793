"""Greedy farthest-point sampling: the paper's landmarks, chosen by position alone."""

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError


def farthest_points(positions: Floats, count: int, seed: int | np.random.Generator = 0) -> Ints:
    """Row numbers (count,) of positions (n, d); each position is the farthest from all earlier
    ones.

    The first position is random by `seed`. Of equally far positions, the one with the lowest row
    number is chosen. No row is chosen twice. With the same seed, the rows for a smaller `count` are
    the first rows for a larger one.

    >>> farthest_points(np.array([[0.0], [1.0], [5.0], [9.0]]), 3, seed=5)
    array([2, 0, 3])
    """
    if not 1 <= count <= len(positions):
        raise BadInputError(
            f"count is {count:,}, expected 1 to {len(positions):,}, the number of positions"
        )
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = np.random.default_rng(seed).integers(len(positions))
    nearest = np.full(len(positions), np.inf)  # squared distance to the nearest chosen position
    # Sums over long rows are much faster than over short ones.
    columns = np.ascontiguousarray(positions.T)
    for number in range(1, count):
        last = chosen[number - 1]
        apart = columns - columns[:, last, None]
        np.minimum(nearest, np.square(apart, out=apart).sum(axis=0), out=nearest)
        nearest[last] = -1.0  # so that the row of a duplicate position is not chosen again
        chosen[number] = np.argmax(nearest)
    return chosen
