"""Masks: which pairs of images have a feature distance to trust.

A mask is a symmetric (n, n) array with a true diagonal. All here is dense, for the paper's way of a few hundred images.
"""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges, ranges_of_matrix


def paper_mask(squared_distances: Floats, feature_scale_squared: float) -> Bools:
    """The paper's mask: squared feature distances up to F², which stands for the positive radius.

    F² is the greatest squared distance between near images *before* training. It is about that of unrelated images, so
    that this mask keeps nearly everything: look at its `mask_report`.
    """
    if not 0.0 < feature_scale_squared < np.inf:
        raise BadInputError(f"the squared feature scale is {feature_scale_squared:g}, but must be above 0")
    return _up_to(_checked(squared_distances, "squared feature distance"), feature_scale_squared)


def oracle_mask(true_distances: Floats, radius: float) -> Bools:
    """The pairs that truly are within `radius` metres, of true distances (n, n): what the best of masks would keep."""
    if not 0.0 < radius < np.inf:
        raise BadInputError(f"the radius is {radius:g} m, but must be above 0")
    return _up_to(_checked(true_distances, "true distance"), radius)


@dataclass(frozen=True)
class Threshold:
    """A bound of squared feature distances, chosen on training pairs."""

    squared: float  # the bound itself, τ²F²
    precision: float  # of the training pairs up to it, the share that truly is near
    recall: float  # of the training pairs that truly are near, the share up to it
    near: float  # in metres: what counts as near

    def tau(self, feature_scale_squared: float) -> float:
        """The bound relative to the feature scale, neither of them squared."""
        return float(np.sqrt(self.squared / feature_scale_squared))


def choose_threshold(
    squared_distances: Floats, metres: Floats, positive_radius: float, *, precision: float = 0.95
) -> Threshold:
    """The highest bound up to which a share `precision` of training pairs truly is within 1.5 positive radii.

    `squared_distances` (pairs,) are those of features, `metres` (pairs,) the true ones. Take all pairs of training
    sequences or a uniform sample: where near pairs are rarer than here, so is what the bound lets through.
    """
    squared, true = np.asarray(squared_distances, dtype=np.float64), np.asarray(metres, dtype=np.float64)
    if squared.ndim != 1 or squared.shape != true.shape or not len(squared):
        raise BadInputError(f"training pairs have one feature distance {squared.shape} and one true one {true.shape}")
    for values, name in ((squared, "squared feature distance"), (true, "true distance")):
        wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
        if len(wrong):
            raise BadInputError(f"the {name} of training pair {wrong[0]} is {values[wrong[0]]}, but must be at least 0")
    if not 0.0 < positive_radius < np.inf or not 0.0 < precision <= 1.0:
        raise BadInputError(f"a positive radius of {positive_radius:g} m and a precision of {precision:g} cannot be")
    near = 1.5 * positive_radius
    order = np.argsort(squared, kind="stable")
    bounds, hits = squared[order], np.cumsum(true[order] <= near)
    shares = hits / np.arange(1, len(order) + 1)
    last = np.append(np.diff(bounds) > 0, True)  # pairs at the same distance are let through together or not at all
    enough = np.flatnonzero(last & (shares >= precision))
    if not len(enough):
        raise BadInputError(
            f"no bound of the feature distance has {precision:.0%} of the training pairs up to it within {near:g} m; "
            f"the best has {shares[last].max():.1%}"
        )
    at = enough[-1]
    return Threshold(float(bounds[at]), float(shares[at]), float(hits[at] / hits[-1]), near)


def threshold_mask(squared_distances: Floats, threshold: Threshold) -> Bools:
    """Squared feature distances (n, n) up to a bound chosen on training pairs."""
    return _up_to(_checked(squared_distances, "squared feature distance"), threshold.squared)


@dataclass(frozen=True)
class MaskReport:
    """How good a mask is."""

    per_row: Ints  # (n,): how many pairs of each point are kept
    precision: float  # of the pairs kept, the share that truly is near; NaN if no pair is kept
    recall: float  # of the pairs that truly are near, the share kept; NaN if no pair is near


def mask_report(mask: Bools, true_distances: Floats, radius: float) -> MaskReport:
    """How many pairs a mask (n, n) keeps, and how many of them are near by their `true_distances` (n, n)."""
    kept, near = _pairs(mask), _pairs(oracle_mask(true_distances, radius))
    if near.shape != kept.shape:
        raise BadInputError(f"the mask is {kept.shape}, but the matrix of true distances {near.shape}")
    per_row = np.bincount(np.concatenate(kept.nonzero()), minlength=len(kept)).astype(np.int64)
    both = int((kept & near).sum())
    precision, recall = (both / total if (total := int(pairs.sum())) else float("nan") for pairs in (kept, near))
    return MaskReport(per_row, precision, recall)


def connect(mask: Bools) -> Bools:
    """The mask with pairs of neighbors (i, i + 1) added that link parts; their distances must be ones to use."""
    kept = _pairs(mask)
    i, j = kept.nonzero()
    parts = Ranges(len(kept), i, j, np.ones(len(i)), 1.0).parts
    kept = kept | kept.T | np.eye(len(kept), dtype=bool)
    links = np.flatnonzero(np.diff(parts))
    kept[links, links + 1] = kept[links + 1, links] = True
    return kept


def observed(squared_distances: Floats, mask: Bools, dimensions: int) -> Ranges:
    """The pairs that a mask keeps, as ranges in the unit of the distances: what a completion to k dimensions needs.

    These are at least 3 points, all of them connected. Distances that are masked out may be anything, even no numbers.
    """
    if dimensions not in (2, 3):
        raise BadInputError(f"points are laid out in 2 or 3 dimensions, not {dimensions}")
    ranges = ranges_of_matrix(squared_distances, 1.0, mask)
    if ranges.count < 3:
        raise BadInputError(f"there are {ranges.count} points, but a map needs at least 3")
    if not len(ranges):
        raise BadInputError("the mask keeps no pair of points at all")
    if not ranges.metres.any():
        raise BadInputError("all distances that the mask keeps are 0")
    if (parts := int(ranges.parts.max()) + 1) > 1:
        raise BadInputError(
            f"the mask leaves {parts:,} parts that no pair connects: connect it first, "
            "or use mappable.recover, the default method, which recovers each part apart"
        )
    return ranges


def check_square(matrix: Floats | Bools, name: str) -> None:
    """Refuse what is not (n, n), with n above 0."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise BadInputError(f"a {name} is square, not {' x '.join(map(str, matrix.shape))}")


def _up_to(values: Floats, bound: float) -> Bools:
    mask: Bools = np.maximum(values, values.T) <= bound
    np.fill_diagonal(mask, True)
    return mask


def _checked(matrix: Floats, name: str) -> Floats:
    """The matrix, if it is square and symmetric and its values are at least 0."""
    values = np.asarray(matrix, dtype=np.float64)
    check_square(values, "matrix of distances")
    for wrong, what in (
        (~np.isfinite(values), "is not a number"),
        (values < 0, "is negative"),
        (~np.isclose(values, values.T, rtol=1e-6, atol=1e-9, equal_nan=True), "differs from its mirror image"),
    ):
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise BadInputError(f"the {name} {row}, {column} ({values[row, column]}) {what}")
    return values


def _pairs(mask: Bools) -> Bools:
    """The upper triangle without the diagonal of a mask, each pair of which counts in either order."""
    kept = np.asarray(mask, dtype=bool)
    check_square(kept, "mask")
    upper: Bools = np.triu(kept | kept.T, 1)
    return upper
