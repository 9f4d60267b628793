"""Banded symmetric linear systems: solve them, draw samples, and invert parts.

Points are ordered so that coupled points are close to each other, which makes the matrix a narrow band. The band of a
route stays narrow however long the route is. So solving takes time and memory in proportion to its length. The same
holds for marginal covariances, because the blocks of the inverse within the band follow from each other (Takahashi's
equations).
"""

import numpy as np
from scipy.linalg.lapack import dpbtrf, dpbtrs, dpotri, dtbtrs, dtrtrs
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mappable.arrays import Floats, Ints
from mappable.errors import MappableError

LEAST_BLOCK = 64  # rows of a block in which the inverse is computed, at least


class SingularError(MappableError):
    """Raised if the system has no unique solution."""


class Elimination:
    """The order of elimination for `count` points of k coordinates that are coupled along pairs `i`, `j` (edges,).

    Each pair occurs once. A symmetric matrix of this pattern has blocks `diagonal` (count, k, k) and `coupling`
    (edges, k, k). The rows of a coupling block belong to i, and its columns to j.
    """

    def __init__(self, count: int, dimensions: int, i: Ints, j: Ints) -> None:
        self.count, self.dimensions = count, dimensions
        links = csr_array((np.ones(2 * len(i)), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(count, count))
        found = reverse_cuthill_mckee(links, symmetric_mode=True).astype(np.int64)
        given = np.arange(count)
        self.order = min((given, found), key=lambda order: _spread(order, i, j))
        place = np.empty(count, dtype=np.int64)
        place[self.order] = given
        self.band = (_spread(self.order, i, j) + 1) * dimensions - 1  # rows below the diagonal
        axes = np.arange(dimensions)
        rows, columns = place[i] * dimensions, place[j] * dimensions
        below = (rows > columns)[:, None, None]
        by_row, by_column = rows[:, None, None] + axes[:, None], columns[:, None, None] + axes
        self.coupling_slots = self._slots(np.where(below, by_row, by_column), np.where(below, by_column, by_row))
        own = place[:, None, None] * dimensions
        lower = np.tril_indices(dimensions)
        self.lower = lower
        self.diagonal_slots = self._slots(own[:, 0] + lower[0], own[:, 0] + lower[1])

    @property
    def cost(self) -> float:
        """Return the number of multiplications of a factorization, about."""
        return float(self.count * self.dimensions) * self.band**2

    def _slots(self, rows: Ints, columns: Ints) -> Ints:
        """Return indices of entries on or below the diagonal in LAPACK's band, which is stored by columns."""
        slots: Ints = columns * (self.band + 1) + rows - columns
        return slots

    def factor(self, diagonal: Floats, coupling: Floats) -> "Factor":
        """Compute the Cholesky factor of a positive definite matrix."""
        flat = np.zeros(self.count * self.dimensions * (self.band + 1))
        flat[self.diagonal_slots] = diagonal[:, self.lower[0], self.lower[1]]
        flat[self.coupling_slots] = coupling
        lower, failed = dpbtrf(flat.reshape(-1, self.band + 1).T, lower=1, overwrite_ab=1)
        if failed:
            raise SingularError(
                "the known positions and the ranges do not hold all points in place: give more known positions"
            )
        return Factor(self, lower)


class Factor:
    """A Cholesky factor, stored as the band of a lower triangle."""

    def __init__(self, plan: Elimination, lower: Floats) -> None:
        self.plan, self.lower = plan, lower

    def solve(self, right: Floats) -> Floats:
        """Solve A x = right for x (count, k), with right (count, k)."""
        return self._unsort(dpbtrs(self.lower, right[self.plan.order].reshape(-1, 1), lower=1)[0])

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw a normal deviate (count, k) whose covariance is the inverse of the matrix."""
        numbers = rng.standard_normal((self.lower.shape[1], 1))
        return self._unsort(dtbtrs(self.lower, numbers, uplo="L", trans="T")[0])

    def log_determinant(self) -> float:
        """Return the logarithm of the determinant of the matrix."""
        return 2 * float(np.log(self.lower[0]).sum())

    def _unsort(self, found: Floats) -> Floats:
        plan = self.plan
        solution = np.empty((plan.count, plan.dimensions))
        solution[plan.order] = found.reshape(-1, plan.dimensions)
        return solution

    def inverse(self) -> tuple[Floats, Floats]:
        """Return the blocks of the inverse, `diagonal` and `coupling`, at the places of the matrix's own blocks."""
        plan, band, size = self.plan, self.plan.band, self.lower.shape[1]
        flat = np.zeros((size, band + 1))
        cuts = [*range(0, size, max(band, LEAST_BLOCK)), size]
        behind = np.empty((0, 0))
        for begin, middle in zip(cuts[-2::-1], cuts[:0:-1], strict=True):
            end = min(middle + max(band, LEAST_BLOCK), size)
            both = _unband(self.lower, begin, middle, end)
            own, across = both[: middle - begin], both[middle - begin :]
            inverse = dpotri(own, lower=1)[0]
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            if end > middle:
                gain = dtrtrs(own, across.T, lower=1, trans=1)[0].T
                beside = -behind @ gain
                inverse = inverse - gain.T @ beside
                both = np.concatenate([inverse, beside])
            else:
                both = inverse
            _band(both, begin, flat)
            behind = inverse
        slots = flat.ravel()
        diagonal = np.empty((plan.count, plan.dimensions, plan.dimensions))
        rows, columns = plan.lower
        diagonal[:, rows, columns] = diagonal[:, columns, rows] = slots[plan.diagonal_slots]
        return diagonal, slots[plan.coupling_slots]


def _spread(order: Ints, i: Ints, j: Ints) -> int:
    """Return the largest distance in an order between two coupled points."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return int(np.abs(place[i] - place[j]).max(initial=0))


def _unband(band: Floats, begin: int, middle: int, end: int) -> Floats:
    """Return columns `begin` to `middle` of a lower triangle, rows `begin` to `end`, as a dense block."""
    width, height = middle - begin, end - begin
    below = np.arange(height)[:, None] - np.arange(width)
    inside = (below >= 0) & (below < len(band))
    block: Floats = np.where(inside, band[np.where(inside, below, 0), np.arange(begin, middle)], 0.0)
    return block


def _band(block: Floats, begin: int, flat: Floats) -> None:
    """Write a dense block of columns, which starts at the diagonal at `begin`, to a band stored by columns."""
    height, width = block.shape
    below = np.arange(height)[:, None] - np.arange(width)
    rows, columns = np.nonzero((below >= 0) & (below < flat.shape[1]))
    flat[begin + columns, below[rows, columns]] = block[rows, columns]
