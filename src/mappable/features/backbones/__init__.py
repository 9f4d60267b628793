"""Backbones: one file each, named after the network; each has a function `build() -> Backbone`.

A new file here is a new backbone: encoders and settings find it by its name.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from mappable.errors import BadInputError


class Backbone(nn.Module, ABC):
    """Makes a map of local descriptors out of an image, in two steps.

    The cut lies between general and special layers, so that to train the special ones alone, each image has to go
    through the general ones only once. `channels` is the length of a local descriptor, `stride` the pixels from one to
    the next.

    On a GPU training records the work of both and does it again and again: they must not look at a number on the GPU,
    nor keep anything from one call to the next, as batch normalisation does.
    """

    channels: int
    stride: int

    @abstractmethod
    def lower(self, images: Tensor) -> Tensor:
        """Activations of the general layers for normalised images (n, 3, height, width)."""

    @abstractmethod
    def upper(self, activations: Tensor) -> Tensor:
        """Maps (n, channels, height // stride, width // stride) for what `lower` gave."""


def backbone_names() -> list[str]:
    """The names of all backbones, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_backbone(name: str) -> Callable[[], Backbone]:
    """The function that builds the backbone of that name; an unknown name is an error that lists the known ones."""
    if name not in backbone_names():
        raise BadInputError(f"there is no backbone {name!r}; the backbones are {', '.join(backbone_names())}")
    build: Callable[[], Backbone] = importlib.import_module(f"{__name__}.{name}").build
    return build
