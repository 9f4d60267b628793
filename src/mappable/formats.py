"""The header of our file formats: JSON with `format` and `version`, written, read and checked in one place."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from mappable.errors import BadInputError
from mappable.files import write_text

KEY = "mappable"  # of our JSON in the metadata of Parquet, safetensors and ONNX files


class LaterVersionError(BadInputError):
    """A file that a later version of mappable wrote."""


@dataclass(frozen=True)
class Format:
    """A kind of file: its `name`, its `version`, and a `remedy` for a file that is missing or damaged."""

    name: str
    version: int
    remedy: str

    @property
    def header(self) -> dict[str, Any]:
        """What every such file begins with."""
        return {"format": self.name, "version": self.version}

    def text(self, values: Mapping[str, Any], *, indent: int | None = 2) -> str:
        """JSON that begins with the header; one line without `indent`."""
        return json.dumps({**self.header, **values}, indent=indent)

    def write(self, file: Path, values: Mapping[str, Any]) -> None:
        """Write a JSON file, whole or not at all."""
        write_text(file, f"{self.text(values)}\n")

    def read(self, file: Path) -> dict[str, Any]:
        """The values of a JSON file that has this header."""
        with self.reading(file):
            return self.parse(file.read_bytes(), file)

    def parse(self, text: str | bytes | None, file: Path) -> dict[str, Any]:
        """The values of JSON that has this header, None for none; `file` is where it was found."""
        with self.reading(file):
            if text is None:
                raise ValueError("without a description by mappable")
            values: dict[str, Any] = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("no table of names and values")
            name, version = values.pop("format"), values.pop("version")
            if name != self.name:
                raise ValueError(f"its format is {name!r}")
            if version > self.version:
                raise LaterVersionError(
                    f"{file}: written by a later version of mappable (format {version}); upgrade it"
                )
            if version < self.version:
                raise BadInputError(
                    f"{file}: written by an earlier version of mappable (format {version}); {self.remedy}"
                )
            return values

    def is_header_of(self, text: bytes) -> bool:
        """True for JSON of this format, in whatever version."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            return False
        return isinstance(values, dict) and values.get("format") == self.name

    @contextmanager
    def reading(self, file: Path) -> Iterator[None]:
        """Turn what a missing or damaged file makes a reader raise into one sentence that names the file."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = Path(error.filename or file)
            what = f"no {self.name.removeprefix('mappable ')} here (there is no {missing.name})"
            raise BadInputError(f"{missing.parent}: {what}; {self.remedy}") from None
        except OSError as error:
            raise BadInputError(f"{file}: cannot be read ({(error.strerror or str(error)).lower()})") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
            said = (str(error) or type(error).__name__).splitlines()[0][:200]
            what = f"not of the format {self.name!r} ({'lacks ' if isinstance(error, KeyError) else ''}{said})"
            raise BadInputError(f"{file}: damaged, or {what}; {self.remedy}") from None
