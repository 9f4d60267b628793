"""Quadruplet loss: the triplet loss, and negatives that also keep away from another negative."""

from torch import Tensor

from mappable.learning.losses.distances import TupleDistances
from mappable.learning.losses.hinges import Margins, hinges
from mappable.learning.losses.triplet import triplet


def quadruplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """Σ_j [α + s* − s⁻_j]₊ + Σ_j [β + s* − s°_j]₊ of each anchor, (B,) (the paper's section V-D).

    s°_j is from the negative to the other negative, which is far from the anchor and from all its negatives.
    """
    return triplet(distances, margins) + hinges(distances.best, distances.other, margins.second).sum(dim=1)
