"""Reduction: short descriptors that keep the products with the images of a map.

Let x be a descriptor, A the axes of the descriptors to which the reduction is fitted, and R random
signs. An axis is stored with one bit per number, in S: the sign of A, times the mean size of the
numbers of this axis and cluster. A row of S has nearly the same products with images as the axis:

    y = (S Aᵀ)⁻¹ S x          coordinates along the axes; exact for x in the space of the axes         (1)
    z = (R x − R Aᵀ y) / √m   sketch: m random numbers of what no image of the map has                 (2)

A short descriptor is (y, z), scaled to length one. Both are one product with S and R, then one with
a small matrix. The sketch says how much of an image is new. studies/dimensions compares this with
exact axes and with random projections.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mappable.features.vectors import unit

# Most numbers of it; without it, new images look much nearer than they are (studies/dimensions)
SKETCH = 128
MOST_IMAGES = 2048  # random images to which a reduction is fitted
# In an encoder file.
SIGNS, SCALES, COORDINATES = "reduction.signs", "reduction.scales", "reduction.coordinates"


class Reduction(nn.Module):
    """Turns descriptors (n, inputs) into descriptors (n, dimensions) of length one, in float32.

    `signs` (r, inputs) of r axes are 1 and -1; the tensor is overwritten. `scales` (r, parts)
    multiply the signs of each part, such as a cluster. `coordinates` (dimensions, r) turn products
    with the axes into y, and what z lacks.
    """

    scales: Tensor
    coordinates: Tensor
    projection: Tensor
    mixing: Tensor

    def __init__(self, signs: Tensor, scales: Tensor, coordinates: Tensor) -> None:
        super().__init__()
        count, inputs = signs.shape
        sketch = len(coordinates) - count
        signs.view(*scales.shape, -1).mul_(scales[:, :, None])
        own = torch.eye(sketch, device=signs.device) * (inputs / max(1, sketch)) ** 0.5
        own = torch.cat([own.new_zeros(count, sketch), own])
        self.register_buffer("scales", scales)
        self.register_buffer("coordinates", coordinates)
        self.register_buffer(
            "projection", torch.cat([signs, _random_signs(sketch, inputs).to(signs)])
        )
        self.register_buffer("mixing", torch.cat([coordinates, own], dim=1))

    @property
    def dimensions(self) -> int:
        """The length of a short descriptor."""
        return len(self.mixing)

    def forward(self, descriptors: Tensor) -> Tensor:
        """Project, and scale to length one."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit(descriptors @ self.projection.T @ self.mixing.T)

    def stored(self) -> dict[str, Tensor]:
        """The tensors for an encoder file: one bit per sign, eight signs per byte."""
        bits = np.packbits(self.projection[: len(self.scales)].cpu().numpy() > 0, axis=1)
        return {
            SIGNS: torch.from_numpy(bits),
            SCALES: self.scales.half(),
            COORDINATES: self.coordinates.half(),
        }

    @classmethod
    def load(cls, tensors: Mapping[str, Tensor], inputs: int) -> "Reduction":
        """The reduction from the tensors of a file. Raises ValueError if their shapes do not fit."""
        bits, scales, coordinates = tensors[SIGNS], tensors[SCALES], tensors[COORDINATES]
        if bits.shape != (coordinates.shape[1], -(-inputs // 8)):
            raise ValueError(
                f"the reduction has {tuple(bits.shape)} bytes and {tuple(coordinates.shape)}"
                " numbers"
            )
        return cls(_signs(bits.numpy(), inputs), scales.float(), coordinates.float())


def _signs(bits: NDArray[np.uint8], inputs: int) -> Tensor:
    """1 and -1 (n, inputs) for bits (n, bytes)."""
    return torch.from_numpy(np.unpackbits(bits, axis=1, count=inputs)).float().mul_(2).sub_(1)


def _random_signs(count: int, inputs: int) -> Tensor:
    """The signs R of the sketch (count, inputs), the same in all encoders and in all versions of
    NumPy.
    """
    words = -(-inputs // 64)
    draws = np.random.PCG64(0).random_raw((count, words))
    return _signs(draws.astype("<u8").view(np.uint8).reshape(count, 8 * words), inputs)


@torch.no_grad()
def fit_reduction(descriptors: Tensor, dimensions: int, *, parts: int = 1) -> Reduction:
    """Return a reduction to at most `dimensions` numbers, fitted to descriptors (n, inputs) of
    images.

    A descriptor has `parts` of equal length, such as clusters. n images have at most n axes, so few
    images give fewer numbers.
    """
    inputs, sketch = descriptors.shape[1], min(SKETCH, dimensions // 6)
    axes = _axes(descriptors)[: dimensions - sketch]
    signs = torch.where(axes >= 0, 1.0, -1.0)
    scales = axes.abs().view(len(axes), parts, -1).mean(2) * inputs**0.5  # near 1
    scales = scales.half().float()
    rows = (signs.view(*scales.shape, -1) * scales[:, :, None]).flatten(1)
    inverse = torch.linalg.pinv(rows @ axes.T)
    lacking = -(_random_signs(sketch, inputs).to(axes) @ axes.T) @ inverse / max(1, sketch) ** 0.5
    # Any factor gives the same; these fit into float16.
    coordinates = torch.cat([inverse, lacking]) * inputs**0.5
    return Reduction(signs, scales, coordinates.half().float())


def _axes(descriptors: Tensor) -> Tensor:
    """Orthonormal axes (rank, inputs) of descriptors (n, inputs), the longest first."""
    # Then the products of the images are a smaller matrix.
    few = len(descriptors) < descriptors.shape[1]
    products = (descriptors @ descriptors.T if few else descriptors.T @ descriptors).double()
    squares, vectors = torch.linalg.eigh(products)
    rank = int((squares > 1e-6 * squares[-1]).sum())
    squares, vectors = squares.flip(0)[:rank], vectors.flip(1)[:, :rank]
    axes: Tensor = (vectors / squares.sqrt()).T.float() @ descriptors if few else vectors.T.float()
    return axes
