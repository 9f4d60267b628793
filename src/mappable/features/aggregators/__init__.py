"""Aggregators: one file per layer, with a function `build(channels, clusters) -> Aggregator`.

A new file here is a new aggregator. Encoders and settings find it by the file's name.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from mappable.errors import BadInputError


class Aggregator(nn.Module, ABC):
    """Turns a map of local descriptors into one descriptor of `dimensions` numbers.

    A descriptor consists of `parts` of equal length and meaning, such as one per cluster. The encoder's reduction
    treats all parts alike.
    """

    dimensions: int
    parts: int = 1

    @abstractmethod
    def initialize(self, local: Tensor, seed: int) -> None:
        """Set the parameters from local descriptors (m, channels) of many images, float32 and of length one."""

    @abstractmethod
    def forward(self, maps: Tensor) -> Tensor:
        """Descriptors (n, dimensions), float32 and of length one, for maps (n, channels, height, width)."""


def aggregator_names() -> list[str]:
    """The names of all aggregators, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_aggregator(name: str) -> Callable[[int, int], Aggregator]:
    """The function that builds the named aggregator. The error for an unknown name lists all aggregators."""
    if name not in aggregator_names():
        raise BadInputError(f"unknown aggregator {name!r}; the aggregators are {', '.join(aggregator_names())}")
    build: Callable[[int, int], Aggregator] = importlib.import_module(f"{__name__}.{name}").build
    return build
