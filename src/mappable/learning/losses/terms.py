"""The formulas of the paper's losses, and the registries that name them: `VISUAL` and `GEOMETRIC`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mappable.learning.layout import Layout


@dataclass(frozen=True)
class TupleDistances:
    """Squared feature distances s(a, b) = ‖a − b‖² of B tuples; there is no other negative where `other` is empty."""

    positive: Tensor  # (B, positives): s⁺, anchor to each positive
    negative: Tensor  # (B, negatives): s⁻, anchor to each negative
    other: Tensor  # (B, negatives) or (B, 0): s°, each negative to the other negative
    among: Tensor | None = None  # (B, rest of the pairs): positives to each other, where the layout has all pairs

    @property
    def near(self) -> Tensor:
        """(B, pairs): what the geometric term compares with distances in the world."""
        return self.positive if self.among is None else torch.cat([self.positive, self.among], dim=1)

    @property
    def best(self) -> Tensor:
        """(B,): s* = min over positives of s⁺, by the features as they are now; its gradient goes to one positive."""
        return self.positive.min(dim=1).values


def tuple_distances(descriptors: Tensor, layout: Layout) -> TupleDistances:
    """Distances within each tuple of descriptors (B, layout.images, D), which follow each other as the layout says."""
    sizes = [1, layout.positives, layout.negatives, int(layout.other)]
    anchor, positives, negatives, other = torch.split(descriptors, sizes, dim=1)
    return TupleDistances(
        squared_distance(anchor, positives),
        squared_distance(anchor, negatives),
        squared_distance(negatives, other) if layout.other else negatives.new_empty(len(negatives), 0),
        _among(positives) if layout.all_pairs else None,
    )


def _among(descriptors: Tensor) -> Tensor:
    """Squared distances (B, n (n - 1) / 2) between all n descriptors (B, n, D) of a tuple."""
    count = descriptors.shape[1]
    first, second = torch.triu_indices(count, count, 1, device=descriptors.device)
    return squared_distance(descriptors[:, first], descriptors[:, second])


def squared_distance(first: Tensor, second: Tensor) -> Tensor:
    """‖first − second‖² over the last dimension.

    The sum of squared differences is exactly 0 for equal descriptors, with a finite gradient. The product form
    2 − 2·first·second is off there by rounding, which counts against a margin of 0.1, and a root has no gradient at 0.
    """
    return (first - second).square().sum(dim=-1)


@dataclass(frozen=True)
class Margins:
    """By how much a negative must be farther than the best positive, in squared feature distance."""

    first: float  # α: from the anchor
    second: float  # β: from the other negative, in quadruplets


def hinges(near: Tensor, far: Tensor, margin: float) -> Tensor:
    """[margin + near − far_j]₊ for what is to be near (B,) and each that is to be far (B, n): (B, n) (equation 4)."""
    return torch.relu(margin + near[:, None] - far)


def triplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """Σ_j [α + s* − s⁻_j]₊ of each anchor, (B,): the sum, not the mean, over its negatives.

    The paper's equation 5 with the best positive alone, as in NetVLAD and in PointNetVLAD's code, which it uses.
    """
    return hinges(distances.best, distances.negative, margins.first).sum(dim=1)


def quadruplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """Σ_j [α + s* − s⁻_j]₊ + Σ_j [β + s* − s°_j]₊ of each anchor, (B,) (the paper's section V-D).

    s°_j is from the negative to the other negative, which is far from the anchor and from all its negatives.
    """
    return triplet(distances, margins) + hinges(distances.best, distances.other, margins.second).sum(dim=1)


def lazy_triplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """max_j [α + s* − s⁻_j]₊ of each anchor, (B,) (the paper's section V-D, after PointNetVLAD)."""
    return hinges(distances.best, distances.negative, margins.first).max(dim=1).values


def lazy_quadruplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """max_j [α + s* − s⁻_j]₊ + max_j [β + s* − s°_j]₊ of each anchor, (B,) (the paper's section V-D).

    The two maxima are independent: they may belong to different negatives.
    """
    return lazy_triplet(distances, margins) + hinges(distances.best, distances.other, margins.second).max(dim=1).values


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


def distance(residuals: Tensor, delta: float) -> Tensor:
    """e² of each residual ("dist." in the paper's table I); δ does not matter."""
    return residuals.square()


def huber(residuals: Tensor, delta: float) -> Tensor:
    """ρ_δ(e) = ½ e² where |e| ≤ δ, else δ (|e| − ½ δ), of each residual, δ in its unit (equation 3).

    Normalised residuals are hardly ever above 1, so that with δ = 1 this is half the distance loss.
    """
    size = residuals.abs()
    return torch.where(size <= delta, residuals.square() / 2, delta * (size - delta / 2))


def residual_hinges(costs: Tensor, other: Tensor, feature_scale_squared: float, second_margin: float) -> Tensor:
    """[β + min_k c_k − s°_j / F²]₊ for the costs (B, positives) of the normalised residuals and s° (B, n): (B, n).

    The second hinge of quadruplets as the paper's authors released it: on geometric residuals, not on features.
    c_k is e_k² (distance) or ρ(e_k) (Huber). The released code takes the maximum over j, lazy or not.
    """
    return hinges(costs.min(dim=1).values, other / feature_scale_squared, second_margin)


VISUAL: dict[str, Callable[[TupleDistances, Margins], Tensor]] = {
    "triplet": triplet,
    "quadruplet": quadruplet,
    "lazy-triplet": lazy_triplet,
    "lazy-quadruplet": lazy_quadruplet,
}
GEOMETRIC: dict[str, Callable[[Tensor, float], Tensor]] = {"distance": distance, "huber": huber}  # residuals and δ
