"""What tests of maps share: places along a line, with descriptors of length one; and a made-up town."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mappable.arrays import Floats
from mappable.localization.fitting import calibrate
from mappable.localization.map import Map
from mappable.maps.calibration import Calibration
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

Described = tuple[Places, NDArray[np.float32]]


@pytest.fixture(scope="session")
def described() -> Callable[..., Described]:
    """Some places 1 m apart, the first at x = `first`, and a random descriptor of 8 numbers for
    each.
    """

    def make(count: int, first: int = 0, **columns: Any) -> Described:
        rows = range(first, first + count)
        vectors = np.random.default_rng(first).normal(size=(count, 8)).astype(np.float32)
        given = {
            "path": [f"{row}.jpg" for row in rows],
            "x": [float(row) for row in rows],
            "y": np.zeros(count),
        }
        places = Places(**(given | {"frames": Frame("town"), "root": "/data"} | columns))
        return places, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return make


NUMBERS, SCALE = 192, 8.0  # of a descriptor of the town; metres over which it changes
LENGTH, SPACING, NOISE = 400.0, 5.0, 0.25


@dataclass(frozen=True)
class Town:
    """A route with landmarks, a drive along it, and one elsewhere; no pixels, but descriptors that
    change smoothly.
    """

    landmarks: Landmarks
    calibration: Calibration
    known: tuple[Floats, NDArray[np.float32]]  # positions and descriptors that it was calibrated by
    drive: tuple[Floats, NDArray[np.float32]]  # others, in order
    elsewhere: NDArray[np.float32]  # that the threshold was set by
    absent: NDArray[np.float32]  # others
    encoder: str = "made-up"

    @property
    def bare(self) -> Landmarks:
        """The map without its calibration."""
        return self.landmarks.with_calibration(None)

    @cached_property
    def map(self) -> Map:
        """The map as a user has it."""
        return Map(self.landmarks)

    @staticmethod
    def describe(positions: Floats, seed: int) -> NDArray[np.float32]:
        """Descriptors of images at positions (n, k)."""
        waves = np.random.default_rng(0)
        ways, phase = waves.normal(size=(3, NUMBERS)) / SCALE, waves.uniform(0, 2 * np.pi, NUMBERS)
        seen = np.cos(positions @ ways[: positions.shape[1]] + phase)
        seen += NOISE * np.random.default_rng(seed).normal(size=seen.shape)
        return (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)

    @staticmethod
    def places(positions: Floats, name: str, **columns: Any) -> Places:
        """A table of these positions."""
        paths = [f"{name}/{row}.jpg" for row in range(len(positions))]
        given = dict(zip("xyz", positions.T, strict=False)) | {
            "path": paths,
            "frames": Frame("town"),
        }
        return Places(**(given | {"dimensions": positions.shape[1]} | columns))


def _town(dimensions: int) -> Town:
    random = np.random.default_rng(1)

    def drive(start: float, count: int, seed: int) -> tuple[Floats, NDArray[np.float32]]:
        along = np.linspace(start, start + LENGTH, count)
        road = np.column_stack([along, 30 * np.sin(along / 60), 6 * np.sin(along / 35)])[
            :, :dimensions
        ]
        sway = np.sin(
            along[:, None] / random.uniform(10, 20, dimensions) + random.uniform(0, 6, dimensions)
        )
        positions = road + 0.3 * random.normal(size=(1, dimensions)) + 0.5 * sway
        return positions, Town.describe(positions, seed)

    landmarks, seen = drive(0.0, int(LENGTH / SPACING), seed=2)
    bare = Landmarks.build(Town.places(landmarks, "landmarks"), seen, Town.encoder)
    known, elsewhere = drive(0.0, 500, seed=3), drive(2000.0, 300, seed=4)[1]
    calibration = calibrate(bare, (Town.places(known[0], "known"), known[1]), elsewhere=elsewhere)
    absent = drive(3000.0, 300, seed=6)[1]
    return Town(
        bare.with_calibration(calibration),
        calibration,
        known,
        drive(0.0, 400, seed=5),
        elsewhere,
        absent,
    )


@pytest.fixture(scope="session")
def town() -> Town:
    """The town on a plane."""
    return _town(2)


@pytest.fixture(scope="session")
def hills() -> Town:
    """The town in three dimensions."""
    return _town(3)
