"""Masks: select the pairs of images whose feature distance can be trusted.

A mask is a symmetric (n, n) array with a true diagonal. All arrays are dense: the paper's method
takes a few hundred images.
"""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges, check_square, ranges_of_matrix


def paper_mask(squared_distances: Floats, feature_scale_squared: float) -> Bools:
    """Return the paper's mask: squared feature distances up to F², which represents the positive
    radius.

    F² is the largest squared distance between near images *before* training. Unrelated images have
    about the same distance, so this mask keeps nearly all pairs: see its `mask_report`.
    """
    if not 0.0 < feature_scale_squared < np.inf:
        raise BadInputError(
            f"the squared feature scale must be above 0, got {feature_scale_squared:g}"
        )
    return _up_to(_checked(squared_distances, "squared feature distance"), feature_scale_squared)


def oracle_mask(true_distances: Floats, radius: float) -> Bools:
    """Return the ideal mask: pairs whose true distance, of `true_distances` (n, n), is at most
    `radius` metres.
    """
    if not 0.0 < radius < np.inf:
        raise BadInputError(f"the radius must be above 0 m, got {radius:g}")
    return _up_to(_checked(true_distances, "true distance"), radius)


@dataclass(frozen=True)
class Threshold:
    """A threshold of squared feature distances, chosen on training pairs."""

    squared: float  # the threshold itself, τ²F²
    precision: float  # share of the training pairs below the threshold that truly are near
    recall: float  # share of the training pairs that truly are near and lie below the threshold
    near: float  # metres: a pair within this distance is near

    def tau(self, feature_scale_squared: float) -> float:
        """Return the threshold relative to the feature scale, neither of them squared."""
        return float(np.sqrt(self.squared / feature_scale_squared))


def choose_threshold(
    squared_distances: Floats, metres: Floats, positive_radius: float, *, precision: float = 0.95
) -> Threshold:
    """Choose the highest threshold below which a share `precision` of the training pairs is within
    1.5 positive radii.

    `squared_distances` (pairs,) are squared feature distances, `metres` (pairs,) true distances.
    Use all pairs of training sequences, or a uniform sample: the precision is lower on data in
    which near pairs are rarer.
    """
    squared, true = (
        np.asarray(squared_distances, dtype=np.float64),
        np.asarray(metres, dtype=np.float64),
    )
    if squared.ndim != 1 or squared.shape != true.shape or not len(squared):
        raise BadInputError(
            "training pairs need one feature distance and one true distance each, got shapes"
            f" {squared.shape} and {true.shape}"
        )
    for values, name in ((squared, "squared feature distance"), (true, "true distance")):
        wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
        if len(wrong):
            raise BadInputError(
                f"the {name} of training pair {wrong[0]} must be 0 or more, got {values[wrong[0]]}"
            )
    if not 0.0 < positive_radius < np.inf:
        raise BadInputError(f"the positive radius must be above 0 m, got {positive_radius:g}")
    if not 0.0 < precision <= 1.0:
        raise BadInputError(f"the precision must be above 0 and at most 1, got {precision:g}")
    near = 1.5 * positive_radius
    order = np.argsort(squared, kind="stable")
    thresholds, hits = squared[order], np.cumsum(true[order] <= near)
    shares = hits / np.arange(1, len(order) + 1)
    # A threshold cannot separate pairs at the same distance.
    last = np.append(np.diff(thresholds) > 0, True)
    enough = np.flatnonzero(last & (shares >= precision))
    if not len(enough):
        raise BadInputError(
            f"no threshold of the feature distance reaches a precision of {precision:.0%} within"
            f" {near:g} m on the training pairs (best: {shares[last].max():.1%}): lower the"
            " precision"
        )
    at = enough[-1]
    return Threshold(float(thresholds[at]), float(shares[at]), float(hits[at] / hits[-1]), near)


def threshold_mask(squared_distances: Floats, threshold: Threshold) -> Bools:
    """Return the mask of squared feature distances (n, n) up to a threshold chosen on training
    pairs.
    """
    return _up_to(_checked(squared_distances, "squared feature distance"), threshold.squared)


@dataclass(frozen=True)
class MaskReport:
    """Size and quality of a mask."""

    per_row: Ints  # (n,): number of kept pairs per point
    precision: float  # share of the kept pairs that truly are near; NaN if no pair is kept
    recall: float  # share of the truly near pairs that are kept; NaN if no pair is near


def mask_report(mask: Bools, true_distances: Floats, radius: float) -> MaskReport:
    """Compare a mask (n, n) with the pairs whose `true_distances` (n, n) are at most `radius`
    metres.
    """
    kept, near = _pairs(mask), _pairs(oracle_mask(true_distances, radius))
    if near.shape != kept.shape:
        raise BadInputError(
            f"the mask has shape {kept.shape}, but the matrix of true distances {near.shape}"
        )
    per_row = np.bincount(np.concatenate(kept.nonzero()), minlength=len(kept)).astype(np.int64)
    both = int((kept & near).sum())
    precision, recall = (
        both / total if (total := int(pairs.sum())) else float("nan") for pairs in (kept, near)
    )
    return MaskReport(per_row, precision, recall)


def connect(mask: Bools) -> Bools:
    """Add those pairs of consecutive points (i, i + 1) to a mask that join its parts.

    The distances of the added pairs are then used, so they must be valid.
    """
    kept = _pairs(mask)
    i, j = kept.nonzero()
    parts = Ranges(len(kept), i, j, np.ones(len(i)), 1.0).parts
    kept = kept | kept.T | np.eye(len(kept), dtype=bool)
    links = np.flatnonzero(np.diff(parts))
    kept[links, links + 1] = kept[links + 1, links] = True
    return kept


def observed(squared_distances: Floats, mask: Bools, dimensions: int) -> Ranges:
    """Return the pairs that a mask keeps as ranges, in the unit of the distances, for a completion
    to k dimensions.

    Raise unless there are at least 3 points, all connected. Distances that are masked out may have
    any value, even NaN.
    """
    if dimensions not in (2, 3):
        raise BadInputError(f"points are recovered in 2 or 3 dimensions, got {dimensions}")
    ranges = ranges_of_matrix(squared_distances, 1.0, mask)
    if ranges.count < 3:
        raise BadInputError(f"a map needs at least 3 points, got {ranges.count}")
    if not len(ranges):
        raise BadInputError("the mask keeps no pair of points at all")
    if not ranges.metres.any():
        raise BadInputError("all distances that the mask keeps are 0")
    if (parts := int(ranges.parts.max()) + 1) > 1:
        raise BadInputError(
            f"the mask leaves {parts:,} parts that no pair connects: connect the mask first, "
            "or use mappable.recover, the default method, which recovers each part separately"
        )
    return ranges


def _up_to(values: Floats, bound: float) -> Bools:
    mask: Bools = np.maximum(values, values.T) <= bound
    np.fill_diagonal(mask, True)
    return mask


def _checked(matrix: Floats, name: str) -> Floats:
    """Return the matrix as float64; raise unless it is square, symmetric, finite and 0 or more."""
    values = np.asarray(matrix, dtype=np.float64)
    check_square(values, "matrix of distances")
    for wrong, what in (
        (~np.isfinite(values), "is not a finite number"),
        (values < 0, "is negative"),
        (
            ~np.isclose(values, values.T, rtol=1e-6, atol=1e-9, equal_nan=True),
            "differs from its mirror image",
        ),
    ):
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise BadInputError(f"{name} [{row}, {column}] is {values[row, column]}, which {what}")
    return values


def _pairs(mask: Bools) -> Bools:
    """Return the upper triangle of a mask without its diagonal; a pair counts if either of its
    entries is true.
    """
    kept = np.asarray(mask, dtype=bool)
    check_square(kept, "mask")
    upper: Bools = np.triu(kept | kept.T, 1)
    return upper
