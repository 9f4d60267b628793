"""Polish: minimize the squared residuals over all points at once, by Levenberg-Marquardt.

SMACOF comes near the minimum in a few cheap steps, but then converges slowly. Close to the minimum, Gauss-Newton steps
converge quadratically.
"""

from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError

from mappable.arrays import Floats
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.normal import Information, directions, gradient

STEPS = 60  # at most
TOLERANCE = 1e-5  # decrease per step at which it stops, relative to the stress or to 1e-3 squared sigmas per range
TRIALS = 8  # per step, each with ten times the damping of the previous trial
DAMPING, LEAST_DAMPING = 1e-3, 1e-9  # share of the diagonal


@dataclass(frozen=True)
class Polished:
    """Points, and the sum of their squared residuals in sigmas."""

    points: Floats  # (n, k)
    stress: float


def polish(ranges: Ranges, start: Floats, *, steps: int = STEPS, tolerance: float = TOLERANCE) -> Polished:
    """Find a local minimum of the sum over ranges of ((|x_i - x_j| - d) / sigma)²; no step increases the sum."""
    points, damping = np.array(start, dtype=np.float64), DAMPING
    slopes, residuals = directions(ranges, points)
    stress = float(residuals @ residuals)
    for _ in range(steps):
        information = Information(ranges, slopes)
        wanted = gradient(ranges, slopes, residuals).ravel()
        floor = LEAST_DAMPING * max(float(information.diagonal.mean()), 1e-300)  # ranges do not fix rigid motions
        for _ in range(TRIALS):
            ahead = _step(information, damping * information.diagonal + floor, wanted)
            if ahead is not None:
                moved = points - ahead.reshape(points.shape)
                slopes_there, residuals_there = directions(ranges, moved)
                stress_there = float(residuals_there @ residuals_there)
                if stress_there < stress:
                    break
            damping *= 10
        else:
            break
        gained = stress - stress_there
        points, slopes, residuals, stress = moved, slopes_there, residuals_there, stress_there
        damping = max(damping / 10, LEAST_DAMPING)
        if gained < tolerance * max(stress, 1e-3 * len(ranges)):
            break
    return Polished(points, stress)


def _step(information: Information, damping: Floats, wanted: Floats) -> Floats | None:
    try:
        return information.factored(damping)(wanted)
    except (LinAlgError, RuntimeError):  # singular by rounding
        return None
