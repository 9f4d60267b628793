"""Which places are near each other and which are far: positives and negatives."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable.places.table import Places


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of each query: `neighbours[i]` are the row numbers of those of query i, ascending.

    All of them lie one after the other in `rows`; those of query i from `starts[i]` to `starts[i + 1]`.
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
        """How many neighbours each query has."""
        return np.diff(self.starts)


def find_neighbours(places: Places, radius: float, *, max_yaw: float | None = None) -> Neighbours:
    """For each place, the rows of the others in the same frame at most `radius` away (in the frame's unit).

    With `max_yaw` (radians), only those whose yaw differs by less, measured round the circle; a place of unknown yaw
    then has no neighbours and is nobody's.
    """
    if not 0 <= radius < np.inf:
        raise BadInputError(f"radius {radius} is not a distance")
    if max_yaw is not None and not 0 < max_yaw <= np.pi:
        raise BadInputError(f"max_yaw {max_yaw} is not an angle between 0 and pi radians")
    found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for name in sorted(set(places.frame)):
        here = np.flatnonzero(places.frame == name)
        tree = KDTree(places.positions[here])
        # The tree compares squares, which may round the other way at exactly the radius.
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
    return Neighbours(starts, row[order])
