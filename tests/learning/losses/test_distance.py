"""The distance loss of residuals: squares, and their gradients."""

import torch

from mappable.learning.losses.distance import distance


def test_each_residual_is_squared(dtype: torch.dtype) -> None:
    residuals = torch.tensor([[0.0, 0.5], [-2.0, 3.0]], dtype=dtype)
    assert distance(residuals).tolist() == [[0.0, 0.25], [4.0, 9.0]]
    assert distance(residuals).dtype == dtype


def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(distance, torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True))
