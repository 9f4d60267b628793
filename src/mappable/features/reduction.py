"""Reduction: short descriptors that keep the products with the images of a map.

The first numbers are coordinates along axes of the images to which it is fitted. The others are a random sketch of what
no such image has: they say how much of an image is new. A random projection alone to 4,096 numbers finds up to 8 points
fewer images (studies/dimensions).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mappable.features.vectors import unit
from mappable.randomness import Purpose, generator

SKETCH = 128  # most numbers of it; without it, new images look much nearer than they are (studies/dimensions)
MOST_IMAGES = 2048  # random images to which a reduction is fitted
PROJECTION = "reduction.projection"  # name of its tensor in an encoder file
INNER = 8192  # numbers after the random step of earlier versions


class Reduction(nn.Module):
    """Turns descriptors (n, inputs) into descriptors (n, dimensions) of length one, in float32."""

    projection: Tensor

    def __init__(self, inputs: int, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.register_buffer("projection", torch.zeros(dimensions, inputs))

    def forward(self, descriptors: Tensor) -> Tensor:
        """Project, and scale to length one."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit(descriptors @ self.projection.T)


class EarlierReduction(nn.Module):
    """The reduction in encoder files of earlier versions: a random projection, then half-whitened components."""

    signs: Tensor | None
    first: Tensor | None
    projection: Tensor
    offset: Tensor

    def __init__(self, inputs: int, parts: int, dimensions: int) -> None:
        super().__init__()
        channels, inner = inputs // parts, -(-max(INNER, dimensions) // parts)
        self.dimensions = dimensions
        self.register_buffer("signs", torch.zeros(parts, channels) if inner < channels else None)
        self.register_buffer("first", torch.zeros(channels, inner) if inner < channels else None)
        self.register_buffer("projection", torch.zeros(dimensions, parts * min(inner, channels)))
        self.register_buffer("offset", torch.zeros(dimensions))

    def forward(self, descriptors: Tensor) -> Tensor:
        """Project the parts, then the whole, and scale to length one."""
        with torch.autocast(descriptors.device.type, enabled=False):
            if self.signs is not None and self.first is not None:
                descriptors = ((descriptors.view(-1, *self.signs.shape) * self.signs) @ self.first).flatten(1)
            return unit(descriptors @ self.projection.T + self.offset)


def stored_reduction(
    inputs: int, parts: int, dimensions: int, tensors: Mapping[str, Tensor]
) -> Reduction | EarlierReduction:
    """The layer for the tensors of an encoder file, not yet filled."""
    is_earlier = "reduction.offset" in tensors
    return EarlierReduction(inputs, parts, dimensions) if is_earlier else Reduction(inputs, dimensions)


@torch.no_grad()
def fit_reduction(descriptors: Tensor, dimensions: int, seed: int) -> Reduction:
    """Return a reduction to at most `dimensions` numbers, fitted to descriptors (n, inputs) of images.

    n images have at most n axes, so few images give fewer numbers.
    """
    few = len(descriptors) < descriptors.shape[1]  # then the products of the images are a smaller matrix
    products = (descriptors @ descriptors.T if few else descriptors.T @ descriptors).double()
    squares, vectors = torch.linalg.eigh(products)
    rank = int((squares > 1e-6 * squares[-1]).sum())
    squares, vectors = squares.flip(0)[:rank], vectors.flip(1)[:, :rank]
    axes = (vectors / squares.sqrt()).T.float() @ descriptors if few else vectors.T.float()
    sketch = min(SKETCH, dimensions // 6)
    random = generator(seed, Purpose.REDUCTION).standard_normal((sketch, descriptors.shape[1]))
    rest = torch.from_numpy(random).float().to(descriptors.device) / max(1, sketch) ** 0.5
    rest -= (rest @ axes.T) @ axes
    projection = torch.cat([axes[: dimensions - sketch], rest])
    layer = Reduction(descriptors.shape[1], len(projection)).to(descriptors.device)
    layer.projection.copy_(projection.half())  # as the file stores it
    return layer
