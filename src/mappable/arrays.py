"""Names for the array types that signatures use."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pixels = NDArray[np.uint8]
Strings = NDArray[np.object_]  # of str


def evenly(available: int, count: int) -> Ints:
    """At most `count` of the indices below `available`, spread evenly, the first and the last among them.

    >>> evenly(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, available - 1, min(count, available)).astype(np.int64))
