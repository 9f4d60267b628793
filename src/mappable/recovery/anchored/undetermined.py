"""Sentences about what ranges and known positions together do not determine."""

from collections.abc import Iterator, Sequence

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.anchored.folds import Fold
from mappable.recovery.anchored.sides import Side, by_gap
from mappable.recovery.hints import Anchors, Odometry

FLAT = 1e-6  # known positions lie on a line, or plane, if they deviate by less than this share of their extent
LIKELY = 0.05  # probability of the other side above which a sentence reports it
SCALE = "The scale of the map is as good as odometry and ranges."
LISTED = 8  # a sentence names at most this many points
LONG = 12.0  # times the longest range: on longer paths between known positions, short ranges do not decide the turns
TESTED = 10_000  # points up to which covariances were tested (studies/recovery, Sizes)
EXACT = 1e-3  # metres: a smaller sigma of a known position counts as this one
STRAINED = 5.0  # sigmas from a known position above which a sentence reports it
WINDING = 9.0  # the same for paths that wind gently; shorter than `LONG`
LONG_END = 2.0  # times the longest range: the same for paths beyond the last known position


def unplaced(held: Bools, gauge: int) -> Iterator[str]:
    """Report what a map without known positions does not determine; it begins at the point `gauge`."""
    yield (
        f"No position is known: point {gauge} is at the origin, its direction is the x axis, and covariances are"
        f" relative to it. {SCALE}"
    )
    if not held.all():
        yield f"{(~held).sum():,} of {len(held):,} points are not connected to point {gauge} and have no coordinates."


def spanned(anchors: Anchors, odometry: Odometry | None, held: Bools, *, led: bool = False) -> Iterator[str]:
    """Report if the known positions do not fix the orientation of the map, or do not connect to all points.

    If points are `led` by motions, these decide between a map and its mirror image.
    """
    directions = anchors.positions - anchors.positions.mean(0)
    if odometry is not None:  # odometry is along the axes of the map, so it fixes directions, too
        directions = np.concatenate([directions, odometry.metres])
    spread = np.linalg.svd(directions, compute_uv=False)
    dimensions = anchors.positions.shape[1]
    count = int((spread > FLAT * max(spread[0], 1e-12)).sum()) if spread[0] > 0 else 0
    if led and count < dimensions - 1:
        yield "The known positions do not determine the orientation of the map: give two or more that lie apart."
    elif not led and count < dimensions:
        where = {0: "in one point", 1: "on a line", 2: "in a plane"}[count]
        what = where.split()[-1]
        rotated = f", or rotated about this {what}." if count < dimensions - 1 else "."
        yield f"The known positions lie {where}: the map could as well be mirrored at this {what}{rotated}"
    if not held.all():
        yield (
            f"{(~held).sum():,} of {len(held):,} points are not connected to any known position and have no"
            " coordinates."
        )


def strained(anchors: Anchors, positions: Floats) -> Iterator[str]:
    """Report known positions that are far from the recovered `positions` (n, k)."""
    off = np.linalg.norm(positions[anchors.points] - anchors.positions, axis=1)
    sigmas = off / np.maximum(anchors.sigma, EXACT)
    far = np.flatnonzero(sigmas > STRAINED)
    if len(far):
        worst = np.argmax(sigmas)
        many = f"{len(far):,} known positions are" if len(far) > 1 else "A known position is"
        yield (
            f"{many} far from the map (point {anchors.points[worst]}: {off[worst]:.2g} m,"
            f" {sigmas[worst]:.0f} sigmas). Either these known positions are wrong, or the map is"
            " wrong there. The covariances do not cover this."
        )


def untested(count: int) -> Iterator[str]:
    """Report that covariances of a map of this size may be too small."""
    if count > TESTED:
        yield (
            f"Covariances of more than {TESTED:,} points rest on few samples, and were too small in a test with 20,000"
            " points: check them against known positions that you leave out."
        )


def undecided_sides(points: Ints, sides: Sequence[Side]) -> Iterator[str]:
    """Report gaps between known points whose path could run on either side.

    `points` has the user's numbers of the points that the sides refer to.
    """
    for ways in by_gap(list(sides)):
        odds = sum(one.odds for one in ways)
        if odds / (1 + odds) > LIKELY:
            begin, end = points[ways[0].points[[0, -1]]]
            how = "another way" if len(ways) == 1 else f"{len(ways)} other ways"
            yield (
                f"Between the known points {begin} and {end}, the path could run {how}: its turns could go to the other"
                " side. The covariances cover these ways."
            )


def doubted_ways(points: Ints, gaps: Sequence[Ints]) -> Iterator[str]:
    """Report paths between known points that drives rarely take; `points` has the user's numbers."""
    for gap in gaps:
        yield (
            f"Between the known points {points[gap[0]]} and {points[gap[-1]]}, the path is a gentle bow, or turns more"
            " than a drive usually does: its corners may be elsewhere. The covariances cover other guesses."
        )


def undecided_folds(points: Ints, folds: Sequence[Fold]) -> Iterator[str]:
    """Report points that could lie on the other side of their neighbors.

    `points` has the user's numbers of the points that the folds refer to.
    """
    likely = [fold.points for fold in folds if fold.excess < -np.log(LIKELY)]
    if likely:
        folded = points[np.unique(np.concatenate(likely))]
        listed = ", ".join(map(str, folded[:LISTED].tolist())) + (", …" if len(folded) > LISTED else "")
        yield (
            f"{len(folded):,} of {len(points):,} points could lie on the other side of their neighbors (point"
            f" {listed}). Their covariances cover both sides."
        )


def winding() -> Iterator[str]:
    """Report that a route winds."""
    yield (
        "The route winds gently instead of turning at corners: to which side it bends between known positions is a"
        " guess. The covariances cover other guesses."
    )


def long_ways(ways: Sequence[tuple[int | None, int | None, float]], *, covered: bool, weak: bool) -> Iterator[str]:
    """Report long paths with at least one known end, because short ranges do not decide their turns.

    A path is (begin, end, length in longest ranges); an end that is not known is None. Covariances of paths between
    two known ends may be `covered`: they hold for other guesses, too. With `weak` ranges, a gentle bend is not seen.
    """
    only = "Covariances are valid only if the guess is right."
    for begin, end, length in ways:
        if begin is not None and end is not None and length > LONG:
            yield (
                f"The path between the points {begin} and {end} is long: turns there are a guess."
                f" {'The covariances cover other guesses.' if covered else only}"
            )
        elif begin is not None and end is not None and length > WINDING and (weak or not covered):
            yield (
                f"The path between the points {begin} and {end} is rather long: if it winds gently instead of turning"
                " at corners, turns there are a guess, and the covariances do not cover it."
            )
        if (begin is None) != (end is None) and length > LONG_END:
            where = f"before the point {end}" if begin is None else f"after the point {begin}"
            yield f"The path {where} does not reach another known point: turns there are a guess. {only}"


def doubts(false: Bools, *, weak: bool, erratic: bool) -> Iterator[str]:
    """Report many `false` ranges, `weak` ranges and an `erratic` path."""
    if erratic:
        yield "The path is too erratic for a steady drive: positions rest on ranges, not on the order of the images."
    if false.sum() > 0.5 * len(false):
        yield (
            f"{false.sum():,} of {len(false):,} ranges were treated as false: either they are false, or sigma is far"
            " too small."
        )
    if weak and len(false):
        yield (
            "The ranges have errors of a third of their length or more: positions rest on the known positions and on a"
            " steady pace."
        )


def misfits(false: Bools, noise: float, *, doubtful: bool) -> Iterator[str]:
    """Report if ranges fit worse than their stated noise explains, which makes the map `doubtful`."""
    if doubtful:
        yield (
            f"{false.sum():,} of {len(false):,} ranges do not fit, and the noise of the others is {noise:.2f} times the"
            " stated noise. Either these ranges are worse than stated, or a part of the map is folded."
        )


def unseen(false: Bools, *, drawn: bool, folded: bool) -> Iterator[str]:
    """Report what covariances do not cover if positions were not `drawn`; `folded`: folds were searched for."""
    if not drawn and len(false):
        covered = " and the folds that were found: other folds are possible." if folded else " only, not folds."
        yield "Positions are the best fit. Covariances cover small deviations" + covered
