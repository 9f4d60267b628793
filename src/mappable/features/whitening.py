"""PCA-whitening: shorter descriptors with uncorrelated numbers; optional, and not in the paper."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.vectors import unit

COLUMNS_AT_ONCE = 4096  # columns of the descriptors that are in float64 at the same time


class Whitening(nn.Module):
    """Turns descriptors (n, inputs) into descriptors (n, dimensions) of length one."""

    mean: Tensor
    projection: Tensor

    def __init__(self, inputs: int, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("projection", torch.zeros(dimensions, inputs))

    def forward(self, descriptors: Tensor) -> Tensor:
        """projection (descriptor - mean), scaled to length one, in float32."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit((descriptors - self.mean) @ self.projection.T)


@torch.no_grad()
def fit_whitening(descriptors: Tensor, dimensions: int) -> Whitening:
    """Fit a whitening with the `dimensions` strongest principal components of descriptors (n, D).

    If n < D, the components come from the products of the descriptors (n, n), because the covariance (D, D) might not
    fit into memory. If G v = s v for G = X X', then X' v / sqrt(s) is a component of X' X.
    """
    count, inputs = descriptors.shape
    largest = min(count - 1, inputs)
    if not 0 < dimensions <= largest:
        raise BadInputError(
            f"{count} descriptors of {inputs} numbers allow whitening to 1 to {largest} dimensions, got {dimensions}"
        )
    mean = descriptors.mean(0, dtype=torch.float64)

    def parts() -> Iterator[Tensor]:
        """The centered descriptors in float64, some columns at a time."""
        for at in range(0, inputs, COLUMNS_AT_ONCE):
            yield descriptors[:, at : at + COLUMNS_AT_ONCE] - mean[at : at + COLUMNS_AT_ONCE]

    if count < inputs:
        strengths, vectors = torch.linalg.eigh(sum(part @ part.T for part in parts()))
    else:
        centered = torch.cat(list(parts()), 1)
        strengths, vectors = torch.linalg.eigh(centered.T @ centered)
    strengths, vectors = strengths.flip(0)[:dimensions], vectors.flip(1)[:, :dimensions]
    if not strengths[-1] > 1e-10 * strengths[0]:
        raise BadInputError(f"the descriptors vary in fewer than {dimensions} dimensions; lower whitening")
    if count < inputs:
        vectors = torch.cat([part.T @ vectors for part in parts()]) / strengths.sqrt()
    whitening = Whitening(inputs, dimensions).to(descriptors.device)
    whitening.mean.copy_(mean)
    whitening.projection.copy_((vectors * ((count - 1) / strengths).sqrt()).T)  # variance one in each dimension
    return whitening
