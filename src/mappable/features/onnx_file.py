"""The description of an encoder in the metadata of its ONNX file, as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mappable.errors import BadInputError, install_extra
from mappable.features.about import About
from mappable.formats import Format

FORMAT = Format(
    "mappable onnx encoder", 2, "export it again with `mappable export`", sealed_since=2, earliest=1
)
IMAGES, DESCRIPTORS = "images", "descriptors"  # the network's input and output


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Description of an ONNX file and of the encoder that was exported to it.

    A float32 file has the `fingerprint` of its encoder, because it gives the same descriptors. The
    descriptors of an int8 file differ: it has its own fingerprint, and `of` is that of the encoder.
    `accuracy` has the accuracies that were measured before an int8 file was written.
    """

    about: About
    fingerprint: str
    dimensions: int
    precision: Literal["float32", "int8"] = "float32"
    of: str = ""
    accuracy: Mapping[str, float] = field(default_factory=dict)

    def to_text(self) -> str:
        """The description as JSON text; the file that contains it must be sealed."""
        return FORMAT.text(asdict(self) | {"about": self.about.to_json()}, indent=None)

    @classmethod
    def from_text(cls, text: str | None, file: Path) -> "Facts":
        """Parse the text of `to_text` from the metadata of a file."""
        with FORMAT.reading(file):
            values = FORMAT.parse(text, file)
            return cls(**values | {"about": About.from_json(values["about"])})


def require(*modules: str) -> None:
    """Raise if a module of the extra `onnx` is missing."""
    for name in modules:
        if find_spec(name) is None:
            raise BadInputError(f"ONNX files need {name}; {install_extra('onnx')}")
