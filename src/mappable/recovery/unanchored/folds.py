"""Unfold a map: try starts of another kind and mirror what follows a narrow place; keep what fits best.

A folded map fits most ranges as well as the true one, and only those across the fold a little worse. No descent leaves
it. What fits nearly as well as the best is kept in mind: the ranges do not decide between the two.
"""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.grow import grow
from mappable.recovery.unanchored.normal import directions
from mappable.recovery.unanchored.polish import polish

SEARCHED = 600  # points at most; growing takes 0.2 ms per point
TRUSTED = 0.05  # of the longest range: a start as near as that to its polished map is not folded
MIRRORED, ROUNDS = 4, 3  # places that are tried per round; benchmarks/erratic.py: 8 unfold no more
STEPS, ROUGHLY = 25, 1e-4  # of the polish of a mirrored map, and its tolerance
APART = 2  # places in order, between cuts that are tried
FREE = 3  # points on each side of a cut that no range leads across it from
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


def unfold(judging: Ranges, kept: Ranges, start: Floats, noise: float) -> Unfolded:
    """The best of several polished maps of a connected part, with the noise in sigmas.

    Maps are fitted to the ranges `kept`, and compared by all, `judging`; false ones count no more than `FALSE`.
    """

    def misfit(points: Floats) -> float:
        squared = np.square(directions(judging, points)[1] / noise)
        return float(np.minimum(squared, FALSE).sum())

    best = polish(kept, start).points
    maps = [(misfit(best), best, -1)]
    far = TRUSTED * float(kept.metres.max())
    if len(start) <= SEARCHED and aligned_score(start, best, scale=False).rmse > far:
        grown = polish(kept, grow(kept, start.shape[1])).points
        maps.append((misfit(grown), grown, -1))
    for _ in range(ROUNDS if len(start) <= SEARCHED else 0):
        least, best, _ = min(maps, key=lambda one: one[0])
        for cut in _worth_trying(kept, best):
            points = polish(kept, cut.mirrored(best), steps=STEPS, tolerance=ROUGHLY).points
            maps.append((misfit(points), points, cut.behind))
        if min(maps, key=lambda one: one[0])[0] > least - 1:
            break
    least, best, _ = min(maps, key=lambda one: one[0])
    others = [
        (aligned_score(points, best, scale=False).rmse, points, behind)
        for value, points, behind in maps
        if points is not best and value < least + AS_GOOD
    ]
    if not others:
        return Unfolded(best)
    _, other, behind = max(others, key=lambda one: one[0])
    return Unfolded(best, other, behind)


def _worth_trying(ranges: Ranges, points: Floats) -> list[Cut]:
    """The few cuts where mirroring costs least, none beside another."""
    cuts = [cut for place in places(ranges, points).tolist() if (cut := cut_behind(ranges, points, place)) is not None]
    chosen: list[Cut] = []
    for cut in sorted(cuts, key=lambda one: one.after - one.before):
        if all(abs(cut.behind - other.behind) > APART for other in chosen):
            chosen.append(cut)
        if len(chosen) == MIRRORED:
            break
    return chosen


def places(ranges: Ranges, positions: Floats) -> Ints:
    """The points behind which a cut leaves all ranges across it within the longest range of each other."""
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
    return np.flatnonzero((across[:, 0] > 0.5) & (squared_spread <= np.square(ranges.metres.max(initial=0.0))))


def cut_behind(ranges: Ranges, positions: Floats, behind: int) -> Cut | None:
    """What mirroring all points behind that one does to the ranges; None where hardly a point is free to move.

    They are mirrored at the line (in three dimensions the plane) that runs through the place where the ranges cross: a
    point h1 beside the line and one h2 beside it were d apart and are √(d² + 4 h1 h2) then.
    """
    across = (ranges.i <= behind) & (ranges.j > behind)
    i, j, metres, sigma = ranges.i[across], ranges.j[across], ranges.metres[across], ranges.sigma[across]
    free = behind + 1 - len(np.unique(i)), ranges.count - behind - 1 - len(np.unique(j))
    if min(free) < FREE:
        return None
    one, two = positions[i], positions[j]
    centre = (one.mean(0) + two.mean(0)) / 2
    place = np.concatenate([one, two]) - centre
    normal = np.linalg.eigh(place.T @ place)[1][:, 0]  # across which the place is thinnest
    squared = np.square(one - two).sum(1)
    mirrored = np.sqrt(np.maximum(squared + 4 * ((one - centre) @ normal) * ((two - centre) @ normal), 0.0))
    misfits = [float(np.square((lengths - metres) / sigma).sum()) for lengths in (np.sqrt(squared), mirrored)]
    return Cut(behind, centre, normal, *misfits)
