"""`Store`: the interface of search among descriptors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Floats32, Ints
from mappable.errors import BadInputError

# Squared length limit; infinite values and NaN in half precision exceed it after conversion.
TOO_LONG = 2.0**32


class Store(Protocol):
    """Descriptors by row, and a search for the nearest ones: in memory, in a file, or in a
    database.
    """

    @property
    def dimensions(self) -> int:
        """Number of values per descriptor."""

    def __len__(self) -> int: ...

    def nearest(self, queries: Floats32, count: int) -> tuple[Ints, Floats32]:
        """Rows (n, count) of the nearest descriptors per query (n, dimensions), nearest first, and
        squared distances.

        In a tie, the lower row comes first. If there are fewer than `count` rows, the search
        raises.
        """

    def take(self, rows: Ints) -> Floats32:
        """The descriptors (len(rows), dimensions) of rows."""

    def parts(self) -> dict[str, tuple[str, Callable[[Path], None]]]:
        """The files that store this in the folder of a map: the suffix and a function that writes
        it, by part.
        """

    def facts(self, folder: Path) -> dict[str, Any]:
        """What `map.json` in this folder says about it."""

    def verify(self) -> None:
        """Raise if what is stored outside of the folder is not what was written."""


def check_search(store: Store, queries: Floats32, count: int) -> Floats32:
    """Return the queries in single precision; raise if `store` cannot answer them."""
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if queries.ndim != 2 or queries.shape[1] != store.dimensions:
        raise BadInputError(
            f"descriptors of queries should be n x {store.dimensions} numbers, got {shape(queries)}"
        )
    check_lengths(squared_lengths(queries), "query")
    if not 1 <= count <= len(store):
        raise BadInputError(f"cannot find the {count} nearest of {len(store)} landmarks")
    return queries


def squared_lengths(vectors: Floats32) -> Floats32:
    """Squared length of each row, by one product per row: fast, single-threaded, and independent of
    other rows.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return (vectors[:, None, :] @ vectors[:, :, None])[:, 0, 0]


def check_lengths(squared: Floats32, what: str) -> None:
    """Raise if a squared length shows that a descriptor is unusable; `what` is "query" or
    "landmark".
    """
    unusable = np.flatnonzero(~(squared < TOO_LONG))
    if len(unusable):
        problem = "has a value that is not a finite number, or is far too long"
        raise BadInputError(f"the descriptor of {what} {unusable[0]} {problem}")


def shape(array: NDArray[Any]) -> str:
    """The shape of an array as errors show it: 5 x 3."""
    return " x ".join(str(length) for length in array.shape)


def squared_between(first: Floats32, second: Floats32) -> Floats:
    """Squared feature distances (n, m) of all pairs, in double precision, so that near duplicates
    are accurate.
    """
    left, right = first.astype(np.float64), second.astype(np.float64)
    lengths = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1)
    squared: Floats = np.maximum(lengths - 2 * left @ right.T, 0.0)
    return squared
