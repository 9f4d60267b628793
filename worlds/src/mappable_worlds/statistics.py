"""Statistics of a simulated world, from positions alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats
from mappable.places.routes import steps
from mappable.places.sampling import farthest_points
from mappable.places.table import Places
from mappable_worlds.presets import Preset
from mappable_worlds.scene import World

STILL = 0.02  # metres: a shorter step is a turn on the spot


@dataclass(frozen=True)
class Statistics:
    """Counts are by split, or by part for runs without a split; lengths are in metres.

    `length`, `spacing` and `on_the_spot` (images while the camera turns) are those of the first
    training run. A bound is the share of test images with a landmark within a radius.
    `covering_radius` is the largest distance from a training image to its nearest landmark. Values
    are None if the images for them are missing.
    """

    images: dict[str, int]
    runs: dict[str, int]
    height: float
    look_alikes: dict[str, int]
    landmarks: int
    positive_radius: float
    negative_radius: float
    length: float | None = None
    spacing: float | None = None
    on_the_spot: int | None = None
    covering_radius: float | None = None
    positive_bound: float | None = None
    negative_bound: float | None = None

    def rows(self) -> list[tuple[str, str]]:
        """Return a label and a text for each number that is not in a summary of the places."""
        found = []
        for label, count in self.images.items():
            runs = self.runs[label]
            found.append((label, f"{count:,} images of {runs} {'run' if runs == 1 else 'runs'}"))
        if self.height:
            found.append(("height", f"{self.height:,.1f} m from the lowest image to the highest"))
        if self.length is not None:
            found += [
                ("route", f"{self.length:,.0f} m"),
                ("spacing of images", f"{self.spacing:.2f} m"),
            ]
        if self.on_the_spot:
            found.append(("turning on the spot", f"{self.on_the_spot:,} images per run"))
        if self.look_alikes:
            places, groups = sum(self.look_alikes.values()), len(self.look_alikes)
            found.append(("alike on purpose", f"{places:,} places in {groups} groups"))
        if self.positive_bound is not None:
            covered = f"at least one within {self.covering_radius:.2f} m of each training image"
            found.append(("landmarks", f"{self.landmarks}, {covered}"))
            near = "of the test images have a landmark within this radius"
            found.append(
                (f"upper bound at {self.positive_radius:g} m", f"{self.positive_bound:.2%} {near}")
            )
            found.append(
                (f"upper bound at {self.negative_radius:g} m", f"{self.negative_bound:.2%} {near}")
            )
        return found


def statistics(places: Places, preset: Preset, world: World, *, every: int = 1) -> Statistics:
    """Compute the statistics of a simulated table.

    If `every` is above 1, the route has no numbers, because its spacing needs consecutive images.
    """
    runs = [run for run in preset.runs if (places.sequence == run.name).any()]
    labels = list(dict.fromkeys(run.split or run.part for run in runs))
    sequences = {
        label: [run.name for run in runs if (run.split or run.part) == label] for label in labels
    }
    train, test = places.where(split="train"), places.where(split="test")
    groups = [alias.group for alias in world.aliases]
    numbers: dict[str, Any] = {}
    if len(train) and every == 1:
        numbers |= _route(train.where(sequence=train.sequence[0]))
    if len(train) and len(test):
        numbers |= _bounds(train, test, preset)
    return Statistics(
        images={label: len(places.where(sequence=names)) for label, names in sequences.items()},
        runs={label: len(names) for label, names in sequences.items()},
        height=float(np.ptp(places.z)),
        look_alikes={group: groups.count(group) for group in dict.fromkeys(groups)},
        landmarks=min(preset.landmarks, len(train)),
        positive_radius=preset.positive_radius,
        negative_radius=preset.negative_radius,
        **numbers,
    )


def _route(run: Places) -> dict[str, Any]:
    moved = steps(run.positions)
    on_the_spot: Bools = moved < STILL
    spacing = 0.0 if on_the_spot.all() else float(np.median(moved[~on_the_spot]))
    return {"length": float(moved.sum()), "spacing": spacing, "on_the_spot": int(on_the_spot.sum())}


def _bounds(train: Places, test: Places, preset: Preset) -> dict[str, Any]:
    chosen = farthest_points(train.positions, min(preset.landmarks, len(train)), seed=0)
    landmarks = KDTree(train.positions[chosen])
    nearest: Floats = landmarks.query(test.positions)[0]
    return {
        "covering_radius": float(landmarks.query(train.positions)[0].max()),
        "positive_bound": float(np.mean(nearest <= preset.positive_radius)),
        "negative_bound": float(np.mean(nearest <= preset.negative_radius)),
    }
