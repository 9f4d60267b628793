"""Distance loss: the squares of the geometric residuals."""

from torch import Tensor


def distance(residuals: Tensor) -> Tensor:
    """e² of each residual ("dist." in the paper's table I)."""
    return residuals.square()
