"""Greedy farthest-point sampling: the paper's landmarks, chosen by position alone."""

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError


def farthest_points(positions: Floats, count: int, seed: int | np.random.Generator = 0) -> Ints:
    """Row numbers (count,) of positions (n, d), each the farthest from all before it; the first is random by `seed`.

    Of equally far ones the first is taken; no row is taken twice. The rows of a smaller `count` are the beginning of
    those of a larger one.

    >>> farthest_points(np.array([[0.0], [1.0], [5.0], [9.0]]), 3, seed=5)
    array([2, 0, 3])
    """
    if not 1 <= count <= len(positions):
        raise BadInputError(f"cannot choose {count:,} of {len(positions):,} positions")
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = np.random.default_rng(seed).integers(len(positions))
    nearest = np.full(len(positions), np.inf)  # squared distance to the nearest chosen one
    columns = np.ascontiguousarray(positions.T)  # long rows are added up much faster than short ones
    for number in range(1, count):
        last = chosen[number - 1]
        apart = columns - columns[:, last, None]
        np.minimum(nearest, np.square(apart, out=apart).sum(axis=0), out=nearest)
        nearest[last] = -1.0  # positions that coincide are told apart
        chosen[number] = np.argmax(nearest)
    return chosen
