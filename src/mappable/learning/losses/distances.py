"""Squared distances between the descriptors of a tuple: what every loss looks at."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mappable.learning.layout import Layout


@dataclass(frozen=True)
class TupleDistances:
    """Squared feature distances s(a, b) = ‖a − b‖² of B tuples; there is no other negative where `other` is empty."""

    positive: Tensor  # (B, positives): s⁺, anchor to each positive
    negative: Tensor  # (B, negatives): s⁻, anchor to each negative
    other: Tensor  # (B, negatives) or (B, 0): s°, each negative to the other negative
    among: Tensor | None = None  # (B, rest of the pairs): positives to each other, where the layout has all pairs

    @property
    def near(self) -> Tensor:
        """(B, pairs): what the geometric term compares with distances in the world."""
        return self.positive if self.among is None else torch.cat([self.positive, self.among], dim=1)

    @property
    def best(self) -> Tensor:
        """(B,): s* = min over positives of s⁺, by the features as they are now; its gradient goes to one positive."""
        return self.positive.min(dim=1).values


def tuple_distances(descriptors: Tensor, layout: Layout) -> TupleDistances:
    """Distances within each tuple of descriptors (B, layout.images, D), which follow each other as the layout says."""
    sizes = [1, layout.positives, layout.negatives, int(layout.other)]
    anchor, positives, negatives, other = torch.split(descriptors, sizes, dim=1)
    return TupleDistances(
        squared_distance(anchor, positives),
        squared_distance(anchor, negatives),
        squared_distance(negatives, other) if layout.other else negatives.new_empty(len(negatives), 0),
        _among(positives) if layout.all_pairs else None,
    )


def _among(descriptors: Tensor) -> Tensor:
    """Squared distances (B, n (n - 1) / 2) between all n descriptors (B, n, D) of a tuple."""
    count = descriptors.shape[1]
    first, second = torch.triu_indices(count, count, 1, device=descriptors.device)
    return squared_distance(descriptors[:, first], descriptors[:, second])


def squared_distance(first: Tensor, second: Tensor) -> Tensor:
    """‖first − second‖² over the last dimension.

    The sum of squared differences is exactly 0 for equal descriptors, with a finite gradient. The product form
    2 − 2·first·second is off there by rounding, which counts against a margin of 0.1, and a root has no gradient at 0.
    """
    return (first - second).square().sum(dim=-1)
