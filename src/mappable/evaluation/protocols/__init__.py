"""The protocols by name. To add one, write a module with a `PROTOCOL` and list it in `MODULES`."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mappable.errors import BadInputError
from mappable.evaluation.protocol import Protocol

MODULES = (  # in the order of the report
    "table1",
    "curves",
    "proportionality",
    "distance_matrices",
    "landmark_sweep",
    "generalization",
    "home_and_away",
    "localization",
    "map_recovery",
    "qualitative",
    "timing",
)


def _load(module: str) -> Protocol[Any]:
    found: Protocol[Any] = import_module(f"{__name__}.{module}").PROTOCOL
    return found


PROTOCOLS = {one.name: one for one in map(_load, MODULES)}
# Run by `mappable evaluate`.
MAP_PROTOCOLS = [name for name, one in PROTOCOLS.items() if one.of_a_map]


def protocols_named(names: Sequence[str] | None) -> list[Protocol[Any]]:
    """The protocols with these names, in the order of the report; all of them if None."""
    if names is not None and not names:
        raise BadInputError(f"no protocol given, expected one or more of {', '.join(PROTOCOLS)}")
    for name in names or ():
        if name not in PROTOCOLS:
            raise BadInputError(
                f"unknown protocol {name!r}, expected one of {', '.join(PROTOCOLS)}"
            )
    return [one for name, one in PROTOCOLS.items() if names is None or name in names]
