"""SMACOF: fit points to distances in steps that never increase the stress.

The stress is the sum over pairs of w (|x_i - x_j| - d)². A step replaces the stress by a quadratic
function that touches it from above at the present points. Its minimum solves V x = B(X) X, where V
never changes. V is the Laplacian of the weights, and B is the Laplacian of w d / |x_i - x_j| (the
Guttman transform).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges

STEPS = 300  # at most
TOLERANCE = 3e-4  # relative decrease of the stress per step at which it stops
PLAIN = 4  # one step in four goes to the quadratic's minimum, the others twice as far
TINY = 1e-300  # metres: avoids division by 0 for points at the same place


@dataclass(frozen=True)
class Scaled:
    """The fitted points, and the stress at the start and after each step."""

    points: Floats  # (n, k)
    stresses: Floats  # (steps + 1,)

    @property
    def stress(self) -> float:
        return float(self.stresses[-1])


def smacof(
    distances: Floats, start: Floats, *, steps: int = STEPS, tolerance: float = TOLERANCE
) -> Scaled:
    """Fit points to a full matrix of distances (n, n), not squared, with equal weights.

    It stops when a step decreases the stress by less than the share `tolerance`. Use it for small
    n, because the matrices are dense.
    """
    wanted, points = np.asarray(distances, dtype=np.float64), np.array(start, dtype=np.float64)
    if wanted.shape != (len(points), len(points)):
        raise BadInputError(
            f"distances of {len(points)} points must have shape {(len(points), len(points))}, got"
            f" {wanted.shape}"
        )
    if not np.isfinite(wanted).all() or (wanted < 0).any():
        raise BadInputError("distances must be finite and 0 or more")
    if not np.allclose(wanted, wanted.T):
        raise BadInputError("the matrix of distances must be symmetric")
    i, j = np.triu_indices(len(points), 1)
    return sparse_smacof(
        Ranges(len(points), i, j, wanted[i, j], 1.0), points, steps=steps, tolerance=tolerance
    )


def sparse_smacof(
    ranges: Ranges, start: Floats, *, steps: int = STEPS, tolerance: float = TOLERANCE
) -> Scaled:
    """Fit points to sparse ranges, each with the weight 1 / sigma².

    The Laplacian is factored once, with one point of each connected part fixed. The cost of a step
    is proportional to the number of ranges. Most steps go twice as far as the quadratic's minimum,
    where the quadratic is as high as at the present points. The stress still does not increase, and
    bends straighten in half as many steps. But such a step only reverses an error of scale. Every
    fourth step is a plain step, which removes this error.
    """
    points = np.array(start, dtype=np.float64)
    if points.ndim != 2 or len(points) != ranges.count or not np.isfinite(points).all():
        raise BadInputError(
            f"the start must be finite numbers of shape ({ranges.count}, k), got shape"
            f" {points.shape}"
        )
    if not len(ranges):
        return Scaled(points, np.zeros(1))
    weights = ranges.sigma**-2
    held = np.unique(ranges.parts, return_index=True)[
        1
    ]  # ranges do not fix a part: put one of its points at the origin
    points -= points[held][ranges.parts]
    free = np.ones(ranges.count, dtype=bool)
    free[held] = False
    moving = points[free]
    differences = _differences(ranges)[:, free]
    gather = differences.T.tocsr()
    laplacian = (gather @ (diags_array(weights) @ differences)).tocsc()
    factor = splu(
        laplacian,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    pull = weights * ranges.metres
    apart = differences @ moving
    lengths = _lengths(apart)
    stresses = [float(weights @ np.square(lengths - ranges.metres))]
    for number in range(steps):
        apart *= (pull / np.maximum(lengths, TINY))[:, None]
        guttman = factor.solve(gather @ apart)
        ahead = guttman if number % PLAIN == 0 else 2 * guttman - moving
        apart = differences @ ahead
        lengths = _lengths(apart)
        stress = float(weights @ np.square(lengths - ranges.metres))
        if stress >= stresses[-1]:  # only rounding errors are left
            break
        moving = ahead
        stresses.append(stress)
        if len(stresses) > PLAIN and stresses[-1 - PLAIN] - stress < PLAIN * tolerance * stress:
            break
    points[free] = moving
    return Scaled(points, np.array(stresses))


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.einsum("ek,ek->e", vectors, vectors))
    return lengths


def _differences(ranges: Ranges) -> csr_array:
    """Return the matrix (edges, count) that maps points to x_i - x_j, with one row per range."""
    edges = len(ranges)
    columns = np.stack([ranges.i, ranges.j], 1).ravel()
    signs = np.tile([1.0, -1.0], edges)
    return csr_array((signs, columns, np.arange(0, 2 * edges + 1, 2)), shape=(edges, ranges.count))
