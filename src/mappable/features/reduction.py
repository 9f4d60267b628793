"""Reduction: a linear projection to descriptors of 256 to 2,048 numbers, trained along with the encoder.

It has two steps. The first one is random, so it keeps the distances of all images. The second one is PCA, with half the
usual whitening: each component is divided by the fourth root of its variance instead of the square root. Full whitening
would amplify what varies little in the images to which it is fitted.
"""

import math
import sys

import numpy as np
import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.vectors import unit
from mappable.randomness import Purpose, generator

INNER = 8192  # numbers after the first step, which costs no accuracy (docs/heads.md); shorter descriptors skip it
WHITENING = 0.5  # 0 is plain PCA, 1 full whitening; benchmarks/dimensions.py chose it


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
        channels, inner = inputs // parts, math.ceil(max(INNER, dimensions) / parts)
        self.dimensions = dimensions
        self.first = nn.Parameter(torch.zeros(parts, channels, inner)) if inner < channels else None
        self.projection = nn.Parameter(torch.zeros(dimensions, parts * min(inner, channels)))
        self.offset = nn.Parameter(torch.zeros(dimensions))

    def forward(self, descriptors: Tensor) -> Tensor:
        """Project the parts, then the whole, and scale to length one."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit(self.shortened(descriptors) @ self.projection.T + self.offset)

    @torch.no_grad()
    def fit(self, descriptors: Tensor, seed: int) -> None:
        """Fit to descriptors (n, inputs) of images.

        n images have at most n - 1 principal components. Without enough of them, the second step is random too: this
        keeps more accuracy, at home and away, than a shorter descriptor.
        """
        random = generator(seed, Purpose.REDUCTION)
        if self.first is not None:
            self.first.copy_(_orthonormal(random, *self.first.shape))
        shortened = self.shortened(descriptors).double()
        mean = shortened.mean(0)
        centered = shortened - mean
        few = len(centered) < centered.shape[1]  # then the products of the images are a smaller matrix
        variances, vectors = torch.linalg.eigh(centered @ centered.T if few else centered.T @ centered)
        variances, vectors = variances.flip(0)[: self.dimensions], vectors.flip(1)[:, : self.dimensions]
        if len(centered) <= self.dimensions or not variances[-1] > 1e-10 * variances[0]:
            reason = f"{len(centered):,} images have fewer than {self.dimensions:,} principal components"
            print(f"note: {reason}, so descriptors are reduced by a random projection", file=sys.stderr)
            self.projection.copy_(_orthonormal(random, centered.shape[1], self.dimensions).T)
            self.offset.zero_()
            return
        components = centered.T @ vectors / variances.sqrt() if few else vectors
        self.projection.copy_((components * (variances / variances[0]) ** (-WHITENING / 2)).T)
        self.offset.copy_(-self.projection.double() @ mean)

    def shortened(self, descriptors: Tensor) -> Tensor:
        """Descriptors after the first step."""
        if self.first is None:
            return descriptors
        parts = descriptors.view(len(descriptors), *self.first.shape[:2]).transpose(0, 1)
        return (parts @ self.first).transpose(0, 1).flatten(1)


def _orthonormal(random: np.random.Generator, *shape: int) -> Tensor:
    """Random orthonormal columns (..., length, count), scaled so that products with them keep lengths on average."""
    basis: Tensor = torch.linalg.qr(torch.from_numpy(random.standard_normal(shape)))[0]
    return basis * math.sqrt(shape[-2] / shape[-1])


def images_to_fit(dimensions: int, most: int) -> int:
    """Number of images to which a reduction is fitted: `most`, or twice the dimensions if that is more."""
    return max(most, 2 * dimensions)


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
