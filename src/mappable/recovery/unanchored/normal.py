"""The normal equations of ranges: what they know about coordinates, as a matrix that can be solved.

A range changes with its two points along the line between them. So its part of J'J is one (k, k) block, which stands
twice on the diagonal and twice, negative, beside it.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from mappable.arrays import Floats
from mappable.recovery.ranges import Ranges

DENSE = 700  # coordinates; with fewer, a dense matrix is faster: 0.6 ms instead of 13 for 80 points in 3-D
DENSER, FILLED = 3_000, 0.05  # so is it with these, if so large a share of all pairs has a range
TINY = 1e-9  # metres: points at the same place have no direction to each other

Solve = Callable[[Floats], Floats]


def directions(ranges: Ranges, points: Floats) -> tuple[Floats, Floats]:
    """How each range changes (edges, k) with its point i, in sigmas per metre, and its residual (edges,) in sigmas."""
    apart = points[ranges.i] - points[ranges.j]
    lengths = np.sqrt(np.einsum("ek,ek->e", apart, apart))
    slopes: Floats = apart / (np.maximum(lengths, TINY) * ranges.sigma)[:, None]
    return slopes, (lengths - ranges.metres) / ranges.sigma


def gradient(ranges: Ranges, slopes: Floats, residuals: Floats) -> Floats:
    """J'r, (count, k): half the slope of the sum of squared residuals."""
    pulls = slopes * residuals[:, None]
    columns = [
        np.bincount(ranges.i, pull, ranges.count) - np.bincount(ranges.j, pull, ranges.count) for pull in pulls.T
    ]
    return np.stack(columns, 1)


class Information:
    """J'J of some ranges."""

    def __init__(self, ranges: Ranges, slopes: Floats) -> None:
        self.ranges, (edges, self.dimensions) = ranges, slopes.shape
        self.blocks = np.einsum("ea,eb->eab", slopes, slopes)
        flat = self.blocks.reshape(edges, self.dimensions**2).T
        sums = [
            np.bincount(ranges.i, block, ranges.count) + np.bincount(ranges.j, block, ranges.count) for block in flat
        ]
        self.own = np.stack(sums, 1).reshape(ranges.count, self.dimensions, self.dimensions)
        self.diagonal: Floats = np.einsum("naa->na", self.own).ravel()

    def factored(self, damping: Floats) -> Solve:
        """A function that solves (J'J + diag(damping)) x = b, for b (count * k,) or (count * k, m).

        It raises LinAlgError or RuntimeError where the matrix is singular.
        """
        count = self.ranges.count
        filled = len(damping) <= DENSER and 2 * len(self.ranges) > FILLED * count**2
        return self._dense(damping) if len(damping) <= DENSE or filled else self._sparse(damping)

    def _dense(self, damping: Floats) -> Solve:
        count, axes = self.ranges.count, self.dimensions
        matrix = np.zeros((count, axes, count, axes))
        matrix[self.ranges.i, :, self.ranges.j] = matrix[self.ranges.j, :, self.ranges.i] = -self.blocks
        points = np.arange(count)
        matrix[points, :, points] = self.own
        square = matrix.reshape(len(damping), len(damping))
        square[np.diag_indices(len(damping))] += damping
        factor = cho_factor(square, lower=True, overwrite_a=True, check_finite=False)
        return lambda right: cho_solve(factor, right, check_finite=False)

    def _sparse(self, damping: Floats) -> Solve:
        axes = np.arange(self.dimensions)
        points = np.arange(self.ranges.count)
        first = np.concatenate([self.ranges.i, self.ranges.j, points])[:, None, None] * self.dimensions
        second = np.concatenate([self.ranges.j, self.ranges.i, points])[:, None, None] * self.dimensions
        values = np.concatenate([-self.blocks, -self.blocks, self.own])
        rows = np.broadcast_to(first + axes[:, None], values.shape).ravel()
        columns = np.broadcast_to(second + axes, values.shape).ravel()
        matrix = coo_array((values.ravel(), (rows, columns)), shape=(len(damping), len(damping))).tocsc()
        matrix.setdiag(self.diagonal + damping)
        factor = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        return factor.solve  # type: ignore[no-any-return]
