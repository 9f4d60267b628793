"""PCA-whitening: shorter descriptors with uncorrelated numbers; optional, and not in the paper."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.vectors import unit

COLUMNS = 4096  # numbers of the descriptors that are in float64 at a time


class Whitening(nn.Module):
    """Descriptors (n, inputs) to descriptors (n, dimensions) of length one."""

    mean: Tensor
    projection: Tensor

    def __init__(self, inputs: int, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("projection", torch.zeros(dimensions, inputs))

    def forward(self, descriptors: Tensor) -> Tensor:
        """projection (descriptor - mean), at length one, in float32."""
        with torch.autocast(descriptors.device.type, enabled=False):
            return unit((descriptors - self.mean) @ self.projection.T)


@torch.no_grad()
def fit_whitening(descriptors: Tensor, dimensions: int) -> Whitening:
    """The whitening by the `dimensions` strongest principal components of descriptors (n, D).

    With fewer descriptors than numbers in one, the components come from the products of the descriptors (n, n), for the
    covariance (D, D) might not fit in memory: if G v = s v for G = X X', then X' v / sqrt(s) is a component of X' X.
    """
    count, inputs = descriptors.shape
    most = min(count - 1, inputs)
    if not 0 < dimensions <= most:
        raise BadInputError(f"{count} descriptors of {inputs} numbers whiten to 1 to {most}, not to {dimensions}")
    mean = descriptors.mean(0, dtype=torch.float64)

    def parts() -> Iterator[Tensor]:
        """The centred descriptors in float64, some columns at a time."""
        for at in range(0, inputs, COLUMNS):
            yield descriptors[:, at : at + COLUMNS] - mean[at : at + COLUMNS]

    if count < inputs:
        strengths, vectors = torch.linalg.eigh(sum(part @ part.T for part in parts()))
    else:
        centred = torch.cat(list(parts()), 1)
        strengths, vectors = torch.linalg.eigh(centred.T @ centred)
    strengths, vectors = strengths.flip(0)[:dimensions], vectors.flip(1)[:, :dimensions]
    if not strengths[-1] > 1e-10 * strengths[0]:
        raise BadInputError(f"the descriptors vary in fewer than {dimensions} ways; whiten to fewer dimensions")
    if count < inputs:
        vectors = torch.cat([part.T @ vectors for part in parts()]) / strengths.sqrt()
    whitening = Whitening(inputs, dimensions).to(descriptors.device)
    whitening.mean.copy_(mean)
    whitening.projection.copy_((vectors * ((count - 1) / strengths).sqrt()).T)  # variance one in each dimension
    return whitening
