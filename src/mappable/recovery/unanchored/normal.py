"""The normal equations of ranges: their information about coordinates, as a matrix that can be solved.

A range changes only if its points move along the line between them. So its part of J'J is one (k, k) block, which
occurs twice on the diagonal and twice, negative, off the diagonal.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from mappable.arrays import Floats
from mappable.recovery.ranges import Ranges

DENSE = 700  # coordinates up to which a dense matrix is faster: 0.6 ms instead of 13 for 80 points in 3-D
DENSER, FILLED = 3_000, 0.05  # the same up to more coordinates, if more than this share of all pairs has a range
TINY = 1e-9  # metres: avoids division by 0 for points at the same place

Solve = Callable[[Floats], Floats]


def directions(ranges: Ranges, points: Floats) -> tuple[Floats, Floats]:
    """Return the derivatives of ranges by point i (edges, k), in sigmas per metre, and residuals (edges,) in sigmas."""
    apart = points[ranges.i] - points[ranges.j]
    lengths = np.sqrt(np.einsum("ek,ek->e", apart, apart))
    slopes: Floats = apart / (np.maximum(lengths, TINY) * ranges.sigma)[:, None]
    return slopes, (lengths - ranges.metres) / ranges.sigma


def gradient(ranges: Ranges, slopes: Floats, residuals: Floats) -> Floats:
    """Return J'r (count, k): half the gradient of the sum of squared residuals."""
    pulls = slopes * residuals[:, None]
    columns = [
        np.bincount(ranges.i, pull, ranges.count) - np.bincount(ranges.j, pull, ranges.count) for pull in pulls.T
    ]
    return np.stack(columns, 1)


class Information:
    """The information matrix J'J of some ranges."""

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
        """Return a function that solves (J'J + diag(damping)) x = b, for b (count * k,) or (count * k, m).

        This raises LinAlgError or RuntimeError if the matrix is singular.
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
