"""What the ONNX file of an encoder says about itself, as JSON in its metadata."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.formats import Format

FORMAT = Format("mappable onnx encoder", 1, "export it again with `mappable export`")
IMAGES, DESCRIPTORS = "images", "descriptors"  # the network's input and output


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The encoder that a file was made of, and what became of it.

    `fingerprint` is that of the encoder, whose descriptors a file in float32 gives; those of int8 differ, and so does
    its fingerprint: `of` is the encoder's then. `accuracy` holds what was measured before int8 was offered.
    """

    about: About
    fingerprint: str
    dimensions: int
    precision: Literal["float32", "int8"] = "float32"
    of: str = ""
    accuracy: Mapping[str, float] = field(default_factory=dict)

    def to_text(self) -> str:
        """All of it as JSON."""
        return FORMAT.text(asdict(self) | {"about": self.about.to_json()}, indent=None)

    @classmethod
    def from_text(cls, text: str | None, file: Path) -> "Facts":
        """What `to_text` gave, from the metadata of a file."""
        with FORMAT.reading(file):
            values = FORMAT.parse(text, file)
            return cls(**values | {"about": About.from_json(values["about"])})


def require(*modules: str) -> None:
    """Refuse to go on without the modules that the extra `onnx` installs."""
    for name in modules:
        if find_spec(name) is None:
            raise BadInputError(f"ONNX files need {name}; install it with: pip install 'mappable[onnx]'")
