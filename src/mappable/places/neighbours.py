"""Which places are near each other, and which are far: the positives and negatives of the paper's section IV."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable.places.table import Places


@dataclass(frozen=True)
class Neighbours:
    """Row numbers of the neighbours of each query, ascending: those of query i are `neighbours[i]`."""

    starts: Ints  # (queries + 1,)
    rows: Ints  # (pairs,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, query: int) -> Ints:
        query = range(len(self))[query]  # negative numbers count from the end
        return self.rows[self.starts[query] : self.starts[query + 1]]

    @property
    def counts(self) -> Ints:
        return np.diff(self.starts)


def neighbours(places: Places, radius: float, *, of: Places | None = None, max_yaw: float | None = None) -> Neighbours:
    """For each place of `of`, the rows of `places` in the same frame at most `radius` away (in the frame's unit).

    Without `of`, the places' own neighbours, each without itself. With `max_yaw` (radians), only those whose yaw
    differs by less, measured round the circle; a place of unknown yaw then has no neighbours and is nobody's.
    """
    queries = places if of is None else of
    if queries.dimensions != places.dimensions:
        raise BadInputError(f"places of {queries.dimensions} and of {places.dimensions} dimensions cannot be compared")
    if not radius >= 0:  # the tree would square a negative one
        raise BadInputError(f"radius {radius} is not a distance")
    from_positions, to_positions = queries.positions, places.positions
    found = [np.empty(0, dtype=np.int64)] * len(queries)
    for name in queries.frames.keys() & places.frames.keys():
        here, there = np.flatnonzero(queries.frame == name), np.flatnonzero(places.frame == name)
        if len(here) == 0 or len(there) == 0:
            continue
        if queries.frames[name] != places.frames[name]:
            raise BadInputError(
                f"frame {name!r} of the two tables differs, so they cannot be compared; concatenate them"
            )
        tree = KDTree(to_positions[there])
        hits = tree.query_ball_point(from_positions[here], radius, workers=-1, return_sorted=True)
        for query, hit in zip(here, hits, strict=True):
            rows = there[hit]
            if max_yaw is not None:
                rows = rows[np.abs(wrap(places.yaw[rows] - queries.yaw[query])) < max_yaw]
            found[query] = rows[rows != query] if of is None else rows
    starts = np.cumsum([0, *(len(rows) for rows in found)])
    return Neighbours(starts, np.concatenate(found) if found else np.empty(0, dtype=np.int64))


def distances(places: Places, row: int) -> Floats:
    """Distance of every place to the one in `row`, in the frame's unit; infinite to places of other frames."""
    apart = np.linalg.norm(places.positions - places.positions[row], axis=1)
    return np.where(places.frame == places.frame[row], apart, np.inf)


def far_from(places: Places, row: int, radius: float, *, other_frames: bool = False) -> Ints:
    """Rows at least `radius` from the place in `row`; those of other frames only if `other_frames` says so."""
    far = distances(places, row) >= radius
    return np.flatnonzero(far if other_frames else far & (places.frame == places.frame[row]))
