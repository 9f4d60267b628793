"""Backbones: one file per network, with a function `build() -> Backbone`.

A new file here is a new backbone. Encoders and settings find it by the file's name.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from mappable.errors import BadInputError


class Backbone(nn.Module, ABC):
    """Turns an image into a map of local descriptors, in two steps: `lower` and `upper`.

    `lower` has the general layers, `upper` the special ones. To train the special layers alone,
    each image must pass the general ones only once. `channels` is the length of a local descriptor.
    `stride` is the distance in pixels between neighboring local descriptors.

    On a GPU, training records both steps and replays them, unless `recordable` is false. They must
    not read a number from the GPU. They must not keep state between calls, as batch normalization
    does.
    """

    channels: int
    stride: int
    recordable: bool = True

    @abstractmethod
    def lower(self, images: Tensor) -> Tensor:
        """Activations of the general layers for normalized images (n, 3, height, width)."""

    @abstractmethod
    def upper(self, activations: Tensor) -> Tensor:
        """Maps (n, channels, rows, columns) for the output of `lower`; rows and columns are
        `stride` pixels apart.
        """


def backbone_names() -> list[str]:
    """The names of all backbones, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_backbone(name: str) -> Callable[[], Backbone]:
    """The function that builds the named backbone. The error for an unknown name lists all
    backbones.
    """
    if name not in backbone_names():
        raise BadInputError(
            f"unknown backbone {name!r}; the backbones are {', '.join(backbone_names())}"
        )
    build: Callable[[], Backbone] = importlib.import_module(f"{__name__}.{name}").build
    return build
