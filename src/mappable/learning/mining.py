"""Hard-negative mining: find the far images in the feature cache that look most like an anchor."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class FeatureCache:
    """Descriptors of some training images, computed at the start of a mining period.

    `rows` (m,) int64 are the images' rows in the training set, ascending. `features` (m, D) float32
    are their descriptors.
    """

    rows: Tensor
    features: Tensor
    squared_norms: Tensor = field(init=False, repr=False)  # (m,)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "squared_norms", torch.linalg.vector_norm(self.features, dim=1).square()
        )

    def squared_distances(self, anchors: Tensor) -> Tensor:
        """Squared feature distances (b, m) from `anchors` (b,), which must be in the cache, to all
        cached images.

        The matrix product is in float32, because half precision errs by as much as hard negatives
        differ.
        """
        columns = torch.searchsorted(self.rows, anchors)
        with torch.autocast(self.features.device.type, enabled=False):
            products = self.features[columns] @ self.features.T
        return (self.squared_norms[columns, None] + self.squared_norms - 2 * products).clamp_(min=0)

    def hardest(self, anchors: Tensor, negatives: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Find the `count` negatives with the smallest feature distance to each anchor, nearest
        first.

        `anchors` (b,) are rows of the training set that are in the cache. `negatives` (b, n) bool
        says for every row of the training set whether it is a negative of the anchor. Returns rows
        (b, count), and how many of them were found (b,). If the cache has too few negatives, the
        anchor's own row fills the rest.
        """
        eligible = negatives[:, self.rows]
        distances = self.squared_distances(anchors).masked_fill_(~eligible, torch.inf)
        nearest, columns = distances.topk(min(count, len(self.rows)), largest=False)
        eligible = torch.isfinite(nearest)
        rows = anchors[:, None].repeat(1, count)
        rows[:, : columns.shape[1]] = torch.where(eligible, self.rows[columns], anchors[:, None])
        return rows, eligible.sum(dim=1)
