"""NetVLAD: residuals of local descriptors to cluster centers, summed with soft assignments."""

import math

import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.aggregators import Aggregator
from mappable.features.clusters import kmeans
from mappable.features.vectors import unit

SMALL_SHARE = 0.01  # what the second-best cluster of an average local descriptor gets of what its best one gets


class NetVLAD(Aggregator):
    """Maps (n, channels, height, width) to descriptors (n, clusters * channels) of length one.

    In float32 whatever the maps are: sums over hundreds of locations and the softmax need its digits.
    """

    def __init__(self, channels: int, clusters: int) -> None:
        super().__init__()
        if clusters < 2:
            raise BadInputError(f"NetVLAD needs at least 2 clusters, not {clusters}")
        self.dimensions = clusters * channels
        self.assignment = nn.Parameter(torch.zeros(clusters, channels))
        self.centres = nn.Parameter(torch.zeros(clusters, channels))

    @torch.no_grad()
    def initialise(self, local: Tensor, seed: int) -> None:
        """Centres c_k by k-means, w_k = a c_k / |c_k|, a = -ln 0.01 / mean_i(dot1 - dot2).

        dot1 and dot2 are the two largest products of the local descriptor i with the directions c_k / |c_k|.
        """
        centres = kmeans(local, len(self.centres), seed)
        directions = unit(centres)
        first, second = (local @ directions.T).topk(2).values.unbind(-1)
        gap = (first - second).mean().item()
        if not gap > 0:
            raise BadInputError("the images for the clusters are all alike: their local descriptors do not differ")
        self.centres.copy_(centres)
        self.assignment.copy_(-math.log(SMALL_SHARE) / gap * directions)

    def forward(self, maps: Tensor) -> Tensor:
        """V_k = sum_i a_ik (x_i - c_k) with a_i = softmax(w x_i), each V_k and then the whole brought to length one."""
        with torch.autocast(maps.device.type, enabled=False):
            local = unit(maps.float().permute(0, 2, 3, 1).flatten(1, 2))  # (n, locations, channels)
            shares = (local @ self.assignment.T).softmax(-1).transpose(1, 2)  # (n, clusters, locations)
            residuals = shares @ local - shares.sum(-1, keepdim=True) * self.centres
            return unit(unit(residuals).flatten(1))


def build(channels: int, clusters: int) -> NetVLAD:
    """A layer that must be initialised, or loaded, before it is of use."""
    return NetVLAD(channels, clusters)
