"""Ranges: distances in metres between some pairs of points, each with its standard deviation."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError


@dataclass(frozen=True)
class Ranges:
    """Between the points `i` and `j` (edges,), numbered from 0 to `count` - 1, lie `metres`, give or take `sigma`.

    Points are in the order of their images. Pairs are unordered and occur once; they are kept with i < j and sorted.

    >>> Ranges(3, [2, 0], [1, 1], [4.0, 3.0], [0.5, 0.5])
    Ranges(count=3, i=array([0, 1]), j=array([1, 2]), metres=array([3., 4.]), sigma=array([0.5, 0.5]))
    """

    count: int
    i: Ints
    j: Ints
    metres: Floats
    sigma: Floats
    _graph: list[csr_array] = field(default_factory=list, init=False, repr=False, compare=False)

    def __init__(self, count: int, i: ArrayLike, j: ArrayLike, metres: ArrayLike, sigma: ArrayLike) -> None:
        first, second = np.atleast_1d(np.asarray(i)), np.atleast_1d(np.asarray(j))
        lengths = np.atleast_1d(np.asarray(metres, dtype=np.float64))
        deviations = np.broadcast_to(np.asarray(sigma, dtype=np.float64), lengths.shape)
        _check(count, first, second, lengths, deviations)
        low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        twice = np.flatnonzero((np.diff(low) == 0) & (np.diff(high) == 0))
        if len(twice):
            raise BadInputError(f"the pair of points {low[twice[0]]} and {high[twice[0]]} occurs more than once")
        for name, value in zip(
            ("count", "i", "j", "metres", "sigma", "_graph"),
            (int(count), low, high, lengths[order], deviations[order], []),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.i)

    def where(self, keep: Bools) -> "Ranges":
        """Some of the pairs, among the same points."""
        return Ranges(self.count, self.i[keep], self.j[keep], self.metres[keep], self.sigma[keep])

    def among(self, points: Ints) -> "Ranges":
        """The pairs of which both are among `points`, which are numbered anew in the order given."""
        number = np.full(self.count, -1)
        number[points] = np.arange(len(points))
        keep = (number[self.i] >= 0) & (number[self.j] >= 0)
        return Ranges(len(points), number[self.i[keep]], number[self.j[keep]], self.metres[keep], self.sigma[keep])

    @property
    def graph(self) -> csr_array:
        """The metres as a symmetric sparse matrix (count, count)."""
        if not self._graph:
            ends = np.concatenate([self.i, self.j]), np.concatenate([self.j, self.i])
            shape = (self.count, self.count)
            self._graph.append(coo_array((np.concatenate([self.metres, self.metres]), ends), shape=shape).tocsr())
        return self._graph[0]

    @property
    def parts(self) -> Ints:
        """The number (count,) of the connected part that each point is in; the largest part is 0."""
        # Zero metres are pairs too.
        links = csr_array((np.ones(len(self)), (self.i, self.j)), shape=(self.count, self.count))
        found, labels = connected_components(links, directed=False)
        by_size = np.argsort(-np.bincount(labels, minlength=found), kind="stable")
        numbers: Ints = np.argsort(by_size)[labels].astype(np.int64)
        return numbers


def ranges_of_matrix(squared_distances: Floats, scale: float, mask: Bools, *, sigma: float | Floats = 1.0) -> Ranges:
    """The pairs that a symmetric `mask` (n, n) keeps of squared feature distances, in metres by the `scale`.

    The scale is the paper's λ: squared metres for a squared feature distance of 1. `sigma` is one number, or (n, n).
    """
    squared, kept = np.asarray(squared_distances, dtype=np.float64), np.asarray(mask, dtype=bool)
    if squared.ndim != 2 or squared.shape[0] != squared.shape[1]:
        raise BadInputError(f"a matrix of distances is square, not {' x '.join(map(str, squared.shape))}")
    if kept.shape != squared.shape:
        raise BadInputError(f"the mask is {kept.shape}, but the matrix of distances {squared.shape}")
    if not np.isfinite(scale) or scale <= 0:
        raise BadInputError(f"the scale is {scale}, but must be above 0")
    row, column = np.nonzero(np.triu(kept | kept.T, 1))
    values, mirrored = squared[row, column], squared[column, row]
    for wrong, what in (
        (~np.isfinite(values), "is not a number"),
        (values < 0, "is negative"),
        (~np.isclose(values, mirrored, rtol=1e-6, atol=1e-9), "differs from its mirror image"),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise BadInputError(f"the squared distance {row[at]}, {column[at]} ({values[at]}) {what}")
    deviations = np.asarray(sigma, dtype=np.float64)
    deviations = deviations[row, column] if deviations.ndim == 2 else deviations
    return Ranges(len(squared), row, column, np.sqrt(scale * values), deviations)


def _check(count: int, i: Ints, j: Ints, metres: Floats, sigma: Floats) -> None:
    if count < 1:
        raise BadInputError(f"there are {count} points, but must be at least 1")
    if not (i.ndim == j.ndim == metres.ndim == 1 and len(i) == len(j) == len(metres)):
        raise BadInputError(f"ranges have as many i ({i.size}) as j ({j.size}) and metres ({metres.size})")
    if len(i) and not (np.issubdtype(i.dtype, np.integer) and np.issubdtype(j.dtype, np.integer)):
        raise BadInputError("the points of a range are whole numbers")
    for wrong, problem in (
        ((i < 0) | (i >= count) | (j < 0) | (j >= count), f"names a point beyond the {count:,} there are"),
        (i == j, "is of a point with itself"),
        (~np.isfinite(metres), "is not a number"),
        (metres < 0, "is negative"),
        (~np.isfinite(sigma) | (sigma <= 0), "has a sigma that is not above 0"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise BadInputError(f"range {row} ({i[row]}, {j[row]}: {metres[row]:g} m) {problem}")
