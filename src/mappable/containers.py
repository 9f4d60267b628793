"""Read JSON, .npy, Parquet and safetensors from anyone: check sizes before memory is used, then the checksum."""

import io
import json
import mmap
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow import compute
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load

from mappable.checksums import check_seal
from mappable.errors import BadInputError, DamagedFileError
from mappable.files import reading

MAX_JSON = 2**26  # bytes; Python needs up to 20 times as much memory
# Bytes of metadata in a Parquet file; notes about millions of images are long.
MAX_METADATA = 2**31 - 1
MAX_ROWS_IF_SMALL = 1_000_000  # rows of a Parquet file that may be more than its bytes
MAX_SAFETENSORS_HEADER = 100_000_000  # bytes; the library's own limit
# Bytes of a decoded Parquet file, and per byte of a large file.
MAX_DECODED_IF_SMALL, MAX_EXPANSION = 2**28, 64
NUMBER_BYTES = 8  # of a column, per row
MAX_NPY_HEADER = 10_000  # bytes; NumPy's own limit, which it applies after reading
NUMBERS = "biufc"  # NumPy's kinds of types that a .npy file may have


def read_bytes(file: Path, limit: int = MAX_JSON) -> bytes:
    """The bytes of a file. Raise a ValueError, before reading, if it has more than `limit` bytes."""
    if file.stat().st_size > limit:
        raise ValueError(f"it has over {limit:,} bytes")
    return file.read_bytes()


def parse_json(text: str | bytes, limit: int = MAX_JSON) -> Any:
    """Parse JSON. Raise a ValueError if it is not JSON, has more than `limit` bytes, or is nested
    too deeply.
    """
    if len(text) > limit:
        raise ValueError(f"its JSON has over {limit:,} bytes")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def read_json(file: Path, limit: int = MAX_JSON) -> Any:
    """The content of a JSON file of a user; raises a BadInputError that names the file."""
    try:
        with reading(file):
            return parse_json(read_bytes(file, limit), limit)
    except ValueError as error:
        raise BadInputError(f"{file}: damaged, or not JSON ({str(error)[:100]})") from None


def read_npy(
    file: Path,
    *,
    shape: tuple[int, ...] | None = None,
    dtype: str | None = None,
    mapped: bool = False,
) -> NDArray[Any]:
    """Read an array of numbers from a .npy file; with `mapped`, map it into memory and read nothing
    yet.

    The header is compared with the length of the file, and with `shape` and `dtype`, before memory
    is used.
    """
    try:
        with reading(file), file.open("rb") as stream:
            found, order, kind = _npy_header(stream, file.stat().st_size)
            if (shape is not None and found != shape) or (
                dtype is not None and kind != np.dtype(dtype)
            ):
                expected = " of shape ".join(str(part) for part in (dtype or kind, shape or found))
                raise BadInputError(
                    f"{file}: the array is {kind} of shape {found}, expected {expected}"
                )
            if mapped and 0 not in found:
                return np.memmap(file, kind, "r", stream.tell(), found, order)
            return np.fromfile(stream, kind, prod(found)).reshape(found, order=order)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise DamagedFileError(
            f"{file}: damaged, or not a .npy file of numbers ({reason})"
        ) from None


def npy_from_bytes(content: bytes) -> NDArray[Any]:
    """An array of numbers from the content of a .npy file; raise a ValueError if it is damaged or
    something else.
    """
    stream = io.BytesIO(content)
    shape, order, kind = _npy_header(stream, len(content))
    return np.frombuffer(content, kind, prod(shape), stream.tell()).reshape(shape, order=order)


def _npy_header(
    stream: IO[bytes], size: int
) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """The shape, order and type in the header of a .npy file of `size` bytes.

    Raise a ValueError unless it is an array of numbers of this size.
    """
    if stream.read(2) == b"PK":
        raise ValueError("it has several arrays, like a .npz file")
    stream.seek(0)
    version = np.lib.format.read_magic(stream)
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in headers:
        raise ValueError(f"version {version[0]}.{version[1]} is for arrays of records")
    length_at = stream.tell()
    if int.from_bytes(stream.read(2 * version[0]), "little") > MAX_NPY_HEADER:
        raise ValueError("its header is too long")
    stream.seek(length_at)
    try:
        shape, fortran, kind = headers[version](stream)
    # NumPy parses the header as Python code, so almost any exception is possible.
    except Exception as error:
        raise ValueError(f"its header cannot be read: {type(error).__name__}") from None
    if kind.hasobject or kind.kind not in NUMBERS:
        raise ValueError(f"its type is {str(kind)[:80]}")
    expected = stream.tell() + prod(shape) * kind.itemsize
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    if size != expected:
        problem = "truncated" if size < expected else "too long"
        raise ValueError(f"it is {problem}: {size:,} bytes, expected {expected:,}")
    return shape, "F" if fortran else "C", kind


def read_parquet(
    file: Path, *, rows: int | None = None, columns: list[str] | None = None
) -> pyarrow.Table:
    """Read one Parquet file, or some of its columns, and check its seal if it has one.

    Raise before reading if its metadata do not say `rows` rows; without `rows`, if they say more
    rows than the file can have. Folder names such as `year=2026` add no columns.
    """
    with reading(file):
        content = file.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    check_seal(content, file, max(0, len(content) - footer))
    # Memory of Arrow, not of Python: a thread of Arrow may free it while Python ends, and would
    # then abort the program.
    memory = pyarrow.allocate_buffer(len(content))
    memoryview(memory).cast("B")[:] = content
    with _parquet_errors(file):
        source = pyarrow.BufferReader(memory)
        schema = pyarrow.parquet.read_schema(source)
        # Texts stay in dictionaries until their lengths are known: a file can repeat a long text a
        # million times.
        texts = [field.name for field in schema if pyarrow.types.is_string(field.type)]
        limit = max(MAX_DECODED_IF_SMALL, MAX_EXPANSION * len(content))
        with pyarrow.parquet.ParquetFile(
            source, read_dictionary=texts, thrift_string_size_limit=MAX_METADATA
        ) as parquet:
            found = parquet.metadata.num_rows
            if rows is not None and found != rows:
                raise BadInputError(f"{file}: the table has {found:,} rows, expected {rows:,}")
            if found > max(len(content), MAX_ROWS_IF_SMALL):
                raise DamagedFileError(
                    f"{file}: damaged ({found:,} rows cannot be in {len(content):,} bytes)"
                )
            if found * len(columns or schema) * NUMBER_BYTES > limit:
                raise DamagedFileError(
                    f"{file}: damaged (it has over {limit:,} bytes after decompression)"
                )
            table = parquet.read(columns)
            if (
                sum(_text_length(chunk) for column in table.columns for chunk in column.chunks)
                > limit
            ):
                raise DamagedFileError(
                    f"{file}: damaged (its texts have over {limit:,} bytes after decompression)"
                )
            wanted = (
                schema
                if columns is None
                else pyarrow.schema([schema.field(name) for name in table.column_names])
            )
            table = table.cast(wanted)
            # The metadata of the file itself, because those of the schema are a copy from before
            # the file was sealed.
            return table.replace_schema_metadata(parquet.metadata.metadata)


def _text_length(chunk: Any) -> int:
    """Bytes of all texts in a part of a column; 0 for numbers."""
    if not isinstance(chunk, pyarrow.DictionaryArray):
        return 0
    lengths = compute.binary_length(chunk.dictionary)
    return int(compute.sum(compute.take(lengths, chunk.indices)).as_py() or 0)


@contextmanager
def _parquet_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, pyarrow.ArrowException) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DamagedFileError(f"{file}: damaged, or not a Parquet file ({reason})") from None


def read_safetensors(
    file: Path, framework: Literal["pt", "numpy"], names: Collection[str] | None = None
) -> tuple[dict[str, str], dict[str, Any]]:
    """The metadata and the tensors of a safetensors file, and check its seal if it has one.

    `names` selects tensors; names that the file lacks are skipped. The library itself compares all
    lengths with the file before it uses memory.
    """
    with reading(file), file.open("rb") as stream:
        if file.stat().st_size > 8:  # else the library refuses it
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            check_seal(content, file, 8, 8 + int.from_bytes(content[:8], "little"))
            content.close()
    try:
        with reading(file), safe_open(file, framework) as opened:
            chosen = [name for name in opened.keys() if names is None or name in names]  # noqa: SIM118
            return opened.metadata() or {}, {name: opened.get_tensor(name) for name in chosen}
    except SafetensorError as error:
        raise DamagedFileError(f"{file}: damaged, or not a safetensors file ({error})") from None


def parse_safetensors(content: bytes, file: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """The metadata and the arrays of a safetensors file with this content; check its seal if it has
    one.
    """
    end = 8 + min(int.from_bytes(content[:8], "little"), MAX_SAFETENSORS_HEADER)
    check_seal(content, file, 8, end)
    try:
        arrays = load(content)
    except SafetensorError as error:
        raise DamagedFileError(f"{file}: damaged, or not a safetensors file ({error})") from None
    return parse_json(content[8:end]).get("__metadata__", {}), arrays
