"""Refine positions: interpolate between landmarks by the descriptors of an image and of the landmarks around it."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.maps.store import Store, squared_between

CHORD_PARTS = 4  # number of equal parts of a chord, the straight line between two landmarks
LONGEST_CHORD = 2.5  # longest chord, in spacings of the landmarks; landmarks farther apart have no chord
MOST_NEIGHBORS = 48  # largest number of landmarks around one landmark; the nearest count
FAR = 1e3  # squared feature distance that is larger than any between two descriptors
MOST_COINCIDENT = 16  # largest number of landmarks expected at one position, such as those of several cameras
CACHED = 4096  # number of landmarks whose surroundings stay in memory


@dataclass(frozen=True)
class Surroundings:
    """The landmarks around one landmark, and points on the chords between them.

    A chord runs from landmark a to landmark b. Its point at the share f has the descriptor (1 - f) a + f b. The
    squared distance of that point from a descriptor q is (1 - f) |q - a|² + f |q - b|² - f (1 - f) |a - b|².
    However, even two images of the same place differ by the floor. Averaging two descriptors removes a part of this
    difference, which would pull every image to the middle of a chord. `less` corrects for that: it is
    f (1 - f) (|a - b|² - floor). `log_weights` correct for points that lie close together.
    """

    rows: Ints  # (r,) rows of the landmarks
    points: Floats  # (p, k) positions of the points; the landmarks themselves come first
    first: Ints  # (p,) index in `rows` of the chord's first end
    second: Ints  # (p,) index in `rows` of the chord's second end
    share: Floats  # (p,) f
    less: Floats  # (p,) what is subtracted from squared feature distances
    log_weights: Floats  # (p,) minus the logarithm of the number of points nearby

    def squared(self, of_rows: Floats) -> Floats:
        """Squared feature distances (n, p) from images to the points, given those (n, r) to the landmarks."""
        ends = (1 - self.share) * of_rows[:, self.first] + self.share * of_rows[:, self.second]
        squared: Floats = ends - self.less
        return squared


class Between:
    """Landmarks at positions (m, k), and around each one the points on chords; `reach` and `floor` as in `Response`."""

    def __init__(self, positions: Floats, store: Store, *, reach: float, floor: float, spacing: float) -> None:
        self.positions, self.store, self.floor, self.spacing = positions, store, floor, spacing
        self.tree = KDTree(positions)
        self.chord = min(LONGEST_CHORD * self.spacing, reach)
        self.radius = max(self.chord, reach / 2)
        self.around = lru_cache(CACHED)(self._around)

    def _around(self, landmark: int) -> Surroundings:
        within = np.atleast_1d(
            self.tree.query(self.positions[landmark], MOST_NEIGHBORS, distance_upper_bound=self.radius)[1]
        )
        rows = np.sort(within[within < len(self.positions)]).astype(np.int64)
        at = self.positions[rows]
        near = np.linalg.norm(at[:, None] - at, axis=2) <= self.chord
        first, second = np.nonzero(np.triu(near, 1))
        descriptors = self.store.take(rows)
        between = squared_between(descriptors, descriptors)[first, second].astype(np.float64)
        parts = np.arange(1, CHORD_PARTS) / CHORD_PARTS
        alone = np.arange(len(rows))
        share = np.concatenate([np.zeros(len(rows)), np.tile(parts, len(first))])
        first, second = (np.concatenate([alone, np.repeat(end, len(parts))]) for end in (first, second))
        apart = np.concatenate([np.zeros(len(rows)), np.repeat(between - self.floor, len(parts))])
        points = (1 - share)[:, None] * at[first] + share[:, None] * at[second]
        crowd = KDTree(points).query_ball_point(points, self.spacing / 2, return_length=True)
        return Surroundings(rows, points, first, second, share, share * (1 - share) * apart, -np.log(crowd))


@dataclass(frozen=True)
class Interpolated:
    """Where images (n,) are between landmarks."""

    matched: Floats  # (n,) squared feature distance to the nearest point
    position: Floats  # (n, k) weighted mean of the points
    spread: Floats  # (n, k, k) weighted covariance of the points
    supported: Bools  # (n,) False if the landmark has no other landmark around it


def interpolate(
    between: Between, landmarks: Ints, rows: Ints, squared: Floats | Floats32, temperature: float
) -> Interpolated:
    """Average the points around each image's landmark (n,). A point at squared distance s has the weight exp(-s / T).

    T is the `temperature`. `rows` (n, c) are the landmarks nearest to each image by feature, at `squared` distances
    (n, c). Chords that end at other landmarks do not count, because those are farther.
    """
    count, k = len(landmarks), between.positions.shape[1]
    matched, position, spread = np.empty(count), np.empty((count, k)), np.empty((count, k, k))
    supported = np.empty(count, dtype=bool)
    distances = np.empty(len(between.positions))
    for number, landmark in enumerate(landmarks):
        around = between.around(int(landmark))
        distances[around.rows] = FAR
        distances[rows[number]] = squared[number]
        to_points = around.squared(distances[around.rows][None])[0]
        matched[number] = to_points.min()
        likely = np.exp((matched[number] - to_points) / temperature + around.log_weights)
        likely /= likely.sum()
        position[number] = likely @ around.points
        off = around.points - position[number]
        spread[number] = (likely[:, None] * off).T @ off
        supported[number] = len(around.rows) > 1
    return Interpolated(matched, position, spread, supported)


def spacing_of(positions: Floats, apart: float = 0.0) -> float:
    """Median distance from a landmark to the nearest one that is more than `apart` away; 0 if there is none.

    `apart` skips landmarks at the same position, such as those of two cameras side by side.
    """
    nearest = KDTree(positions).query(positions, min(MOST_COINCIDENT, len(positions)))[0].reshape(len(positions), -1)
    beyond = nearest > apart
    some = beyond.any(1)
    return float(np.median(nearest[some, beyond[some].argmax(1)])) if some.any() else 0.0
