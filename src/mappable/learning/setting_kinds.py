"""The kinds of values that settings take: parse each, and say what is valid."""

import math
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BeforeValidator, Field, PlainSerializer, Strict

from mappable.errors import BadInputError
from mappable.places.images import check_settings, parse_size

SMALLEST_SIDE = 16  # pixels; below, a network that halves an image four times sees nothing


def _number(value: Any) -> float:
    """A number, or a text of one: YAML takes 1e-6, without a point, for text. pydantic would take true for 1."""
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


# The text of each kind of value says what is right, in the documentation and when something else was given.
Positive = Annotated[float, "a number above 0", BeforeValidator(_number), Field(gt=0)]
NotNegative = Annotated[float, "a number of at least 0", BeforeValidator(_number), Field(ge=0)]
Share = Annotated[float, "a number of at least 0 and below 1", BeforeValidator(_number), Field(ge=0, lt=1)]
Angle = Annotated[
    float,
    "an angle in radians, above 0 and at most pi (30 degrees are 0.5236)",
    BeforeValidator(_number),
    Field(gt=0, le=math.pi),
]
Count = Annotated[int, "a whole number of at least 1", BeforeValidator(_number), Field(ge=1)]
CountOrZero = Annotated[int, "a whole number of at least 0", BeforeValidator(_number), Field(ge=0)]
Seed = Annotated[int, "a whole number from 0 to 4294967295", BeforeValidator(_number), Field(ge=0, le=2**32 - 1)]
Truth = Annotated[bool, "true or false", Strict()]
Text = Annotated[str, "text", BeforeValidator(_text)]
LossName = Annotated[str, "the name of a loss", BeforeValidator(_text)]
ImageSize = Annotated[
    tuple[int, int],
    f"WIDTHxHEIGHT, such as 240x180, of at least {SMALLEST_SIDE} pixels each",
    BeforeValidator(_size),
    PlainSerializer(lambda size: f"{size[0]}x{size[1]}", return_type=str, when_used="json"),
]


def kind_text(kind: Any) -> str:
    """What is right for a kind of value: "a number above 0 or measure" for `Positive | Literal["measure"]`.

    >>> kind_text(Count | None)
    'a whole number of at least 1 or none'
    """
    if kind is NoneType:
        return "none"
    if get_origin(kind) is Annotated:
        return next(text for text in get_args(kind) if isinstance(text, str))
    parts = (
        [str(one) for one in get_args(kind)] if get_origin(kind) is Literal else list(map(kind_text, get_args(kind)))
    )
    return " or ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
