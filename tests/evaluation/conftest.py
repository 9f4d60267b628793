"""Fixtures for tests of figures: results of three models on a synthetic street in sun, rain and at night."""

from dataclasses import replace

import numpy as np
import pytest

from mappable.arrays import Floats, Floats32, Ints, Pixels, path_length
from mappable.evaluation.protocol import Images
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.protocols.localization import Localization
from mappable.evaluation.protocols.map_recovery import MapRecovery
from mappable.evaluation.result import Accuracy, Result, empty_result
from mappable.evaluation.rows import ROWS
from mappable.evaluation.scoring import Descriptors, Scoring
from mappable.evaluation.setup import Setup, setup_of
from mappable.features.about import About
from mappable.places.frames import Frame
from mappable.places.table import Places

IMAGES, STEP = 30, 6.0  # of a drive, and metres between them
DRIVES = {"train-sun": "train", "train-rain": "train", "test-sun": "test", "test-rain": "test", "test-night": "test"}
# Per model: metres over which its descriptors change, and their noise. Per condition: a factor of the noise.
MODELS = {"off-the-shelf": (3.0, 0.7), "triplet": (8.0, 0.3), "triplet+huber": (25.0, 0.12)}
NOISIER = {"sun": 1.0, "rain": 1.5, "night": 2.5}
DRAWN = ("table1", "curves", "proportionality", "distance-matrices", "landmark-sweep", "qualitative")


@pytest.fixture(scope="session")
def setup() -> Setup:
    """Two drives with 20 landmarks, and three drives to locate."""
    x = np.arange(IMAGES) * STEP
    road = np.column_stack([x, 30 * np.sin(x / 40)])
    at = np.concatenate([road + 0.7 * number for number in range(len(DRIVES))])
    names = np.repeat(list(DRIVES), IMAGES)
    places = Places(
        path=[f"{name}/{number % IMAGES}.jpg" for number, name in enumerate(names)],
        x=at[:, 0],
        y=at[:, 1],
        sequence=names,
        condition=[name.split("-")[1] for name in names],
        split=[DRIVES[name] for name in names],
        frames=Frame("street"),
    )
    counts = (10, 20, 40)
    return setup_of("street", places, positive_radius=10.0, negative_radius=25.0, landmarks=20, counts=counts)


@pytest.fixture(scope="session")
def results(setup: Setup) -> list[Result]:
    """Off-the-shelf, triplet with the seeds 1 and 0, and triplet + Huber."""
    return [_result(setup, row, seed) for row in MODELS for seed in ((1, 0) if row == "triplet" else (0,))]


@pytest.fixture(scope="session")
def images() -> Images:
    """Gray images, as bright as their row number."""

    def load(rows: Ints) -> Pixels:
        return np.repeat(rows, 12 * 16 * 3).reshape(-1, 12, 16, 3).astype(np.uint8)

    return load


def _result(setup: Setup, row: str, seed: int) -> Result:
    about = About(weights="random", size=(16, 12), fit="crop", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    described = Descriptors(np.arange(len(setup.places)), _describe(setup.places, *MODELS[row], seed), row)
    scoring = Scoring(setup, described, about)
    scored = {name: PROTOCOLS[name].score(scoring) for name in DRAWN}
    empty = empty_result(setup, row=row, title=ROWS[row].title, seed=seed, encoder=row, settings={})
    result = replace(empty, scored=scored)
    return replace(result, scored=scored | {"localization": _localized(result), "map-recovery": _recovered(setup)})


def _describe(places: Places, scale: float, noise: float, seed: int) -> Floats32:
    random = np.random.default_rng(seed)
    ways, phase = random.normal(size=(2, 64)) / scale, random.uniform(0, 2 * np.pi, 64)
    more = np.array([NOISIER[name] for name in places.condition])
    seen = np.cos(places.positions @ ways + phase) + noise * more[:, None] * random.normal(size=(len(places), 64))
    return (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)


def _localized(result: Result) -> Localization:
    """Intervals of 4 m around a distance that is 1 m too long; not confident at night."""
    known = result.get(Accuracy)
    assert known is not None
    truly = known.errors
    stated, confident = truly + 1.0, result.conditions != "night"
    unknown = np.full(len(truly), np.nan)
    return Localization(
        queries=known.queries,
        landmarks=known.landmarks,
        nearest=known.retrieved,
        feature=truly,
        top1=truly,
        to_landmark=truly,
        refined=truly,
        sequence=unknown,
        sequence_distance=unknown,
        sequence_low=unknown,
        sequence_high=unknown,
        sequence_confident=np.zeros(len(truly), dtype=bool),
        bound=known.bound,
        distance=stated,
        low=stated - 2,
        high=stated + 2,
        confident=confident,
        between=confident,
        absent=np.arange(0),
        absent_feature=np.zeros(0),
        absent_confident=np.zeros(0, dtype=bool),
        absent_sequence_confident=np.zeros(0, dtype=bool),
        rules={},
        calibrated_on="calibration",
        coverage=0.9,
        note="",
    )


def _recovered(setup: Setup) -> MapRecovery:
    """The truth, shifted by 1, 2, 3 and 4 m."""
    rows = setup.rows_of(setup.route, setup.queries)
    truth = setup.places.positions[rows]
    apart: Floats = np.linalg.norm(truth[:, None] - truth, axis=2)
    names = ("mds", "smacof", "recovered", "anchored")
    return MapRecovery(
        sequence=setup.route,
        images=rows,
        known=rows[:10],
        length=float(path_length(truth)[-1]),
        repetitions=1,
        methods=[],
        mask=None,
        notes=[],
        truth=truth,
        true=apart,
        masked=np.where(apart < 10, apart, np.nan),
        completed=2 * apart,
        positions={name: truth + np.array([shift, 0.0]) for shift, name in enumerate(names, 1)},
    )
