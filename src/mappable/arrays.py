"""Names for array types, and small functions on arrays that every room uses."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pixels = NDArray[np.uint8]
Strings = NDArray[np.object_]  # of str


def evenly(available: int, count: int, *, nearest: bool = False) -> Ints:
    """At most `count` of the indices below `available`, spread evenly, the first and the last among them.

    Positions between two indices take the lower one, or with `nearest` the nearer one.

    >>> evenly(10, 4).tolist()
    [0, 3, 6, 9]
    """
    positions = np.linspace(0, available - 1, min(count, available))
    return np.unique((positions.round() if nearest else positions).astype(np.int64))


def path_length(positions: Floats) -> Floats:
    """The length of the path from the first of the positions (n, k) to each of them, shape (n,).

    >>> path_length(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])).tolist()
    [0.0, 5.0, 6.0]
    """
    steps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    length: Floats = np.concatenate([[0.0], np.cumsum(steps)])
    return length
