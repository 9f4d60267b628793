"""Array types and small array functions that every room uses."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pixels = NDArray[np.uint8]
Strings = NDArray[np.object_]  # of str

# A larger number marks a missing value, such as 1e38; squares of 1e200 would overflow.
MAX_COORDINATE = 1e9


def evenly(available: int, count: int, *, nearest: bool = False) -> Ints:
    """Choose at most `count` of the indices 0 to `available` - 1, evenly spaced; the first and the
    last are included.

    A position between two indices is rounded down, or with `nearest` to the nearer index.

    >>> evenly(10, 4).tolist()
    [0, 3, 6, 9]
    """
    positions = np.linspace(0, available - 1, min(count, available))
    return np.unique((positions.round() if nearest else positions).astype(np.int64))


def path_length(positions: Floats) -> Floats:
    """Length of the path from the first position to each position: (n, k) positions give (n,)
    lengths.

    >>> path_length(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])).tolist()
    [0.0, 5.0, 6.0]
    """
    steps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    length: Floats = np.concatenate([[0.0], np.cumsum(steps)])
    return length
