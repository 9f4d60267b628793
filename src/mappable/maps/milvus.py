"""Maps on Milvus: descriptors in a collection of a Milvus server, or in a file of milvus-lite, searched there."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xxhash

from mappable.arrays import Floats32, Ints, Strings
from mappable.errors import BadInputError, MappableError, install_extra
from mappable.maps.approximate import WORTHWHILE, measured_recall
from mappable.maps.exact import first_of_each
from mappable.maps.store import Store, check_search
from mappable.progress import track

NUMBERS = 2**22  # numbers of descriptors per message, 16 MB
MOST_ROWS = 8192  # rows per message; a server returns at most 16,384
# Queries per message of exact search; by cells, 64 took 28 s, but one takes 16 ms.
MOST_QUERIES = 64
# Numbers of descriptors that stay in memory, 256 MB; every search takes the same sample of
# landmarks.
KEPT = 2**26
# Additional results per query, so that the lower row comes first if several are equally near.
TIES = 16
SECONDS = 30.0  # timeout of a request
# Seconds in which a server may restart; a server that was killed needs about 30 s to load its data.
PATIENCE = 90.0
# Timeout for building an index, and for loading a collection into the server's memory.
BUILDING = 7200.0
# Large maps are sorted into cells, per segment of the server. Chosen with FAISS: 16 of 256 cells
# had recall@10 of 100 % among 100,000 descriptors of benchmarks/search.py. HNSW of 200,000 was not
# built after 270 s on a busy machine.
CELLS, PROBED = 256, 32  # cells of a segment, and those that a query searches
TOKEN = "MAPPABLE_MILVUS_TOKEN"  # noqa: S105 (name of an environment variable)

RELOAD = "load the map again with `mappable map upload`"
Answer = TypeVar("Answer")


class Milvus:
    """Search among the descriptors of a collection. A collection never changes after it was loaded.

    `uri` is the address of a server, or a file of milvus-lite with the suffix .db. Nothing is
    opened before the first use. `ids` (m,) are the landmarks in the order of rows. The collection
    has an entity per landmark: its id as key, its row and its descriptor. The name of the
    collection contains a checksum of all ids and descriptors, so equal maps share a collection, and
    loading twice stores nothing twice.

    Distances are computed from differences, so near duplicates have accurate distances. Up to
    100,000 landmarks, the search is exact. With more, the server searches the cells nearest to a
    query (IVF_FLAT) and misses a neighbor now and then; `recall` is measured by `load`.
    """

    def __init__(
        self,
        uri: str,
        collection: str,
        ids: Strings,
        dimensions: int,
        recall: Mapping[str, float] | None = None,
    ) -> None:
        self.uri, self.collection, self.recall = uri, collection, dict(recall or {})
        self._ids, self._dimensions = ids, dimensions
        self._kept: dict[int, Floats32] = {}
        self._opening = threading.Lock()

    @classmethod
    def load(cls, uri: str, ids: Strings, source: Store) -> "Milvus":
        """Load the descriptors of `source` (m, dimensions) into a collection, and wait until they
        can be searched.

        A load that was interrupted starts again; equal landmarks are stored once.
        """
        uri = checked_uri(uri)
        made = cls(uri, f"mappable_{_checksum(ids, source)}", ids, source.dimensions)
        made._asked(made._create)
        blocks = list(_blocks(len(ids), source.dimensions))
        for block in track(blocks, "loading landmarks", len(blocks)):
            made._upsert(block, source.take(block))
        made._asked(lambda: made._client.flush(made.collection, timeout=BUILDING))
        made._asked(made._build_index)
        if len(made) > WORTHWHILE:
            made.recall = measured_recall(made, source, 0)
        return made

    def parts(self) -> dict[str, tuple[str, Callable[[Path], None]]]:
        """See `Store`."""
        return {}

    def facts(self, folder: Path) -> dict[str, Any]:
        """The values that `from_json` needs. A file in the folder of the map has a relative path."""
        inside = not is_server(self.uri) and Path(self.uri).is_relative_to(folder)
        uri = Path(self.uri).relative_to(folder).as_posix() if inside else self.uri
        return {"milvus": {"uri": uri, "collection": self.collection, "recall": self.recall}}

    @classmethod
    def from_json(
        cls, facts: Mapping[str, Any], folder: Path, ids: Strings, dimensions: int
    ) -> "Milvus":
        """Read what `facts` returned for a map in `folder`."""
        uri = facts["uri"] if is_server(facts["uri"]) else str(folder / facts["uri"])
        return cls(checked_uri(uri), str(facts["collection"]), ids, dimensions, facts["recall"])

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def dimensions(self) -> int:
        """Number of values per descriptor."""
        return self._dimensions

    def nearest(self, queries: Floats32, count: int) -> tuple[Ints, Floats32]:
        """Rows (n, count) of the nearest descriptors per query, nearest first, and squared
        distances; see `Store`.
        """
        queries = check_search(self, queries, count)
        wanted = min(count + TIES, len(self))
        rows, squared = (
            np.empty((len(queries), count), np.int64),
            np.empty((len(queries), count), np.float32),
        )
        most = 1 if len(self) > WORTHWHILE else MOST_QUERIES
        size = max(1, min(most, NUMBERS // self.dimensions, 2**16 // wanted))
        for start in range(0, len(queries), size):
            some = slice(start, start + size)
            rows[some], squared[some] = self._nearest(queries[some], count, wanted, PROBED)
        return rows, squared

    def _nearest(
        self, queries: Floats32, count: int, wanted: int, probed: int
    ) -> tuple[Ints, Floats32]:
        client = self._opened
        hits = self._asked(
            lambda: client.search(
                self.collection,
                data=list(queries),
                anns_field="descriptor",
                limit=wanted,
                output_fields=["row"],
                search_params={"params": {"nprobe": probed} if len(self) > WORTHWHILE else {}},
                consistency_level="Eventually",  # the collection does not change
                timeout=SECONDS,
            )
        )
        found = [len(one) for one in hits]
        if min(found) < count and probed < CELLS:  # these cells have too few
            return self._nearest(queries, count, wanted, CELLS)
        if min(found) < count:
            problem = f"found {min(found):,} of {count:,} landmarks"
            raise MappableError(f"{self.uri}: collection {self.collection} {problem}; {RELOAD}")
        query = np.repeat(np.arange(len(queries)), found)
        row = np.array([hit["entity"]["row"] for one in hits for hit in one], np.int64)
        squared = np.array([hit["distance"] for one in hits for hit in one], np.float32)
        return first_of_each(query, row, np.maximum(squared, np.float32(0)), count)

    def take(self, rows: Ints) -> Floats32:
        """The descriptors (len(rows), dimensions) of rows."""
        rows = np.asarray(rows, np.int64) % len(self)
        wanted = np.unique(rows)
        missing = np.array([row for row in wanted.tolist() if row not in self._kept], np.int64)
        fetched: dict[int, Floats32] = {}
        for block in _blocks(len(missing), self.dimensions):
            fetched.update(self._fetched(missing[block]))
        taken = np.empty((len(rows), self.dimensions), np.float32)
        for place, row in enumerate(rows.tolist()):
            taken[place] = fetched[row] if row in fetched else self._kept[row]
        if (len(self._kept) + len(fetched)) * self.dimensions <= KEPT:
            self._kept.update(fetched)
        return taken

    def _fetched(self, rows: Ints) -> dict[int, Floats32]:
        client = self._opened
        found = self._asked(
            lambda: client.query(
                self.collection,
                filter=f"row in {rows.tolist()}",
                output_fields=["row", "descriptor"],
                limit=len(rows) + 1,  # one more, to see doubled rows
                consistency_level="Eventually",
                timeout=SECONDS,
            )
        )
        by_row = {int(one["row"]): np.asarray(one["descriptor"], np.float32) for one in found}
        if len(found) != len(rows) or len(by_row) != len(rows):
            problem = f"has {len(found):,} descriptors, expected {len(rows):,} from row {rows[0]}"
            raise MappableError(f"{self.uri}: collection {self.collection} {problem}; {RELOAD}")
        return by_row

    def verify(self) -> None:
        """Read all descriptors, and raise if they are not the ones that were loaded."""
        if f"mappable_{_checksum(self._ids, self)}" != self.collection:
            raise MappableError(f"{self.uri}: collection {self.collection} has changed; {RELOAD}")

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """The answer to a request, repeated for a while if it fails: the server may have restarted,
        and be loading.
        """
        ends = time.monotonic() + PATIENCE
        with _explained(self.uri, "start the server, and run the command again"):
            while True:
                try:
                    return ask()
                except _exceptions():
                    if time.monotonic() > ends:
                        raise
                time.sleep(1)
                with suppress(*_exceptions()):
                    self._client.load_collection(self.collection, timeout=SECONDS)

    @cached_property
    def _client(self) -> Any:
        client = _pymilvus().MilvusClient
        with _explained(self.uri, "check the address, and start the server"):
            return client(uri=self.uri, token=os.environ.get(TOKEN, ""), timeout=SECONDS)

    @property
    def _opened(self) -> Any:
        """The client, after a check that the collection exists and is complete."""
        with self._opening:
            if "_checked" not in self.__dict__:
                exists = self._asked(
                    lambda: self._client.has_collection(self.collection, timeout=SECONDS)
                )
                if exists:
                    self._asked(
                        lambda: self._client.load_collection(self.collection, timeout=BUILDING)
                    )
                stored = self._count() if exists else 0
                if stored != len(self):
                    problem = f"has {stored:,} landmarks, but the map has {len(self):,}"
                    raise MappableError(
                        f"{self.uri}: collection {self.collection} {problem}; {RELOAD}"
                    )
                self._checked = True
        return self._client

    def _create(self) -> None:
        """Create the collection, or load it into the server's memory if it exists: counting needs
        that.
        """
        from pymilvus import DataType

        client = self._client
        if not client.has_collection(self.collection, timeout=SECONDS):
            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("place_id", DataType.VARCHAR, is_primary=True, max_length=65_535)
            schema.add_field("row", DataType.INT64)
            schema.add_field("descriptor", DataType.FLOAT_VECTOR, dim=self.dimensions)
            client.create_collection(self.collection, schema=schema, timeout=SECONDS)
        if not client.list_indexes(self.collection, "descriptor"):
            self._index("FLAT")
        client.load_collection(self.collection, timeout=BUILDING)

    def _index(self, kind: str, **options: int) -> None:
        client = self._client
        asked = client.prepare_index_params()
        asked.add_index("descriptor", index_type=kind, metric_type="L2", params=options)
        client.create_index(self.collection, asked, timeout=BUILDING)  # waits until it is built

    def _build_index(self) -> None:
        """Build the index of a large map, after all rows were sent: the server merges them into
        larger segments first.

        A search before the server has loaded the index would be exact and slow, and recall could
        not be measured.
        """
        client = self._client
        if len(self) > WORTHWHILE:
            names = client.list_indexes(self.collection, "descriptor")
            if (
                names
                and client.describe_index(self.collection, "descriptor")["index_type"] == "FLAT"
            ):
                client.release_collection(self.collection, timeout=BUILDING)
                client.drop_index(self.collection, "descriptor", timeout=BUILDING)
                names = []
            if not names:
                self._index("IVF_FLAT", nlist=CELLS)
        self._wait_for_index()
        client.load_collection(self.collection, timeout=BUILDING)

    def _wait_for_index(self) -> None:
        """Wait until the index has all rows."""
        ends = time.monotonic() + BUILDING
        while True:
            state = self._client.describe_index(self.collection, "descriptor")
            # Rows that the server has sorted into new segments can count as pending although they
            # are indexed.
            if not state.get("pending_index_rows", 0) or state.get("indexed_rows", 0) >= len(self):
                return
            if time.monotonic() > ends:
                raise MappableError(
                    f"{self.uri}: no index after {BUILDING:.0f} s; run the command again: it"
                    " continues"
                )
            time.sleep(0.5)

    def _count(self) -> int:
        """Number of stored landmarks, after waiting until all inserted rows are visible."""
        answer = self._asked(
            lambda: self._client.query(
                self.collection,
                filter="",
                output_fields=["count(*)"],
                consistency_level="Strong",
                timeout=SECONDS,
            )
        )
        return int(answer[0]["count(*)"])

    def _upsert(self, rows: Ints, descriptors: Floats32) -> None:
        entities = [
            {"place_id": str(self._ids[row]), "row": int(row), "descriptor": vector}
            for row, vector in zip(rows, descriptors, strict=True)
        ]
        self._asked(lambda: self._client.upsert(self.collection, entities, timeout=SECONDS))


def is_server(uri: str) -> bool:
    """Whether this is the address of a server, not a file."""
    return uri.startswith(("http://", "https://"))


def checked_uri(uri: str) -> str:
    """The URI, or the absolute path of a file; raise if it is neither, or if it contains a
    password.
    """
    if is_server(uri):
        if "@" in uri:
            raise BadInputError(
                f"the address of a Milvus server must not contain a password; set {TOKEN} instead"
            )
        return uri
    path = Path(uri)
    if "://" in uri or path.suffix != ".db":
        raise BadInputError(
            f"{uri}: expected http://HOST:PORT of a Milvus server, or a file with the suffix .db"
        )
    if not path.parent.is_dir():
        raise BadInputError(f"{path.parent}: no such folder for the file {path.name}")
    return str(path.resolve())


def _pymilvus() -> Any:
    try:
        import pymilvus
    except ImportError:
        raise BadInputError(f"a map on Milvus needs pymilvus; {install_extra('milvus')}") from None
    # Otherwise it prints the traceback of each exception.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return pymilvus


def _exceptions() -> tuple[type[Exception], ...]:
    """What pymilvus raises. A request that took too long, or is not permitted, raises the exception
    of gRPC.
    """
    exception = _pymilvus().MilvusException
    import grpc

    return exception, grpc.RpcError


@contextmanager
def _explained(uri: str, remedy: str) -> Iterator[None]:
    """Turn an exception of pymilvus into one sentence."""
    exceptions = _exceptions()
    try:
        yield
    except exceptions as error:
        text = error.message if hasattr(error, "message") else error.details()  # type: ignore[attr-defined]
        cause = " ".join(str(text).split())[:200]
        raise MappableError(f"{uri}: Milvus failed ({cause}); {remedy}") from None


def _blocks(count: int, dimensions: int) -> Iterator[Ints]:
    """Consecutive numbers from 0 to `count`, as many at a time as fit into a message."""
    size = max(1, min(NUMBERS // dimensions, MOST_ROWS))
    return (np.arange(start, min(start + size, count)) for start in range(0, count, size))


def _checksum(ids: Strings, store: Store) -> str:
    """A checksum of all ids and descriptors, in 32 digits."""
    digest = xxhash.xxh3_128(json.dumps([store.dimensions, *ids.tolist()]).encode())
    for block in _blocks(len(ids), store.dimensions):
        digest.update(np.ascontiguousarray(store.take(block), dtype="<f4").data)
    return digest.hexdigest()
