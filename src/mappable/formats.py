"""The JSON header of our file formats, with `format` and `version`: written, read and checked here."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from safetensors import SafetensorError

from mappable.checksums import PREFIX, UNSEALED, check_seal, seal
from mappable.containers import MAX_JSON, parse_json, read_bytes, read_parquet
from mappable.errors import BadInputError, DamagedFileError, shown
from mappable.files import write_atomically

CHECKSUM = "checksum"  # key of the seal in our JSON
KEY = "mappable"  # key of our JSON in the metadata of Parquet, safetensors and ONNX files


class LaterVersionError(BadInputError):
    """A later version of mappable wrote the file."""


@dataclass(frozen=True)
class Format:
    """A file format: its `name`, its `version`, and the `remedy` that errors name for a missing or
    damaged file.

    Versions from `sealed_since` on contain a checksum of the whole file, the seal. Versions from
    `earliest` on can be read (default: only `version`). Errors refuse JSON of more than `limit`
    bytes. `if_missing` is the remedy for a missing file (default: `remedy`).
    """

    name: str
    version: int
    remedy: str
    sealed_since: int | None = None
    earliest: int | None = None
    limit: int = MAX_JSON
    if_missing: str | None = None

    @property
    def header(self) -> dict[str, Any]:
        """The first entries of every file of this format, except the seal."""
        return {"format": self.name, "version": self.version}

    def text(self, values: Mapping[str, Any], *, indent: int | None = 2) -> str:
        """JSON text that begins with the header; `indent=None` puts it on one line.

        If the format has a seal, the text has its place. Then the file that contains the text must
        be sealed with `checksums.seal`.
        """
        place = {} if self.sealed_since is None else {CHECKSUM: UNSEALED}
        return json.dumps({**self.header, **place, **values}, indent=indent)

    def write(self, file: Path, values: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        content = f"{self.text(values)}\n".encode()
        content = content if self.sealed_since is None else seal(content)
        write_atomically(file, lambda stream: stream.write(content))

    def read(self, file: Path) -> dict[str, Any]:
        """Read a JSON file, check its seal and its header, and return its other values."""
        with self.reading(file):
            content = read_bytes(file, self.limit)
            values = self.parse(content, file)
            check_seal(content, file)
            return values

    def write_parquet(
        self, file: Path, table: pyarrow.Table, values: Mapping[str, Any] | None = None
    ) -> None:
        """Write a Parquet file atomically; its metadata have the header and other values."""
        stream = io.BytesIO()
        metadata = {KEY: self.text(values or {}, indent=None)}
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), stream)
        content = seal(stream.getvalue())
        write_atomically(file, lambda stream: stream.write(content))

    def read_parquet(
        self, file: Path, rows: int | None = None
    ) -> tuple[pyarrow.Table, dict[str, Any]]:
        """Read a Parquet file, check its seal and its header, and return the table and the other
        values.
        """
        table = read_parquet(file, rows=rows)
        return table, self.parse((table.schema.metadata or {}).get(KEY.encode()), file)

    def parse(self, text: str | bytes | None, file: Path) -> dict[str, Any]:
        """Parse JSON text, check its header, and return its other values.

        `text` is None if the file has no header. `file` is the file that errors name. Who reads the
        file checks its seal; this function only checks that there is one.
        """
        with self.reading(file):
            if text is None:
                raise ValueError("it has no mappable header")
            values: dict[str, Any] = parse_json(text, self.limit)
            if not isinstance(values, dict):
                raise ValueError("its JSON is not an object")
            name, version = values.pop("format"), values.pop("version")
            if name != self.name:
                raise ValueError(f"its format is {shown(name)}")
            if version > self.version:
                raise LaterVersionError(
                    f"{file}: written by a later version of mappable (format {version}); upgrade"
                    " mappable"
                )
            if version < (self.earliest or self.version):
                raise BadInputError(
                    f"{file}: written by an earlier version of mappable (format {version});"
                    f" {self.remedy}"
                )
            if self.sealed_since is not None:
                found = values.pop(CHECKSUM, "")
                if version >= self.sealed_since and not str(found).startswith(PREFIX.decode()):
                    raise ValueError("it has no checksum")
            return values

    def is_header_of(self, text: bytes) -> bool:
        """True for JSON of this format, in any version."""
        try:
            values = parse_json(text, self.limit)
        except ValueError:
            return False
        return isinstance(values, dict) and values.get("format") == self.name

    @contextmanager
    def reading(self, file: Path) -> Iterator[None]:
        """Context in which errors from a missing or damaged file become one sentence that names the
        file.
        """
        try:
            yield
        except DamagedFileError as error:
            raise BadInputError(f"{error}; {self.remedy}") from None
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = Path(error.filename or file)
            what = f"no {self.name.removeprefix('mappable ')} here ({missing.name} is missing)"
            raise BadInputError(
                f"{missing.parent}: {what}; {self.if_missing or self.remedy}"
            ) from None
        except OSError as error:
            raise BadInputError(
                f"{file}: cannot be read ({(error.strerror or str(error)).lower()})"
            ) from None
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            SafetensorError,
        ) as error:
            detail = (str(error) or type(error).__name__).splitlines()[0][:200]
            what = (
                f"not in the format {self.name!r}"
                f" ({'lacks ' if isinstance(error, KeyError) else ''}{detail})"
            )
            raise BadInputError(f"{file}: damaged, or {what}; {self.remedy}") from None
