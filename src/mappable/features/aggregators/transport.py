"""Optimal transport: like NetVLAD, but each cluster gets the same share, and a dustbin takes what fits no cluster.

The idea is that of SALAD (Izquierdo and Civera, "Optimal Transport Aggregation for Visual Place Recognition", 2024).
"""

import torch
from torch import Tensor, nn

from mappable.features.aggregators.netvlad import NetVLAD

SWEEPS = 3  # of Sinkhorn's algorithm
MOST_ASSIGNED = 0.5  # largest share of the locations that clusters get; the dustbin gets the others


class Transport(NetVLAD):
    """Maps (n, channels, height, width) to descriptors (n, clusters * channels) of length one, in float32.

    Clusters, their initialization and residuals are NetVLAD's. The soft assignments differ.
    """

    def __init__(self, channels: int, clusters: int) -> None:
        super().__init__(channels, clusters)
        self.dustbin = nn.Parameter(torch.zeros(()))  # score of the dustbin, the same for all locations

    @torch.no_grad()
    def initialize(self, local: Tensor, seed: int) -> None:
        """Clusters as for NetVLAD. The dustbin's score is the average location's best score."""
        super().initialize(local, seed)
        self.dustbin.copy_((local @ self.assignment.T).amax(-1).mean())

    def assign(self, local: Tensor) -> Tensor:
        """Weights (n, clusters, locations): a transport plan from locations to clusters and dustbin.

        Each location gives 1. Each cluster gets 1, or less if there are too few locations. Sinkhorn's algorithm scales
        rows and columns in turn, on logarithms.
        """
        scores = local @ self.assignment.T
        scores = torch.cat([scores, self.dustbin.expand_as(scores[..., :1])], -1).log_softmax(-1)
        ones = torch.ones_like(scores[:, :, :1])
        locations = ones.sum(1, keepdim=True)  # counted, because an exported network takes any size
        clusters = len(self.assignment)
        share = (locations * (MOST_ASSIGNED / clusters)).clamp(max=1.0)
        shares = torch.cat([share.expand(-1, -1, clusters), locations - clusters * share], -1).log()
        for _ in range(SWEEPS):
            scores = scores + shares - scores.logsumexp(1, keepdim=True)
            scores = scores.log_softmax(-1)
        return scores[..., :-1].exp().transpose(1, 2)


def build(channels: int, clusters: int) -> Transport:
    """Build a layer. It must be initialized or loaded before use."""
    return Transport(channels, clusters)
