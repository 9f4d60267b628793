"""Which places are near each other and which are far: positives and negatives."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable.places.table import Places


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of each query: `neighbours[i]` are the row numbers of those of query i, ascending.

    All of them lie one after the other in `rows`, and how far each is, in the frame's unit, in `distances`; those of
    query i from `starts[i]` to `starts[i + 1]`.
    """

    starts: Ints  # (queries + 1,)
    rows: Ints  # (pairs,)
    distances: Floats  # (pairs,), not squared

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, query: int) -> Ints:
        query = range(len(self))[query]  # negative numbers count from the end
        return self.rows[self.starts[query] : self.starts[query + 1]]

    @property
    def counts(self) -> Ints:
        """How many neighbours each query has."""
        return np.diff(self.starts)


def find_neighbours(
    places: Places, radius: float, *, of: Places | None = None, max_yaw: float | None = None
) -> Neighbours:
    """For each place of `of`, the rows of `places` in the same frame at most `radius` away (in the frame's unit).

    Without `of`, the places' own neighbours, each without itself. With `max_yaw` (radians), only those whose yaw
    differs by less, measured round the circle; a place of unknown yaw then has no neighbours and is nobody's.
    """
    queries = places if of is None else of
    _check(queries, places, radius, max_yaw)
    found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))]
    for name in sorted(queries.frames.keys() & places.frames.keys()):
        here, there = np.flatnonzero(queries.frame == name), np.flatnonzero(places.frame == name)
        if len(here) and len(there):
            trees = KDTree(queries.positions[here]), KDTree(places.positions[there])
            # The tree compares squares, which may round the other way at exactly the radius.
            pairs = trees[0].sparse_distance_matrix(trees[1], radius * (1 + 1e-12), output_type="ndarray")
            pairs = pairs[pairs["v"] <= radius]
            found.append((here[pairs["i"]], there[pairs["j"]], pairs["v"]))
    query, row, distance = (np.concatenate(parts) for parts in zip(*found, strict=True))
    keep = query != row if of is None else np.ones(len(query), dtype=bool)
    if max_yaw is not None:
        keep &= np.abs(wrap(places.yaw[row] - queries.yaw[query])) < max_yaw
    query, row, distance = query[keep], row[keep], distance[keep]
    order = np.lexsort((row, query))
    starts = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(queries)))])
    return Neighbours(starts, row[order], distance[order])


def _check(queries: Places, places: Places, radius: float, max_yaw: float | None) -> None:
    if queries.dimensions != places.dimensions:
        raise BadInputError(f"places of {queries.dimensions} and of {places.dimensions} dimensions cannot be compared")
    if not 0 <= radius < np.inf:
        raise BadInputError(f"radius {radius} is not a distance")
    if max_yaw is not None and not 0 < max_yaw <= np.pi:
        raise BadInputError(f"max_yaw {max_yaw} is not an angle between 0 and pi radians")
    for name in set(queries.frame) & set(places.frame):
        if queries.frames[name] != places.frames[name]:
            raise BadInputError(
                f"frame {name!r} of the two tables differs, so they cannot be compared; see mappable.places.in_frames"
            )
