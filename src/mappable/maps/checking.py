"""Checksums of a map's files; descriptors are checked in blocks of rows, when a row is used for the first time."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Ints
from mappable.files import reading
from mappable.maps.errors import DamagedMapError
from mappable.progress import Advance

BLOCK_BYTES = 2**18  # small, because approximate search reads few rows of each block; large, because each has a sum
CHUNK = 1 << 22  # bytes that are read at a time

Sums = NDArray[np.uint64]
Check = Callable[[Ints | None], None]  # raises if these rows (None: all rows) are not what was written
Vectors = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class File:
    """A file in the folder of a map: where it is, its length in bytes, and the checksum of its content."""

    path: Path
    length: int
    sha256: str

    @property
    def has_length(self) -> bool:
        """True if the file exists and has the right length."""
        return self.path.is_file() and self.path.stat().st_size == self.length

    def check(self) -> None:
        """Raise if the content is not what was written."""
        if sha256_of(self.path) != self.sha256:
            raise DamagedMapError(self.path)


def sha256_of(file: Path, advance: Advance = lambda count, note="": None) -> str:
    """The SHA-256 of a file, in hex digits."""
    digest = hashlib.sha256()
    with reading(file), file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    return digest.hexdigest()


def sums_of(vectors: Vectors) -> Sums:
    """The checksums of all blocks of rows."""
    return np.array([_sum(vectors[block]) for block in _blocks(vectors)], dtype=np.uint64)


def block_count(vectors: Vectors) -> int:
    """The number of blocks of rows."""
    return len(list(_blocks(vectors)))


def checking_blocks(vectors: Vectors, sums: Sums, file: Path) -> Check:
    """A function that checks rows of the mapped `file`, block by block, and each block once."""
    blocks, unchecked = list(_blocks(vectors)), np.ones(len(sums), dtype=bool)
    finished = False

    def check(rows: Ints | None) -> None:
        nonlocal finished
        if finished:
            return
        wanted = unchecked if rows is None else unchecked & _contain(rows, len(blocks), blocks[0].stop)
        for number in np.flatnonzero(wanted):
            if _sum(vectors[blocks[number]]) != sums[number]:
                raise DamagedMapError(file)
            unchecked[number] = False
        finished = not unchecked.any()

    return check


def checking_all(vectors: Vectors, header: bytes, file: File) -> Check:
    """A function that checks the whole mapped file, once; for maps that have no checksums of blocks."""
    finished = False

    def check(rows: Ints | None) -> None:
        nonlocal finished
        if not finished:
            digest = hashlib.sha256(header)
            digest.update(vectors.data)
            if digest.hexdigest() != file.sha256:
                raise DamagedMapError(file.path)
            finished = True

    return check


def _blocks(vectors: Vectors) -> Iterator[slice]:
    size = max(1, BLOCK_BYTES // vectors[:1].nbytes)
    return (slice(start, start + size) for start in range(0, len(vectors), size))


def _contain(rows: Ints, count: int, size: int) -> NDArray[np.bool_]:
    """Which of `count` blocks of `size` rows contain some of the rows."""
    contain = np.zeros(count, dtype=bool)
    contain[rows // size] = True
    return contain


def _sum(block: Vectors) -> int:
    import xxhash  # imported here, so that maps in memory do not need it

    return xxhash.xxh3_64_intdigest(block.data)
