"""Convert dataclasses to JSON and back; types come from field annotations."""

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mappable.errors import shown

ARRAY = "array"  # JSON has an array as {"array": "<f8", "shape": [N], "base64": TEXT}


def to_json(value: Any) -> Any:
    """Convert dataclasses, mappings with text keys, sequences, arrays and scalars to JSON."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {ARRAY: value.dtype.str, "shape": list(value.shape), "base64": content}
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: to_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in value]
    return value


def from_json(kind: Any, value: Any) -> Any:
    """The value of type `kind` that `to_json` wrote; raises KeyError, TypeError or ValueError for
    anything else.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        known = next(one for one in inner if one is not NoneType)
        return None if value is None else from_json(known, value)
    if origin in (np.ndarray, NDArray):  # since NumPy 2.5, NDArray is a separate type
        return _array(np.dtype(inner[0] if origin is NDArray else get_args(inner[1])[0]), value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{
                field.name: from_json(hints[field.name], value[field.name])
                for field in fields(kind)
            }
        )
    if kind is Any:
        return value
    if origin in (dict, Mapping):
        return {name: from_json(inner[1], part) for name, part in value.items()}
    if origin is list:
        return [from_json(inner[0], part) for part in value]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{shown(value)} is not of type {kind.__name__}")
    return value


def _array(expected: np.dtype[Any], value: Any) -> NDArray[Any]:
    if expected.kind == "O":
        return np.array(value, dtype=object)
    dtype = np.dtype(value[ARRAY])
    if dtype.kind != expected.kind:
        raise TypeError(f"an array has type {dtype}, expected {expected}")
    return np.frombuffer(base64.b64decode(value["base64"]), dtype=dtype).reshape(value["shape"])
