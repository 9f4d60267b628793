"""Approximate search: an index of shortened descriptors proposes candidates, and exact distances rank them."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from mappable.arrays import Floats32, Ints
from mappable.containers import read_safetensors
from mappable.errors import BadInputError, install_extra
from mappable.files import write_atomically
from mappable.formats import KEY, Format
from mappable.maps.exact import Exact, first_of_each
from mappable.maps.store import Store, check_search
from mappable.progress import track
from mappable.randomness import Purpose, generator

# Number of landmarks from which an index is worthwhile. Below it, exact search takes milliseconds
# per query, or tenths of a second with long descriptors.
WORTHWHILE = 100_000
LEAST = 1000  # smallest number of landmarks that an index can have
SHORT = 256  # numbers per shortened descriptor; the index stores each in one byte
SHORTENED_BY = 4096  # number of landmarks that the principal components are computed from
PER_CELL = 64  # number of landmarks per cell that k-means uses to find the centers of cells
PROBED = 64  # number of cells that a query searches
CANDIDATES = 200  # smallest number of candidates per query; at least ten per landmark requested
NUMBERS_PER_BLOCK = 2**24  # numbers of descriptors that are in memory together
# Number of queries that measure recall, and the numbers of landmarks they request.
QUERIES, RECALLS = 256, (1, 10)
FORMAT = Format("mappable index", 1, "build the map again")

# Matrix (dimensions, short) that shortens descriptors, and the FAISS index of short ones.
Index = tuple[Floats32, Any]


class Approximate:
    """Search among very many descriptors in a fraction of the time; it misses a neighbor now and
    then.

    Descriptors are shortened to their principal components and sorted into cells by k-means
    (FAISS). The cells nearest to a query propose candidates. Full descriptors rank the candidates,
    so distances are exact. If the cells contain too few, the search is exact.

    `recall` is measured when the index is built. "recall@1" is the share of nearest landmarks that
    are found, and "recall@10" the share of the ten nearest. The queries are landmarks, each left
    out of its own result. Queries farther from the landmarks than landmarks are from each other may
    miss more.
    """

    def __init__(
        self, exact: Exact, recall: Mapping[str, float], index: Callable[[], Index]
    ) -> None:
        self.exact, self.recall, self._read = exact, dict(recall), index

    @classmethod
    def build(cls, exact: Exact, *, seed: int = 0) -> "Approximate":
        """Build an index of all descriptors; the same seed gives the same index on the same
        machine.
        """
        if len(exact) < LEAST:
            raise BadInputError(
                f"an approximate index needs at least {LEAST:,} landmarks, got {len(exact):,}"
            )
        shortening, inverted = _trained(exact, seed)
        for block in _blocks(exact, np.arange(len(exact)), "adding landmarks to the index"):
            inverted.add(block @ shortening)
        built = cls(exact, {}, lambda: (shortening, inverted))
        built.recall = measured_recall(built, exact, seed)
        return built

    @classmethod
    def load(
        cls, file: Path, exact: Exact, check: Callable[[], None] = lambda: None
    ) -> "Approximate":
        """Open what `save` wrote for the same descriptors; the first search calls `check` and reads
        the index.
        """
        _faiss()
        with FORMAT.reading(file):
            about = FORMAT.parse(read_safetensors(file, "numpy", ())[0].get(KEY), file)
            count, dimensions = int(about["landmarks"]), int(about["dimensions"])
            recall = {name: float(share) for name, share in about["recall"].items()}
        if (count, dimensions) != (len(exact), exact.dimensions):
            given = f"{len(exact)} of {exact.dimensions}"
            raise BadInputError(
                f"{file}: has {count} descriptors of {dimensions} numbers, expected {given}"
            )
        return cls(exact, recall, lambda: _read_index(file, exact, check))

    def parts(self) -> dict[str, tuple[str, Callable[[Path], None]]]:
        """See `Store`."""
        return self.exact.parts() | {"index": (".safetensors", self.save)}

    def facts(self, folder: Path) -> dict[str, Any]:
        """See `Store`."""
        return {}

    def verify(self) -> None:
        """See `Store`."""

    def save(self, file: Path) -> None:
        """Write `file` (safetensors) atomically."""
        about = {"landmarks": len(self), "dimensions": self.dimensions, "recall": self.recall}
        shortening, inverted = self._index
        tensors = {"shortening": shortening, "index": _faiss().serialize_index(inverted)}
        content = save(tensors, {KEY: FORMAT.text(about, indent=None)})
        write_atomically(file, lambda stream: stream.write(content))

    def __len__(self) -> int:
        return len(self.exact)

    @property
    def dimensions(self) -> int:
        """Number of values per descriptor."""
        return self.exact.dimensions

    def take(self, rows: Ints) -> Floats32:
        """The descriptors (len(rows), dimensions) of rows."""
        return self.exact.take(rows)

    def nearest(self, queries: Floats32, count: int) -> tuple[Ints, Floats32]:
        """Rows (n, count) of the nearest descriptors per query, nearest first, and squared
        distances; see `Store`.
        """
        queries = check_search(self, queries, count)
        rows = np.empty((len(queries), count), dtype=np.int64)
        squared = np.empty((len(queries), count), dtype=np.float32)
        candidates = self._candidates(queries, max(CANDIDATES, 10 * count))
        enough = np.count_nonzero(candidates >= 0, axis=1) >= count
        query, place = np.nonzero((candidates >= 0)[enough])
        row = candidates[enough][query, place]
        distances = self.exact.squared_distances(queries[enough], query, row)
        rows[enough], squared[enough] = first_of_each(query, row, distances, count)
        if not enough.all():
            rows[~enough], squared[~enough] = self.exact.nearest(queries[~enough], count)
        return rows, squared

    def _candidates(self, queries: Floats32, count: int) -> Ints:
        """Rows (n, count) of the nearest in the searched cells; -1 if the cells contain too few."""
        faiss, (shortening, inverted) = _faiss(), self._index
        cells = faiss.SearchParametersIVF(nprobe=PROBED)
        rows: Ints = inverted.search(queries @ shortening, min(count, len(self)), params=cells)[1]
        if rows.max(initial=-1) >= len(self):
            raise BadInputError(
                f"the index has landmark {rows.max()}, but the map has only {len(self)} landmarks"
            )
        return rows

    @cached_property
    def _index(self) -> Index:
        return self._read()


def _trained(exact: Exact, seed: int) -> Index:
    """An empty index: principal components and cells, from random landmarks."""
    faiss = _faiss()
    cells = round(2 * np.sqrt(len(exact)))
    order = generator(seed, Purpose.SUBSAMPLES).permutation(len(exact))
    shortening = _principal(
        exact.take(np.sort(order[:SHORTENED_BY])), min(SHORT, exact.dimensions), seed
    )
    some = _blocks(
        exact, np.sort(order[: PER_CELL * cells]), "landmarks for the cells of the index"
    )
    short = np.concatenate([block @ shortening for block in some])
    width, kind = short.shape[1], faiss.ScalarQuantizer.QT_8bit
    inverted = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatL2(width), width, cells, kind)
    inverted.cp.seed, inverted.cp.min_points_per_centroid = seed, 1
    inverted.train(short)
    return shortening, inverted


def _principal(vectors: Floats32, count: int, seed: int) -> Floats32:
    """Orthonormal directions (dimensions, count) of about the largest variance, by randomized power
    iteration.
    """
    centered = vectors - vectors.mean(axis=0)
    directions = generator(seed, Purpose.SUBSAMPLES, 1).standard_normal(
        (vectors.shape[1], count), dtype=np.float32
    )
    for _ in range(3):
        directions, _ = np.linalg.qr(centered.T @ (centered @ directions))
    return directions


def measured_recall(built: Store, exact: Store, seed: int) -> dict[str, float]:
    """Recall of a store, compared with exact search of the same descriptors."""
    own = generator(seed, Purpose.SUBSAMPLES, 2).choice(len(exact), QUERIES, replace=False)
    queries, most = exact.take(own), max(RECALLS)
    true, found = (_others(store.nearest(queries, most + 1)[0], own) for store in (exact, built))
    return {
        f"recall@{count}": float(
            (true[:, :count, None] == found[:, None, :count]).any(axis=2).mean()
        )
        for count in RECALLS
    }


def _others(rows: Ints, own: Ints) -> Ints:
    """Rows (n, k) without the query itself, or without the last one if the query is not among them."""
    order = np.argsort(rows == own[:, None], axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1)[:, :-1]


def _blocks(exact: Exact, rows: Ints, what: str) -> Iterator[Floats32]:
    """The descriptors of rows in blocks, with a progress bar."""
    size = max(1, NUMBERS_PER_BLOCK // exact.dimensions)
    starts = range(0, len(rows), size)
    return (exact.take(rows[start : start + size]) for start in track(starts, what, len(starts)))


def _read_index(file: Path, exact: Exact, check: Callable[[], None]) -> Index:
    check()
    faiss = _faiss()
    _, tensors = read_safetensors(file, "numpy")
    try:
        shortening, inverted = tensors["shortening"], faiss.deserialize_index(tensors["index"])
        if not isinstance(inverted, faiss.IndexIVF) or shortening.shape != (
            exact.dimensions,
            inverted.d,
        ):
            raise RuntimeError("another kind of index")
        return shortening, inverted
    except (KeyError, RuntimeError) as error:
        raise BadInputError(
            f"{file}: damaged index ({str(error).strip().splitlines()[-1]}); build the map again"
        ) from None


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise BadInputError(f"approximate search needs faiss; {install_extra('ann')}") from None
    return faiss
