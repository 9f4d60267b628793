"""Reduction: a linear projection to descriptors of 256 to 2,048 numbers, fitted after training.

It has two steps. The first one is random, so it keeps the distances of all images. The second one is PCA, with half the
usual whitening: each component is divided by the fourth root of its variance instead of the square root. Full whitening
would amplify what varies little in the images to which it is fitted.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.vectors import unit
from mappable.randomness import Purpose, generator

INNER = 8192  # numbers after the first step, which costs no accuracy (studies/dimensions); shorter descriptors skip it
WHITENING = 0.5  # 0 is plain PCA, 1 full whitening; studies/dimensions chose it
MOST_IMAGES = 4096  # random images to which a reduction is fitted


class Reduction(nn.Module):
    """Turns descriptors (n, inputs), which have `parts`, into descriptors (n, dimensions) of length one, in float32.

    The first step flips random signs in each part (such as a cluster), and projects all parts by one random matrix. It
    keeps distances as well as one matrix per part would, and is faster: those matrices have 8 million numbers. Without
    the signs, the errors of similar parts would add up.
    """

    signs: Tensor | None
    first: Tensor | None
    projection: Tensor
    offset: Tensor

    def __init__(self, inputs: int, parts: int, dimensions: int) -> None:
        super().__init__()
        check_dimensions(dimensions, inputs)
        channels, inner = inputs // parts, math.ceil(max(INNER, dimensions) / parts)
        self.dimensions = dimensions
        self.is_random = False  # whether `fit_reduction` had too few images for principal components
        self.register_buffer("signs", torch.zeros(parts, channels) if inner < channels else None)
        self.register_buffer("first", torch.zeros(channels, inner) if inner < channels else None)
        self.register_buffer("projection", torch.zeros(dimensions, parts * min(inner, channels)))
        self.register_buffer("offset", torch.zeros(dimensions))

    def forward(self, descriptors: Tensor) -> Tensor:
        """Project the parts, then the whole, and scale to length one."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit(self.shortened(descriptors) @ self.projection.T + self.offset)

    def shortened(self, descriptors: Tensor) -> Tensor:
        """Descriptors after the first step."""
        if self.signs is None or self.first is None:
            return descriptors
        return ((descriptors.view(-1, *self.signs.shape) * self.signs) @ self.first).flatten(1)


def check_dimensions(dimensions: int, inputs: int) -> None:
    """Raise if a reduction from `inputs` numbers to `dimensions` would not reduce."""
    if not 0 < dimensions < inputs:
        raise BadInputError(
            f"dimensions is {dimensions:,}, expected less than the {inputs:,} numbers that the aggregator gives; "
            "none keeps them all"
        )


@torch.no_grad()
def fit_reduction(descriptors: Tensor, parts: int, dimensions: int, seed: int) -> Reduction:
    """Return a reduction that is fitted to descriptors (n, inputs) of images.

    n images have at most n - 1 principal components. Without enough of them, the second step is random too: this keeps
    more accuracy, at home and away, than a shorter descriptor (studies/dimensions).
    """
    layer, random = Reduction(descriptors.shape[1], parts, dimensions), generator(seed, Purpose.REDUCTION)
    layer = layer.to(descriptors.device)
    if layer.signs is not None and layer.first is not None:
        layer.signs.copy_(torch.from_numpy(random.choice((-1.0, 1.0), layer.signs.shape)))
        layer.first.copy_(_orthonormal(random, *layer.first.shape))
    shortened = layer.shortened(descriptors).double()
    mean = shortened.mean(0)
    centered = shortened - mean
    few = len(centered) < centered.shape[1]  # then the products of the images are a smaller matrix
    variances, vectors = torch.linalg.eigh(centered @ centered.T if few else centered.T @ centered)
    variances, vectors = variances.flip(0)[:dimensions], vectors.flip(1)[:, :dimensions]
    layer.is_random = len(centered) <= dimensions or not bool(variances[-1] > 1e-10 * variances[0])
    if layer.is_random:
        layer.projection.copy_(_orthonormal(random, centered.shape[1], dimensions).T)
        return layer
    components = centered.T @ vectors / variances.sqrt() if few else vectors
    layer.projection.copy_((components * (variances / variances[0]) ** (-WHITENING / 2)).T)
    layer.offset.copy_(-layer.projection.double() @ mean)
    return layer


def _orthonormal(random: np.random.Generator, length: int, count: int) -> Tensor:
    """Random orthonormal columns (length, count), scaled so that products with them keep lengths on average."""
    basis: Tensor = torch.linalg.qr(torch.from_numpy(random.standard_normal((length, count))))[0]
    return basis * math.sqrt(length / count)
