"""Smooth the positions of a drive: the velocity of a camera changes little from one image to the next."""

import numpy as np
from scipy.linalg import solveh_banded

from mappable.arrays import Bools, Floats

DEGREES_OF_FREEDOM = 2.0  # of Student's t distribution of the errors, which makes outliers count little
ITERATIONS = 10  # of iteratively reweighted least squares
STEP_QUANTILE = 0.3  # quantile of the steps along a drive that counts as its step
JUMP_STEPS, JUMP_RADII = 3.0, 3.5  # a jump is longer than these usual steps and radii of a place together
# A jump lasts if medians before and after are at least this share of it apart; by studies/drives.
LASTING = 0.8
WINDOW, LEAST_WINDOW = 9, 4  # images before and after a jump that show whether it lasts, and their smallest number


def smooth_path(measured: Floats, deviations: Floats, bend: float, breaks: Bools) -> Floats:
    """Smooth positions (n, k) of a camera, `measured` (n, k) with standard deviations (n,) per axis.

    The result minimizes a sum of squares: errors over their deviations, and changes of velocity over `bend`. Velocity
    is in metres per image. Outliers, far beyond their deviation, count less. `breaks` (n,) marks images before which
    the camera may have moved anywhere.
    """
    count, k = measured.shape
    middle = np.flatnonzero(~breaks[1:-1] & ~breaks[2:]) + 1
    stiff, precision = 1 / np.square(bend), 1 / np.square(deviations)
    bends = np.zeros((3, count))  # upper banded form: the last row is the diagonal
    for row, offset, factor in ((2, -1, 1), (2, 0, 4), (2, 1, 1), (1, 0, -2), (1, 1, -2), (0, 1, 1)):
        bends[row, middle + offset] += factor * stiff
    smooth = measured
    for _ in range(ITERATIONS):
        off = np.square(smooth - measured).sum(1) * precision
        weight = precision * (DEGREES_OF_FREEDOM + k) / (DEGREES_OF_FREEDOM + off)
        banded = bends.copy()
        banded[2] += weight
        smooth = solveh_banded(banded, weight[:, None] * measured)
    return smooth


def step_along(measured: Floats) -> float:
    """A short step of a camera at positions (n, k), measured over `WINDOW` images, so that errors count little."""
    apart = min(WINDOW, len(measured) - 1)
    return float(np.quantile(np.linalg.norm(measured[apart:] - measured[:-apart], axis=1), STEP_QUANTILE)) / apart


def lasting_jumps(measured: Floats, step: float, radius: float) -> Bools:
    """Images (n,) before which positions (n, k) jump to another place and stay there, because images are missing.

    Such a jump is longer than `JUMP_STEPS` usual steps plus `JUMP_RADII` radii of a place. The medians of the images
    before and after are nearly as far apart. A few images at a wrong place are not such a jump.
    """
    count = len(measured)
    jumps = np.zeros(count, dtype=bool)
    if count < 2 * LEAST_WINDOW:
        return jumps
    padded = np.pad(measured, ((WINDOW, WINDOW - 1), (0, 0)), mode="edge")
    medians = np.median(np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=0), axis=2)
    inside = np.arange(LEAST_WINDOW, count - LEAST_WINDOW + 1)
    apart = np.linalg.norm(medians[inside + WINDOW] - medians[inside], axis=1)
    jumped = np.linalg.norm(measured[inside] - measured[inside - 1], axis=1)
    jumps[inside] = (jumped > JUMP_STEPS * step + JUMP_RADII * radius) & (apart > LASTING * jumped)
    return jumps
