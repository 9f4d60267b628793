"""What all protocols need of one model: its landmarks and its feature distances."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Floats32, Ints
from mappable.errors import MappableError
from mappable.evaluation.setup import Setup
from mappable.features.about import About
from mappable.maps.calibration import Calibration
from mappable.maps.landmarks import greedy_landmarks
from mappable.maps.store import squared_between

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder
    from mappable.places.pixels import Images

LANDMARK_SEEDS = (0, 1, 2, 3, 4)
AT_ONCE = 2048  # rows of descriptors


class NotApplicableError(MappableError):
    """A protocol that this set cannot be put to; its text says why, and a report shows it."""


@dataclass(frozen=True)
class Descriptors:
    """Descriptors (m, D), float16 or float32, of some rows (m,) of a table, in ascending order of the rows."""

    rows: Ints
    values: NDArray[np.floating[Any]]
    encoder: str  # fingerprint
    images: str = ""  # digest of what was described

    def __getitem__(self, rows: Ints) -> Floats32:
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        if not np.array_equal(self.rows[at], rows):
            raise KeyError(f"rows {np.setdiff1d(rows, self.rows)[:3]} were not described")
        return self.values[at].astype(np.float32)


@dataclass(frozen=True)
class Scoring:
    """One model on one set. `load` gives the encoder and the images, for protocols that measure time.

    A `calibration` is that of a map which is evaluated as it is; else protocols calibrate by images of the set.
    """

    setup: Setup
    descriptors: Descriptors
    about: About
    load: "Callable[[], tuple[ImageEncoder, Images]] | None" = None
    calibration: Calibration | None = None

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
        """Rows of the landmarks: as many as usual, or `count`; the first is random by the seed."""
        return landmarks_of(self.setup, seed, count)

    @cached_property
    def to_landmarks(self) -> tuple[Ints, Floats32]:
        """All rows that are a landmark for any seed or count, ascending, and how far the queries are from them."""
        rows = retrieval_rows(self.setup)
        return rows, self.squared(self.setup.queries, rows)

    def nearest(self, landmarks: Ints, count: int = 1) -> Ints:
        """Rows (queries, count) of the landmarks that are nearest by feature, the nearest first."""
        rows, squared = self.to_landmarks
        known = squared[:, np.searchsorted(rows, landmarks)]
        order = np.argsort(known, axis=1, kind="stable")[:, :count]
        return landmarks[order]


def landmarks_of(setup: Setup, seed: int = 0, count: int | None = None) -> Ints:
    """Rows of the landmarks of a set: as many as usual, or `count`; the first is random by the seed."""
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
    """Rows of the queries, and of all landmarks: what must be described to retrieve."""
    return np.concatenate([setup.queries, retrieval_rows(setup)])


def by_condition(setup: Setup) -> dict[str, Ints]:
    """Positions in `setup.queries`, not rows of the table, of the queries of each condition."""
    conditions = setup.places.condition[setup.queries]
    return {name or "unnamed": np.flatnonzero(conditions == name) for name in sorted(set(conditions))}
