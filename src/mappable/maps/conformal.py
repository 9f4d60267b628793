"""Split-conformal prediction: a bound that a new score keeps with a stated probability, at any sample size."""

import numpy as np

from mappable.arrays import Floats, Ints

FOLDS = 20  # largest number of folds, which are left out in turn
ROUNDING = 1e-9  # tolerance of a rank, so that 0.9 x 10 counts as 9


def conformal_quantile(scores: Floats, coverage: float, weights: Floats | None = None) -> float:
    """The smallest of the scores (n,) that a new score does not exceed with a probability of `coverage`.

    This is the score of rank ceil((n + 1) coverage), or infinity if that rank exceeds n. The bound holds if the new
    score and the others are exchangeable. If the new score comes from another distribution, `weights` (n,) say how
    much more likely each score is under that distribution. The new score itself has the weight 1.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9), conformal_quantile(np.arange(1.0, 10.0), 0.91)
    (9.0, inf)
    """
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(np.ones(len(order)) if weights is None else weights[order])
    needed = coverage * (1 + (below[-1] if len(below) else 0.0))
    place = int(np.searchsorted(below, needed - ROUNDING))
    return float(scores[order[place]]) if place < len(order) else np.inf


def in_folds(count: int) -> Ints:
    """The number of the fold (count,) of each image, with images in order.

    A fold is one stretch of a drive. Neighboring images look alike, so they must be left out together.
    """
    folds: Ints = np.arange(count) * min(FOLDS, count) // max(count, 1)
    return folds
