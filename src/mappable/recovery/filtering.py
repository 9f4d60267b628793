"""Find false ranges: points that are near each other must have near points in common."""

import numpy as np
from scipy.sparse import csr_array

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges

LEAST_SHARE = 0.5  # a true range has at least this part of the usual share of common neighbors
SLACK = 0.5  # neighbors: a point with very few neighbors may share none by chance
ROUNDS = 6  # at most; false ranges support each other until most of them are removed
LAST_ROUND = 1e-3  # share of ranges: a round that removes fewer is the last
NEAR = 3  # points are near in order up to this lag; false ranges hardly ever join such points
# Points are in order if this share of them has a range to one of the next `NEAR` points.
ORDERED = 0.25
# Entries of the adjacency's square that are computed at once, to bound the memory.
BLOCK_PRODUCTS = 1 << 22


def common_neighbor_filter(ranges: Ranges) -> Bools:
    """Return True (edges,) for the ranges to keep: those whose two points have enough neighbors in
    common.

    Pairs at about the same distance usually share a certain part of the neighbors that both could
    share. A range with less than half of that part is false. Random pairs of a long route share
    none, so independent false ranges are removed and true ones stay. Two stretches that look alike
    share neighbors with each other, so their ranges stay.

    If points have too few neighbors to judge by, as in a tree, all ranges stay. If points are in
    order, because many have a range to one of the next points, two more rules hold. A range between
    points far apart in order needs another range next to it. Ranges between points near in order
    stay if the sequence would break without them, so even a bare chain is not broken. Two parts
    that only false ranges join do break apart.
    """
    kept = np.ones(len(ranges), dtype=bool)
    lags = ranges.j - ranges.i
    ordered = (np.bincount(lags, minlength=1)[1 : NEAR + 1] > ORDERED * ranges.count).any()
    for _ in range(ROUNDS):
        some = ranges.where(kept)
        shared = common_neighbors(some)
        degrees = np.bincount(np.concatenate([some.i, some.j]), minlength=some.count)
        # The ends are neighbors, but not shared ones.
        most = np.minimum(degrees[some.i], degrees[some.j]) - 1
        good = (
            shared >= LEAST_SHARE * most * _usual(some.metres, shared / np.maximum(most, 1)) - SLACK
        )
        if ordered:
            good &= (shared > 0) | (lags[kept] <= NEAR) | _has_company(some)
        kept[kept] = good
        if (~good).sum() <= LAST_ROUND * len(good):
            break
    if ordered and not kept.all():
        parts = ranges.where(kept).parts
        kept |= (lags <= NEAR) & (parts[ranges.i] != parts[ranges.j])
    return kept


def common_neighbors(ranges: Ranges) -> Ints:
    """Count, per range, the points with a range to both its ends (edges,): entries of the
    adjacency's square.
    """
    ends = np.concatenate([ranges.i, ranges.j]), np.concatenate([ranges.j, ranges.i])
    near = csr_array(
        (np.ones(2 * len(ranges), dtype=np.int32), ends), shape=(ranges.count, ranges.count)
    )
    work = (near @ np.diff(near.indptr)).cumsum()
    cuts = np.searchsorted(work, np.arange(BLOCK_PRODUCTS, work[-1], BLOCK_PRODUCTS)).tolist()
    shared = np.zeros(len(ranges), dtype=np.int64)
    # By blocks of rows, because it is large.
    for low, high in zip([0, *cuts], [*cuts, ranges.count], strict=True):
        edges = slice(*np.searchsorted(ranges.i, [low, high]))  # ranges are sorted by i
        if edges.start < edges.stop:
            square = near[low:high] @ near
            shared[edges] = square[ranges.i[edges] - low, ranges.j[edges]]
    return shared


def _usual(metres: Floats, shares: Floats) -> Floats:
    """Return the median share (edges,) among ranges of about the same length."""
    if not len(metres):
        return shares
    groups = np.array_split(np.argsort(metres, kind="stable"), max(1, min(10, len(metres) // 50)))
    middles = [float(metres[group].mean()) for group in groups]
    usual: Floats = np.interp(
        metres, middles, [float(np.median(shares[group])) for group in groups]
    )
    return usual


def _has_company(ranges: Ranges) -> Bools:
    """Return True (edges,) if another range joins images at or next to i with images at or next to
    j.
    """
    keys = ranges.i * ranges.count + ranges.j
    found = np.zeros(len(ranges), dtype=bool)
    for before in (-1, 0, 1):
        for behind in (-1, 0, 1):
            if before or behind:
                wanted = keys + before * ranges.count + behind
                found |= keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
    return found
