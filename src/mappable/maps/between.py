"""Positions between landmarks, from how near an image's descriptor is to those between the landmarks' descriptors."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.maps.store import Store, squared_between

STEPS = 4  # a chord between two landmarks is cut into so many pieces
CHORD = 2.5  # spacings: landmarks farther apart have no chord
MOST = 48  # landmarks that count as being near one; of more, the nearest
FAR = 1e3  # more than any squared distance of descriptors
BESIDE = 16  # landmarks that may lie where one is
KEPT = 4096  # landmarks whose surroundings are remembered


@dataclass(frozen=True)
class Surroundings:
    """The landmarks near one, and points on chords between them.

    The descriptor of the point that divides the chord from a to b as f to 1 - f is taken to be (1 - f) a + f b. Its
    squared distance from a descriptor q is (1 - f) |q - a|² + f |q - b|² - f (1 - f) |a - b|². But two images of one
    place differ by the floor already, and what a mean of two loses of that would draw every image to the middle of a
    chord: `less` is f (1 - f) (|a - b|² - floor). `log_weights` make up for points that lie close together.
    """

    rows: Ints  # (r,) landmarks
    points: Floats  # (p, k), the landmarks themselves first
    first: Ints  # (p,) numbers among `rows` of the chord's ends
    second: Ints
    share: Floats  # (p,) f
    less: Floats  # (p,)
    log_weights: Floats  # (p,)

    def squared(self, of_rows: Floats) -> Floats:
        """Squared feature distances (n, p) to the points of images that have such (n, r) to the landmarks."""
        ends = (1 - self.share) * of_rows[:, self.first] + self.share * of_rows[:, self.second]
        squared: Floats = ends - self.less
        return squared


class Between:
    """Landmarks at positions (m, k), and for each the points on chords between those near it, by `Response`."""

    def __init__(self, positions: Floats, store: Store, *, reach: float, floor: float, spacing: float) -> None:
        self.positions, self.store, self.floor, self.spacing = positions, store, floor, spacing
        self.tree = KDTree(positions)
        self.chord = min(CHORD * self.spacing, reach)
        self.radius = max(self.chord, reach / 2)
        self.around = lru_cache(KEPT)(self._around)

    def _around(self, landmark: int) -> Surroundings:
        within = np.atleast_1d(self.tree.query(self.positions[landmark], MOST, distance_upper_bound=self.radius)[1])
        rows = np.sort(within[within < len(self.positions)]).astype(np.int64)
        at = self.positions[rows]
        near = np.linalg.norm(at[:, None] - at, axis=2) <= self.chord
        first, second = np.nonzero(np.triu(near, 1))
        descriptors = self.store.take(rows)
        between = squared_between(descriptors, descriptors)[first, second].astype(np.float64)
        parts = np.arange(1, STEPS) / STEPS
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

    matched: Floats  # (n,) squared feature distance of the nearest point
    position: Floats  # (n, k)
    spread: Floats  # (n, k, k) how far the likely points lie apart
    supported: Bools  # (n,) False where a landmark has no other near it


def interpolate(
    between: Between, landmarks: Ints, rows: Ints, squared: Floats | Floats32, temperature: float
) -> Interpolated:
    """The mean of the points around each image's landmark (n,), a point at the squared distance s weighing exp(-s / T).

    `rows` (n, c) are the landmarks nearest to each image by feature, at `squared` distances (n, c); chords that end at
    others, which are farther, do not count.
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
    """How far a landmark usually is from the next that is more than `apart` from it (median); 0 if there is none.

    Landmarks of two cameras side by side are not apart.
    """
    nearest = KDTree(positions).query(positions, min(BESIDE, len(positions)))[0].reshape(len(positions), -1)
    beyond = nearest > apart
    some = beyond.any(1)
    return float(np.median(nearest[some, beyond[some].argmax(1)])) if some.any() else 0.0
