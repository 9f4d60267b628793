"""NetVLAD: residuals of local descriptors to cluster centers, summed with soft assignments."""

import math

import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.clusters import kmeans
from mappable.features.vectors import unit

# Weight of the second-best cluster over that of the best, for an average local descriptor.
WEIGHT_RATIO = 0.01


class NetVLAD(nn.Module):
    """Maps (n, channels, height, width) to descriptors (n, clusters * channels) of length one.

    It always computes in float32: sums over hundreds of locations and the softmax need this
    precision.
    """

    def __init__(self, channels: int, clusters: int) -> None:
        super().__init__()
        if clusters < 2:
            raise BadInputError(f"clusters must be 2 or more for NetVLAD, got {clusters}")
        self.dimensions = clusters * channels
        self.assignment = nn.Parameter(torch.zeros(clusters, channels))
        # This name is a key in encoder files.
        self.centres = nn.Parameter(torch.zeros(clusters, channels))

    @torch.no_grad()
    def initialize(self, local: Tensor, seed: int) -> None:
        """Centers c_k by k-means, w_k = a c_k / |c_k|, a = -ln 0.01 / mean_i(dot1 - dot2).

        dot1 and dot2 are the two largest products of the local descriptor i with the directions c_k
        / |c_k|.
        """
        centers = kmeans(local, len(self.centres), seed)
        directions = unit(centers)
        first, second = (local @ directions.T).topk(2).values.unbind(-1)
        gap = (first - second).mean().item()
        if not gap > 0:
            raise BadInputError(
                "all images for the clusters have the same local descriptors; use images that"
                " differ"
            )
        self.centres.copy_(centers)
        self.assignment.copy_(-math.log(WEIGHT_RATIO) / gap * directions)

    def forward(self, maps: Tensor) -> Tensor:
        """V_k = sum_i a_ik (x_i - c_k) with a_i = softmax(w x_i). Each V_k, then the whole, is
        scaled to length one.
        """
        with torch.autocast(maps.device.type, enabled=False):
            local = unit(maps.float().permute(0, 2, 3, 1).flatten(1, 2))  # (n, locations, channels)
            weights = (local @ self.assignment.T).softmax(-1).transpose(1, 2)
            residuals = weights @ local - weights.sum(-1, keepdim=True) * self.centres
            return unit(unit(residuals).flatten(1))
