"""Types of setting values: how each is parsed, and how its valid values are described."""

import math
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BeforeValidator, Field, PlainSerializer

from mappable.errors import BadInputError
from mappable.places.images import check_settings, parse_size

# pixels; the network halves an image four times, so that a smaller one would leave nothing.
SMALLEST_SIDE = 16


def _number(value: Any) -> float:
    """Parse a number, or text such as 1e-6, which YAML reads as text. pydantic would accept true as
    1.
    """
    if isinstance(value, bool) or not isinstance(value, Real | str):
        raise ValueError(value)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(value) from None


def _text(value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError(value)
    return str(value)


def _size(value: Any) -> tuple[int, int]:
    try:
        width, height = parse_size(value) if isinstance(value, str) else map(int, value)
        check_settings((width, height), "crop")
    except (BadInputError, TypeError):
        raise ValueError(value) from None
    if min(width, height) < SMALLEST_SIDE:
        raise ValueError(value)
    return width, height


# The text of each type appears in the documentation, and in the error for a wrong value.
Positive = Annotated[float, "a number above 0", BeforeValidator(_number), Field(gt=0)]
NotNegative = Annotated[float, "a number, 0 or more", BeforeValidator(_number), Field(ge=0)]
Share = Annotated[
    float, "a number, 0 or more and below 1", BeforeValidator(_number), Field(ge=0, lt=1)
]
Angle = Annotated[
    float,
    "an angle in radians, above 0 and at most pi (30 degrees are 0.5236)",
    BeforeValidator(_number),
    Field(gt=0, le=math.pi),
]
Count = Annotated[int, "a whole number, 1 or more", BeforeValidator(_number), Field(ge=1)]
CountOrZero = Annotated[int, "a whole number, 0 or more", BeforeValidator(_number), Field(ge=0)]
Seed = Annotated[
    int, "a whole number from 0 to 4294967295", BeforeValidator(_number), Field(ge=0, le=2**32 - 1)
]
Text = Annotated[str, "text", BeforeValidator(_text)]
Layers = Literal["all", "last"]
LossName = Annotated[str, "the name of a loss", BeforeValidator(_text)]
ImageSize = Annotated[
    tuple[int, int],
    f"WIDTHxHEIGHT, such as 240x180, each {SMALLEST_SIDE} pixels or more",
    BeforeValidator(_size),
    PlainSerializer(lambda size: f"{size[0]}x{size[1]}", return_type=str, when_used="json"),
]


def kind_text(kind: Any) -> str:
    """Describe the valid values of a type: "a number above 0, or measure" for `Positive |
    Literal["measure"]`.

    >>> kind_text(Count | None)
    'a whole number, 1 or more, or none'
    """
    if kind is NoneType:
        return "none"
    if get_origin(kind) is Annotated:
        return next(text for text in get_args(kind) if isinstance(text, str))
    if get_origin(kind) is Literal:
        *others, last = map(str, get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    return ", or ".join(map(kind_text, get_args(kind)))
