"""A synthetic street, models whose feature distances follow positions, and their results of all protocols."""

from dataclasses import replace

import numpy as np
import pytest

from made_results import Numbered, measured
from mappable.arrays import Floats, Floats32
from mappable.evaluation.protocol import Images
from mappable.evaluation.result import Result
from mappable.evaluation.scoring import Descriptors, Scoring
from mappable.evaluation.setup import Region, Setup, setup_of
from mappable.features.about import About
from mappable.places.frames import Frame
from mappable.places.table import Places

# Of a descriptor; metres over which it changes; what an image has of its own.
NUMBERS, SCALE, NOISE = 48, 10.0, 0.6
RADIUS = 10.0
LENGTH, STEP = 300.0, 2.0
MODELS = {"off-the-shelf": (0,), "triplet": (1, 0), "triplet+huber": (0,)}  # seeds by row
# Noise added to the descriptors of a row.
NOISIER = {"off-the-shelf": 1.5, "triplet": 0.8, "triplet+huber": 0.3}
LOOK = {"sun": 0.0, "night": 0.35}  # what a condition adds to all its descriptors
# Per drive: split, role, condition, and offset of its street in metres.
DRIVES = {
    "train-sun": ("train", "", "sun", 0.0),
    "train-night": ("train", "", "night", 0.0),
    "calibration-sun": ("calibration", "", "sun", 0.0),
    "calibration-night": ("calibration", "", "night", 0.0),
    "test-sun": ("test", "", "sun", 0.0),
    "test-night": ("test", "", "night", 0.0),
    "b-reference": ("", "reference", "sun", 2000.0),
    "b-query": ("", "query", "sun", 2000.0),
    "leaving-query": ("", "query", "sun", 4000.0),
}


@pytest.fixture(scope="session")
def scoring() -> Scoring:
    """A street of 300 m with two bends, an image each 2 m, and a model that tells places up to some
    20 m apart.

    It is driven twice, in sun and at night, for each split. Region B is another street, whose
    queries are not on the map of this one, and no more is a third, by whose queries rejection is
    tested.
    """
    random = np.random.default_rng(0)
    names = list(DRIVES)
    ways = [_drive(DRIVES[name][3], random) for name in names]
    counts = [len(way) for way in ways]
    positions = np.concatenate(ways)
    split, role, condition, _ = (
        np.repeat(np.array(column), counts) for column in zip(*DRIVES.values(), strict=True)
    )
    sequence = np.repeat(names, counts)
    times = np.concatenate([np.arange(count) for count in counts]) * 200_000_000
    places = Places(
        path=[f"{name}/{time}.jpg" for name, time in zip(sequence, times, strict=True)],
        x=positions[:, 0],
        y=positions[:, 1],
        time=times,
        sequence=sequence,
        condition=condition,
        split=split,
        role=role,
        frames=Frame("street"),
    )
    rows = {name: np.flatnonzero(sequence == name) for name in names}
    setup = setup_of(
        "made-up",
        places,
        positive_radius=RADIUS,
        negative_radius=25.0,
        landmarks=60,
        counts=(25, 50, 100),
        regions=(Region("b", rows["b-reference"], rows["b-query"]),),
        elsewhere=rows["b-query"],
        absent=rows["leaving-query"],
        gallery_landmarks=30,
    )
    values = _describe(positions, np.array([LOOK[name] for name in condition]), random)
    about = About(
        weights="random",
        size=(64, 48),
        fit="crop",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        unit="m",
        positive_radius=RADIUS,
        negative_radius=25.0,
        feature_scale_squared=0.9,
        proportional=True,
    )
    return Scoring(setup, Descriptors(np.arange(len(places)), values, "made-up"), about)


def _drive(away: float, random: np.random.Generator) -> Floats:
    """Positions along a street, with a small offset from other drives."""
    x = np.arange(0.0, LENGTH, STEP) + random.uniform(0, STEP)
    road = np.column_stack([x + away, 40 * np.sin(x / 70)])
    sway: Floats = 0.5 * np.sin(x[:, None] / random.uniform(10, 20, 2) + random.uniform(0, 6, 2))
    return road + sway


def _describe(positions: Floats, look: Floats, random: np.random.Generator) -> Floats32:
    """Unit vectors made of waves in many directions, which change smoothly with the position."""
    ways, phase = random.normal(size=(2, NUMBERS)) / SCALE, random.uniform(0, 2 * np.pi, NUMBERS)
    seen = np.cos(positions @ ways + phase) + look[:, None] * random.normal(size=NUMBERS)
    seen += (
        NOISE * random.exponential(size=(len(seen), 1)) * random.normal(size=seen.shape)
    )  # some images show hardly anything
    return (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="session")
def setup(scoring: Scoring) -> Setup:
    return scoring.setup


@pytest.fixture(scope="session")
def images() -> Images:
    return Numbered().read


@pytest.fixture(scope="session")
def results(scoring: Scoring) -> list[Result]:
    """Off-the-shelf, triplet with the seeds 1 and 0, and triplet + Huber."""
    found = []
    for row, seed in ((row, seed) for row, seeds in MODELS.items() for seed in seeds):
        random = np.random.default_rng([len(row), seed])
        values = scoring.descriptors.values
        noisy = values + NOISIER[row] * random.normal(size=values.shape) / np.sqrt(NUMBERS)
        unit = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
        found.append(
            measured(
                replace(scoring, descriptors=replace(scoring.descriptors, values=unit)), row, seed
            )
        )
    return found
