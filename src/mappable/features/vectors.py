"""Vectors of length one."""

import torch
from torch import Tensor


def unit(vectors: Tensor) -> Tensor:
    """Scale `vectors` (..., C) to length one along the last axis. A zero vector stays zero, with a
    finite gradient.

    The 1e-12 is inside the root: outside, the gradient at zero would be NaN.
    """
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-12)
