"""Nested dissection: eliminate the points of a city in an order that keeps the matrix sparse.

A route has a narrow band (`elimination.py`). The streets of a city cross, so its band is wide. Here, a small set of
points separates the map into two sides that share no range. Each side is separated again, and so on. The sides are
eliminated first, as small dense matrices (fronts), and each front passes what it knows about its border to its parent.
Time and memory depend on the sizes of the separators: the number of parallel streets times the reach of ranges.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from mappable.arrays import Floats, Ints
from mappable.recovery.anchored.elimination import Elimination, SingularError

LEAF = 24  # points: smaller sets are not separated; 16 to 40 took the same time in a city of 5,000 images
BALANCE = 0.25  # smallest share of the points on each side of a separator, if possible
FRONT_COST = 5e5  # multiplications in the time that a front takes besides its algebra


@dataclass
class Front:
    """Points that are eliminated together: `own` points first, then their `border`, which is eliminated later."""

    own: Ints
    parent: int  # its number, or -1
    border: Ints = field(default_factory=lambda: np.arange(0))
    slots: Ints = field(default_factory=lambda: np.arange(0))  # of given entries in the dense matrix, by columns
    entries: Ints = field(default_factory=lambda: np.arange(0))  # their numbers among all given entries
    in_parent: Ints = field(default_factory=lambda: np.arange(0))  # rows of the border in the parent's matrix
    runs: list[tuple[slice, slice]] = field(default_factory=list)  # the same as slices: rows here, and in the parent
    rows: Ints = field(default_factory=lambda: np.arange(0))  # coordinates of its own points among all
    border_rows: Ints = field(default_factory=lambda: np.arange(0))  # the same of its border

    @property
    def size(self) -> int:
        return len(self.own) + len(self.border)


class Dissection:
    """The order of elimination for `count` points of k coordinates, coupled along pairs `i`, `j`; see `Elimination`."""

    def __init__(self, count: int, dimensions: int, i: Ints, j: Ints, hub: int | None = None) -> None:
        """`hub` is a point that is coupled to nearly all others."""
        self.count, self.dimensions = count, dimensions
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        links = csr_array((np.ones(2 * len(i), dtype=np.int8), ends), shape=(count, count))
        self.fronts = _dissect(links, hub)[::-1]
        last = len(self.fronts) - 1
        for front in self.fronts:
            front.parent = last - front.parent if front.parent >= 0 else -1
        self._find_borders(links)
        self._find_slots(i, j)

    @property
    def cost(self) -> float:
        """Return the number of multiplications of a factorization, about."""
        k = self.dimensions
        return FRONT_COST * len(self.fronts) + float(sum(len(one.own) * k * (one.size * k) ** 2 for one in self.fronts))

    def _find_borders(self, links: csr_array) -> None:
        rank = np.empty(self.count, dtype=np.int64)
        rank[np.concatenate([front.own for front in self.fronts])] = np.arange(self.count)
        passed: list[list[Ints]] = [[] for _ in self.fronts]
        for front, from_children in zip(self.fronts, passed, strict=True):
            near = np.concatenate([links[front.own].indices, *from_children])
            near = np.unique(near[rank[near] > rank[front.own[-1]]])
            front.border = near[np.argsort(rank[near])]
            if front.parent >= 0:
                passed[front.parent].append(front.border)
        self.rank = rank

    def _find_slots(self, i: Ints, j: Ints) -> None:
        k, axes = self.dimensions, np.arange(self.dimensions)
        owner = np.empty(self.count, dtype=np.int64)
        for number, front in enumerate(self.fronts):
            owner[front.own] = number
        first = owner[np.where(self.rank[i] < self.rank[j], i, j)]
        by_front = np.argsort(first, kind="stable")
        cuts = np.searchsorted(first[by_front], np.arange(len(self.fronts) + 1))
        place = np.full(self.count, -1)
        block = np.arange(k * k).reshape(k, k)
        for number, front in enumerate(self.fronts):
            points = np.concatenate([front.own, front.border])
            place[points] = np.arange(len(points))
            front.rows, front.border_rows = ((some[:, None] * k + axes).ravel() for some in (front.own, front.border))
            pairs = by_front[cuts[number] : cuts[number + 1]]
            rows = np.concatenate([place[front.own], place[i[pairs]]])[:, None, None] * k + axes[:, None]
            columns = np.concatenate([place[front.own], place[j[pairs]]])[:, None, None] * k + axes
            low, high = np.minimum(rows, columns), np.maximum(rows, columns)
            front.slots = (low * (k * len(points)) + high).ravel()
            front.entries = (np.concatenate([front.own, self.count + pairs])[:, None, None] * k * k + block).ravel()
        for front in self.fronts:
            if front.parent >= 0:
                parent = self.fronts[front.parent]
                points = np.concatenate([parent.own, parent.border])
                place[points] = np.arange(len(points))
                front.in_parent = (place[front.border][:, None] * k + axes).ravel()
                cuts = np.flatnonzero(np.diff(front.in_parent) != 1) + 1
                for begin, end in pairwise([0, *cuts.tolist(), len(front.in_parent)]):
                    to = front.in_parent[begin:end]
                    front.runs.append((slice(begin, end), slice(to[0], to[-1] + 1)) if end else (slice(0), slice(0)))

    def factor(self, diagonal: Floats, coupling: Floats) -> "DissectedFactor":
        """Compute the Cholesky factor of a positive definite matrix."""
        values = np.concatenate([diagonal.ravel(), coupling.ravel()])
        k = self.dimensions
        waiting: list[list[tuple[list[tuple[slice, slice]], Floats]]] = [[] for _ in self.fronts]
        found = []
        for number, front in enumerate(self.fronts):
            own, size = k * len(front.own), k * front.size
            flat = np.zeros(size * size)
            flat[front.slots] = values[front.entries]
            dense = flat.reshape((size, size), order="F")
            for runs, added in waiting[number]:  # only the lower triangle is used
                for last, (rows, to_rows) in enumerate(runs):
                    for columns, to_columns in runs[: last + 1]:
                        dense[to_rows, to_columns] += added[rows, columns]
            waiting[number] = []
            lower, failed = dpotrf(dense[:own, :own], lower=1)
            if failed:
                raise SingularError(
                    "the known positions and the ranges do not hold all points in place: give more known positions"
                )
            across = dense[own:, :own]
            if size > own:
                across = dtrsm(1.0, lower, across, side=1, lower=1, trans_a=1)
                if front.parent >= 0:
                    passed = dsyrk(-1.0, across, beta=1.0, c=dense[own:, own:], lower=1)
                    waiting[front.parent].append((front.runs, passed))
            found.append((lower, across))
        return DissectedFactor(self, found)


class DissectedFactor:
    """A Cholesky factor: for each front, the triangle of its own points, and the rows of its border."""

    def __init__(self, plan: Dissection, parts: list[tuple[Floats, Floats]]) -> None:
        self.plan, self.parts = plan, parts

    def solve(self, right: Floats) -> Floats:
        """Solve A x = right for x (count, k), with right (count, k)."""
        flat = right.ravel().copy()
        for front, (lower, across) in zip(self.plan.fronts, self.parts, strict=True):
            flat[front.rows] = found = dtrtrs(lower, flat[front.rows], lower=1)[0]
            flat[front.border_rows] -= across @ found
        return self._backward(flat)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw a normal deviate (count, k) whose covariance is the inverse of the matrix."""
        return self._backward(rng.standard_normal(self.plan.count * self.plan.dimensions))

    def _backward(self, flat: Floats) -> Floats:
        for front, (lower, across) in zip(self.plan.fronts[::-1], self.parts[::-1], strict=True):
            known = flat[front.rows] - flat[front.border_rows] @ across
            flat[front.rows] = dtrtrs(lower, known, lower=1, trans=1)[0]
        return flat.reshape(self.plan.count, self.plan.dimensions)

    def log_determinant(self) -> float:
        """Return the logarithm of the determinant of the matrix."""
        return 2 * sum(float(np.log(np.diagonal(lower)).sum()) for lower, _ in self.parts)

    def inverse(self) -> tuple[Floats, Floats]:
        """Return the blocks of the inverse, `diagonal` and `coupling`, at the places of the matrix's own blocks."""
        plan, k = self.plan, self.plan.dimensions
        pairs = sum(len(front.entries) for front in plan.fronts) // k**2 - plan.count
        values = np.empty((plan.count + pairs) * k * k)
        whole: list[Floats] = [np.empty((0, 0))] * len(plan.fronts)
        for number in reversed(range(len(plan.fronts))):
            front, (lower, across) = plan.fronts[number], self.parts[number]
            inverse = dpotri(lower, lower=1)[0]
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            if len(across):
                border = whole[front.parent][front.in_parent[:, None], front.in_parent]
                gain = dtrtrs(lower, across.T, lower=1, trans=1)[0].T
                beside = -border @ gain
                inverse = np.block([[inverse - gain.T @ beside, beside.T], [beside, border]])
            whole[number] = inverse
            values[front.entries] = inverse.ravel()[front.slots]
        blocks = values.reshape(-1, k, k)
        return blocks[: plan.count], blocks[plan.count :]


def plan_elimination(count: int, dimensions: int, i: Ints, j: Ints, hub: int | None = None) -> Elimination | Dissection:
    """Choose the faster order: a band, or nested dissection; `hub` is a point that is coupled to nearly all others."""
    if hub is not None:
        return Dissection(count, dimensions, i, j, hub)
    banded = Elimination(count, dimensions, i, j)
    if banded.cost < 4 * FRONT_COST * count / LEAF:
        return banded
    dissected = Dissection(count, dimensions, i, j)
    return dissected if dissected.cost < banded.cost else banded


def _dissect(links: csr_array, hub: int | None) -> list[Front]:
    """Separate the points again and again; return the fronts, each before its children."""
    fronts: list[Front] = [] if hub is None else [Front(np.array([hub]), -1)]
    points = np.arange(links.shape[0])
    waiting = [(points[points != hub], len(fronts) - 1)]
    while waiting:
        points, parent = waiting.pop()
        if not len(points):
            continue
        some = links[points][:, points]
        count, labels = connected_components(some, directed=False)
        if count > 1:
            waiting += [(points[group], parent) for group in _groups(labels)]
            continue
        separator = _separator(some) if len(points) > LEAF else None
        if separator is None:
            fronts.append(Front(points, parent))
        else:
            waiting += [(points[separator == side], len(fronts)) for side in (-1, 1)]
            fronts.append(Front(points[separator == 0], parent))
    return fronts


def _groups(labels: Ints) -> list[Ints]:
    """Return the members of each connected part."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def _separator(links: csr_array) -> Ints | None:
    """Return -1, 0 or 1 for each point: one side, the separator, the other side; None if there is no separator.

    The points at one distance, in ranges, from a point at the rim separate nearer points from farther ones.
    """
    rim = int(np.argmax(dijkstra(links, unweighted=True, indices=0)))
    distance = dijkstra(links, unweighted=True, indices=rim).astype(np.int64)
    sizes = np.bincount(distance)
    if len(sizes) < 3:
        return None
    nearer = np.cumsum(sizes) - sizes
    balance = np.minimum(nearer, len(distance) - nearer - sizes)[1:-1] / len(distance)
    allowed = balance >= min(BALANCE, float(balance.max()))
    level = 1 + int(np.argmin(np.where(allowed, sizes[1:-1], np.inf)))
    side: Ints = np.sign(distance - level)
    beyond = np.zeros(len(distance))
    beyond[side > 0] = 1.0
    side[(side == 0) & (links @ beyond == 0)] = -1
    return side
