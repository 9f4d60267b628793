"""Split-conformal prediction: the bound that a new score keeps to with a stated probability, at any sample size."""

import numpy as np

from mappable.arrays import Floats, Ints

FOLDS = 20  # parts that are left out in turn
ROUNDING = 1e-9  # of a rank: 0.9 x 10 is 9


def conformal_quantile(scores: Floats, coverage: float, weights: Floats | None = None) -> float:
    """The smallest of the scores (n,) that is at least a new score with a probability of `coverage`.

    It is the score of rank ceil((n + 1) coverage), which holds if the new score and the others are exchangeable.
    Infinite if that rank exceeds n. Where the new score is drawn in another way, `weights` (n,) say how much likelier
    each of the scores is in that way, beside the weight 1 of the new score.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9), conformal_quantile(np.arange(1.0, 10.0), 0.91)
    (9.0, inf)
    """
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(np.ones(len(order)) if weights is None else weights[order])
    needed = coverage * (1 + (below[-1] if len(below) else 0.0))
    place = int(np.searchsorted(below, needed - ROUNDING))
    return float(scores[order[place]]) if place < len(order) else np.inf


def in_folds(count: int) -> Ints:
    """The fold (count,) of each of some images in their order.

    A fold is one stretch: neighboring images of a drive are alike, so they are left out together.
    """
    folds: Ints = np.arange(count) * min(FOLDS, count) // max(count, 1)
    return folds
