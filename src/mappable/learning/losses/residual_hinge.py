"""The second hinge of quadruplets as the paper's authors released it: on geometric residuals, not on features."""

from torch import Tensor

from mappable.learning.losses.hinges import hinges


def residual_hinges(costs: Tensor, other: Tensor, feature_scale_squared: float, second_margin: float) -> Tensor:
    """[β + min_k c_k − s°_j / F²]₊ for the costs (B, positives) of the normalised residuals and s° (B, n): (B, n).

    c_k is e_k² (distance) or ρ(e_k) (Huber). The released code takes the maximum over j, lazy or not.
    """
    return hinges(costs.min(dim=1).values, other / feature_scale_squared, second_margin)
