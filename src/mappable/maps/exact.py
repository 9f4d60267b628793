"""Exact search: every query is compared with every descriptor, by matrix products."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Bools, Ints
from mappable.errors import BadInputError
from mappable.maps.store import Floats32, check_lengths, check_search, shape, squared_lengths

QUERIES = 1024  # at a time
SCORES = 2**18  # at a time
ROWS = 4096  # at a time, where there are several queries
GATHERED = 2**24  # numbers of descriptors at most that are copied, if only these may be found; a tenth at most
PIECE = 2**16  # numbers at a time, where each is touched several times: they stay in a core's cache
ROUNDING = np.finfo(np.float32).eps  # of products of unit vectors, times the root of their dimensions; above all seen
LARGEST = np.finfo(np.float32).max

Stored = NDArray[np.floating[Any]]  # float32 or float16


class Exact:
    """The nearest among descriptors (m, dimensions) in single or half precision, in memory or in a mapped file.

    Creating it reads none of them. The first search also takes their lengths, so that nothing relies on their being
    one. Several threads may search at once.

    Matrix products tell the nearest up to rounding. All that may be among them are then ordered by sums of squared
    differences, which are accurate however small they are, and the same whatever is asked for beside them.
    """

    def __init__(self, vectors: Stored) -> None:
        if vectors.ndim != 2 or not vectors.size:
            raise BadInputError(f"the landmarks' descriptors should be m x dimensions numbers, not {shape(vectors)}")
        if vectors.dtype not in (np.float32, np.float16):
            raise BadInputError(f"the landmarks' descriptors should be float32 or float16, not {vectors.dtype}")
        self.vectors = np.ascontiguousarray(vectors)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimensions(self) -> int:
        """How many numbers a descriptor has."""
        return int(self.vectors.shape[1])

    def take(self, rows: Ints) -> Floats32:
        """The descriptors (len(rows), dimensions) of some rows."""
        return in_single(self.vectors[rows])

    def nearest(self, queries: Floats32, count: int, *, among: Bools | None = None) -> tuple[Ints, Floats32]:
        """Rows (n, count) of the nearest of each query, the nearest first, and squared distances; as `Store` says."""
        queries = check_search(self, queries, count, among)
        if among is not None:
            allowed = np.flatnonzero(among)
            if len(allowed) * self.dimensions <= GATHERED and 10 * len(allowed) <= len(self):
                rows, squared = Exact(self.vectors[allowed]).nearest(queries, count)
                return allowed[rows], squared
        rows = np.empty((len(queries), count), dtype=np.int64)
        squared = np.empty((len(queries), count), dtype=np.float32)
        for start in range(0, len(queries), QUERIES):
            some = slice(start, start + QUERIES)
            rows[some], squared[some] = self.ranked(
                queries[some], *self._candidates(queries[some], count, among), count
            )
        return rows, squared

    def ranked(self, queries: Floats32, query: Ints, row: Ints, count: int) -> tuple[Ints, Floats32]:
        """The `count` nearest of each query among its candidates: the pairs (c,) of a `query` and a `row`."""
        squared = np.empty(len(row), dtype=np.float32)
        for some in portions(len(row), self.dimensions):
            difference = self.take(row[some])
            difference -= queries[query[some]]
            squared[some] = squared_lengths(difference)
        order = np.lexsort((row, squared, query))
        chosen = order[np.searchsorted(query[order], np.arange(len(queries)))[:, None] + np.arange(count)]
        return row[chosen], squared[chosen]

    def _candidates(self, queries: Floats32, count: int, among: Bools | None) -> tuple[Ints, Ints]:
        """Pairs of a query and a row: for each query its `count` nearest rows, and those that rounding may hide.

        The nearest of some groups of rows show how far the `count` nearest are at most.
        """
        slack = 2 * ROUNDING * np.sqrt(self.dimensions * squared_lengths(queries) * 2 * self._halves.max())
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
        near = score <= (farthest + slack)[query]
        return query[near], row[near]

    def _scores(self, queries: Floats32, among: Bools | None) -> Iterator[tuple[int, Floats32]]:
        """Scores (rows, queries), some rows at a time, and the first of these rows.

        A score is half of the squared distance, up to a number for each query; infinite for what may not be found.
        """
        halves = self._halves if among is None else np.where(among, self._halves, np.float32(np.inf))
        size = min(len(self), SCORES if len(queries) == 1 else min(ROWS, SCORES // len(queries)))
        converted = None
        if self.vectors.dtype != np.float32:
            size = min(size, max(1, min(max(4, len(queries)), 64) * PIECE // self.dimensions))
            converted = np.empty((size, self.dimensions), dtype=np.float32)
        room = np.empty((size, len(queries)), dtype=np.float32)
        for start in range(0, len(self), size):
            block = in_single(self.vectors[start : start + size], converted)
            scores = np.matmul(block, queries.T, out=room[: len(block)])
            yield start, np.subtract(halves[start : start + size, None], scores, out=scores)

    @cached_property
    def _halves(self) -> Floats32:
        """Half of each squared length."""
        squared = np.empty(len(self), dtype=np.float32)
        for some in portions(len(self), self.dimensions):
            squared[some] = squared_lengths(in_single(self.vectors[some]))
        check_lengths(squared, "landmark")
        squared /= 2
        return squared


def portions(count: int, dimensions: int) -> Iterator[slice]:
    """All of `count` rows, few at a time."""
    size = max(1, PIECE // dimensions)
    return (slice(start, start + size) for start in range(0, count, size))


def in_single(vectors: Stored, room: Floats32 | None = None) -> Floats32:
    """Vectors in single precision, in the first rows of `room` if they must be converted; else as they are.

    What is infinite or no number in half precision becomes 2**16 or more. NumPy's own conversion takes four times as
    long: here the bits are moved to their places, and a product puts the exponent right.
    """
    if vectors.dtype == np.float32:
        return vectors
    converted = (np.empty(vectors.shape, dtype=np.float32) if room is None else room)[: len(vectors)]
    for some in portions(*vectors.shape):
        numbers = converted[some]
        bits = numbers.view(np.int32)
        bits[:] = vectors[some].view(np.int16)  # which keeps the sign
        bits <<= 13
        bits &= np.int32(-0x70002000)  # all but the copies of the sign
        numbers *= np.float32(2.0**112)
    return converted
