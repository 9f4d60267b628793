"""Unfold a map: try starts of another kind and mirror what follows a narrow place; keep what fits best.

A folded map fits most ranges as well as the true one, and only those across the fold a little worse. No descent leaves
it. What fits nearly as well as the best is kept in mind: the ranges do not decide between the two.
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
PRECISE = 0.025  # deviation of a range, of its length: with more, a map is not grown (0.0125 in benchmarks/erratic.py)
TRUSTED = 0.05  # of the longest range: a start as near as that to its polished map is not folded
MIRRORED, ROUNDS = (
    4,
    3,
)  # places tried per round; with 8, benchmarks/erratic.py has 1 map of 120 less over 0.5 m
SUSPECT = 1.05  # mean squared residual, in spreads, of a map that may be folded; 1.1: 2 maps more over 0.5 m there
STEPS, ROUGHLY = 25, 3e-4  # of a polish, and its tolerance: enough to compare maps
OTHER = 0.005  # of the ranges: if more or fewer fit a map by this share, it is fitted again
LEAST_SPREAD = 0.25  # sigmas
APART = 4  # places in order, between cuts that are tried; nearer ones lead to the same map
HOPELESS = 1000.0  # rise of the sum of squared residuals, in sigmas, that no polish makes good
FREE = 3  # points on a side of a cut that no range leads across it from
AS_GOOD = 25.0  # rise of the sum of squared residuals, in sigmas, that still counts as no worse
FALSE = 16.0  # squared residual of a false range, in sigmas; those farther off count no more than this


@dataclass(frozen=True)
class Unfolded:
    """The points that fit best, and another map that the ranges do not exclude."""

    points: Floats  # (n, k)
    other: Floats | None = None  # (n, k)
    behind: int = -1  # the point behind which the other map is mirrored, if it came about so


@dataclass(frozen=True)
class Cut:
    """A place in the sequence behind which all that follows can be mirrored."""

    behind: int
    centre: Floats  # (k,)
    normal: Floats  # (k,)
    before: float  # sum of squared residuals, in sigmas, of the ranges across it
    after: float  # the same if all that follows is mirrored

    def mirrored(self, points: Floats) -> Floats:
        moved = points.copy()
        moved[self.behind + 1 :] -= 2 * ((moved[self.behind + 1 :] - self.centre) @ self.normal)[:, None] * self.normal
        return moved


def unfold(ranges: Ranges, kept: Bools, start: Floats) -> Unfolded:
    """The best of several polished maps of a connected part.

    A map is fitted to the ranges `kept` (edges,), then to all that fit it. Maps are compared by all ranges; those
    farther off than `FALSE` count no more than that. The noise is that of the map that fits most ranges best.
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
        if some is true and not kept.all():  # what a filter threw out may be what holds two halves together
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
    ranges: Ranges  # that fit
    residuals: Floats  # of all ranges, in sigmas
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
    """True if there are few enough points and ranges to search for folds."""
    return ranges.count <= SEARCHED and len(ranges) <= SEARCHED_RANGES


def is_precise(ranges: Ranges) -> bool:
    """True if ranges are good enough to place one point after the other by them."""
    return float(np.median(ranges.sigma / np.maximum(ranges.metres, 1e-9))) < PRECISE


def _suspect(maps: list[_Map]) -> bool:
    """True if the best map has more misfit than noise leaves."""
    return bool(_misfits(maps).min() > SUSPECT * len(maps[0].residuals))


def _misfits(maps: list[_Map]) -> Floats:
    """The sum of squared residuals of each map, in units of the noise."""
    noise = max(min(spread(one.residuals) for one in maps), LEAST_SPREAD)
    return np.array([np.minimum(np.square(one.residuals / noise), FALSE).sum() for one in maps])


def spread(residuals: Floats) -> float:
    """The standard deviation of what is normal about them."""
    return 1.4826 * float(np.median(np.abs(residuals)))


def _worth_trying(ranges: Ranges, points: Floats) -> list[Cut]:
    """The few cuts where mirroring costs least, none beside another."""
    behind = places(ranges, points, both=False)
    behind = behind[(behind >= FREE) & (behind < ranges.count - FREE)]  # what is mirrored is not a point or two
    cuts = [cut_behind(ranges, points, place) for place in behind[::2].tolist()]  # those beside them are much alike
    chosen: list[Cut] = []
    for cut in sorted(cuts, key=lambda one: one.after - one.before):
        if all(abs(cut.behind - other.behind) > APART for other in chosen):
            chosen.append(cut)
        if len(chosen) == MIRRORED or cut.after - cut.before > HOPELESS:
            break
    return chosen


def places(ranges: Ranges, positions: Floats, *, both: bool) -> Ints:
    """The points behind which a cut leaves all ranges across it within the longest range of each other.

    Left out are those where hardly a point of a side, or of `both`, has no range across.
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
    before = np.bincount(last, minlength=ranges.count).cumsum()[:-1]  # that have no range to a point behind the cut
    behind = np.bincount(first, minlength=ranges.count)[::-1].cumsum()[::-1][1:]
    return np.flatnonzero(in_one_place & ((np.minimum if both else np.maximum)(before, behind) >= FREE))


def cut_behind(ranges: Ranges, positions: Floats, behind: int) -> Cut:
    """What mirroring all points behind that one does to the ranges across the cut.

    They are mirrored at the line (in three dimensions the plane) that runs through the points before the cut, behind
    it, or both, that have ranges across it, whichever fits best: a point h1 beside the line and one h2 beside it
    were d apart and are √(d² + 4 h1 h2) then.
    """
    across = (ranges.i <= behind) & (ranges.j > behind)
    i, j, metres, sigma = ranges.i[across], ranges.j[across], ranges.metres[across], ranges.sigma[across]
    one, two = positions[i], positions[j]
    squared = np.square(one - two).sum(1)
    before = float(np.square((np.sqrt(squared) - metres) / sigma).sum())
    cuts = []
    for place in (np.concatenate([one, two]), one, two):
        centre = place.mean(0)
        normal = np.linalg.eigh((place - centre).T @ (place - centre))[1][:, 0]  # across which the place is thinnest
        mirrored = np.sqrt(np.maximum(squared + 4 * ((one - centre) @ normal) * ((two - centre) @ normal), 0.0))
        cuts.append(Cut(behind, centre, normal, before, float(np.square((mirrored - metres) / sigma).sum())))
    return min(cuts, key=lambda cut: cut.after)
