"""Triplet loss: every negative is to be farther from the anchor than the best positive, by a margin."""

from torch import Tensor

from mappable.learning.losses.distances import TupleDistances
from mappable.learning.losses.hinges import Margins, hinges


def triplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """Σ_j [α + s* − s⁻_j]₊ of each anchor, (B,): the sum, not the mean, over its negatives.

    The paper's equation 5 with the best positive alone, as in NetVLAD and in PointNetVLAD's code, which it uses.
    """
    return hinges(distances.best, distances.negative, margins.first).sum(dim=1)
