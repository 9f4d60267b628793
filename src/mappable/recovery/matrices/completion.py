"""Complete a masked matrix of squared distances by descent, for comparison.

All arrays are dense: memory grows with n², so use it for a few hundred points.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.csgraph import dijkstra

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, MappableError
from mappable.randomness import Purpose, generator
from mappable.recovery.matrices.mask import observed
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.mds import classical_mds


class NotConvergedError(MappableError):
    """Raised if a method stops before it reaches the required accuracy."""


@dataclass(frozen=True)
class Completed:
    """All squared distances, in the unit of the observed ones, and the points with these distances."""

    squared_distances: Floats  # (n, n)
    positions: Floats  # (n, k), centered at the origin
    gap: float | None = None  # relative duality gap of a semidefinite program


def s_stress(
    squared_distances: Floats, mask: Bools, dimensions: int, *, starts: int = 5, seed: int = 0, iterations: int = 5000
) -> Completed:
    """Minimize the s-stress, the sum of (||x_i - x_j||² - d_ij)² over observed pairs, with d_ij squared distances.

    The s-stress has many local minima. So L-BFGS starts from classical MDS of the shortest paths, and from random
    points, and the lowest minimum is returned.
    """
    ranges = observed(squared_distances, mask, dimensions)
    if starts < 1:
        raise BadInputError(f"starts must be 1 or more, got {starts}")
    unit = float(np.square(ranges.metres).max())
    squared = np.square(ranges.metres) / unit
    geodesic = classical_mds(geodesics(ranges) / unit, dimensions)
    rng, spread = generator(seed, Purpose.COMPLETION), float(geodesic.std())
    randoms = (spread * rng.standard_normal(geodesic.shape) for _ in range(starts - 1))
    ends = [_descend(ranges, squared, start, iterations) for start in (geodesic, *randoms)]
    _, points, converged = min(ends, key=lambda end: end[0])
    if not converged:
        raise NotConvergedError(f"the s-stress did not converge in {iterations:,} steps: allow more iterations")
    points = np.sqrt(unit) * (points - points.mean(0))
    return Completed(squared_distances_of(points), points)


def squared_distances_of(points: Floats) -> Floats:
    """Return all squared distances (n, n) between points (n, k)."""
    squared: Floats = np.square(points[:, None, :] - points[None, :, :]).sum(2)
    return squared


def geodesics(ranges: Ranges) -> Floats:
    """Return the squared lengths (n, n) of the shortest paths along connected ranges."""
    squared: Floats = np.square(dijkstra(ranges.graph, directed=False))
    return (squared + squared.T) / 2


def _descend(ranges: Ranges, squared: Floats, start: Floats, iterations: int) -> tuple[float, Floats, bool]:
    """Return the s-stress at the minimum reached from a start, the points there, and whether it converged."""
    settings = {"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 20}
    arguments = (start.shape, ranges.i, ranges.j, squared)
    end = minimize(_value_and_gradient, start.ravel(), arguments, jac=True, method="L-BFGS-B", options=settings)
    return float(end.fun), end.x.reshape(start.shape), bool(end.success)


def _value_and_gradient(
    flat: Floats, shape: tuple[int, ...], i: Ints, j: Ints, squared: Floats
) -> tuple[float, Floats]:
    """Return the s-stress of points, given as a flat array, and its gradient."""
    points = flat.reshape(shape)
    along = points[i] - points[j]
    misfit = np.square(along).sum(1) - squared
    pull = 4.0 * misfit[:, None] * along
    gradient = np.zeros_like(points)
    np.add.at(gradient, i, pull)
    np.subtract.at(gradient, j, pull)
    return float(misfit @ misfit), gradient.ravel()
