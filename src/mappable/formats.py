"""The JSON header of our file formats, with `format` and `version`: written, read and checked here."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from mappable.errors import BadInputError
from mappable.files import write_text

KEY = "mappable"  # key of our JSON in the metadata of Parquet, safetensors and ONNX files


class LaterVersionError(BadInputError):
    """A later version of mappable wrote the file."""


@dataclass(frozen=True)
class Format:
    """A file format: its `name`, its `version`, and the `remedy` that errors name for a missing or damaged file."""

    name: str
    version: int
    remedy: str

    @property
    def header(self) -> dict[str, Any]:
        """The first entries of every file of this format."""
        return {"format": self.name, "version": self.version}

    def text(self, values: Mapping[str, Any], *, indent: int | None = 2) -> str:
        """JSON text that begins with the header; `indent=None` puts it on one line."""
        return json.dumps({**self.header, **values}, indent=indent)

    def write(self, file: Path, values: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        write_text(file, f"{self.text(values)}\n")

    def read(self, file: Path) -> dict[str, Any]:
        """Read a JSON file, check its header, and return its other values."""
        with self.reading(file):
            return self.parse(file.read_bytes(), file)

    def parse(self, text: str | bytes | None, file: Path) -> dict[str, Any]:
        """Parse JSON text, check its header, and return its other values.

        `text` is None if the file has no header. `file` is the file that errors name.
        """
        with self.reading(file):
            if text is None:
                raise ValueError("it has no mappable header")
            values: dict[str, Any] = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("its JSON is not an object")
            name, version = values.pop("format"), values.pop("version")
            if name != self.name:
                raise ValueError(f"its format is {name!r}")
            if version > self.version:
                raise LaterVersionError(
                    f"{file}: written by a later version of mappable (format {version}); upgrade mappable"
                )
            if version < self.version:
                raise BadInputError(
                    f"{file}: written by an earlier version of mappable (format {version}); {self.remedy}"
                )
            return values

    def is_header_of(self, text: bytes) -> bool:
        """True for JSON of this format, in any version."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            return False
        return isinstance(values, dict) and values.get("format") == self.name

    @contextmanager
    def reading(self, file: Path) -> Iterator[None]:
        """Context in which errors from a missing or damaged file become one sentence that names the file."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = Path(error.filename or file)
            what = f"no {self.name.removeprefix('mappable ')} here ({missing.name} is missing)"
            raise BadInputError(f"{missing.parent}: {what}; {self.remedy}") from None
        except OSError as error:
            raise BadInputError(f"{file}: cannot be read ({(error.strerror or str(error)).lower()})") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
            detail = (str(error) or type(error).__name__).splitlines()[0][:200]
            what = f"not in the format {self.name!r} ({'lacks ' if isinstance(error, KeyError) else ''}{detail})"
            raise BadInputError(f"{file}: damaged, or {what}; {self.remedy}") from None
