"""Fit covariances of positions: scale the spread of likely points until it agrees with the errors."""

from math import log

import numpy as np
from scipy.optimize import minimize
from scipy.stats import chi2

from mappable.arrays import Floats

IGNORED = 0.05  # share of positions with the largest errors that the fit ignores
FEW_IGNORED, HELD = 0.01, 0.95  # the same for ellipses, and the share of errors that they hold


def fit_ellipses(spread: Floats, off: Floats, known: Floats) -> tuple[float, float]:
    """Like `fit_deviations`, with covariances scaled so that 95 % ellipses hold 95 % of the errors.

    `known` (n,) are variances of each coordinate that add to these covariances and are not fitted.
    """
    k = off.shape[1]
    factor, deviation = fit_deviations(spread, off, ignored=FEW_IGNORED, known=known)
    covariances = factor * spread + (deviation**2 + known[:, None, None]) * np.eye(k)
    squared = np.einsum("ni,ni->n", off, np.linalg.solve(covariances, off[..., None])[..., 0])
    scale = float(np.quantile(squared, HELD) / chi2.ppf(HELD, k))
    return factor * scale, deviation * float(np.sqrt(scale))


def fit_deviations(
    spread: Floats, off: Floats, ignored: float = IGNORED, known: Floats | float = 0.0
) -> tuple[float, float]:
    """Factor and deviation that fit errors `off` (n, k): covariance = factor x `spread` + deviation² x identity."""
    k = off.shape[1]
    length = np.linalg.norm(off, axis=1)
    kept = length <= np.quantile(length, 1 - ignored)
    values, axes = np.linalg.eigh(spread[kept])
    given = np.broadcast_to(known, len(off))[kept, None]
    along = np.square(np.einsum("nij,ni->nj", axes, off[kept]))
    start = log(np.square(off[kept]).mean() + 1e-12)

    def cost(parameters: Floats) -> float:
        variance = np.exp(parameters[0]) * np.maximum(values, 0.0) + np.exp(parameters[1]) + given
        return float((np.log(variance) + along / variance).sum() / (k * len(along)))

    found = minimize(cost, [0.0, start], method="L-BFGS-B", bounds=[(-7.0, 5.0), (start - 10, start + 3)]).x
    return float(np.exp(found[0])), float(np.exp(0.5 * found[1]))
