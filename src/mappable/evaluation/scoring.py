"""The landmarks and feature distances of one model, which all protocols share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Floats32, Ints, evenly
from mappable.errors import MappableError
from mappable.evaluation.setup import Setup
from mappable.features.about import About
from mappable.localization.fitting import calibrate_or_say
from mappable.maps.calibration import Calibration
from mappable.maps.choosing import greedy_landmarks
from mappable.maps.landmarks import Landmarks
from mappable.maps.store import squared_between

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder
    from mappable.places.pixels import Images

LANDMARK_SEEDS = (0, 1, 2, 3, 4)
AT_ONCE = 2048  # rows of descriptors per block, which bounds memory
MOST_CALIBRATION = 2500  # images to calibrate with
MOST_ELSEWHERE = 1500  # images that are not on the map
FALSE_ACCEPTS = 0.05  # share of images from elsewhere that may be confident


class NotApplicableError(MappableError):
    """A protocol does not apply to this set. The report shows the text, which gives the reason."""


@dataclass(frozen=True)
class Descriptors:
    """Descriptors (m, D), float16 or float32, of some rows (m,) of a table; rows ascend."""

    rows: Ints
    values: NDArray[np.floating[Any]]
    encoder: str  # fingerprint
    images: str = ""  # digest of the images

    def __getitem__(self, rows: Ints) -> Floats32:
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        if not np.array_equal(self.rows[at], rows):
            raise KeyError(f"rows {np.setdiff1d(rows, self.rows)[:3]} have no descriptors")
        return self.values[at].astype(np.float32)


@dataclass(frozen=True)
class Scoring:
    """One model on one set. `load` returns the encoder and the images, for protocols that measure
    time.

    `calibration` comes from a map that is evaluated as it is. Without it, the map is calibrated
    with images of the set. `away` are places of other sets. `own_images` is False if only the
    queries have images, and landmarks only descriptors.
    """

    setup: Setup
    descriptors: Descriptors
    about: About
    load: "Callable[[], tuple[ImageEncoder, Images]] | None" = None
    calibration: Calibration | None = None
    away: tuple[Setup, ...] = ()
    own_images: bool = True

    def squared(self, first: Ints, second: Ints) -> Floats32:
        """Squared feature distances (n, m) between rows of the table."""
        columns = self.descriptors[second]
        found = np.empty((len(first), len(second)), dtype=np.float32)
        for start in range(0, len(first), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            found[some] = squared_between(self.descriptors[first[some]], columns)
        return found

    def metres(self, first: Ints, second: Ints) -> Floats:
        """Distances (n, m) between positions of rows of the table, in its unit."""
        at = self.setup.places.positions
        apart: Floats = np.linalg.norm(at[first][:, None] - at[second], axis=2)
        return apart

    def landmarks(self, seed: int = 0, count: int | None = None) -> Ints:
        """Rows of the landmarks: the set's usual number, or `count`; the seed chooses the first at
        random.
        """
        return landmarks_of(self.setup, seed, count)

    @cached_property
    def to_landmarks(self) -> tuple[Ints, Floats32]:
        """All rows that are a landmark for any seed or count, ascending, and squared distances of
        queries to them.
        """
        rows = retrieval_rows(self.setup)
        return rows, self.squared(self.setup.queries, rows)

    def nearest(self, landmarks: Ints, count: int = 1) -> Ints:
        """Rows (queries, count) of the landmarks that are nearest by feature, the nearest first."""
        rows, squared = self.to_landmarks
        known = squared[:, np.searchsorted(rows, landmarks)]
        order = np.argsort(known, axis=1, kind="stable")[:, :count]
        return landmarks[order]

    @cached_property
    def calibrated_map(self) -> tuple[Landmarks, str]:
        """The map of the usual landmarks with its calibration, and why images of the set did not
        calibrate it.
        """
        setup, described, landmarks = self.setup, self.descriptors, np.sort(self.landmarks())
        bare = Landmarks.build(setup.places[landmarks], described[landmarks], described.encoder)
        if self.calibration is not None:
            return bare.with_calibration(self.calibration), ""
        images, elsewhere = calibration_rows(setup), elsewhere_rows(setup)
        absent = described[elsewhere] if len(elsewhere) >= 1 / FALSE_ACCEPTS else None
        return calibrate_or_say(
            bare,
            setup.places[images],
            described[images],
            elsewhere=absent,
            false_accepts=FALSE_ACCEPTS,
        )


def landmarks_of(setup: Setup, seed: int = 0, count: int | None = None) -> Ints:
    """Rows of the landmarks of a set: its usual number, or `count`; the seed chooses the first at
    random.
    """
    count = setup.landmarks if count is None else count
    if count is None:
        return setup.references
    return setup.references[greedy_landmarks(setup.places[setup.references], count, seed)]


def retrieval_rows(setup: Setup) -> Ints:
    """All rows that are a landmark of a set for any seed or count, ascending."""
    chosen = [landmarks_of(setup, seed) for seed in LANDMARK_SEEDS]
    if setup.landmarks is not None and setup.counts:
        chosen.append(landmarks_of(setup, count=max(setup.counts)))
    return np.unique(np.concatenate(chosen))


def retrieval(setup: Setup) -> Ints:
    """Rows of the queries and of all landmarks: the images that retrieval needs descriptors of."""
    return np.concatenate([setup.queries, retrieval_rows(setup)])


def calibration_rows(setup: Setup) -> Ints:
    """Rows of the images that calibrate the map."""
    return some_of(setup.calibration, MOST_CALIBRATION)


def elsewhere_rows(setup: Setup) -> Ints:
    """Rows of images from elsewhere, which the calibrated map must reject."""
    return some_of(setup.elsewhere, MOST_ELSEWHERE)


def map_rows(setup: Setup) -> Ints:
    """Rows of the landmarks, of the images that calibrate their map, and of images from elsewhere."""
    return np.concatenate([landmarks_of(setup), calibration_rows(setup), elsewhere_rows(setup)])


def some_of(rows: Ints, most: int) -> Ints:
    """At most `most` of the rows, evenly chosen."""
    return rows[evenly(len(rows), most, nearest=True)]


def by_condition(setup: Setup) -> dict[str, Ints]:
    """Indices into `setup.queries` (not rows of the table) of the queries of each condition."""
    conditions = setup.places.condition[setup.queries]
    return {
        name or "unnamed": np.flatnonzero(conditions == name) for name in sorted(set(conditions))
    }
