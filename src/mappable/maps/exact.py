"""Exact search: compare every query with every descriptor by matrix products."""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats32, Ints
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.maps.store import check_lengths, check_search, shape, squared_lengths

SCORES = 2**20  # squared distances (queries x rows) that are in memory together
NUMBERS = 2**20  # numbers of descriptors that are copied or converted together
# Largest rounding error of a product of unit vectors: four times what was seen, for 128 to 32,768
# numbers.
ROUNDING = 2.0**-19
SMALL = 0.02  # share of a query's squared length; rounding would disturb smaller squared distances

Stored = NDArray[np.floating[Any]]  # float32 or float16


class Exact:
    """Exact search among descriptors (m, dimensions) in single or half precision, in memory or in a
    mapped file.

    The constructor reads no descriptors. The first search also computes their lengths, so they need
    not have length one. Several threads may search at the same time. `check` is called before the
    first use of a descriptor.

    Matrix products give squared distances up to rounding, about a millionth for descriptors of
    length one. Rounding matters if a distance is small, or if two distances are nearly equal. Then
    squared differences are summed instead. So near duplicates have accurate distances, and their
    order comes from the sums.
    """

    def __init__(self, vectors: Stored, check: Callable[[], None] = lambda: None) -> None:
        if vectors.ndim != 2 or not vectors.size:
            raise BadInputError(
                f"descriptors of landmarks should be m x dimensions numbers, got {shape(vectors)}"
            )
        if vectors.dtype not in (np.float32, np.float16):
            raise BadInputError(
                f"descriptors of landmarks should be float32 or float16, got {vectors.dtype}"
            )
        self._unchecked, self._check = np.ascontiguousarray(vectors), check

    def __len__(self) -> int:
        return len(self._unchecked)

    @property
    def dimensions(self) -> int:
        """Number of values per descriptor."""
        return int(self._unchecked.shape[1])

    def in_memory(self) -> "Exact":
        """The same descriptors, checked and copied to memory."""
        return Exact(np.array(self._vectors))

    def parts(self) -> dict[str, tuple[str, Callable[[Path], None]]]:
        """See `Store`."""
        return {"descriptors": (".npy", self._save)}

    def facts(self, folder: Path) -> dict[str, Any]:
        """See `Store`."""
        return {}

    def verify(self) -> None:
        """See `Store`."""

    def take(self, rows: Ints) -> Floats32:
        """The descriptors (len(rows), dimensions) of rows."""
        return self._vectors[rows].astype(np.float32, copy=False)

    def products(self, queries: Floats32) -> Floats32:
        """Products (n, m) of queries (n, dimensions) of any length with all descriptors."""
        products = np.empty((len(queries), len(self)), dtype=np.float32)
        for start, block in self._blocks():
            np.matmul(queries, block.T, out=products[:, start : start + len(block)])
        return products

    def nearest(self, queries: Floats32, count: int) -> tuple[Ints, Floats32]:
        """Rows (n, count) of the nearest descriptors per query, nearest first, and squared
        distances; see `Store`.
        """
        queries = check_search(self, queries, count)
        rows = np.empty((len(queries), count), dtype=np.int64)
        squared = np.empty((len(queries), count), dtype=np.float32)
        size = max(1, SCORES // len(self))
        for start in range(0, len(queries), size):
            batch = slice(start, start + size)
            rows[batch], squared[batch] = self._nearest(queries[batch], count)
        return rows, squared

    def squared_distances(self, queries: Floats32, query: Ints, row: Ints) -> Floats32:
        """Squared distances (c,) of pairs of a `query` and a `row`, computed from differences."""
        squared = np.empty(len(row), dtype=np.float32)
        for pairs in portions(len(row), self.dimensions):
            squared[pairs] = squared_lengths(self.take(row[pairs]) - queries[query[pairs]])
        return squared

    def _nearest(self, queries: Floats32, count: int) -> tuple[Ints, Floats32]:
        lengths = squared_lengths(queries)[:, None]
        by_products = lengths + self._squared_lengths - 2 * self.products(queries)
        slack = 4 * ROUNDING * np.sqrt(lengths * self._squared_lengths.max())
        farthest = np.partition(by_products, count - 1, axis=1)[:, count - 1 : count]
        query, row = np.nonzero(by_products <= farthest + slack)
        squared = by_products[query, row]
        order = np.lexsort((squared, query))
        query, row, squared = query[order], row[order], squared[order]
        unsure = squared < SMALL * lengths[query, 0]
        close = np.flatnonzero(
            (query[1:] == query[:-1]) & (np.diff(squared) <= slack[query[1:], 0])
        )
        unsure[close] = unsure[close + 1] = True
        squared[unsure] = self.squared_distances(queries, query[unsure], row[unsure])
        return first_of_each(query, row, squared, count)

    @cached_property
    def _vectors(self) -> Stored:
        self._check()
        return self._unchecked

    @cached_property
    def _squared_lengths(self) -> Floats32:
        squared = np.concatenate([squared_lengths(block) for _, block in self._blocks()])
        check_lengths(squared, "landmark")
        return squared

    def _blocks(self) -> Iterator[tuple[int, Floats32]]:
        """Blocks of descriptors in single precision, each with its first row."""
        if self._vectors.dtype == np.float32:
            yield 0, self._vectors
            return
        for rows in portions(len(self), self.dimensions):
            yield rows.start, self._vectors[rows].astype(np.float32)

    def _save(self, file: Path) -> None:
        write_atomically(file, lambda stream: np.save(stream, self._vectors))


def first_of_each(query: Ints, row: Ints, squared: Floats32, count: int) -> tuple[Ints, Floats32]:
    """Rows (n, count) of the nearest per query and squared distances, from pairs (c,); lower rows
    first in a tie.
    """
    order = np.lexsort((row, squared, query))
    starts = np.searchsorted(query[order], np.arange(query.max(initial=-1) + 1))
    chosen = order[starts[:, None] + np.arange(count)]
    return row[chosen], squared[chosen]


def portions(count: int, dimensions: int) -> Iterator[slice]:
    """Slices that cover `count` rows, a few rows each."""
    size = max(1, NUMBERS // dimensions)
    return (slice(start, start + size) for start in range(0, count, size))
