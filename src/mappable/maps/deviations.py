"""Fit covariances of positions: scale the spread of likely points until it agrees with the errors."""

from math import log

import numpy as np
from scipy.optimize import minimize

from mappable.arrays import Floats, Ints

IGNORED = 0.05  # share of positions with the largest errors that the fit ignores


def erring_axes(off: Floats) -> Ints:
    """The axes in which positions err at all, by errors (n, k).

    Along the others, such as y of a route on one line, no error is possible. A fit would take that for high accuracy.
    """
    some = np.flatnonzero(off.any(axis=0))
    return some if len(some) else np.arange(off.shape[1])


def fit_deviations(spread: Floats, off: Floats) -> tuple[float, float]:
    """Factor and deviation that fit errors `off` (n, k): covariance = factor x `spread` + deviation² x identity."""
    some = erring_axes(off)
    off, spread = off[:, some], spread[:, some][:, :, some]
    k = off.shape[1]
    length = np.linalg.norm(off, axis=1)
    kept = length <= np.quantile(length, 1 - IGNORED)
    values, axes = np.linalg.eigh(spread[kept])
    along = np.square(np.einsum("nij,ni->nj", axes, off[kept]))
    start = log(np.square(off[kept]).mean() + 1e-12)

    def cost(parameters: Floats) -> float:
        variance = np.exp(parameters[0]) * np.maximum(values, 0.0) + np.exp(parameters[1])
        return float((np.log(variance) + along / variance).sum() / (k * len(along)))

    found = minimize(cost, [0.0, start], method="L-BFGS-B", bounds=[(-7.0, 5.0), (start - 10, start + 3)]).x
    return float(np.exp(found[0])), float(np.exp(0.5 * found[1]))
