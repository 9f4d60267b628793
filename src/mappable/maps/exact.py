"""Exact search: compare every query with every descriptor by matrix products."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Bools, Floats32, Ints
from mappable.errors import BadInputError
from mappable.maps.checking import Check
from mappable.maps.store import check_lengths, check_search, shape, squared_lengths

QUERIES = 1024  # queries per batch
SCORES = 2**18  # scores (rows x queries) per batch
ROWS = 4096  # largest number of rows per batch, with several queries
GATHERED = 2**24  # allowed rows are copied and searched alone if they have at most this many numbers, and are a tenth
PIECE = 2**16  # numbers that are processed together, few enough for the cache of a core
# Largest rounding error of a product of unit vectors: four times what was seen, for 128 to 32,768 numbers.
ROUNDING = 2.0**-19
LARGEST = np.finfo(np.float32).max
SMALL = 0.02  # share of a query's squared length; rounding would disturb smaller squared distances

Stored = NDArray[np.floating[Any]]  # float32 or float16


class Exact:
    """Exact search among descriptors (m, dimensions) in single or half precision, in memory or in a mapped file.

    The constructor reads no descriptors. The first search also computes their lengths, so they need not have length
    one. Several threads may search at the same time. `check` is called with rows before these rows are used.

    Matrix products give squared distances up to rounding, about a millionth for descriptors of length one. Rounding
    matters if a distance is small, or if two distances are nearly equal. Then squared differences are summed instead.
    So near duplicates have accurate distances, and their order comes from the sums.
    """

    def __init__(self, vectors: Stored, check: Check = lambda rows: None) -> None:
        if vectors.ndim != 2 or not vectors.size:
            raise BadInputError(f"descriptors of landmarks should be m x dimensions numbers, got {shape(vectors)}")
        if vectors.dtype not in (np.float32, np.float16):
            raise BadInputError(f"descriptors of landmarks should be float32 or float16, got {vectors.dtype}")
        self._vectors, self._check = np.ascontiguousarray(vectors), check

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def dimensions(self) -> int:
        """Number of values per descriptor."""
        return int(self._vectors.shape[1])

    def in_memory(self) -> "Exact":
        """The same descriptors, checked and copied to memory."""
        self._check(None)
        return Exact(np.array(self._vectors))

    def take(self, rows: Ints) -> Floats32:
        """The descriptors (len(rows), dimensions) of rows."""
        return in_single(self._taken(rows))

    def _taken(self, rows: Ints) -> Stored:
        self._check(rows)
        taken: Stored = self._vectors[rows]
        return taken

    def nearest(self, queries: Floats32, count: int, *, among: Bools | None = None) -> tuple[Ints, Floats32]:
        """Rows (n, count) of the nearest descriptors per query, nearest first, and squared distances; see `Store`."""
        queries = check_search(self, queries, count, among)
        if among is not None:
            allowed = np.flatnonzero(among)
            if len(allowed) * self.dimensions <= GATHERED and 10 * len(allowed) <= len(self):
                rows, squared = Exact(self._taken(allowed)).nearest(queries, count)
                return allowed[rows], squared
        rows = np.empty((len(queries), count), dtype=np.int64)
        squared = np.empty((len(queries), count), dtype=np.float32)
        for start in range(0, len(queries), QUERIES):
            some = slice(start, start + QUERIES)
            rows[some], squared[some] = self._nearest(queries[some], count, among)
        return rows, squared

    def products(self, queries: Floats32) -> Floats32:
        """Products (n, m) of queries (n, dimensions) of any length with all descriptors."""
        products = np.empty((len(queries), len(self)), dtype=np.float32)
        rows = max(1, GATHERED // self.dimensions)
        for start in range(0, len(self), rows):
            products[:, start : start + rows] = queries @ in_single(self._vectors[start : start + rows]).T
        return products

    def squared_distances(self, queries: Floats32, query: Ints, row: Ints) -> Floats32:
        """Squared distances (c,) of pairs of a `query` and a `row`, computed from differences."""
        squared = np.empty(len(row), dtype=np.float32)
        for some in portions(len(row), self.dimensions):
            difference = self.take(row[some])
            difference -= queries[query[some]]
            squared[some] = squared_lengths(difference)
        return squared

    def _nearest(self, queries: Floats32, count: int, among: Bools | None) -> tuple[Ints, Floats32]:
        lengths = squared_lengths(queries)
        slack = 2 * ROUNDING * np.sqrt(lengths * 2 * self._halves.max())
        query, row, score = self._candidates(queries, count, among, slack)
        squared = 2 * score + lengths[query]
        unsure = squared < SMALL * lengths[query]
        close = np.flatnonzero((query[1:] == query[:-1]) & (score[1:] <= score[:-1] + slack[query[1:]]))
        unsure[close] = unsure[close + 1] = True
        squared[unsure] = self.squared_distances(queries, query[unsure], row[unsure])
        return first_of_each(query, row, squared, count)

    def _candidates(
        self, queries: Floats32, count: int, among: Bools | None, slack: Floats32
    ) -> tuple[Ints, Ints, Floats32]:
        """Queries, rows and scores (c,), sorted: the `count` nearest rows per query, and others up to `slack` farther.

        The smallest scores of groups of rows bound the scores of the `count` nearest rows.
        """
        best = np.empty((0, len(queries)), dtype=np.float32)
        limit = np.full(len(queries), LARGEST)
        found = []
        for start, scores in self._scores(queries, among):
            groups = min(max(4 * count, 256 // len(queries)), len(scores))
            grouped = scores[: len(scores) // groups * groups].reshape(-1, groups, len(queries))
            best = np.concatenate([best, grouped.min(axis=0)])
            if len(best) >= count:
                best = np.partition(best, count - 1, axis=0)[:count]
                limit = np.minimum(best[-1] + slack, LARGEST)
            near = np.flatnonzero(scores <= limit)
            row, query = np.divmod(near, len(queries))
            found.append((query, row + start, scores.ravel()[near]))
        query, row, score = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.lexsort((score, query))
        query, row, score = query[order], row[order], score[order]
        farthest = score[np.searchsorted(query, np.arange(len(queries))) + count - 1]
        kept = score <= (farthest + slack)[query]
        return query[kept], row[kept], score[kept]

    def _scores(self, queries: Floats32, among: Bools | None) -> Iterator[tuple[int, Floats32]]:
        """Yield batches: the first row, and scores (rows, queries).

        A score is half the squared distance, plus a constant per query. It is infinite for rows that are not allowed.
        """
        halves = self._halves if among is None else np.where(among, self._halves, np.float32(np.inf))
        size = min(len(self), SCORES if len(queries) == 1 else min(ROWS, SCORES // len(queries)))
        converted = None
        if self._vectors.dtype != np.float32:
            size = min(size, max(1, min(max(4, len(queries)), 64) * PIECE // self.dimensions))
            converted = np.empty((size, self.dimensions), dtype=np.float32)
        room = np.empty((size, len(queries)), dtype=np.float32)
        for start in range(0, len(self), size):
            block = in_single(self._vectors[start : start + size], converted)
            scores = np.matmul(block, queries.T, out=room[: len(block)])
            yield start, np.subtract(halves[start : start + size, None], scores, out=scores)

    @cached_property
    def _halves(self) -> Floats32:
        """Half of each squared length. Every search starts with these, so all descriptors are checked here."""
        self._check(None)
        squared = np.empty(len(self), dtype=np.float32)
        for some in portions(len(self), self.dimensions):
            squared[some] = squared_lengths(in_single(self._vectors[some]))
        check_lengths(squared, "landmark")
        squared /= 2
        return squared


def first_of_each(query: Ints, row: Ints, squared: Floats32, count: int) -> tuple[Ints, Floats32]:
    """Rows (n, count) of the nearest per query and squared distances, from pairs (c,); lower rows first in a tie."""
    order = np.lexsort((row, squared, query))
    starts = np.searchsorted(query[order], np.arange(query.max(initial=-1) + 1))
    chosen = order[starts[:, None] + np.arange(count)]
    return row[chosen], squared[chosen]


def portions(count: int, dimensions: int) -> Iterator[slice]:
    """Slices that cover `count` rows, a few rows each."""
    size = max(1, PIECE // dimensions)
    return (slice(start, start + size) for start in range(0, count, size))


def in_single(vectors: Stored, room: Floats32 | None = None) -> Floats32:
    """Vectors in single precision. A conversion writes to the first rows of `room`, if given.

    Infinite values and NaN in half precision become 2**16 or more. NumPy's own conversion takes four times as long.
    This one shifts the bits to their places, and a product corrects the exponent.
    """
    if vectors.dtype == np.float32:
        return vectors
    converted = (np.empty(vectors.shape, dtype=np.float32) if room is None else room)[: len(vectors)]
    for some in portions(*vectors.shape):
        numbers = converted[some]
        bits = numbers.view(np.int32)
        bits[:] = vectors[some].view(np.int16)  # this keeps the sign
        bits <<= 13
        bits &= np.int32(-0x70002000)  # clears the copies of the sign
        numbers *= np.float32(2.0**112)
    return converted
