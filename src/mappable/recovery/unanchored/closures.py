"""Find clusters of false ranges between stretches that only look alike.

Where a route truly comes back to a place, all points that are near each other there have ranges, as far as any have.
Two stretches that look alike have them only as far as the likeness goes: just beyond its end, points that a short path
along the ranges connects have none. How often they have, on longer paths in proportion to shorter ones, is compared
with how it is along the route itself; that a place is seen less well the second time does not count against it.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges

ORDERED = 0.25  # share of the points that have a range so many points ahead, to count as near in order
SHORT, LONG = 0.5, 0.9  # length of paths, of the longest ranges
LEAST = 0.55  # of what is usual, so many pairs on longer paths have a range
CLEAR = 0.8  # where longer paths lead to a range less often than this, of shorter ones, noise blurs all: ask for less
SEEN = 0.4  # share of the ranges, at least, that a second visit is expected to have
ENOUGH = 20  # pairs to judge by
WIDEST = 100  # points on a side of a cluster; larger ones are taken as true
FARTHEST = 20  # points ahead that there usually still is a range; those of denser routes are no keyframes
CUTS = 30  # places along the route that say what is usual


def closure_filter(ranges: Ranges) -> Bools:
    """True (edges,) for the ranges to keep: all but those between stretches that only look alike.

    It is for points in order, most of which have ranges to several of the next, up to twenty; of others all ranges are
    kept.
    """
    kept = np.ones(len(ranges), dtype=bool)
    reach = _reach(ranges)
    if not 1 < reach <= FARTHEST:
        return kept
    clusters = _clusters(ranges, reach)
    if clusters.max() < 0:
        return kept
    along = _Along(ranges, clusters < 0, reach, float(np.quantile(ranges.metres, 0.99)))
    usual = along.usual()
    order = np.argsort(clusters, kind="stable")
    for edges in np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1):
        if clusters[edges[0]] >= 0 and along.looks_alike(edges, usual):
            kept[edges] = False
    return kept


def _reach(ranges: Ranges) -> int:
    """How many points ahead there usually still is a range."""
    ahead = np.bincount(ranges.j - ranges.i, minlength=1)[1:]
    return int(np.argmin(np.append(ahead > ORDERED * ranges.count, False)))


def _clusters(ranges: Ranges, reach: int) -> Ints:
    """The number (edges,) of the cluster that a range belongs to, or -1 between points near in order.

    Ranges are in one cluster if both of their ends are about as near in order as `reach`: in the same cell of a grid,
    or in cells beside each other.
    """
    clusters = np.full(len(ranges), -1)
    far = np.flatnonzero(ranges.j - ranges.i > 2 * reach)
    width = ranges.count // reach + 3  # a cell beyond either end, so that no cell has one of another row beside it
    cells, cell_of = np.unique((ranges.i[far] // reach) * width + ranges.j[far] // reach, return_inverse=True)
    if len(cells):
        beside = np.add.outer([-width, 0, width], [-1, 0, 1]).ravel()
        wanted = np.add.outer(cells, beside)
        at = np.minimum(np.searchsorted(cells, wanted), len(cells) - 1)
        rows, columns = np.nonzero(cells[at] == wanted)
        links = csr_array((np.ones(len(rows)), (rows, at[rows, columns])), shape=(len(cells), len(cells)))
        clusters[far] = connected_components(links, directed=False)[1][cell_of]
    return clusters


class _Along:
    """Ranges near in order, and all of them, to look up blocks of."""

    def __init__(self, ranges: Ranges, near: Bools, reach: int, longest: float) -> None:
        self.ranges, self.reach, self.longest = ranges, reach, longest
        self.every, self.near = _matrix(ranges), _matrix(ranges.where(near))

    def usual(self) -> Ints:
        """What `_look` counts across some cuts of the route, where nothing is false."""
        window = 4 * self.reach
        last = self.ranges.count - window
        counts = np.zeros((2, 2), dtype=np.int64)
        for cut in np.linspace(window, last, CUTS if last >= window else 0).astype(np.int64).tolist():
            before, behind = slice(cut - window, cut), slice(cut, cut + window)
            counts += self._look(before, behind, self.near[before, behind].toarray(), 0)
        return counts

    def looks_alike(self, edges: Ints, usual: Ints) -> bool:
        """True if the ranges of a cluster end too abruptly for a place that the route comes back to."""
        i, j = self.ranges.i[edges], self.ranges.j[edges]
        one, two = self._around(i), self._around(j)
        if max(one.stop - one.start, two.stop - two.start) > WIDEST or not usual.all():
            return False
        links = np.zeros((one.stop - one.start, two.stop - two.start))
        links[i - one.start, j - two.start] = np.maximum(self.ranges.metres[edges], 1e-6)
        found = self._look(one, two, links, 2 * self.reach)
        usual_short, usual_longer = usual[1] / usual[0]
        short, longer = found[1] / np.maximum(found[0], 1) / (usual_short, usual_longer)
        least = LEAST * min(1.0, usual_longer / usual_short / CLEAR)
        return bool(found[0, 1] >= ENOUGH and longer < least * max(short, SEEN))

    def _around(self, points: Ints) -> slice:
        return slice(max(points.min() - self.reach, 0), min(points.max() + self.reach + 1, self.ranges.count))

    def _look(self, one: slice, two: slice, links: Floats, apart: int) -> Ints:
        """How many pairs of the two sides short and longer paths connect, and below that how many have a range.

        The paths lead over one of the `links` (one, two) between the sides, but not the pair's own. Pairs no more than
        `apart` in order do not count.
        """
        paths = [dijkstra(self.near[side, side], limit=self.longest) for side in (one, two)]
        detours = [path + np.diag(np.full(len(path), np.inf)) for path in paths]
        links = np.where(links > 0, links, np.inf)
        over_others = _shortest_sums(detours[0], _shortest_sums(links, paths[1]))
        lengths = np.minimum(over_others, _shortest_sums(links, detours[1])) / self.longest
        in_order = np.subtract.outer(np.arange(one.start, one.stop), np.arange(two.start, two.stop))
        lengths[np.abs(in_order) <= apart] = np.inf
        kinds = lengths < SHORT, (lengths >= SHORT) & (lengths < LONG)
        seen = self.every[one, two].toarray() > 0
        return np.array([[kind.sum() for kind in kinds], [(kind & seen).sum() for kind in kinds]])


def _shortest_sums(one: Floats, two: Floats) -> Floats:
    """The product of matrices with sums for products and the least for the sum."""
    least = np.full((len(one), two.shape[1]), np.inf)
    for column, row in zip(one.T, two, strict=True):
        np.minimum(least, np.add.outer(column, row), out=least)
    return least


def _matrix(ranges: Ranges) -> csr_array:
    """The metres as a symmetric matrix; those of 0 are a little more, to be there at all."""
    metres = np.maximum(ranges.metres, 1e-6)
    ends = np.concatenate([ranges.i, ranges.j]), np.concatenate([ranges.j, ranges.i])
    return csr_array((np.concatenate([metres, metres]), ends), shape=(ranges.count, ranges.count))
