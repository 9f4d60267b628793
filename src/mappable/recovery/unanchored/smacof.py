"""SMACOF: move points step by step toward their distances; the stress never rises.

The stress is the sum over pairs of w (|x_i - x_j| - d)². A step replaces it by a quadratic function that touches it
from above at the present points, and whose minimum follows from one linear system that never changes: V x = B(X) X,
with V the Laplacian of the weights and B that of w d / |x_i - x_j| (the Guttman transform).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges

STEPS = 300
TOLERANCE = 3e-4
PLAIN = 4
TINY = 1e-300  # metres: points at the same place pull each other in no direction


@dataclass(frozen=True)
class Scaled:
    """Where the points came to lie, and the stress at the start and after each step."""

    points: Floats  # (n, k)
    stresses: Floats  # (steps + 1,)

    @property
    def stress(self) -> float:
        return float(self.stresses[-1])


def smacof(distances: Floats, start: Floats, *, steps: int = STEPS, tolerance: float = TOLERANCE) -> Scaled:
    """Points from a whole matrix of distances (n, n), not squared, with equal weights.

    It stops where a step lowers the stress by less than `tolerance` of it. Made for small n: the matrices are dense.
    """
    wanted, points = np.asarray(distances, dtype=np.float64), np.array(start, dtype=np.float64)
    if wanted.shape != (len(points), len(points)):
        raise BadInputError(f"the distances of {len(points)} points are a square matrix, not {wanted.shape}")
    if not np.isfinite(wanted).all() or (wanted < 0).any() or not np.allclose(wanted, wanted.T):
        raise BadInputError("the distances are numbers from 0 on, the same in both directions")
    i, j = np.triu_indices(len(points), 1)
    return sparse_smacof(Ranges(len(points), i, j, wanted[i, j], 1.0), points, steps=steps, tolerance=tolerance)


def sparse_smacof(ranges: Ranges, start: Floats, *, steps: int = STEPS, tolerance: float = TOLERANCE) -> Scaled:
    """Points from sparse ranges, each with the weight 1 / sigma².

    The Laplacian is factored once, with one point of each connected part held; a step costs about as much as there
    are ranges. Most steps go twice as far as the quadratic's minimum, to where it is as high again as at the present
    points: the stress still does not rise, and bends are undone in half as many steps. Such a step only turns an error
    of scale around, though; a plain step, which is each fourth, removes it.
    """
    points = np.array(start, dtype=np.float64)
    if points.ndim != 2 or len(points) != ranges.count or not np.isfinite(points).all():
        raise BadInputError(f"the start is ({ranges.count}, k) finite numbers, not {points.shape}")
    if not len(ranges):
        return Scaled(points, np.zeros(1))
    weights = ranges.sigma**-2
    held = np.unique(ranges.parts, return_index=True)[1]  # ranges do not say where a part lies: at the origin, say
    points -= points[held][ranges.parts]
    free = np.ones(ranges.count, dtype=bool)
    free[held] = False
    moving = points[free]
    differences = _differences(ranges)[:, free]
    gather = differences.T.tocsr()
    laplacian = (gather @ (diags_array(weights) @ differences)).tocsc()
    factor = splu(laplacian, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
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
        if stress >= stresses[-1]:  # by rounding, where no more is to be gained
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
    """The matrix (edges, count) that makes x_i - x_j of points, a row a range."""
    edges = len(ranges)
    columns = np.stack([ranges.i, ranges.j], 1).ravel()
    signs = np.tile([1.0, -1.0], edges)
    return csr_array((signs, columns, np.arange(0, 2 * edges + 1, 2)), shape=(edges, ranges.count))
