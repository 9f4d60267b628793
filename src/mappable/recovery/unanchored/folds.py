"""Unfold a map: try other starts, mirror the rest of the sequence at narrow places, and keep the best fit.

A folded map fits most ranges as well as the true map, and only ranges across the fold a little worse. It is a local
minimum, so descent does not leave it. A map that fits nearly as well as the best one is also returned, because the
ranges do not decide between the two.
"""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.grow import grow
from mappable.recovery.unanchored.normal import directions
from mappable.recovery.unanchored.polish import polish

SEARCHED, SEARCHED_RANGES = 600, 50_000  # points and ranges at most: about 1 CPU second
PRECISE = 0.025  # relative deviation of a range above which a map is not grown (0.0125 in studies/recovery/erratic.py)
TRUSTED = 0.05  # of the longest range: a start that polishing moves by less is not folded
MIRRORED = 4  # places tried per round; with 8, studies/recovery/erratic.py has 1 map of 120 less over 0.5 m
ROUNDS = 3
SUSPECT = 1.05  # a map may be folded if its mean squared residual, in spreads, is above; 1.1: 2 more maps over 0.5 m
STEPS, ROUGHLY = 25, 3e-4  # steps and tolerance of a polish that is good enough to compare maps
OTHER = 0.005  # a map is fitted again if the number of ranges that fit it changes by more than this share
LEAST_SPREAD = 0.25  # sigmas
APART = 4  # least distance in order between tried cuts; nearer cuts lead to the same map
HOPELESS = 1000.0  # increase of the sum of squared residuals, in sigmas, above which polishing does not help
FREE = 3  # points on a side of a cut that have no range across it, at least
AS_GOOD = 25.0  # increase of the sum of squared residuals, in sigmas, up to which a map fits as well
FALSE = 16.0  # squared residual, in sigmas, above which a range is false; larger residuals count as this


@dataclass(frozen=True)
class Unfolded:
    """The map that fits best, and another map that the ranges do not exclude."""

    points: Floats  # (n, k)
    other: Floats | None = None  # (n, k)
    behind: int = -1  # the other map mirrors all points after this one; -1 if it was found in another way


@dataclass(frozen=True)
class Cut:
    """A place in the sequence after which the rest can be mirrored."""

    behind: int
    center: Floats  # (k,)
    normal: Floats  # (k,)
    before: float  # sum of squared residuals, in sigmas, of the ranges across the cut
    after: float  # the same sum if the rest is mirrored

    def mirrored(self, points: Floats) -> Floats:
        moved = points.copy()
        moved[self.behind + 1 :] -= 2 * ((moved[self.behind + 1 :] - self.center) @ self.normal)[:, None] * self.normal
        return moved


def unfold(ranges: Ranges, kept: Bools, start: Floats) -> Unfolded:
    """Find the best of several polished maps of a connected part.

    A map is fitted to the ranges `kept` (edges,), then to all ranges that fit it. Maps are compared by all ranges, with
    squared residuals limited to `FALSE`. The unit of residuals is the smallest noise level of all maps.
    """
    true = ranges.where(kept)
    maps = [_fitted(ranges, true, start)]
    moved = aligned_score(start, maps[0].points, scale=False).rmse > TRUSTED * float(ranges.metres.max())
    middle = int(np.argmax(np.bincount(np.concatenate([true.i, true.j]))))
    for some, first in ((true, middle), (ranges, 0), (ranges, ranges.count - 1)):
        if not is_precise(true) or not (moved or _suspect(maps)):
            break
        maps.append(_fitted(ranges, some, grow(some, start.shape[1], first)))
        moved = False
        if some is true and not kept.all():  # ranges that a filter removed may be those that join two halves
            maps += [_fitted(ranges, ranges, one.points) for one in maps]
    for _ in range(ROUNDS):
        best, tried = maps[int(np.argmin(_misfits(maps)))], len(maps)
        for cut in _worth_trying(best.ranges, best.points):
            maps.append(_fitted(ranges, best.ranges, cut.mirrored(best.points), cut.behind))
        if np.argmin(_misfits(maps)) < tried:
            break
    misfits = _misfits(maps)
    best = maps[int(np.argmin(misfits))]
    others = [one for one, value in zip(maps, misfits, strict=True) if value < misfits.min() + AS_GOOD]
    other = max(others, key=lambda one: aligned_score(one.points, best.points, scale=False).rmse)
    return Unfolded(best.points, None if other is best else other.points, other.behind)


@dataclass(frozen=True)
class _Map:
    points: Floats
    ranges: Ranges  # ranges that fit the map
    residuals: Floats  # (edges,) of all ranges, in sigmas
    behind: int


def _fitted(ranges: Ranges, true: Ranges, start: Floats, behind: int = -1) -> _Map:
    points = polish(true, start, steps=STEPS, tolerance=ROUGHLY).points
    residuals = directions(ranges, points)[1]
    near = np.square(residuals) < FALSE * max(spread(residuals), LEAST_SPREAD) ** 2
    if abs(near.sum() - len(true)) > OTHER * len(true):
        true = ranges.where(near)
        points = polish(true, points, steps=STEPS, tolerance=ROUGHLY).points
        residuals = directions(ranges, points)[1]
    return _Map(points, true, residuals, behind)


def can_search(ranges: Ranges) -> bool:
    """Return True if there are few enough points and ranges to search for folds."""
    return ranges.count <= SEARCHED and len(ranges) <= SEARCHED_RANGES


def is_precise(ranges: Ranges) -> bool:
    """Return True if ranges are good enough to place one point after the other by them."""
    return float(np.median(ranges.sigma / np.maximum(ranges.metres, 1e-9))) < PRECISE


def _suspect(maps: list[_Map]) -> bool:
    """Return True if the best map fits worse than noise explains."""
    return bool(_misfits(maps).min() > SUSPECT * len(maps[0].residuals))


def _misfits(maps: list[_Map]) -> Floats:
    """Return the sum of squared residuals of each map, in units of the noise."""
    noise = max(min(spread(one.residuals) for one in maps), LEAST_SPREAD)
    return np.array([np.minimum(np.square(one.residuals / noise), FALSE).sum() for one in maps])


def spread(residuals: Floats) -> float:
    """Return a robust standard deviation: of normal residuals, without the effect of outliers."""
    return 1.4826 * float(np.median(np.abs(residuals)))


def _worth_trying(ranges: Ranges, points: Floats) -> list[Cut]:
    """Return the few cuts at which mirroring costs least, none near another."""
    behind = places(ranges, points, both=False)
    behind = behind[(behind >= FREE) & (behind < ranges.count - FREE)]  # mirroring one or two points is no fold
    cuts = [cut_behind(ranges, points, place) for place in behind[::2].tolist()]  # adjacent cuts are much alike
    chosen: list[Cut] = []
    for cut in sorted(cuts, key=lambda one: one.after - one.before):
        if all(abs(cut.behind - other.behind) > APART for other in chosen):
            chosen.append(cut)
        if len(chosen) == MIRRORED or cut.after - cut.before > HOPELESS:
            break
    return chosen


def places(ranges: Ranges, positions: Floats, *, both: bool) -> Ints:
    """Find the points after which a cut has all ranges across it in one place, no wider than the longest range.

    At least `FREE` points on one side, or on `both`, must have no range across the cut.
    """
    middles = (positions[ranges.i] + positions[ranges.j]) / 2 - positions.mean(0)
    columns = np.column_stack([np.ones(len(ranges)), middles, np.square(middles).sum(1)])
    across = np.stack(
        [
            (np.bincount(ranges.i, column, ranges.count) - np.bincount(ranges.j, column, ranges.count)).cumsum()
            for column in columns.T
        ],
        1,
    )[:-1]
    number = np.maximum(across[:, 0], 1.0)
    squared_spread = across[:, -1] / number - np.square(across[:, 1:-1] / number[:, None]).sum(1)
    in_one_place = (across[:, 0] > 0.5) & (squared_spread <= np.square(ranges.metres.max(initial=0.0)))
    first, last = np.arange(ranges.count), np.arange(ranges.count)
    np.minimum.at(first, ranges.j, ranges.i)
    np.maximum.at(last, ranges.i, ranges.j)
    before = np.bincount(last, minlength=ranges.count).cumsum()[:-1]  # number of points without a range across the cut
    behind = np.bincount(first, minlength=ranges.count)[::-1].cumsum()[::-1][1:]
    return np.flatnonzero(in_one_place & ((np.minimum if both else np.maximum)(before, behind) >= FREE))


def cut_behind(ranges: Ranges, positions: Floats, behind: int) -> Cut:
    """Mirror all points after `behind`, and measure how well the ranges across the cut then fit.

    The mirror is a line, or a plane in 3-D. It runs through the points with ranges across the cut: those before it,
    those after it, or both, whichever fits best. Two points at distance d that lie h1 and h2 beside the mirror are
    √(d² + 4 h1 h2) apart afterwards.
    """
    across = (ranges.i <= behind) & (ranges.j > behind)
    i, j, metres, sigma = ranges.i[across], ranges.j[across], ranges.metres[across], ranges.sigma[across]
    one, two = positions[i], positions[j]
    squared = np.square(one - two).sum(1)
    before = float(np.square((np.sqrt(squared) - metres) / sigma).sum())
    cuts = []
    for place in (np.concatenate([one, two]), one, two):
        center = place.mean(0)
        normal = np.linalg.eigh((place - center).T @ (place - center))[1][:, 0]  # direction of the smallest extent
        mirrored = np.sqrt(np.maximum(squared + 4 * ((one - center) @ normal) * ((two - center) @ normal), 0.0))
        cuts.append(Cut(behind, center, normal, before, float(np.square((mirrored - metres) / sigma).sum())))
    return min(cuts, key=lambda cut: cut.after)
