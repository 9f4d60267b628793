"""Hard-negative mining: the far images in the feature cache that look most like an anchor."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class FeatureCache:
    """Descriptors of some training images, computed when a mining period began.

    `rows` (m,) int64 are the images' rows in the training set, ascending; `features` (m, D) float32 their descriptors.
    """

    rows: Tensor
    features: Tensor
    squared_norms: Tensor = field(init=False, repr=False)  # (m,)

    def __post_init__(self) -> None:
        if self.rows.shape != self.features.shape[:1] or bool((self.rows.diff() <= 0).any()):
            raise ValueError("a feature cache needs ascending rows and one descriptor for each")
        object.__setattr__(self, "squared_norms", torch.linalg.vector_norm(self.features, dim=1).square())

    def check(self, anchors: Tensor) -> None:
        """Refuse `anchors` (b,), rows of the training set, of which the cache does not hold all.

        Whoever asks for distances does so first, once for all anchors: the answer makes a GPU wait.
        """
        if not bool(torch.isin(anchors, self.rows).all()):
            raise ValueError("an anchor is not in the feature cache, so nothing can be mined for it")

    def squared_distances(self, anchors: Tensor) -> Tensor:
        """Squared feature distances (b, m) of `anchors` (b,), which the cache holds, to all its images.

        The matrix product has float32 all through: half precision errs by as much as hard negatives differ.
        """
        at = torch.searchsorted(self.rows, anchors)
        with torch.autocast(self.features.device.type, enabled=False):
            products = self.features[at] @ self.features.T
        return (self.squared_norms[at, None] + self.squared_norms - 2 * products).clamp_(min=0)

    def hardest(self, anchors: Tensor, negatives: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The `count` negatives with the smallest feature distance to each anchor, the nearest first.

        `anchors` (b,) are rows of the training set that the cache holds; `negatives` (b, n) tells for every row of the
        training set whether it is one of theirs. Returns rows (b, count) and how many of them there are (b,); past the
        last, if the cache holds too few negatives, stands the anchor's own row.
        """
        eligible = negatives[:, self.rows]
        distances = self.squared_distances(anchors).masked_fill_(~eligible, torch.inf)
        nearest, columns = distances.topk(min(count, len(self.rows)), largest=False)
        found = torch.isfinite(nearest)
        rows = anchors[:, None].repeat(1, count)
        rows[:, : columns.shape[1]] = torch.where(found, self.rows[columns], anchors[:, None])
        return rows, found.sum(dim=1)
