"""Checksums of our files: a file contains its own checksum (a seal), or another file stores it."""

import re
from pathlib import Path
from typing import Any

import xxhash

from mappable.errors import DamagedFileError
from mappable.files import reading

PREFIX, DIGITS = b"mappable-xxh3:", 32
UNSEALED = (PREFIX + b"0" * DIGITS).decode()  # the text that `seal` replaces
# With damaged digits it matches too, but never the content.
SEAL = re.compile(PREFIX + rb"([0-9a-f]{32})?")
CHUNK = 1 << 22  # bytes read at a time


def digest(data: Any) -> str:
    """XXH3 of bytes or of an array, 32 hex digits: fast, and different for different content."""
    return xxhash.xxh3_128_hexdigest(data)


def digest_of_file(file: Path) -> str:
    """The `digest` of a file's content."""
    found = xxhash.xxh3_128()
    with reading(file), file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def seal(content: bytes) -> bytes:
    """The content of a file with its checksum in place of `UNSEALED`, which occurs in it once."""
    start = content.index(UNSEALED.encode()) + len(PREFIX)
    return content[:start] + digest(content).encode() + content[start + DIGITS :]


def check_seal(content: Any, file: Path, start: int = 0, end: int | None = None) -> bool:
    """Return True if the content of `file` matches its seal, and False if it has none. Raise if it
    does not match.

    The seal is between the bytes `start` and `end`. `content` may be mapped into memory.
    """
    seals = list(
        SEAL.finditer(content, start, len(content) if end is None else min(end, len(content)))
    )
    if not seals:
        return False
    data = memoryview(content)
    try:
        if not any(_matches(data, found.start(1), found.group(1)) for found in seals):
            raise DamagedFileError(
                f"{file}: damaged, or changed by another program (its checksum does not match)"
            )
    finally:
        data.release()
    return True


def _matches(data: memoryview, start: int, digits: bytes | None) -> bool:
    if digits is None:
        return False
    found = xxhash.xxh3_128(data[:start])
    found.update(b"0" * DIGITS)
    found.update(data[start + DIGITS :])
    return found.hexdigest().encode() == digits
