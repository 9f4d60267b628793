"""The formulas of the paper's losses, and two registries of their names: `VISUAL` and `GEOMETRIC`.

docs/method.md has them as equations 11 to 15.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mappable.learning.layout import Layout


@dataclass(frozen=True)
class TupleDistances:
    """Squared feature distances s(a, b) = ‖a − b‖² of B tuples."""

    positive: Tensor  # (B, positives): s⁺, anchor to each positive
    negative: Tensor  # (B, negatives): s⁻, anchor to each negative
    # (B, negatives): s°, each negative to the other negative; (B, 0) for a layout without it.
    other: Tensor

    @property
    def best(self) -> Tensor:
        """(B,): s* = min over positives of s⁺ with the current features. The gradient goes to that
        positive only.
        """
        return self.positive.min(dim=1).values


def tuple_distances(descriptors: Tensor, layout: Layout) -> TupleDistances:
    """Distances within each tuple of descriptors (B, layout.images, D), which have the order of the
    layout.
    """
    sizes = [1, layout.positives, layout.negatives, int(layout.other)]
    anchor, positives, negatives, other = torch.split(descriptors, sizes, dim=1)
    return TupleDistances(
        squared_distance(anchor, positives),
        squared_distance(anchor, negatives),
        squared_distance(negatives, other)
        if layout.other
        else negatives.new_empty(len(negatives), 0),
    )


def squared_distance(first: Tensor, second: Tensor) -> Tensor:
    """‖first − second‖² over the last dimension.

    The sum of squared differences is exactly 0 for equal descriptors, with a finite gradient. The
    product form 2 − 2·first·second has a rounding error there, which matters for a margin of 0.1. A
    root has no gradient at 0.
    """
    return (first - second).square().sum(dim=-1)


@dataclass(frozen=True)
class Margins:
    """How much farther than the best positive a negative must be, in squared feature distance."""

    first: float  # α: from the anchor
    second: float  # β: from the other negative, in quadruplets


def hinges(near: Tensor, far: Tensor, margin: float) -> Tensor:
    """[margin + near − far_j]₊ (B, n), for distances to keep small (B,) and large (B, n) (the
    paper's equation 4).
    """
    return torch.relu(margin + near[:, None] - far)


def triplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """Σ_j [α + s* − s⁻_j]₊ per anchor, (B,): the sum, not the mean, over its negatives.

    This is the paper's equation 5 with the best positive alone, as in NetVLAD and in PointNetVLAD's
    code, which the paper uses.
    """
    return hinges(distances.best, distances.negative, margins.first).sum(dim=1)


def quadruplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """Σ_j [α + s* − s⁻_j]₊ + Σ_j [β + s* − s°_j]₊ per anchor, (B,) (the paper's section V-D).

    s°_j is the distance from negative j to the other negative, which is far from the anchor and all
    its negatives.
    """
    return triplet(distances, margins) + hinges(
        distances.best, distances.other, margins.second
    ).sum(dim=1)


def lazy_triplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """max_j [α + s* − s⁻_j]₊ per anchor, (B,) (the paper's section V-D, after PointNetVLAD)."""
    return hinges(distances.best, distances.negative, margins.first).max(dim=1).values


def lazy_quadruplet(distances: TupleDistances, margins: Margins) -> Tensor:
    """max_j [α + s* − s⁻_j]₊ + max_j [β + s* − s°_j]₊ per anchor, (B,) (the paper's section V-D).

    The two maxima are independent: they may belong to different negatives.
    """
    return (
        lazy_triplet(distances, margins)
        + hinges(distances.best, distances.other, margins.second).max(dim=1).values
    )


def normalized_residuals(
    positive: Tensor,
    squared_distances: Tensor,
    feature_scale_squared: float,
    positive_radius: float,
) -> Tensor:
    """e_k = s⁺_k / F² − g²_k / r₁², without unit, for s⁺ and g² (in squared metres) of equal shape.

    The residual is zero if features are mappable: g² = λ s⁺ with λ = r₁² / F² squared metres per
    squared feature distance (the paper's equation 2). The authors' code has this form; equation 3
    as printed is −r₁² times it. F² is the squared feature distance that corresponds to r₁.
    """
    return positive / feature_scale_squared - squared_distances / positive_radius**2


def distance(residuals: Tensor, delta: float) -> Tensor:
    """e² per residual ("dist." in the paper's table I). δ is not used."""
    return residuals.square()


def huber(residuals: Tensor, delta: float) -> Tensor:
    """ρ_δ(e) = ½ e² if |e| ≤ δ, else δ (|e| − ½ δ), per residual, with δ in the unit of e (the
    paper's equation 3).

    Normalized residuals rarely exceed 1, so that with δ = 1 this is half the distance loss.
    """
    size = residuals.abs()
    return torch.where(size <= delta, residuals.square() / 2, delta * (size - delta / 2))


VISUAL: dict[str, Callable[[TupleDistances, Margins], Tensor]] = {
    "triplet": triplet,
    "quadruplet": quadruplet,
    "lazy-triplet": lazy_triplet,
    "lazy-quadruplet": lazy_quadruplet,
}
# Residuals and δ.
GEOMETRIC: dict[str, Callable[[Tensor, float], Tensor]] = {"distance": distance, "huber": huber}
