"""Ranges: distances in metres between some pairs of points, each with its standard deviation."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from mappable.arrays import MAX_COORDINATE, Bools, Floats, Ints
from mappable.errors import BadInputError

MIN_SIGMA = 1e-12  # metres; weights are 1 / sigma², which would overflow


@dataclass(frozen=True)
class Ranges:
    """Distances in `metres`, with standard deviations `sigma`, between the points `i` and `j`; all
    (edges,).

    Points are numbered from 0 to `count` - 1, in the order of their images. Each unordered pair
    occurs at most once. Pairs are stored with i < j, and sorted.

    >>> Ranges(3, [2, 0], [1, 1], [4.0, 3.0], [0.5, 0.5])
    Ranges(count=3, i=array([0, 1]), j=array([1, 2]), metres=array([3., 4.]), sigma=array([0.5, 0.5]))
    """

    count: int
    i: Ints
    j: Ints
    metres: Floats
    sigma: Floats
    _graph: list[csr_array] = field(default_factory=list, init=False, repr=False, compare=False)

    def __init__(
        self, count: int, i: ArrayLike, j: ArrayLike, metres: ArrayLike, sigma: ArrayLike
    ) -> None:
        first, second = np.atleast_1d(np.asarray(i)), np.atleast_1d(np.asarray(j))
        lengths = np.atleast_1d(np.asarray(metres, dtype=np.float64))
        deviations = np.broadcast_to(np.asarray(sigma, dtype=np.float64), lengths.shape)
        _check(count, first, second, lengths, deviations)
        low, high = (
            np.minimum(first, second).astype(np.int64),
            np.maximum(first, second).astype(np.int64),
        )
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        twice = np.flatnonzero((np.diff(low) == 0) & (np.diff(high) == 0))
        if len(twice):
            raise BadInputError(
                f"the pair of points {low[twice[0]]} and {high[twice[0]]} occurs more than once:"
                " give each pair once"
            )
        for name, value in zip(
            ("count", "i", "j", "metres", "sigma", "_graph"),
            (int(count), low, high, lengths[order], deviations[order], []),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.i)

    def where(self, keep: Bools) -> "Ranges":
        """Keep some of the pairs (edges,); the points stay the same."""
        return Ranges(self.count, self.i[keep], self.j[keep], self.metres[keep], self.sigma[keep])

    def among(self, points: Ints) -> "Ranges":
        """Keep the pairs between `points`, which are renumbered from 0 in the order given."""
        number = np.full(self.count, -1)
        number[points] = np.arange(len(points))
        keep = (number[self.i] >= 0) & (number[self.j] >= 0)
        return Ranges(
            len(points),
            number[self.i[keep]],
            number[self.j[keep]],
            self.metres[keep],
            self.sigma[keep],
        )

    @property
    def graph(self) -> csr_array:
        """Return the metres as a symmetric sparse matrix (count, count)."""
        if not self._graph:
            ends = np.concatenate([self.i, self.j]), np.concatenate([self.j, self.i])
            shape = (self.count, self.count)
            self._graph.append(
                coo_array((np.concatenate([self.metres, self.metres]), ends), shape=shape).tocsr()
            )
        return self._graph[0]

    @property
    def parts(self) -> Ints:
        """Return the number (count,) of the connected part of each point; part 0 is the largest."""
        # `graph` would not do here: SciPy ignores entries of 0, but ranges of 0 metres connect
        # points, too.
        links = csr_array((np.ones(len(self)), (self.i, self.j)), shape=(self.count, self.count))
        found, labels = connected_components(links, directed=False)
        by_size = np.argsort(-np.bincount(labels, minlength=found), kind="stable")
        numbers: Ints = np.argsort(by_size)[labels].astype(np.int64)
        return numbers


def ranges_of_matrix(
    squared_distances: Floats, scale: float, mask: Bools, *, sigma: float | Floats = 1.0
) -> Ranges:
    """Convert those squared feature distances (n, n) that a symmetric `mask` (n, n) selects to
    ranges in metres.

    `scale` is the paper's λ: squared metres per squared feature distance. `sigma` is one number, or
    (n, n).
    """
    squared, kept = np.asarray(squared_distances, dtype=np.float64), np.asarray(mask, dtype=bool)
    check_square(squared, "matrix of distances")
    if kept.shape != squared.shape:
        raise BadInputError(
            f"the mask has shape {kept.shape}, but the matrix of distances {squared.shape}"
        )
    if not np.isfinite(scale) or scale <= 0:
        raise BadInputError(f"the scale must be above 0, got {scale}")
    row, column = np.nonzero(np.triu(kept | kept.T, 1))
    values, mirrored = squared[row, column], squared[column, row]
    for wrong, what in (
        (~np.isfinite(values), "is not a finite number"),
        (values < 0, "is negative"),
        (
            ~np.isclose(values, mirrored, rtol=1e-6, atol=1e-9),
            "differs from its mirror image: make the matrix symmetric",
        ),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise BadInputError(
                f"squared distance [{row[at]}, {column[at]}] is {values[at]}, which {what}"
            )
    deviations = np.asarray(sigma, dtype=np.float64)
    deviations = deviations[row, column] if deviations.ndim == 2 else deviations
    return Ranges(len(squared), row, column, np.sqrt(scale * values), deviations)


def check_square(matrix: Floats | Bools, name: str) -> None:
    """Raise unless the matrix is (n, n), with n above 0."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise BadInputError(f"the {name} must be square, got {' x '.join(map(str, matrix.shape))}")


def _check(count: int, i: Ints, j: Ints, metres: Floats, sigma: Floats) -> None:
    if count < 1:
        raise BadInputError(f"count must be 1 or more, got {count} points")
    if not (i.ndim == j.ndim == metres.ndim == 1 and len(i) == len(j) == len(metres)):
        raise BadInputError(
            f"i ({i.size} values), j ({j.size}) and metres ({metres.size}) of ranges must have the"
            " same length"
        )
    if len(i) and not (np.issubdtype(i.dtype, np.integer) and np.issubdtype(j.dtype, np.integer)):
        raise BadInputError(f"the points of ranges must be integers, got {i.dtype} and {j.dtype}")
    for wrong, problem in (
        (
            (i < 0) | (i >= count) | (j < 0) | (j >= count),
            f"points must be between 0 and {count - 1:,}",
        ),
        (i == j, "a range must join two different points"),
        (~np.isfinite(metres), "metres must be a finite number"),
        (metres < 0, "metres must be 0 or more"),
        (metres > MAX_COORDINATE, f"metres must be at most {MAX_COORDINATE:g}"),
        (~np.isfinite(sigma) | (sigma <= 0), "sigma must be above 0"),
        (
            (sigma < MIN_SIGMA) | (sigma > MAX_COORDINATE),
            f"sigma must be {MIN_SIGMA:g} to {MAX_COORDINATE:g}",
        ),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise BadInputError(
                f"range {row} (points {i[row]} and {j[row]}, {metres[row]:g} m, sigma"
                f" {sigma[row]:g} m): {problem}"
            )
