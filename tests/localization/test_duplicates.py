"""Maps of duplicated images and places: positions stay finite and right, and confidence does not grow."""

import numpy as np
import pytest

from mappable.arrays import Floats, Floats32
from mappable.localization.fitting import calibrate
from mappable.localization.map import Map
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

pytestmark = pytest.mark.medium

Drive = tuple[Floats, Floats32]
ENCODER = "made-up"


def describe(positions: Floats, seed: int) -> Floats32:
    """Descriptors of length one that change smoothly along the way, with noise."""
    waves = np.random.default_rng(0)
    seen = np.cos(positions @ waves.normal(size=(2, 192)) / 8 + waves.uniform(0, 2 * np.pi, 192))
    seen += 0.25 * np.random.default_rng(seed).normal(size=seen.shape)
    return (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)


def drive(count: int, seed: int) -> Drive:
    along = np.linspace(0, 400, count)
    positions = np.column_stack([along, 30 * np.sin(along / 60)])
    return positions, describe(positions, seed)


def joined(*parts: Drive) -> Drive:
    return np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])


def copies(of: Drive, count: int) -> Drive:
    """The first image of a drive, many times."""
    return np.repeat(of[0][:1], count, axis=0), np.repeat(of[1][:1], count, axis=0)


LANDMARKS, KNOWN, ASKED = drive(80, 2), drive(200, 3), drive(60, 5)


def table(of: Drive) -> Places:
    paths = [f"{row}.jpg" for row in range(len(of[0]))]
    return Places(path=paths, x=of[0][:, 0], y=of[0][:, 1], frames=Frame("town"))


def located(landmarks: Drive, known: Drive) -> tuple[float, int]:
    """Median error, and how many of 60 images are confident."""
    bare = Landmarks.build(table(landmarks), landmarks[1], ENCODER)
    calibrated = bare.with_calibration(calibrate(bare, (table(known), known[1])))
    found = Map(calibrated).locate_all(ASKED[1])
    assert len(found) == len(ASKED[0])
    errors = np.linalg.norm(np.array([one.coordinates for one in found]) - ASKED[0], axis=1)
    assert np.isfinite(errors).all()
    return float(np.median(errors)), sum(one.confident for one in found)


def test_duplicates_do_not_make_a_map_wrong_or_surer() -> None:
    error, confident = located(LANDMARKS, KNOWN)
    cases = {
        "each landmark twice": (joined(LANDMARKS, LANDMARKS), KNOWN),
        "calibrated also by copies of landmarks": (LANDMARKS, joined(LANDMARKS, KNOWN)),
        "calibrated by copies of landmarks alone": (LANDMARKS, LANDMARKS),
        "a camera that stood still": (LANDMARKS, joined(copies(KNOWN, 150), KNOWN)),
    }
    for name, (landmarks, known) in cases.items():
        found = located(landmarks, known)
        assert found[0] <= 2 * error + 0.1, name
        assert found[1] <= confident + 3, name
