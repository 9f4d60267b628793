"""Vectors of length one."""

import torch
from torch import Tensor


def unit(vectors: Tensor) -> Tensor:
    """`vectors` (..., C) at length one along the last axis; the zero vector stays zero, and its gradient is finite.

    The 1e-12 is inside the root: outside it, the gradient at zero would not be a number.
    """
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-12)
