"""Lazy quadruplet loss: of either hinge of the quadruplet loss the worst alone."""

from torch import Tensor

from mappable.learning.losses.distances import TupleDistances
from mappable.learning.losses.hinges import Margins, hinges
from mappable.learning.losses.lazy_triplet import lazy_triplet


def lazy_quadruplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """max_j [α + s* − s⁻_j]₊ + max_j [β + s* − s°_j]₊ of each anchor, (B,) (the paper's section V-D).

    The two maxima are independent: they may belong to different negatives.
    """
    return lazy_triplet(distances, margins) + hinges(distances.best, distances.other, margins.second).max(dim=1).values
