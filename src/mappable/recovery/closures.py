"""Find clusters of false ranges between stretches that only look alike.

If a route truly revisits a place, all points that are near each other there have ranges, up to the
usual reach. Two stretches that only look alike have ranges only where they look alike. Just beyond,
short paths along the ranges connect points that have no range between them.

So the test counts how many pairs with a longer path have a range, relative to pairs with a shorter
path. It compares this ratio with the ratio along the route itself. A second visit with fewer ranges
overall still passes the test.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges

# A lag in order is within reach if this share of the points has a range to the point at that lag.
ORDERED = 0.25
SHORT, LONG = 0.5, 0.9  # lengths of shorter and longer paths, in longest ranges
# A true revisit has at least this share of the usual ratio of longer to shorter paths with ranges.
LEAST_RATIO = 0.55
SEEN = 0.4  # share of the usual ranges that a second visit is expected to have, at least
ENOUGH = 20  # pairs on longer paths that the test needs
WIDEST = 100  # points on a side of a cluster; larger clusters count as true
# Largest reach in points; routes with a larger one are denser than keyframes, and are not tested.
FARTHEST = 20
CUTS = 30  # places along the route where the usual ratio is measured


def closure_filter(ranges: Ranges) -> Bools:
    """Return True (edges,) for the ranges to keep: all except those between stretches that only
    look alike.

    Points must be in order, and most of them must have ranges to several of the next points, at
    most twenty. Otherwise all ranges are kept.
    """
    kept = np.ones(len(ranges), dtype=bool)
    reach = _reach(ranges)
    if not 1 < reach <= FARTHEST:
        return kept
    clusters = _clusters(ranges, reach)
    if clusters.max() < 0:
        return kept
    route = _Route(ranges, clusters < 0, reach, float(np.quantile(ranges.metres, 0.99)))
    usual = route.usual()
    order = np.argsort(clusters, kind="stable")
    for edges in np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1):
        if clusters[edges[0]] >= 0 and route.looks_alike(edges, usual):
            kept[edges] = False
    return kept


def _reach(ranges: Ranges) -> int:
    """Return how many points ahead ranges usually reach."""
    ahead = np.bincount(ranges.j - ranges.i, minlength=1)[1:]
    return int(np.argmin(np.append(ahead > ORDERED * ranges.count, False)))


def _clusters(ranges: Ranges, reach: int) -> Ints:
    """Return the number (edges,) of the cluster of each range, or -1 for ranges between points near
    in order.

    Ranges are in one cluster if both their ends are within about `reach` in order. That means the
    same cell of a grid, or adjacent cells.
    """
    clusters = np.full(len(ranges), -1)
    far = np.flatnonzero(ranges.j - ranges.i > 2 * reach)
    # An empty cell at either end, so that cells of different rows are not adjacent.
    width = ranges.count // reach + 3
    cells, cell_of = np.unique(
        (ranges.i[far] // reach) * width + ranges.j[far] // reach, return_inverse=True
    )
    if len(cells):
        beside = np.add.outer([-width, 0, width], [-1, 0, 1]).ravel()
        wanted = np.add.outer(cells, beside)
        at = np.minimum(np.searchsorted(cells, wanted), len(cells) - 1)
        rows, columns = np.nonzero(cells[at] == wanted)
        links = csr_array(
            (np.ones(len(rows)), (rows, at[rows, columns])), shape=(len(cells), len(cells))
        )
        clusters[far] = connected_components(links, directed=False)[1][cell_of]
    return clusters


class _Route:
    """All ranges, and those near in order, as matrices."""

    def __init__(self, ranges: Ranges, near: Bools, reach: int, longest: float) -> None:
        self.ranges, self.reach, self.longest = ranges, reach, longest
        self.every, self.near = _matrix(ranges), _matrix(ranges.where(near))

    def usual(self) -> Ints:
        """Sum the counts of `_look` over some cuts of the route, where no range is false."""
        window = 4 * self.reach
        last = self.ranges.count - window
        counts = np.zeros((2, 2), dtype=np.int64)
        for cut in (
            np.linspace(window, last, CUTS if last >= window else 0).astype(np.int64).tolist()
        ):
            before, behind = slice(cut - window, cut), slice(cut, cut + window)
            counts += self._look(before, behind, self.near[before, behind].toarray(), 0)
        return counts

    def looks_alike(self, edges: Ints, usual: Ints) -> bool:
        """Return True if the ranges of a cluster end too abruptly for a place that the route
        revisits.
        """
        i, j = self.ranges.i[edges], self.ranges.j[edges]
        one, two = self._around(i), self._around(j)
        if max(one.stop - one.start, two.stop - two.start) > WIDEST or not usual.all():
            return False
        links = np.zeros((one.stop - one.start, two.stop - two.start))
        links[i - one.start, j - two.start] = np.maximum(self.ranges.metres[edges], 1e-6)
        found = self._look(one, two, links, 2 * self.reach)
        usual_short, usual_longer = usual[1] / usual[0]
        short, longer = found[1] / np.maximum(found[0], 1) / (usual_short, usual_longer)
        return bool(found[0, 1] >= ENOUGH and longer < LEAST_RATIO * max(short, SEEN))

    def _around(self, points: Ints) -> slice:
        return slice(
            max(points.min() - self.reach, 0), min(points.max() + self.reach + 1, self.ranges.count)
        )

    def _look(self, one: slice, two: slice, links: Floats, apart: int) -> Ints:
        """Count the pairs of two sides that short and longer paths connect; the second row counts
        those with a range.

        Paths use one of the `links` (one, two) between the sides, but not the link of the pair
        itself. Pairs at most `apart` in order do not count.
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
    """Return the min-plus product of two matrices."""
    least = np.full((len(one), two.shape[1]), np.inf)
    for column, row in zip(one.T, two, strict=True):
        np.minimum(least, np.add.outer(column, row), out=least)
    return least


def _matrix(ranges: Ranges) -> csr_array:
    """Return the metres as a symmetric sparse matrix; 0 becomes a small number, because a sparse
    matrix drops zeros.
    """
    return Ranges(
        ranges.count, ranges.i, ranges.j, np.maximum(ranges.metres, 1e-6), ranges.sigma
    ).graph
