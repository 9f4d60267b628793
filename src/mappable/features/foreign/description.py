"""The description of a foreign encoder, a small YAML file: where the network is, and which images it takes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from mappable.containers import read_bytes
from mappable.errors import BadInputError, shown
from mappable.features.about import About, Channels
from mappable.places.images import Fit, check_settings

MAX_YAML = 65_536  # bytes
PROCESSING = 1  # version of our preprocessing; a change that alters descriptors must raise it
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HUB_DEFAULTS: dict[str, Any] = {
    "size": (224, 224),
    "mean": IMAGENET_MEAN,
    "std": IMAGENET_STD,
    "layout": "NCHW",
    "colors": "RGB",
    "license": "not stated",
}

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Side = Annotated[int, Field(ge=1)]


class Description(BaseModel):
    """Keys of the YAML file.

    - `onnx`: name of the ONNX file beside the description (default: the description's own name,
      with .onnx).
    - `hub`: instead of `onnx`, OWNER/REPO@COMMIT:ENTRY on GitHub, or FOLDER:ENTRY. `arguments` are
      those of the entry. `code` is the hash of the code in a folder; if given, it must match.
    - `size`: (width, height) of images. `fit`: how images get this size.
    - `range`: 1 or 255, the largest pixel value before `mean` is subtracted. `mean` and `std` are
      in the order of `colors`.
    - `output`: name of the ONNX output, or key or number of a hub model's output. It is required if
      there are several.
    - `normalize`: says that the network's output has any length. It is scaled to length one in any
      case.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    onnx: str | None = None
    hub: str | None = None
    arguments: dict[Identifier, bool | int | FiniteFloat | str | None] = {}
    code: str = ""
    size: tuple[Side, Side]
    fit: Fit = "crop"
    mean: tuple[FiniteFloat, FiniteFloat, FiniteFloat]
    std: tuple[Positive, Positive, Positive]
    layout: Literal["NCHW", "NHWC"]
    colors: Literal["RGB", "BGR"]
    range: Literal[1, 255] = 1
    output: str | int | None = None
    normalize: bool = False
    license: str

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Shape of one image as the network takes it."""
        width, height = self.size
        return (3, height, width) if self.layout == "NCHW" else (height, width, 3)

    def about(self, name: str, code: str) -> About:
        """The description as `About`; `name` and `code` say which network it is."""
        mean, std = (_in_rgb(values, self) for values in (self.mean, self.std))
        source = {"name": name, "code": code, "license": self.license}
        return About(
            backbone="hub" if self.hub is not None else "onnx",
            clusters=0,
            weights=name,
            size=self.size,
            fit=self.fit,
            mean=mean,
            std=std,
            foreign=source,
        )

    def fingerprint(self, entry: str, code: str, weights: str) -> str:
        """16 hexadecimal digits that depend on preprocessing, code and weights, but not on where
        files are.
        """
        processing = self.model_dump(
            mode="json", exclude={"onnx", "hub", "code", "license", "normalize"}
        )
        facts = {
            "version": PROCESSING,
            "processing": processing,
            "entry": entry,
            "code": code,
            "weights": weights,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def read_description(file: Path) -> Description:
    """Read and check a YAML file."""
    try:
        values = yaml.safe_load(read_bytes(file, MAX_YAML).decode())
        if not isinstance(values, dict):
            raise ValueError("expected lines such as `size: [224, 224]`")
        return check_description(values, str(file))
    except BadInputError:
        raise
    except OSError as error:
        raise BadInputError(
            f"{file}: cannot be read ({(error.strerror or str(error)).lower()})"
        ) from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        row = "" if mark is None else f"row {mark.line + 1}: "
        reason = (
            row
            + str(getattr(error, "problem", None) or error or type(error).__name__).splitlines()[0]
        )
        raise BadInputError(f"{file}: not a description in YAML ({reason})") from None


def check_description(values: Mapping[Any, Any], name: str) -> Description:
    """A description from its values; the error names the first wrong key."""
    if "hub" in values and "onnx" in values:
        raise BadInputError(f"{name}: has the keys hub and onnx; keep one of them")
    try:
        found = Description(
            **(HUB_DEFAULTS if "hub" in values else {}) | {str(key): values[key] for key in values}
        )
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
        key = str(problem["loc"][0])
        if problem["type"] == "missing" and key not in values:
            raise BadInputError(
                f"{name}: the key {key!r} is missing; see docs/encoders.md for all keys"
            ) from None
        if problem["type"] == "extra_forbidden":
            known = ", ".join(Description.model_fields)
            raise BadInputError(f"{name}: unknown key {shown(key)}; the keys are {known}") from None
        reason = problem["msg"][0].lower() + problem["msg"][1:]  # the values keep their case
        reason = reason.replace("input should be", "it must be").replace("tuple", "list")
        raise BadInputError(f"{name}: {key} is {shown(values.get(key))}; {reason}") from None
    misplaced = [one for one in ("arguments", "code") if getattr(found, one)]
    if found.hub is None and misplaced:
        raise BadInputError(
            f"{name}: {misplaced[0]} is only for torch.hub models; remove this key, or add the"
            " key hub"
        )
    try:
        check_settings(found.size, found.fit)
    except BadInputError as error:
        raise BadInputError(f"{name}: {error}") from None
    return found


def _in_rgb(values: Channels, description: Description) -> Channels:
    scaled = [value / description.range for value in values]
    red, green, blue = scaled if description.colors == "RGB" else scaled[::-1]
    return red, green, blue
