"""Geometric residuals: by how much feature distances fail to be proportional to distances in the world."""

from torch import Tensor


def normalised_residuals(
    positive: Tensor, squared_distances: Tensor, feature_scale_squared: float, positive_radius: float
) -> Tensor:
    """e_k = s⁺_k / F² − g²_k / r₁², without unit, for s⁺ and g² (in squared metres) of equal shape.

    Zero where features are mappable: g² = λ s⁺ with λ = r₁² / F² squared metres a squared feature distance (the paper's
    equation 2). Its authors' code has this form; F² is to be a squared feature distance that stands for r₁.
    """
    return positive / feature_scale_squared - squared_distances / positive_radius**2


def literal_residuals(
    positive: Tensor, squared_distances: Tensor, feature_scale_squared: float, positive_radius: float
) -> Tensor:
    """g²_k − λ s⁺_k in squared metres with λ = r₁² / F²: equation 3 as printed, −r₁² times the normalised residual."""
    return squared_distances - positive_radius**2 / feature_scale_squared * positive
