"""Linear systems over a graph of points, by elimination from one end of the graph to the other.

Points are put into blocks by how many steps they are from one end, so that only neighbouring blocks are coupled. A
route has small blocks, however long it is: solving takes time and memory in proportion to its length, and so do the
marginal covariances, for the blocks of the inverse that matter follow from each other (Takahashi's equations).
"""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from mappable.arrays import Floats, Ints
from mappable.errors import MappableError

BLOCK = 24  # points that a block has at least, where that makes it no larger than need be


class SingularError(MappableError):
    """The system has no unique solution."""


class Elimination:
    """The order of elimination for `count` points of k coordinates that are coupled along pairs `i`, `j` (edges,).

    Every pair occurs once. A symmetric matrix of that pattern is given by its blocks: `diagonal` (count, k, k) and
    `coupling` (edges, k, k), whose rows are those of i and whose columns those of j.
    """

    def __init__(self, count: int, dimensions: int, i: Ints, j: Ints) -> None:
        self.count, self.dimensions = count, dimensions
        block, self.order = _blocks(count, i, j)
        points = np.bincount(block)
        self.rows = np.concatenate([[0], (points * dimensions).cumsum()])
        self.widths = np.diff(self.rows)
        place = np.empty(count, dtype=np.int64)
        place[self.order] = np.arange(count) * dimensions
        within = place - self.rows[block]
        # One flat array holds the diagonal blocks and, behind them, the blocks to their right.
        own = np.concatenate([[0], np.square(self.widths).cumsum()])
        right = own[-1] + np.concatenate([[0], (self.widths[:-1] * self.widths[1:]).cumsum()])
        self.own, self.right = own.tolist(), right.tolist()
        axes = np.arange(dimensions)

        def slots(rows: Ints, columns: Ints) -> Ints:
            """Where (pairs, k, k) the coupling of two points is."""
            swapped = block[rows] > block[columns]
            upper, lower = np.where(swapped, columns, rows), np.where(swapped, rows, columns)
            begin = np.where(
                block[upper] == block[lower], own[block[upper]], right[np.minimum(block[upper], len(points) - 1)]
            )
            first = (begin + within[upper] * self.widths[block[lower]] + within[lower])[:, None, None]
            step = self.widths[block[lower]][:, None, None]
            by_row, by_column = axes[:, None], axes[None, :]
            turned = swapped[:, None, None]
            found: Ints = first + np.where(turned, by_column * step + by_row, by_row * step + by_column)
            return found

        everyone = np.arange(count)
        self.diagonal_slots, self.coupling_slots = slots(everyone, everyone), slots(i, j)
        self.twice = block[i] == block[j]  # such couplings stand on both sides of a diagonal
        self.mirror_slots = slots(j[self.twice], i[self.twice])

    def factor(self, diagonal: Floats, coupling: Floats) -> "Factor":
        """The Cholesky factor of a positive definite matrix."""
        flat = np.zeros(self.right[-1])
        flat[self.diagonal_slots] = diagonal
        flat[self.coupling_slots] = coupling
        flat[self.mirror_slots] = coupling[self.twice].transpose(0, 2, 1)
        return Factor(self, flat)


class Factor:
    """A Cholesky factor: lower triangles on the diagonal, and what is left of the blocks to their right."""

    def __init__(self, plan: Elimination, flat: Floats) -> None:
        self.plan = plan
        self.lower: list[Floats] = []
        self.across: list[Floats] = []
        last = len(plan.widths) - 1
        carried: Floats | float = 0.0
        for block, width in enumerate(plan.widths.tolist()):
            own = flat[plan.own[block] : plan.own[block + 1]].reshape(width, width)
            lower, failed = dpotrf((own - carried).T, lower=1, clean=1, overwrite_a=1)
            if failed:
                raise SingularError("the known positions and the ranges do not hold all points in place")
            self.lower.append(lower)
            if block < last:
                beside = flat[plan.right[block] : plan.right[block + 1]].reshape(width, -1)
                across = dtrtrs(lower, beside, lower=1)[0]
                self.across.append(across)
                carried = across.T @ across

    def solve(self, right: Floats) -> Floats:
        """The x (count, k) of A x = right (count, k)."""
        plan = self.plan
        ahead: list[Floats] = []
        sorted_right = right[plan.order].ravel()
        for block, lower in enumerate(self.lower):
            own = sorted_right[plan.rows[block] : plan.rows[block + 1]]
            if block:
                own = own - self.across[block - 1].T @ ahead[-1]
            ahead.append(dtrtrs(lower, own, lower=1)[0])
        return self._back(ahead)

    def draw(self, rng: np.random.Generator) -> Floats:
        """A normal deviate (count, k) whose covariance is the inverse of the matrix."""
        numbers = rng.standard_normal(self.plan.rows[-1])
        return self._back(np.split(numbers, self.plan.rows[1:-1]))

    def _back(self, ahead: list[Floats]) -> Floats:
        plan = self.plan
        found = ahead
        for block in reversed(range(len(ahead))):
            own = ahead[block]
            if block + 1 < len(ahead):
                own = own - self.across[block] @ found[block + 1]
            found[block] = dtrtrs(self.lower[block], own, lower=1, trans=1)[0]
        solution = np.empty((plan.count, plan.dimensions))
        solution[plan.order] = np.concatenate(found).reshape(-1, plan.dimensions)
        return solution

    def inverse(self) -> tuple[Floats, Floats]:
        """The blocks of the inverse that the matrix has itself: `diagonal` and `coupling`."""
        plan = self.plan
        flat = np.empty(plan.right[-1])
        behind = np.empty((0, 0))
        for block in reversed(range(len(self.lower))):
            own = dpotri(self.lower[block], lower=1)[0]
            own = np.tril(own) + np.tril(own, -1).T
            if block + 1 < len(self.lower):
                gain = dtrtrs(self.lower[block], self.across[block], lower=1, trans=1)[0]
                beside = -gain @ behind
                flat[plan.right[block] : plan.right[block + 1]] = beside.ravel()
                own = own - beside @ gain.T
            flat[plan.own[block] : plan.own[block + 1]] = own.ravel()
            behind = own
        return flat[plan.diagonal_slots], flat[plan.coupling_slots]


def _blocks(count: int, i: Ints, j: Ints) -> tuple[Ints, Ints]:
    """The block (count,) of each point, and the points (count,) in the order of their blocks."""
    links = csr_array((np.ones(len(i)), (i, j)), shape=(count, count))
    parts, labels = connected_components(links, directed=False)
    sizes = np.bincount(labels)
    alone = sizes[labels] == 1
    steps = np.zeros(count, dtype=np.int64)
    behind = int(alone.sum())
    steps[alone] = np.arange(behind)
    for part in np.flatnonzero(sizes > 1).tolist():
        members = np.flatnonzero(labels == part)
        graph = links[members][:, members] if parts > 1 else links
        away = _steps(graph, int(np.argmax(_steps(graph, 0))))  # from a point at one end
        steps[members] = behind + away
        behind += int(away.max()) + 1
    block_of_step, block, filled = [], 0, 0
    for size in np.bincount(steps).tolist():
        if filled and filled + size > BLOCK:
            block, filled = block + 1, 0
        block_of_step.append(block)
        filled += size
    return np.array(block_of_step)[steps], np.argsort(steps, kind="stable")


def _steps(graph: csr_array, source: int) -> Ints:
    steps: Ints = dijkstra(graph, directed=False, indices=source, unweighted=True).astype(np.int64)
    return steps
