"""MATLAB files of version 5 to 7: numbers, texts, cells and structs.

SciPy's reader crashes on some damaged files, and takes the whole process with it. This one checks every length.
"""

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mappable.containers import read_bytes
from mappable.errors import BadInputError
from mappable.files import reading

MAX_BYTES = 1 << 28  # of a file, and of an unpacked variable
HEADER = 128  # bytes before the first variable
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16"}
MATRIX, COMPRESSED = 14, 15  # types of elements
CELL, STRUCT, CHARACTERS = 1, 2, 4  # classes of arrays
NUMERIC = range(6, 16)  # classes of arrays
DEEPEST = 20  # cells in cells


@dataclass
class _Reader:
    """Reads elements from bytes. `order` is < or >, the byte order."""

    data: bytes
    order: str
    at: int = 0

    def element(self) -> tuple[int, bytes]:
        """The type and the content of the next element; its end is a multiple of 8 bytes."""
        kind, length = struct.unpack(f"{self.order}II", self._take(8))
        if kind >> 16:  # a small element: type and length share four bytes, the content has the other four
            self.at -= 4
            return kind & 0xFFFF, self._take(4)[: kind >> 16]
        content = self._take(length)
        if kind != COMPRESSED:
            self.at += -length % 8
        return kind, content

    def _take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError("the file ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    @property
    def more(self) -> bool:
        return self.at < len(self.data)


def read_matlab(file: Path) -> dict[str, Any]:
    """The variables of a file by name.

    Numbers become arrays, texts arrays of one string per row, cells arrays of objects, and a single struct becomes a
    dictionary.
    """
    try:
        with reading(file):
            data = read_bytes(file, MAX_BYTES)
        if len(data) < HEADER or data[126:128] not in (b"IM", b"MI"):
            raise ValueError("it does not begin like one")
        order = "<" if data[126:128] == b"IM" else ">"
        if struct.unpack(f"{order}H", data[124:126])[0] != 0x0100:
            raise BadInputError(f"{file}: unsupported .mat version 7.3 (HDF5); save the file as version 7")
        variables: dict[str, Any] = {}
        reader = _Reader(data, order, HEADER)
        while reader.more:
            kind, content = reader.element()
            if kind == COMPRESSED:
                kind, content = _Reader(_unpack(content), order).element()
            name, value = _matrix(kind, content, order, 0)
            variables[name] = value
        return variables
    except (ValueError, struct.error, zlib.error) as error:
        raise BadInputError(f"{file}: not a readable .mat file ({error})") from None


def _unpack(content: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(content, MAX_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError(f"a variable has more than {MAX_BYTES >> 20} MB")
    return data


def _matrix(kind: int, content: bytes, order: str, depth: int) -> tuple[str, Any]:
    """The name and the value of an array."""
    if kind != MATRIX:
        raise ValueError(f"an array has the type {kind}")
    if depth > DEEPEST:
        raise ValueError(f"cells are nested more than {DEEPEST} deep")
    if not content:
        return "", np.empty((0, 0))
    reader = _Reader(content, order)
    flags = np.frombuffer(_of(reader, 6), f"{order}u4")
    shape = tuple(np.frombuffer(_of(reader, 5), f"{order}i4").tolist())
    name = _of(reader, 1).decode("latin-1")
    if len(flags) != 2 or not 2 <= len(shape) <= 8 or min(shape) < 0:
        raise ValueError(f"array {name!r} has a damaged header")
    array_class, count = int(flags[0]) & 0xFF, int(np.prod(shape, dtype=object))
    if count > len(content):  # every value takes a byte or more
        raise ValueError(f"array {name!r} has {count:,} values in {len(content):,} bytes")
    if array_class == CELL:
        cells = np.empty(count, dtype=object)
        for number in range(count):
            cells[number] = _matrix(*reader.element(), order, depth + 1)[1]
        return name, cells.reshape(shape, order="F")
    if array_class == STRUCT:
        return name, _struct(reader, order, depth, count)
    if array_class == CHARACTERS:
        return name, _texts(*reader.element(), order, shape)
    if array_class in NUMERIC:
        number_type, values = reader.element()
        if number_type not in NUMBERS:
            raise ValueError(f"array {name!r} has numbers of type {number_type}")
        return name, np.frombuffer(values, order + NUMBERS[number_type]).reshape(shape, order="F")
    raise ValueError(f"array {name!r} is of class {array_class}")


def _of(reader: _Reader, expected: int) -> bytes:
    kind, content = reader.element()
    if kind != expected:
        raise ValueError(f"an element has the type {kind}, expected {expected}")
    return content


def _struct(reader: _Reader, order: str, depth: int, count: int) -> Any:
    """The fields of a single struct; None for several structs."""
    length = struct.unpack(f"{order}i", _of(reader, 5))[0]
    names = _of(reader, 1)
    if length <= 0 or len(names) % length:
        raise ValueError("a struct has damaged names of fields")
    if count != 1:
        return None
    fields = [names[at : at + length].partition(b"\0")[0].decode("latin-1") for at in range(0, len(names), length)]
    return {field: _matrix(*reader.element(), order, depth + 1)[1] for field in fields}


def _texts(kind: int, content: bytes, order: str, shape: tuple[int, ...]) -> Any:
    """The rows of a matrix of characters."""
    if kind not in TEXTS or len(shape) != 2:
        raise ValueError(f"a text has the type {kind} and {len(shape)} dimensions")
    encoding = TEXTS[kind] + (("-le" if order == "<" else "-be") if TEXTS[kind] == "utf-16" else "")
    text = content.decode(encoding)
    if len(text) != shape[0] * shape[1]:
        raise ValueError(f"a text has {len(text):,} characters, expected {shape[0]:,} x {shape[1]:,}")
    rows, columns = shape
    return np.array(["".join(text[row::rows]) for row in range(rows)] if columns else [], dtype=np.str_)
