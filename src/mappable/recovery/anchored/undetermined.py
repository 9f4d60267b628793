"""What ranges and known positions together leave open, in sentences."""

from collections.abc import Iterator, Sequence

import numpy as np

from mappable.arrays import Bools, Ints
from mappable.recovery.anchored.folds import Fold
from mappable.recovery.anchored.sides import Side
from mappable.recovery.hints import Anchors, Odometry

FLAT = 1e-6  # known positions lie in a line, or plane, if they leave it by less than this share of their extent
LIKELY = 0.05  # chance of the other side that is worth saying
LISTED = 8  # points that a sentence names at most
LONG = 12.0  # times the longest range: way between known positions whose turns short ranges cannot decide
LONG_END = 2.0  # likewise: way beyond the last of them


def spanned(anchors: Anchors, odometry: Odometry | None, held: Bools) -> Iterator[str]:
    """Whether the known positions fix the directions of the map, and which points they do not hold."""
    ways = anchors.positions - anchors.positions.mean(0)
    if odometry is not None:  # it is in the directions of the map
        ways = np.concatenate([ways, odometry.metres])
    spread = np.linalg.svd(ways, compute_uv=False)
    dimensions = anchors.positions.shape[1]
    count = int((spread > FLAT * max(spread[0], 1e-12)).sum()) if spread[0] > 0 else 0
    if count < dimensions:
        where = {0: "one point", 1: "a line", 2: "a plane"}[count]
        turned = ", or turned about it." if count < dimensions - 1 else "."
        yield f"The known positions lie in {where}: the map could as well be mirrored at it{turned}"
    if not held.all():
        yield f"{(~held).sum():,} of {len(held):,} points are connected with no known one, and left out."


def undecided_sides(points: Ints, sides: Sequence[Side]) -> Iterator[str]:
    """Gaps between known points that could run on either side; `points` has the numbers of the sides' points."""
    for side in sides:
        if side.chance > LIKELY:
            yield (
                f"Between the known points {points[side.points[0]]} and {points[side.points[-1]]} the way could run on"
                " the other side of the line that joins them."
            )


def undecided_folds(points: Ints, folds: Sequence[Fold]) -> Iterator[str]:
    """Points that could lie on the other side of their neighbors; `points` has the numbers of the folds' points."""
    likely = [fold.points for fold in folds if fold.excess < -np.log(LIKELY)]
    if likely:
        some = points[np.unique(np.concatenate(likely))]
        listed = ", ".join(map(str, some[:LISTED].tolist())) + (", …" if len(some) > LISTED else "")
        yield (
            f"{len(some):,} of {len(points):,} points could lie on the other side of their neighbors (point {listed})."
            " Their covariances cover both sides."
        )


def long_ways(known: Ints, ways: Sequence[tuple[int, int, float]]) -> Iterator[str]:
    """Ways (begin, end, length in longest ranges), at least one end known, whose turns short ranges do not decide."""
    for begin, end, way in ways:
        ends = [point for point in (begin, end) if point in known]
        if len(ends) == 2 and way > LONG:
            yield (
                f"The way between the known points {begin} and {end} is long: turns there are a guess, and covariances"
                " hold if it is right."
            )
        if len(ends) == 1 and way > LONG_END:
            beyond = "before" if ends[0] == end else "behind"
            yield (
                f"The way {beyond} the known point {ends[0]} ends at no other: turns there are a guess, and covariances"
                " hold if it is right."
            )


def doubts(false: Bools, *, weak: bool, erratic: bool) -> Iterator[str]:
    """Sentences about `false` ranges, `weak` ranges and an `erratic` path."""
    if erratic:
        yield "The path is too erratic for a steady drive: positions rest on ranges, not on the order of the images."
    if false.sum() > 0.5 * len(false):
        yield f"{false.sum():,} of {len(false):,} ranges were treated as false: they are, or sigma is far too small."
    if weak and len(false):
        yield "The ranges are off by a third of their length or more: positions rest on the known ones and the pace."


def misfits(false: Bools, noise: float, *, doubtful: bool) -> Iterator[str]:
    """Whether ranges fit worse than their stated `noise` explains, so that the map is `doubtful`."""
    if doubtful:
        yield (
            f"{false.sum():,} of {len(false):,} ranges do not fit, and the noise of the others is {noise:.2f} times the"
            " stated one: these ranges are worse than stated, or a part of the map is folded."
        )


def unseen(false: Bools, *, drawn: bool, folded: bool) -> Iterator[str]:
    """What covariances do not cover if positions were not `drawn`; `folded` tells if folds were searched for."""
    if not drawn and len(false):
        covered = " and the folds that were found: another fold is possible." if folded else " only, not folds."
        yield "Positions are what fits best. Covariances cover small deviations" + covered
