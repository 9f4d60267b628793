"""What the ONNX file of an encoder says about itself, as JSON in its metadata."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from mappable.errors import BadInputError
from mappable.features.about import About

FORMAT, VERSION = "mappable onnx encoder", 1
KEY = "mappable"  # of our JSON in the file's own metadata
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
        return json.dumps({"format": FORMAT, "version": VERSION} | asdict(self) | {"about": self.about.to_json()})

    @classmethod
    def from_text(cls, text: str) -> "Facts":
        """What `to_text` gave; BadInputError with the end of a sentence about the file if it is something else."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values.pop("format") != FORMAT:
                raise BadInputError(f"not a {FORMAT}")
            if (version := values.pop("version")) > VERSION:
                raise BadInputError(f"written by a later version of mappable (format {version})")
            return cls(**values | {"about": About.from_json(values["about"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInputError(f"its description is damaged ({type(error).__name__}: {error})") from None


def require(*modules: str) -> None:
    """Refuse to go on without the modules that the extra `onnx` installs."""
    for name in modules:
        if find_spec(name) is None:
            raise BadInputError(f"ONNX files need {name}; install it with: pip install 'mappable[onnx]'")
