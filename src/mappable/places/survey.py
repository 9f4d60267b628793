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
SMALLEST_RADIUS = 2  # the same, if images are far apart: with 1, the next image would often be beyond it
LARGEST_METRES = 10.0  # positive radius in metres, unless spacing or accuracy need a larger one
EXTENTS = 6  # positive radii in the median distance between two images, so that most images have negatives
ACCURACIES = 4  # positive radius in accuracies of positions: an error should not turn a positive into a negative
OPPOSITE_SHARE = 0.05  # share of pairs within the positive radius that look in opposite directions
YAW_LIMIT = math.radians(30)  # images that look farther apart show different places; the paper's, for a robot
MOST_PLACES, MOST_VISITS = 5000, 20  # places and visits that are compared with each other
MOST_PAIRED = 1000  # places between which all distances are computed
BLOCK_PLACES = 2000
OVERLAPPING = 0.1  # share of a visit that should be near another visit
MEETING = 0.1  # share of a visit near another one, from which their distance says how accurate positions are
SAME_STRETCH = 20  # images of one visit that are this many places apart may be two laps


@dataclass(frozen=True)
class Survey:
    """What positions alone say about places of one frame; lengths are in the unit of the frame.

    `spacing` is the median step between images of one visit, without standing. `accuracy` is how far positions of
    different visits, or of neighbors within a visit, disagree with a smooth path. It is 0 if nothing shows an error.
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
        """Images beyond this distance show different places: four times as far, in metres at most 15 m more.

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
        positions, codes = self.places.positions, np.unique(self.places.sequence, return_inverse=True)[1]
        tree, counts = KDTree(positions), []
        for start in range(0, len(positions), BLOCK_PLACES):
            near = tree.query_ball_point(positions[start : start + BLOCK_PLACES], self.positive_radius)
            counts += [len(np.unique(codes[rows])) - 1 for rows in near]
        return np.array(counts, dtype=np.int64)

    @cached_property
    def laps(self) -> float:
        """Share of places to which their own visit comes back, or where it was before."""
        positions, again, looked_at = self.places.positions, 0, 0
        for rows in self.visits.values():
            along = path_length(positions[rows])
            some = evenly(len(rows), MOST_PLACES)
            pairs = KDTree(positions[rows[some]]).query_pairs(self.positive_radius, output_type="ndarray")
            first, second = some[pairs].T
            far = (second - first >= SAME_STRETCH) & (along[second] - along[first] > 4 * self.negative_radius)
            again += len(np.unique(pairs[far]))
            looked_at += len(some)
        return again / max(1, looked_at)

    @cached_property
    def opposite_views(self) -> bool:
        """True if many images within the positive radius look in opposite directions, by their yaw."""
        places = self.places[evenly(len(self.places), MOST_PLACES)]
        if np.isnan(places.yaw).mean() > 0.1:
            return False
        pairs = KDTree(places.positions).query_pairs(self.positive_radius, output_type="ndarray")
        turned = np.abs(wrap(places.yaw[pairs[:, 1]] - places.yaw[pairs[:, 0]])) > np.pi / 2
        return bool(len(turned)) and float(np.mean(turned)) >= OPPOSITE_SHARE

    @cached_property
    def landmarks_needed(self) -> int:
        """Landmarks so that every place is within half the positive radius of one, which looks in its direction."""
        left, positions, yaw, count = np.ones(len(self.places), dtype=bool), self.places.positions, self.places.yaw, 0
        tree = KDTree(positions)
        for row in range(len(positions)):
            if left[row]:
                near = np.array(tree.query_ball_point(positions[row], self.positive_radius / 2))
                if self.opposite_views:
                    near = near[~(np.abs(wrap(yaw[near] - yaw[row])) > YAW_LIMIT)]
                left[near] = left[row] = False
                count += 1
        return count


def survey(places: Places) -> Survey:
    """Survey places of one frame; `places` needs at least two."""
    moved = [steps(places.positions[rows]) for rows in places.sequences().values()]
    lengths = np.concatenate(moved) if moved else np.empty(0)
    lengths = lengths[lengths > 0]
    spacing = float(np.median(lengths)) if len(lengths) else _nearest_spacing(places.positions)
    unit = places.frames[str(places.frame[0])].unit
    return Survey(places, unit, spacing, max(_jitter(places), _disagreement(places, spacing)))


def _nearest_spacing(positions: Floats) -> float:
    """The median distance to the nearest other position, for sequences of one image."""
    if len(positions) < 2:
        return 0.0
    nearest = KDTree(positions).query(positions, k=2)[0][:, 1]
    return float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else 0.0


def _jitter(places: Places) -> float:
    """How far positions are from the middle of their neighbors, across the direction of travel (median)."""
    off = []
    for rows in places.sequences().values():
        at = places.positions[rows]
        if len(at) < 5:
            continue
        along = at[4:] - at[:-4]
        length = np.linalg.norm(along, axis=1)
        moving = length > 0
        middle = at[2:-2] - (at[1:-3] + at[3:-1]) / 2
        along = along[moving] / length[moving, None]
        across = middle[moving] - np.sum(middle[moving] * along, axis=1, keepdims=True) * along
        off.append(np.linalg.norm(across, axis=1))
    return float(np.median(np.concatenate(off))) if any(len(one) for one in off) else 0.0


def _disagreement(places: Places, spacing: float) -> float:
    """How far the paths of different visits are apart where they meet (median distance to the other path)."""
    positions, off = places.positions, []
    visits = list(places.sequences().items())
    visits = [visits[number] for number in evenly(len(visits), MOST_VISITS)]
    for name, rows in visits:
        for other, others in visits:
            if name == other or len(others) < 2:
                continue
            near, which = KDTree(positions[others]).query(positions[rows])
            close = near <= USUAL_RADIUS * spacing
            if close.mean() >= MEETING:
                off.append(_to_path(positions[rows[close]], positions[others], which[close]))
    return float(np.median(np.concatenate(off))) if any(len(one) for one in off) else 0.0


def _to_path(points: Floats, path: Floats, nearest: Ints) -> Floats:
    """Distance of points (n, k) to the pieces of a path (m, k) before and after their nearest point."""
    best: Floats = np.linalg.norm(points - path[nearest], axis=1)
    for side in (-1, 1):
        other = path[np.clip(nearest + side, 0, len(path) - 1)]
        piece = other - path[nearest]
        share = np.sum((points - path[nearest]) * piece, axis=1) / np.maximum(np.sum(piece**2, axis=1), 1e-12)
        foot = path[nearest] + np.clip(share, 0, 1)[:, None] * piece
        best = np.minimum(best, np.linalg.norm(points - foot, axis=1))
    return best


def _rounded(value: float) -> float:
    """The value with two digits."""
    return float(f"{value:.2g}")
