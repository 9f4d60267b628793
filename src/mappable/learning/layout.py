"""The order of images in a tuple: anchor, positives, hard negatives, random negatives, other negative."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Number of images of each kind after the anchor; in the paper 6 positives, 3 hard and 3 random
    negatives.

    The other negative of quadruplets replaces the last random negative. Tuples of all losses with
    negatives therefore have the same length and the same draws.

    >>> Layout(positives=6, hard=3, random=2, other=True).images
    13
    """

    positives: int
    hard: int
    random: int
    other: bool

    @property
    def negatives(self) -> int:
        """Negatives of the first hinge: the hard and the random ones, without the other negative."""
        return self.hard + self.random

    def distant(self, tuples: Tensor) -> Tensor:
        """Of tuples (B, images, ...), the anchor and all images that are far from it: (B, images -
        positives, ...).
        """
        return torch.cat([tuples[:, :1], tuples[:, 1 + self.positives :]], dim=1)

    @property
    def images(self) -> int:
        """Images per tuple, including the anchor."""
        return 1 + self.positives + self.negatives + self.other
