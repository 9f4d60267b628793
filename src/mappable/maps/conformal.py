"""Split-conformal prediction: a bound that a new score keeps with a stated probability, at any sample size."""

import math

import numpy as np

from mappable.arrays import Floats, Ints

FOLDS = 20  # largest number of folds, which are left out in turn
ROUNDING = 1e-9  # tolerance of a rank, so that 0.9 x 10 counts as 9


def conformal_quantile(scores: Floats, coverage: float) -> float:
    """The smallest of the scores (n,) that a new score does not exceed with a probability of `coverage`.

    This is the score of rank ceil((n + 1) coverage), or infinity if that rank exceeds n. The bound holds if the new
    score and the others are exchangeable.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9), conformal_quantile(np.arange(1.0, 10.0), 0.91)
    (9.0, inf)
    """
    rank = max(1, math.ceil((len(scores) + 1) * coverage - ROUNDING))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


def in_folds(count: int) -> Ints:
    """The number of the fold (count,) of each image, with images in order.

    A fold is one stretch of a drive. Neighboring images look alike, so they must be left out together.
    """
    folds: Ints = np.arange(count) * min(FOLDS, count) // max(count, 1)
    return folds
