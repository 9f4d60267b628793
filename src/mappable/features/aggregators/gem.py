"""GeM: the generalized mean of each channel over all locations, with a trainable exponent."""

import torch
from torch import Tensor, nn

from mappable.features.aggregators import Aggregator
from mappable.features.vectors import unit

EXPONENT = 3.0  # at the start: between the mean (1) and the maximum (infinity); the usual value for retrieval
SMALLEST = 1e-6  # smaller values count as this one: a power of zero or of a negative number has no gradient


class GeM(Aggregator):
    """Maps (n, channels, height, width) to descriptors (n, channels) of length one, in float32.

    A linear projection, the usual next layer, is the encoder's reduction to `dimensions`.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dimensions = channels
        self.exponent = nn.Parameter(torch.tensor(EXPONENT))

    def initialize(self, local: Tensor, seed: int) -> None:
        """Keep the exponent. It needs no images."""

    def forward(self, maps: Tensor) -> Tensor:
        """(mean_i x_i^p)^(1/p) of each channel, for positive x, then scaled to length one."""
        with torch.autocast(maps.device.type, enabled=False):
            local = maps.float().flatten(2)
            # Only ratios within an image matter. Large values would overflow as powers.
            local = (local / local.amax((1, 2), keepdim=True).clamp(min=SMALLEST)).clamp(min=SMALLEST)
            return unit(local.pow(self.exponent).mean(-1).pow(1 / self.exponent))


def build(channels: int, clusters: int) -> GeM:
    """Build a layer. It has no clusters."""
    return GeM(channels)
