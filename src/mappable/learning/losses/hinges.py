"""The hinge that all negative visual losses are made of."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Margins:
    """By how much a negative must be farther than the best positive, in squared feature distance."""

    first: float  # α: from the anchor
    second: float  # β: from the other negative, in quadruplets


def hinges(near: Tensor, far: Tensor, margin: float) -> Tensor:
    """[margin + near − far_j]₊ for what is to be near (B,) and each that is to be far (B, n): (B, n) (equation 4)."""
    return torch.relu(margin + near[:, None] - far)
