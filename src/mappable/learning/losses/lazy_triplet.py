"""Lazy triplet loss: the triplet loss of the worst negative alone."""

from torch import Tensor

from mappable.learning.losses.distances import TupleDistances
from mappable.learning.losses.hinges import Margins, hinges


def lazy_triplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """max_j [α + s* − s⁻_j]₊ of each anchor, (B,) (the paper's section V-D, after PointNetVLAD)."""
    return hinges(distances.best, distances.negative, margins.first).max(dim=1).values
