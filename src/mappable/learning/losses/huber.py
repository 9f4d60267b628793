"""Huber distance loss: geometric residuals squared while small, and linear beyond a threshold."""

import torch
from torch import Tensor


def huber(residuals: Tensor, delta: float) -> Tensor:
    """ρ_δ(e) = ½ e² where |e| ≤ δ, else δ (|e| − ½ δ), of each residual, δ in its unit (equation 3).

    Normalised residuals are hardly ever above 1, so that with δ = 1 this is half the distance loss.
    """
    size = residuals.abs()
    return torch.where(size <= delta, residuals.square() / 2, delta * (size - delta / 2))
