"""Neighbors of places within a radius, such as the positives of training."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable.places.table import Places


@dataclass(frozen=True)
class Neighbors:
    """The neighbors of each query: `neighbors[i]` has the row numbers of the neighbors of query i,
    ascending.

    `rows` has the neighbors of all queries one after the other; those of query i are
    `rows[starts[i] : starts[i + 1]]`.
    """

    starts: Ints  # (queries + 1,)
    rows: Ints  # (pairs,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, query: int) -> Ints:
        query = range(len(self))[query]  # negative numbers count from the end
        return self.rows[self.starts[query] : self.starts[query + 1]]

    @property
    def counts(self) -> Ints:
        """The number of neighbors of each query."""
        return np.diff(self.starts)


def find_neighbors(places: Places, radius: float, *, max_yaw: float | None = None) -> Neighbors:
    """For each place, the rows of the other places in the same frame at most `radius` away, in the
    unit of the frame.

    With `max_yaw` (radians), the yaw must differ by less than that, measured around the circle. A
    place of unknown yaw then has no neighbors and is not a neighbor of any place.
    """
    if not 0 <= radius < np.inf:
        raise BadInputError(f"radius is {radius}, expected a finite number, 0 or more")
    if max_yaw is not None and not 0 < max_yaw <= np.pi:
        raise BadInputError(f"max_yaw is {max_yaw}, expected radians above 0 and at most pi")
    found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for name in sorted(set(places.frame)):
        here = np.flatnonzero(places.frame == name)
        tree = KDTree(places.positions[here])
        # The tree compares squared distances, which rounding can move across the radius.
        pairs = tree.sparse_distance_matrix(tree, radius * (1 + 1e-12), output_type="ndarray")
        pairs = pairs[pairs["v"] <= radius]
        found.append((here[pairs["i"]], here[pairs["j"]]))
    query, row = (np.concatenate(parts) for parts in zip(*found, strict=True))
    keep = query != row
    if max_yaw is not None:
        keep &= np.abs(wrap(places.yaw[row] - places.yaw[query])) < max_yaw
    query, row = query[keep], row[keep]
    order = np.lexsort((row, query))
    starts = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(places)))])
    return Neighbors(starts, row[order])
