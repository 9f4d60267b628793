"""Complete a masked matrix of squared distances by descent, for comparison.

It is dense: memory grows with n², so it is for a few hundred points.
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
    """A method stopped before it reached the required accuracy."""


@dataclass(frozen=True)
class Completed:
    """All squared distances, in the unit of the observed ones, and where that puts the points."""

    squared_distances: Floats  # (n, n)
    positions: Floats  # (n, k), by classical MDS about the origin
    gap: float | None = None  # relative duality gap of a semidefinite program


def s_stress(
    squared_distances: Floats, mask: Bools, dimensions: int, *, starts: int = 5, seed: int = 0, iterations: int = 5000
) -> Completed:
    """The points of the lowest s-stress found: the sum of (||x_i - x_j||² - d_ij)² over observed pairs.

    L-BFGS goes down from the points that the shortest paths along the pairs suggest, and from random ones, as the
    s-stress has many hollows; the lowest end counts.
    """
    ranges = observed(squared_distances, mask, dimensions)
    if starts < 1:
        raise BadInputError(f"there are {starts} starts, but must be at least 1")
    unit = float(np.square(ranges.metres).max())
    squared = np.square(ranges.metres) / unit
    geodesic = classical_mds(geodesics(ranges) / unit, dimensions)
    rng, spread = generator(seed, Purpose.COMPLETION), float(geodesic.std())
    randoms = (spread * rng.standard_normal(geodesic.shape) for _ in range(starts - 1))
    ends = [_descend(ranges, squared, start, iterations) for start in (geodesic, *randoms)]
    _, points, converged = min(ends, key=lambda end: end[0])
    if not converged:
        raise NotConvergedError(f"the s-stress did not converge in {iterations:,} steps")
    points = np.sqrt(unit) * (points - points.mean(0))
    return Completed(squared_distances_of(points), points)


def squared_distances_of(points: Floats) -> Floats:
    """All squared distances (n, n) among points (n, k)."""
    squared: Floats = np.square(points[:, None, :] - points[None, :, :]).sum(2)
    return squared


def geodesics(ranges: Ranges) -> Floats:
    """The squared lengths (n, n) of the shortest paths along connected ranges."""
    squared: Floats = np.square(dijkstra(ranges.graph, directed=False))
    return (squared + squared.T) / 2


def _descend(ranges: Ranges, squared: Floats, start: Floats, iterations: int) -> tuple[float, Floats, bool]:
    """The s-stress at the end of a way down from a start, the points there, and whether it went all the way."""
    settings = {"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 20}
    arguments = (start.shape, ranges.i, ranges.j, squared)
    end = minimize(_value_and_slope, start.ravel(), arguments, jac=True, method="L-BFGS-B", options=settings)
    return float(end.fun), end.x.reshape(start.shape), bool(end.success)


def _value_and_slope(flat: Floats, shape: tuple[int, ...], i: Ints, j: Ints, squared: Floats) -> tuple[float, Floats]:
    """The s-stress of points, their coordinates in a row, and its slope in each of these."""
    points = flat.reshape(shape)
    along = points[i] - points[j]
    misfit = np.square(along).sum(1) - squared
    pull = 4.0 * misfit[:, None] * along
    slope = np.zeros_like(points)
    np.add.at(slope, i, pull)
    np.subtract.at(slope, j, pull)
    return float(misfit @ misfit), slope.ravel()
