"""Verify places by local features: match an image with the images of the likeliest places."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, evenly
from mappable.errors import BadImageError, BadInputError
from mappable.features.local_features import LocalFeatures, count_inliers, describe_locally
from mappable.maps.found_places import likely_places
from mappable.maps.map import Map
from mappable.maps.place_filter import Belief
from mappable.places.images import Fit, load_image, resize_image

WIDTH = 320  # pixels: width at which images are matched
CHECKED = 5  # landmarks that are matched with an image; if fewer places are likely, landmarks elsewhere join them
LIKELY = 0.01  # least probability of a place that is checked
KEPT = 1024  # landmarks whose local features stay in memory, at most 0.3 MB each
# Log odds per e-fold of inliers, and their largest value. Set by hand after counts on all walks of Gardens Point, so
# figures on these walks are not blind.
PER_FOLD, LARGEST = 2.0, 4.0


class Verifier:
    """Matches images with those of landmarks at positions (m, k); a place has the `radius`."""

    def __init__(self, landmarks: Map, positions: Floats, radius: float, size: tuple[int, int], fit: Fit) -> None:
        self.places, self.positions, self.radius, self.fit = landmarks.places, positions, radius, fit
        self.size = WIDTH, max(1, round(WIDTH * size[1] / size[0]))
        self.files = self.places.files
        if not Path(self.files[0]).is_file():
            raise BadInputError(
                f"{self.files[0]}: no such file; verification needs the images of the landmarks where the map was built"
            )
        self.features = lru_cache(KEPT)(self._features)

    def describe(self, image: str | Path | NDArray[Any]) -> LocalFeatures:
        """The local features of an image: a file, or an array (height, width, 3) of uint8."""
        if isinstance(image, np.ndarray):
            return describe_locally(resize_image(image, self.size, self.fit))
        return describe_locally(load_image(image, self.size, self.fit, self.places.decoding))

    def check(self, belief: Belief, image: LocalFeatures) -> Belief:
        """The belief after the likeliest places were matched with the image.

        How many key points fit at a wrong place depends on the image. At most one place is right, so the median over
        all checked landmarks is the number for wrong places. Odds grow with the ratio to it, never below.
        """
        likely = [row for row, _ in likely_places(belief, self.positions, self.radius, CHECKED, LIKELY)]
        others = [row for row in evenly(len(self.positions), 4 * CHECKED) if self._far(row, likely)]
        rows = [*likely, *others[: CHECKED - len(likely)]]
        counts = np.array([self._count(int(row), image) for row in rows])
        odds = np.clip(PER_FOLD * np.log((1 + counts) / (1 + np.median(counts))), 0.0, LARGEST)
        factor = np.ones(len(belief.rows))
        for row, more in zip(likely, odds, strict=False):
            near = np.linalg.norm(self.positions[belief.rows] - self.positions[row], axis=1) <= self.radius
            factor[near] = np.maximum(factor[near], np.exp(more))
        probability = belief.probability * factor
        total = probability.sum() + belief.away
        return Belief(belief.rows, probability / total, belief.away / total)

    def _far(self, row: int, others: list[int]) -> bool:
        away = np.linalg.norm(self.positions[others] - self.positions[row], axis=1)
        return bool((away > 2 * self.radius).all())

    def _count(self, row: int, image: LocalFeatures) -> int:
        found = self.features(row)
        return 0 if found is None else count_inliers(image, found)

    def _features(self, row: int) -> LocalFeatures | None:
        try:
            return self.describe(self.files[row])
        except BadImageError:  # an image that vanished says nothing about its place
            return None
