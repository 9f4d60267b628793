"""Reduction: short descriptors that keep the products with the images of a map.

Let x be a descriptor, A the axes of the descriptors to which the reduction is fitted, and R random signs. An axis is
stored with one bit per number, in S: the sign of A, times the mean size of the numbers of this axis and cluster. A row
of S has nearly the same products with images as the axis:

    y = (S Aᵀ)⁻¹ S x          coordinates along the axes; exact for x in the space of the axes         (1)
    z = (R x − R Aᵀ y) / √m   sketch: m random numbers of what no image of the map has                 (2)

A short descriptor is (y, z), scaled to length one. Both are one product with S and R, then one with a small matrix. The
sketch says how much of an image is new. studies/dimensions compares this with exact axes and with random projections.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from mappable.features.vectors import unit
from mappable.randomness import Purpose, generator

SKETCH = 128  # most numbers of it; without it, new images look much nearer than they are (studies/dimensions)
MOST_IMAGES = 2048  # random images to which a reduction is fitted
SIGNS, SCALES, MIXING = "reduction.signs", "reduction.scales", "reduction.mixing"  # names in an encoder file


class Reduction(nn.Module):
    """Turns descriptors (n, inputs) into descriptors (n, dimensions) of length one, in float32.

    `signs` (dimensions, inputs) are 1 and -1. `scales` (dimensions, parts) multiply those of each part, such as a
    cluster, and `mixing` (dimensions, dimensions) what comes out. All numbers are float16 in value.
    """

    scales: Tensor
    projection: Tensor
    mixing: Tensor

    def __init__(self, signs: Tensor, scales: Tensor, mixing: Tensor) -> None:
        super().__init__()
        self.register_buffer("scales", scales)
        self.register_buffer("projection", signs * scales.repeat_interleave(signs.shape[1] // scales.shape[1], dim=1))
        self.register_buffer("mixing", mixing)

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
        bits = np.packbits(self.projection.cpu().numpy() > 0, axis=1)
        return {SIGNS: torch.from_numpy(bits), SCALES: self.scales.half(), MIXING: self.mixing.half()}

    @classmethod
    def load(cls, tensors: Mapping[str, Tensor], inputs: int) -> "Reduction":
        """The reduction from the tensors of a file. Raises ValueError if their shapes do not fit."""
        bits, scales, mixing = tensors[SIGNS], tensors[SCALES], tensors[MIXING]
        if bits.shape != (len(mixing), -(-inputs // 8)) or mixing.shape[0] != mixing.shape[1]:
            raise ValueError(f"the reduction has {tuple(bits.shape)} bytes and {tuple(mixing.shape)} numbers")
        signs = np.unpackbits(bits.numpy(), axis=1, count=inputs).astype(np.float32)
        return cls(torch.from_numpy(signs).mul_(2).sub_(1), scales.float(), mixing.float())


@torch.no_grad()
def fit_reduction(descriptors: Tensor, dimensions: int, seed: int, *, parts: int = 1) -> Reduction:
    """Return a reduction to at most `dimensions` numbers, fitted to descriptors (n, inputs) of images.

    A descriptor has `parts` of equal length, such as clusters. n images have at most n axes, so few images give fewer
    numbers.
    """
    sketch = min(SKETCH, dimensions // 6)
    axes = _axes(descriptors)[: dimensions - sketch]
    signs = torch.where(axes >= 0, 1.0, -1.0)
    scales = axes.abs().view(len(axes), parts, -1).mean(2) * descriptors.shape[1] ** 0.5  # near 1
    scales = scales.half().float()
    inverse = torch.linalg.pinv(Reduction(signs, scales, scales).projection @ axes.T)
    draws = generator(seed, Purpose.REDUCTION).random((sketch, descriptors.shape[1]))
    random = torch.from_numpy(np.where(draws < 0.5, 1.0, -1.0)).to(descriptors)
    scale = max(1, sketch) ** -0.5
    along = torch.cat([inverse, -scale * (random @ axes.T) @ inverse])
    rest = torch.cat([inverse.new_zeros(len(axes), sketch), scale * torch.eye(sketch).to(inverse)])
    mixing = torch.cat([along, rest], dim=1)
    mixing *= descriptors.shape[1] ** 0.5  # any factor gives the same; with this one, the numbers fit into float16
    ones = scales.new_ones(sketch, parts)
    return Reduction(torch.cat([signs, random]), torch.cat([scales, ones]), mixing.half().float())


def _axes(descriptors: Tensor) -> Tensor:
    """Orthonormal axes (rank, inputs) of descriptors (n, inputs), the longest first."""
    few = len(descriptors) < descriptors.shape[1]  # then the products of the images are a smaller matrix
    products = (descriptors @ descriptors.T if few else descriptors.T @ descriptors).double()
    squares, vectors = torch.linalg.eigh(products)
    rank = int((squares > 1e-6 * squares[-1]).sum())
    squares, vectors = squares.flip(0)[:rank], vectors.flip(1)[:, :rank]
    axes: Tensor = (vectors / squares.sqrt()).T.float() @ descriptors if few else vectors.T.float()
    return axes
