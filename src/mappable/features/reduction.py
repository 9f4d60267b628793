"""Reduction: a linear projection to descriptors of 256 to 2,048 numbers, trained along with the encoder.

PCA alone keeps what varies in the images to which it is fitted, and drops what varies in other places. A random
projection keeps the distances of all images, up to noise. Here, both share the numbers of a descriptor.
"""

import math

import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.vectors import unit
from mappable.randomness import Purpose, generator

INNER = 8192  # numbers after the first step, unless the descriptors are shorter; it costs no accuracy (docs/heads.md)
PRINCIPAL = 0.25  # share of principal components among the dimensions; benchmarks/dimensions.py chose it


class Reduction(nn.Module):
    """Turns descriptors (n, inputs), which have `parts`, into descriptors (n, dimensions) of length one, in float32.

    The first step projects each part (a cluster, for example) alone. A projection of the whole descriptor would have up
    to 134 million parameters, and would take longer than the backbone.
    """

    def __init__(self, inputs: int, parts: int, dimensions: int) -> None:
        super().__init__()
        if not 0 < dimensions < inputs:
            raise BadInputError(
                f"dimensions is {dimensions:,}, expected less than the {inputs:,} numbers that the aggregator gives; "
                "none keeps them all"
            )
        channels, inner = inputs // parts, math.ceil(max(INNER, 2 * dimensions) / parts)
        self.dimensions = dimensions
        self.first = nn.Parameter(torch.zeros(parts, channels, inner)) if inner < channels else None
        self.projection = nn.Parameter(torch.zeros(dimensions, parts * min(inner, channels)))
        self.offset = nn.Parameter(torch.zeros(dimensions))

    def forward(self, descriptors: Tensor) -> Tensor:
        """Project the parts, then the whole, and scale to length one."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit(self._shortened(descriptors) @ self.projection.T + self.offset)

    @torch.no_grad()
    def fit(self, descriptors: Tensor, seed: int) -> None:
        """Fit to descriptors (n, inputs) of images. At most n - 1 of the dimensions are principal components."""
        random = generator(seed, Purpose.REDUCTION)
        if self.first is not None:
            drawn = torch.from_numpy(random.standard_normal(self.first.shape))
            self.first.copy_(_orthonormal(drawn) * math.sqrt(self.first.shape[1] / self.first.shape[2]))
        shortened = self._shortened(descriptors).double()
        inputs, mean = shortened.shape[1], shortened.mean(0)
        _, strengths, components = torch.linalg.svd(shortened - mean, full_matrices=False)
        varying = int((strengths > 1e-5 * strengths[0].clamp(min=1e-6)).sum())
        components = components[: min(varying, math.ceil(PRINCIPAL * self.dimensions))].T
        missing = self.dimensions - components.shape[1]
        drawn = torch.from_numpy(random.standard_normal((inputs, missing))).to(components)
        others = _orthonormal(drawn - components @ (components.T @ drawn))
        others *= math.sqrt((inputs - components.shape[1]) / max(1, missing))  # on average, this keeps lengths
        self.projection.copy_(torch.cat([components, others], 1).T)
        self.offset.copy_(-self.projection.double() @ mean)

    def _shortened(self, descriptors: Tensor) -> Tensor:
        if self.first is None:
            return descriptors
        parts = descriptors.view(len(descriptors), *self.first.shape[:2]).transpose(0, 1)
        return (parts @ self.first).transpose(0, 1).flatten(1)


def _orthonormal(vectors: Tensor) -> Tensor:
    """An orthonormal basis of the columns (..., length, count)."""
    basis: Tensor = torch.linalg.qr(vectors)[0]
    return basis


class Whitening(nn.Module):
    """PCA-whitening, as in encoder files of earlier versions: descriptors (n, inputs) to (n, dimensions)."""

    mean: Tensor
    projection: Tensor

    def __init__(self, inputs: int, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("projection", torch.zeros(dimensions, inputs))

    def forward(self, descriptors: Tensor) -> Tensor:
        """projection (descriptor - mean), scaled to length one, in float32."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit((descriptors - self.mean) @ self.projection.T)
