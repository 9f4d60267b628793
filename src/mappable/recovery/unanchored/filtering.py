"""Find false ranges: points that are near each other must have near points in common."""

import numpy as np
from scipy.sparse import csr_array

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges

LEAST_SHARE = 0.5  # of the neighbours that two points so far apart usually have in common
SLACK = 0.5  # neighbours: where a point has but few, that it shares none says nothing
ROUNDS = 6  # at most: false ranges speak for each other, until most of them are gone
FEW = 1e-3  # share of the ranges, below which what a round finds was the last
NEAR = 3  # points in order; a false range hardly ever is between points so near
ORDERED = 0.25  # share of the points that have a range to a next one, if they are in order
BLOCK = 1 << 22  # products that are made at once


def common_neighbour_filter(ranges: Ranges) -> Bools:
    """True (edges,) for the ranges to keep: those whose two points have neighbours in common, as others do.

    Of the neighbours that both ends could share, pairs a certain distance apart usually share a certain part; a range
    with less than half of that is false. Random pairs of a long route share none, so that independent false ranges go
    and true ones stay. Two stretches that look alike share neighbours with each other: they stay too.

    Where points have too few neighbours to judge by, as in a tree, all ranges stay. If the points are in order, so that
    many have a range to a next one, a range between points far apart in order needs another beside it; and ranges
    between points near in order stay where the sequence would come apart without them, so that not even a bare chain
    is torn. Where nothing except false ranges joins two parts, they do come apart.
    """
    kept = np.ones(len(ranges), dtype=bool)
    lags = ranges.j - ranges.i
    ordered = (np.bincount(lags, minlength=1)[1 : NEAR + 1] > ORDERED * ranges.count).any()
    for _ in range(ROUNDS):
        some = ranges.where(kept)
        shared = common_neighbours(some)
        degrees = np.bincount(np.concatenate([some.i, some.j]), minlength=some.count)
        most = np.minimum(degrees[some.i], degrees[some.j]) - 1  # the ends are neighbours, but not shared ones
        good = shared >= LEAST_SHARE * most * _usual(some.metres, shared / np.maximum(most, 1)) - SLACK
        if ordered:
            good &= (shared > 0) | (lags[kept] <= NEAR) | _company(some)
        kept[kept] = good
        if (~good).sum() <= FEW * len(good):
            break
    if ordered and not kept.all():
        parts = ranges.where(kept).parts
        kept |= (lags <= NEAR) & (parts[ranges.i] != parts[ranges.j])
    return kept


def common_neighbours(ranges: Ranges) -> Ints:
    """How many points (edges,) have a range to both ends of each range: the entries of the adjacency's square."""
    ends = np.concatenate([ranges.i, ranges.j]), np.concatenate([ranges.j, ranges.i])
    near = csr_array((np.ones(2 * len(ranges), dtype=np.int32), ends), shape=(ranges.count, ranges.count))
    work = (near @ np.diff(near.indptr)).cumsum()
    cuts = np.searchsorted(work, np.arange(BLOCK, work[-1], BLOCK)).tolist()
    shared = np.zeros(len(ranges), dtype=np.int64)
    for low, high in zip([0, *cuts], [*cuts, ranges.count], strict=True):  # blocks of rows: the square is larger
        edges = slice(*np.searchsorted(ranges.i, [low, high]))  # they are sorted by i
        if edges.start < edges.stop:
            square = near[low:high] @ near
            shared[edges] = square[ranges.i[edges] - low, ranges.j[edges]]
    return shared


def _usual(metres: Floats, shares: Floats) -> Floats:
    """The median of the shares among ranges of about the same length."""
    if not len(metres):
        return shares
    groups = np.array_split(np.argsort(metres, kind="stable"), max(1, min(10, len(metres) // 50)))
    middles = [float(metres[group].mean()) for group in groups]
    usual: Floats = np.interp(metres, middles, [float(np.median(shares[group])) for group in groups])
    return usual


def _company(ranges: Ranges) -> Bools:
    """True (edges,) where there is another range between the images at or next to i and those at or next to j."""
    keys = ranges.i * ranges.count + ranges.j
    found = np.zeros(len(ranges), dtype=bool)
    for before in (-1, 0, 1):
        for behind in (-1, 0, 1):
            if before or behind:
                wanted = keys + before * ranges.count + behind
                found |= keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
    return found
