"""Survey a table of places: spacing, agreement of visits, overlap, and the radii that fit them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

from mappable.arrays import Floats, Ints, evenly, path_length
from mappable.places.angles import wrap
from mappable.places.routes import steps
from mappable.places.table import Places

USUAL_RADIUS = 5  # positive radius in spacings, as in the presets nordland, street and rooms
# The same, if images are far apart: with 1, the next image would often be beyond it.
SMALLEST_RADIUS = 2
LARGEST_METRES = 10.0  # positive radius in metres, unless spacing or accuracy need a larger one
# Positive radii in the median distance between two images, so that most images have negatives.
EXTENTS = 6
# Positive radius in accuracies of positions: an error should not turn a positive into a negative.
ACCURACIES = 4
OPPOSITE_SHARE = 0.05  # share of pairs within the positive radius that look in opposite directions
# Images that look farther apart show different places; the paper's, for a robot.
YAW_LIMIT = math.radians(30)
MOST_PLACES, MOST_VISITS = 5000, 20  # places and visits that are compared with each other
MOST_PAIRED = 1000  # places between which all distances are computed
BLOCK_PLACES = 2000
OVERLAPPING = 0.1  # share of a visit that should be near another visit
# Share of a visit near another one, from which their distance says how accurate positions are.
MEETING = 0.1
SAME_STRETCH = 20  # images of one visit that are this many places apart may be two laps


@dataclass(frozen=True)
class Survey:
    """What positions alone say about places of one frame; lengths are in the unit of the frame.

    `spacing` is the median step between images of one visit, without standing. `accuracy` is how
    far positions of different visits, or of neighbors within a visit, disagree with a smooth path.
    It is 0 if nothing shows an error.
    """

    places: Places
    unit: str
    spacing: float
    accuracy: float

    @cached_property
    def positive_radius(self) -> float:
        """Images within this distance show the same place."""
        usual = min(USUAL_RADIUS * self.spacing, self.extent / EXTENTS)
        if self.unit == "m":
            usual = min(usual, LARGEST_METRES)
        return _rounded(max(usual, SMALLEST_RADIUS * self.spacing, ACCURACIES * self.accuracy))

    @cached_property
    def negative_radius(self) -> float:
        """Images beyond this distance show different places: four times as far, in metres at most
        15 m more.

        At most, it is the distance beyond which half of the images are.
        """
        near = self.positive_radius
        far = min(4 * near, near + 15) if self.unit == "m" else 4 * near
        return _rounded(max(min(far, self.extent), 1.5 * near))

    @cached_property
    def extent(self) -> float:
        """The median distance between two images."""
        return float(np.median(pdist(self.places.positions[evenly(len(self.places), MOST_PAIRED)])))

    @cached_property
    def visits(self) -> dict[str, Ints]:
        """The rows of each visit. A visit is a sequence."""
        return self.places.sequences()

    @cached_property
    def overlap(self) -> Ints:
        """For each place, the number of other visits with a place within the positive radius."""
        positions = self.places.positions
        visit = np.unique(self.places.sequence, return_inverse=True)[1]
        tree = KDTree(positions)
        counts = [
            len(np.unique(visit[rows])) - 1
            for start in range(0, len(positions), BLOCK_PLACES)
            for rows in tree.query_ball_point(
                positions[start : start + BLOCK_PLACES], self.positive_radius
            )
        ]
        return np.array(counts, dtype=np.int64)

    @cached_property
    def laps(self) -> float:
        """Share of places to which their own visit comes back, or where it was before."""
        returned = sampled = 0
        for rows in self.visits.values():
            path = self.places.positions[rows]
            sample = evenly(len(rows), MOST_PLACES)
            pairs = self._near(path[sample])
            first, second = sample[pairs].T
            length = path_length(path)
            lap = (second - first >= SAME_STRETCH) & (
                length[second] - length[first] > 4 * self.negative_radius
            )
            returned += len(np.unique(pairs[lap]))
            sampled += len(sample)
        return returned / max(1, sampled)

    @cached_property
    def opposite_views(self) -> bool:
        """True if many images within the positive radius look in opposite directions, by their yaw."""
        places = self.places[evenly(len(self.places), MOST_PLACES)]
        if np.isnan(places.yaw).mean() > 0.1:
            return False
        first, second = self._near(places.positions).T
        opposite = np.abs(wrap(places.yaw[second] - places.yaw[first])) > np.pi / 2
        return len(opposite) > 0 and float(opposite.mean()) >= OPPOSITE_SHARE

    def _near(self, positions: Floats) -> Ints:
        """The pairs (n, 2) of positions within the positive radius."""
        pairs: Ints = KDTree(positions).query_pairs(self.positive_radius, output_type="ndarray")
        return pairs

    @cached_property
    def landmarks_needed(self) -> int:
        """Landmarks so that every place is within half the positive radius of one, which looks in
        its direction.
        """
        positions, yaw = self.places.positions, self.places.yaw
        tree = KDTree(positions)
        uncovered = np.ones(len(positions), dtype=bool)
        count = 0
        for row in range(len(positions)):
            if uncovered[row]:
                near = np.array(tree.query_ball_point(positions[row], self.positive_radius / 2))
                if self.opposite_views:
                    near = near[~(np.abs(wrap(yaw[near] - yaw[row])) > YAW_LIMIT)]
                uncovered[near] = uncovered[row] = False
                count += 1
        return count


def survey(places: Places) -> Survey:
    """Survey places of one frame; `places` needs at least two."""
    lengths = np.concatenate(
        [steps(places.positions[rows]) for rows in places.sequences().values()]
    )
    if not lengths.any():  # sequences of one image: the distance to the nearest other image
        lengths = KDTree(places.positions).query(places.positions, k=2)[0][:, 1]
    spacing = _median(lengths[(lengths > 0) & np.isfinite(lengths)])
    unit = places.frames[str(places.frame[0])].unit
    return Survey(places, unit, spacing, max(_jitter(places), _disagreement(places, spacing)))


def _jitter(places: Places) -> float:
    """How far positions are from the middle of their neighbors, across the direction of travel
    (median).
    """
    distances = [np.empty(0)]
    for rows in places.sequences().values():
        path = places.positions[rows]
        travel = path[4:] - path[:-4]
        offset = path[2:-2] - (path[1:-3] + path[3:-1]) / 2
        squared = np.sum(travel**2, axis=1, keepdims=True)
        moving = squared[:, 0] > 0
        share = np.sum(offset * travel, axis=1, keepdims=True)[moving] / squared[moving]
        distances.append(np.linalg.norm(offset[moving] - share * travel[moving], axis=1))
    return _median(np.concatenate(distances))


def _disagreement(places: Places, spacing: float) -> float:
    """How far the paths of different visits are apart where they meet (median distance to the other
    path).
    """
    sequences = list(places.sequences().values())
    visits = [places.positions[sequences[number]] for number in evenly(len(sequences), MOST_VISITS)]
    distances = [np.empty(0)]
    for path in visits:
        tree = KDTree(path)
        for visit in visits:
            if visit is path or len(path) < 2:
                continue
            distance, nearest = tree.query(visit)
            close = distance <= USUAL_RADIUS * spacing
            if close.mean() >= MEETING:
                distances.append(_to_path(visit[close], path, nearest[close]))
    return _median(np.concatenate(distances))


def _to_path(points: Floats, path: Floats, nearest: Ints) -> Floats:
    """Distance of points (n, k) to the pieces of a path (m, k) before and after their nearest
    point.
    """
    distance: Floats = np.linalg.norm(points - path[nearest], axis=1)
    for side in (-1, 1):
        piece = path[np.clip(nearest + side, 0, len(path) - 1)] - path[nearest]
        squared = np.maximum(np.sum(piece**2, axis=1), 1e-12)
        share = np.clip(np.sum((points - path[nearest]) * piece, axis=1) / squared, 0, 1)
        foot = path[nearest] + share[:, None] * piece
        distance = np.minimum(distance, np.linalg.norm(points - foot, axis=1))
    return distance


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else 0.0


def _rounded(value: float) -> float:
    """The value with two digits."""
    return float(f"{value:.2g}")
