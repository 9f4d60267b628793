"""A run: images located in a map, with their true and their recovered positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.maps.location import Location, Outcome
from mappable.maps.map import Map
from mappable.places.files import load_places
from mappable.places.table import Places
from mappable.places.unposed import is_table
from mappable.recovery.align import align
from mappable.recovery.files import POSITIONS, read_summary
from mappable.tables import read_csv


@dataclass(frozen=True, eq=False)
class RecoveredShape:
    """The result of `mappable recover images` for n images, in one or several separate parts."""

    positions: Floats  # (n, k); NaN for images without a position
    parts: Ints  # (n,) number of the part of each image
    placed: bool  # True: in the frame of the map. False: each part has coordinates of its own

    def fitted(self, target: Floats) -> Floats:
        """The positions (n, k) after each part is moved, rotated, scaled and mirrored to fit the `target` (n, k).

        The target may contain NaN. A part with fewer than three known targets cannot be fitted and becomes NaN.
        """
        if self.placed:
            return self.positions
        fitted = np.full_like(self.positions, np.nan)
        usable = np.isfinite(self.positions).all(1) & np.isfinite(target).all(1)
        for part in np.unique(self.parts):
            these = self.parts == part
            known = these & usable
            if known.sum() >= 3:
                fitted[these] = align(self.positions[known], target[known])(self.positions[these])
        return fitted


@dataclass(frozen=True, eq=False)
class LocatedRun:
    """Query images, the result of each, and their true positions (n, k); NaN if unknown."""

    landmarks: Map
    places: Places
    found: Sequence[Outcome]
    truth: Floats
    shape: RecoveredShape | None = None

    @cached_property
    def confident(self) -> Bools:
        """Whether the map is confident of each image (n,)."""
        return np.array([isinstance(one, Location) and one.confident for one in self.found])

    @cached_property
    def estimates(self) -> Floats:
        """Positions (n, k) of the images by the map; NaN for images that cannot be decoded."""
        unknown = np.full(self.landmarks.dimensions, np.nan)
        return np.array([one.coordinates if isinstance(one, Location) else unknown for one in self.found])

    @cached_property
    def recovered(self) -> Floats:
        """The recovered positions (n, k); if not placed, fitted to the truth, or else to confident estimates."""
        if self.shape is None:
            return np.full_like(self.truth, np.nan)
        guess = np.where(self.confident[:, None], self.estimates, np.nan)
        return self.shape.fitted(np.where(np.isnan(self.truth), guess, self.truth))


def known_positions(landmarks: Map, places: Places, paths: Sequence[Path]) -> Floats:
    """True positions (n, k) of the places, from those `paths` that are tables in the map's frame; NaN if unknown."""
    known: dict[Path, Floats] = {}
    for table in (load_places(path) for path in paths if is_table(path)):
        if table.dimensions == landmarks.dimensions and table.frames.get(landmarks.frame.name) == landmarks.frame:
            table = table.where(frame=landmarks.frame.name)
            known |= dict(zip(table.files, table.positions, strict=True))
    unknown = np.full(landmarks.dimensions, np.nan)
    return np.array([known.get(file, unknown) for file in places.files])


def read_shape(folder: Path, places: Places, dimensions: int) -> RecoveredShape:
    """Read what `mappable recover images` wrote; raise if it was made from other images."""
    summary, table = read_summary(folder, POSITIONS), read_csv(folder / POSITIONS)
    ids = places.place_id.tolist()
    if summary.get("images", ids) != ids or len(table) != len(ids):
        raise BadInputError(
            f"{folder}: was recovered from {len(table):,} images, which are not the {len(ids):,} given here"
        )
    if summary.get("dimensions") != dimensions:
        raise BadInputError(
            f"{folder}: has {summary.get('dimensions')} dimensions, expected {dimensions} as in the map"
        )
    positions = np.column_stack([table.numbers(axis, missing_allowed=True) for axis in "xyz"[:dimensions]])
    parts = np.array(table.parse("part", int, "is not a whole number"))
    return RecoveredShape(positions, parts, placed=bool(summary.get("known")))
