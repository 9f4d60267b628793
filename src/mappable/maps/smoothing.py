"""Smooth the positions of a drive: a camera changes its velocity little from one image to the next."""

import numpy as np
from scipy.linalg import solveh_banded

from mappable.arrays import Bools, Floats

FREEDOM = 2.0  # degrees of freedom of Student's t, which errors of positions follow: outliers count little
ROUNDS = 10  # of reweighting
SHORT = 0.3  # share of steps along a drive that are shorter than the one that counts
LASTING, FEWEST = 9, 4  # images before and after a jump that tell whether it lasts, and the least number


def smooth_path(measured: Floats, deviations: Floats, bend: float, breaks: Bools) -> Floats:
    """Positions (n, k) of a camera, measured at (n, k) with deviations (n,) per axis.

    They minimize the squared errors in these deviations, plus the squared changes of velocity (metres per image) over
    their deviation, `bend`. An error
    far beyond its deviation counts less. `breaks` (n,) marks images before which the camera may have moved anywhere.
    """
    count, k = measured.shape
    middle = np.flatnonzero(~breaks[1:-1] & ~breaks[2:]) + 1
    stiff, precision = 1 / np.square(bend), 1 / np.square(deviations)
    bends = np.zeros((3, count))  # a banded matrix, whose last row is the diagonal
    for row, offset, factor in ((2, -1, 1), (2, 0, 4), (2, 1, 1), (1, 0, -2), (1, 1, -2), (0, 1, 1)):
        bends[row, middle + offset] += factor * stiff
    smooth = measured
    for _ in range(ROUNDS):
        off = np.square(smooth - measured).sum(1) * precision
        weight = precision * (FREEDOM + k) / (FREEDOM + off)
        banded = bends.copy()
        banded[2] += weight
        smooth = solveh_banded(banded, weight[:, None] * measured)
    return smooth


def step_along(measured: Floats) -> float:
    """A short step of a camera at positions (n, k), from images `LASTING` apart: errors of positions count little."""
    apart = min(LASTING, len(measured) - 1)
    return float(np.quantile(np.linalg.norm(measured[apart:] - measured[:-apart], axis=1), SHORT)) / apart


def lasting_jumps(measured: Floats, step: float, radius: float) -> Bools:
    """Images (n,) before which positions (n, k) jump to another place, and stay there: a part of the drive is missing.

    The medians of the images before and after are then farther apart than twice the usual way between them, plus two
    radii of a place. A few images that are taken for another place are no such jump.
    """
    count = len(measured)
    jumps = np.zeros(count, dtype=bool)
    if count < 2 * FEWEST:
        return jumps
    padded = np.pad(measured, ((LASTING, LASTING - 1), (0, 0)), mode="edge")
    medians = np.median(np.lib.stride_tricks.sliding_window_view(padded, LASTING, axis=0), axis=2)
    inside = np.arange(FEWEST, count - FEWEST + 1)
    apart = np.linalg.norm(medians[inside + LASTING] - medians[inside], axis=1)
    jumped = np.linalg.norm(measured[inside] - measured[inside - 1], axis=1)
    jumps[inside] = (apart > 2 * LASTING * step + 2 * radius) & (jumped > apart / 2)
    return jumps
