"""`Store`: the interface of search among descriptors."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Bools, Floats32, Ints
from mappable.errors import BadInputError

TOO_LONG = 2.0**32  # squared length limit; infinite values and NaN in half precision exceed it after conversion


class Store(Protocol):
    """Descriptors by row, and a search for the nearest ones: in memory, in a file, or in a database."""

    @property
    def dimensions(self) -> int:
        """Number of values per descriptor."""

    def __len__(self) -> int: ...

    def nearest(self, queries: Floats32, count: int, *, among: Bools | None = None) -> tuple[Ints, Floats32]:
        """Rows (n, count) of the nearest descriptors per query (n, dimensions), nearest first, and squared distances.

        In a tie, the lower row comes first. `among` (m,) marks the rows that may be found. If fewer than `count` rows
        are marked, the search raises.
        """

    def take(self, rows: Ints) -> Floats32:
        """The descriptors (len(rows), dimensions) of rows."""


def check_search(store: Store, queries: Floats32, count: int, among: Bools | None) -> Floats32:
    """Return the queries in single precision; raise if `store` cannot answer them."""
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if queries.ndim != 2 or queries.shape[1] != store.dimensions:
        raise BadInputError(f"descriptors of queries should be n x {store.dimensions} numbers, got {shape(queries)}")
    check_lengths(squared_lengths(queries), "query")
    if among is not None and (among.shape != (len(store),) or among.dtype != np.bool_):
        raise BadInputError(f"`among` should be {len(store)} booleans, got {shape(among)} of {among.dtype}")
    available = len(store) if among is None else int(np.count_nonzero(among))
    if not 1 <= count <= available:
        which = "landmarks" if among is None else "landmarks that may be found"
        raise BadInputError(f"cannot find the {count} nearest of {available} {which}")
    return queries


def squared_lengths(vectors: Floats32) -> Floats32:
    """Squared length of each row, by one product per row: fast, single-threaded, and independent of other rows."""
    with np.errstate(invalid="ignore", over="ignore"):
        return (vectors[:, None, :] @ vectors[:, :, None])[:, 0, 0]


def check_lengths(squared: Floats32, what: str) -> None:
    """Raise if a squared length shows that a descriptor is unusable; `what` is "query" or "landmark"."""
    unusable = np.flatnonzero(~(squared < TOO_LONG))
    if len(unusable):
        problem = "has a value that is not a finite number, or is far too long"
        raise BadInputError(f"the descriptor of {what} {unusable[0]} {problem}")


def shape(array: NDArray[Any]) -> str:
    """The shape of an array as errors show it: 5 x 3."""
    return " x ".join(str(length) for length in array.shape)


def squared_between(first: Floats32, second: Floats32) -> Floats32:
    """Squared feature distances (n, m) of all pairs, up to rounding, which matters if descriptors are nearly equal."""
    lengths = np.square(first).sum(1)[:, None] + np.square(second).sum(1)
    squared: Floats32 = np.maximum(lengths - 2 * first @ second.T, np.float32(0))
    return squared
