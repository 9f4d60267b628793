"""Aggregators: one file each, named after the layer; each has a function `build(channels, clusters) -> Aggregator`.

A new file here is a new aggregator: encoders and settings find it by its name.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from mappable.errors import BadInputError


class Aggregator(nn.Module, ABC):
    """Makes one descriptor of `dimensions` numbers out of a map of local descriptors."""

    dimensions: int

    @abstractmethod
    def initialise(self, local: Tensor, seed: int) -> None:
        """Set the parameters by local descriptors (m, channels) of many images, float32 and of length one."""

    @abstractmethod
    def forward(self, maps: Tensor) -> Tensor:
        """Descriptors (n, dimensions), float32 and of length one, for maps (n, channels, height, width)."""


def aggregator_names() -> list[str]:
    """The names of all aggregators, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_aggregator(name: str) -> Callable[[int, int], Aggregator]:
    """The function that builds the aggregator of that name; an unknown name is an error that lists the known ones."""
    if name not in aggregator_names():
        raise BadInputError(f"there is no aggregator {name!r}; the aggregators are {', '.join(aggregator_names())}")
    build: Callable[[int, int], Aggregator] = importlib.import_module(f"{__name__}.{name}").build
    return build
