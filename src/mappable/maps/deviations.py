"""Covariances of positions: how a spread of likely points becomes a covariance that errors agree with."""

from math import log

import numpy as np
from scipy.optimize import minimize

from mappable.arrays import Floats

TRIMMED = 0.05  # share of the worst positions that do not count for the covariance


def fit_deviations(spread: Floats, off: Floats) -> tuple[float, float]:
    """The factor and the deviation that make `off` (n, k) likeliest, the worst left out, as covariances' size."""
    k = off.shape[1]
    length = np.linalg.norm(off, axis=1)
    kept = length <= np.quantile(length, 1 - TRIMMED)
    values, axes = np.linalg.eigh(spread[kept])
    along = np.square(np.einsum("nij,ni->nj", axes, off[kept]))
    start = log(np.square(off[kept]).mean() + 1e-12)

    def cost(parameters: Floats) -> float:
        variance = np.exp(parameters[0]) * np.maximum(values, 0.0) + np.exp(parameters[1])
        return float((np.log(variance) + along / variance).sum() / (k * len(along)))

    found = minimize(cost, [0.0, start], method="L-BFGS-B", bounds=[(-7.0, 5.0), (start - 10, start + 3)]).x
    return float(np.exp(found[0])), float(np.exp(0.5 * found[1]))
