"""Convert dataclasses to JSON and back, with arrays stored separately; types come from field annotations."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mappable.errors import shown

Arrays = dict[str, NDArray[Any]]
ARRAY = "array"  # JSON represents an array as {"array": NAME}


def to_json(value: Any, arrays: Arrays, path: str) -> Any:
    """Convert dataclasses, mappings with text keys, sequences and scalars to JSON; `arrays` collects arrays by path."""
    if isinstance(value, np.ndarray):
        arrays[path] = np.ascontiguousarray(value)
        return {ARRAY: path}
    if is_dataclass(value):
        return {one.name: to_json(getattr(value, one.name), arrays, f"{path}/{one.name}") for one in fields(value)}
    if isinstance(value, Mapping):
        return {name: to_json(one, arrays, f"{path}/{name}") for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one, arrays, f"{path}/{number}") for number, one in enumerate(value)]
    return value


def from_json(kind: Any, value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The value of type `kind` that `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else from_json(next(one for one in inner if one is not NoneType), value, arrays)
    if origin in (np.ndarray, NDArray):  # since NumPy 2.5, NDArray is a separate type
        found = arrays[value[ARRAY]]
        if found.dtype.kind != np.dtype(inner[0] if origin is NDArray else get_args(inner[1])[0]).kind:
            raise TypeError(f"{value[ARRAY]} has type {found.dtype}")
        return found
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: from_json(one, value[name], arrays) for name, one in _fields(kind)})
    if kind is Any:
        return value
    if origin is dict:
        return {name: from_json(inner[1], one, arrays) for name, one in value.items()}
    if origin is list:
        return [from_json(inner[0], one, arrays) for one in value]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{shown(value)} is not of type {kind.__name__}")
    return value


@cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    """Name and type of each field."""
    hints = get_type_hints(kind)
    return tuple((one.name, hints[one.name]) for one in fields(kind))
