"""Compute localization in metres: refined positions, intervals, whole drives, and images not on the map."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mappable.arrays import Bools, Floats, Ints, evenly
from mappable.evaluation.metrics import interval_scores
from mappable.evaluation.protocols.localization.rules import RULES, sureness
from mappable.evaluation.scoring import AT_ONCE, Scoring, landmarks_of
from mappable.evaluation.setup import Setup
from mappable.localization.fitting import calibrate_or_say
from mappable.localization.location import Location
from mappable.localization.map import Map
from mappable.maps.landmarks import Landmarks

CALIBRATION = 2500  # most images to calibrate with
OTHERS = 1500  # most images that are not on the map
COVERAGE, FALSE_ACCEPTS = 0.9, 0.05


@dataclass(frozen=True)
class Localization:
    """Positions of all queries and what the map states about them: arrays with one value per query, and some numbers.

    Without a calibration, `calibrated_on` is "", `note` gives the reason, values that need a calibration are NaN, and
    no query is confident.
    """

    queries: Ints  # rows of the table
    landmarks: Ints  # rows of the table
    nearest: Ints  # row of the nearest landmark by feature
    feature: Floats  # feature distance to that landmark
    top1: Floats  # error of that landmark's position
    refined: Floats  # error of the position between landmarks
    sequence: Floats  # error of the position along the whole drive
    sequence_distance: Floats  # true distance to the drive's landmark; the next two are its stated interval
    sequence_low: Floats
    sequence_high: Floats
    sequence_confident: Bools
    bound: Floats  # distance to the nearest landmark on the ground
    to_landmark: Floats  # true distance to the likeliest landmark
    distance: Floats  # stated distance to the likeliest landmark; the next two are its interval
    low: Floats
    high: Floats
    confident: Bools
    between: Bools  # True if the position was refined
    absent: Ints  # rows of images that are not on the map
    absent_feature: Floats
    absent_confident: Bools
    absent_sequence_confident: Bools
    rules: dict[str, Floats]  # score of each of `rules.RULES` for each query, then for each image not on the map
    calibrated_on: str
    coverage: float  # stated by the intervals
    note: str

    def covered(self, which: Ints | None = None) -> tuple[float | None, float | None]:
        """Percent of the intervals of confident queries that contain the truth, and their mean width."""
        sure = np.flatnonzero(self.confident) if which is None else which[self.confident[which]]
        return interval_scores(self.low[sure], self.high[sure], self.to_landmark[sure])

    def calibrated(self, holds: Bools) -> float | None:
        """Percent of True values; None without a calibration."""
        return 100.0 * float(holds.mean()) if self.calibrated_on and len(holds) else None


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([setup.queries, rows_to_calibrate(setup), _some(setup.absent, OTHERS)])


def rows_to_calibrate(setup: Setup) -> Ints:
    """Rows of the landmarks, of the images that calibrate their map, and of images from elsewhere."""
    return np.concatenate([landmarks_of(setup), _some(setup.calibration, CALIBRATION), _some(setup.elsewhere, OTHERS)])


def calibrated_map(scoring: Scoring) -> tuple[Landmarks, str]:
    """The map of the usual landmarks, with the given calibration or one from images of the set.

    If calibration fails, the map has none and the second value says why. The map is built once per scoring.
    """
    if "map" not in scoring.shared:
        scoring.shared["map"] = _calibrated_map(scoring)
    found: tuple[Landmarks, str] = scoring.shared["map"]
    return found


def _calibrated_map(scoring: Scoring) -> tuple[Landmarks, str]:
    setup, described, landmarks = scoring.setup, scoring.descriptors, np.sort(scoring.landmarks())
    bare = Landmarks.build(setup.places[landmarks], described[landmarks], described.encoder)
    if scoring.calibration is not None:
        return bare.with_calibration(scoring.calibration), ""
    images, elsewhere = _some(setup.calibration, CALIBRATION), _some(setup.elsewhere, OTHERS)
    absent = described[elsewhere] if len(elsewhere) >= 1 / FALSE_ACCEPTS else None
    return calibrate_or_say(
        bare,
        setup.places[images],
        described[images],
        coverage=COVERAGE,
        elsewhere=absent,
        false_accepts=FALSE_ACCEPTS,
    )


def depends(scoring: Scoring) -> str:
    """What a result depends on besides the model and the set: a given calibration."""
    return "" if scoring.calibration is None else json.dumps(scoring.calibration.to_json())


def score(scoring: Scoring) -> Localization:
    """Locate all queries, one by one and as drives, and record what the map states about each."""
    built, why_not = calibrated_map(scoring)
    calibration, setup, described = built.calibration, scoring.setup, scoring.descriptors
    at, queries, opened = setup.places.positions, setup.queries, Map(built)
    landmarks = np.sort(scoring.landmarks())  # in the order taken, as the map's

    def locate(rows: Ints) -> list[Location]:
        parts = [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]
        return [one for part in parts for one in opened.locate_all(described[part])]

    def off(rows: Ints, found: Sequence[Location]) -> Floats:
        errors: Floats = np.linalg.norm(at[rows] - np.array([one.coordinates for one in found]), axis=1)
        return errors

    number = {name: row for row, name in enumerate(built.places.place_id)}
    found, absent = locate(queries), _some(setup.absent, OTHERS)
    nearest = landmarks[[number[one.candidates[0].landmark] for one in found]]
    stated = landmarks[[number[one.landmark] for one in found]]
    refined, drives = np.full(len(found), np.nan), Drives.unknown(len(found), len(absent))
    if calibration is not None:
        refined, drives = off(queries, found), _drives(opened, scoring, queries, absent)
    elsewhere = locate(absent)
    return Localization(
        queries=queries,
        landmarks=landmarks,
        nearest=nearest,
        feature=_feature(found),
        top1=np.linalg.norm(at[queries] - at[nearest], axis=1),
        refined=refined,
        sequence=drives.errors,
        sequence_distance=drives.distance,
        sequence_low=drives.low,
        sequence_high=drives.high,
        sequence_confident=drives.confident[: len(found)],
        bound=scoring.metres(queries, landmarks).min(axis=1),
        to_landmark=np.linalg.norm(at[queries] - at[stated], axis=1),
        distance=_numbers(found, "distance"),
        low=_numbers(found, "low"),
        high=_numbers(found, "high"),
        confident=_numbers(found, "confident").astype(bool),
        between=_numbers(found, "refined").astype(bool),
        absent=absent,
        absent_feature=_feature(elsewhere),
        absent_confident=_numbers(elsewhere, "confident").astype(bool),
        absent_sequence_confident=drives.confident[len(found) :],
        rules=drives.rules,
        calibrated_on="" if calibration is None else calibration.calibrated_on,
        coverage=COVERAGE if calibration is None else calibration.coverage,
        note=why_not,
    )


@dataclass(frozen=True)
class Drives:
    """Results of locating whole drives. `confident` and `rules` cover all queries, then the images not on the map.

    The other arrays cover the queries only.
    """

    errors: Floats
    distance: Floats
    low: Floats
    high: Floats
    confident: Bools
    rules: dict[str, Floats]

    @classmethod
    def unknown(cls, queries: int, absent: int) -> "Drives":
        """Results without a calibration: NaN, no confident query, no rules."""
        errors, distance, low, high = np.full((4, queries), np.nan)
        return cls(errors, distance, low, high, np.zeros(queries + absent, dtype=bool), {})


def _drives(opened: Map, scoring: Scoring, queries: Ints, absent: Ints) -> Drives:
    """Locate the queries, and the images that are not on the map, by sequence."""
    places, described = scoring.setup.places, scoring.descriptors
    found = Drives.unknown(len(queries), len(absent))
    rules = {name: np.empty(len(queries) + len(absent)) for name in RULES}
    number = {name: row for row, name in enumerate(opened.landmarks.places.place_id)}
    for first, rows in ((0, queries), (len(queries), absent)):
        for own in places[rows].sequences().values():
            drive = opened.locate_drive(described[rows[own]])
            found.confident[first + own] = [one.confident for one in drive]
            for name, values in sureness(opened, described[rows[own]]).items():
                rules[name][first + own] = values
            if not first:
                at = places.positions[rows[own]]
                landmarks = opened.landmarks.places.positions[[number[one.landmark] for one in drive]]
                found.errors[own] = np.linalg.norm(at - np.array([one.coordinates for one in drive]), axis=1)
                found.distance[own] = np.linalg.norm(at - landmarks, axis=1)
                found.low[own], found.high[own] = _numbers(drive, "low"), _numbers(drive, "high")
    return replace(found, rules=rules)


def _some(rows: Ints, most: int) -> Ints:
    return rows[evenly(len(rows), most, nearest=True)]


def _feature(found: Sequence[Location]) -> Floats:
    """Feature distances (n,) to the nearest landmarks."""
    return np.array([one.candidates[0].feature_distance for one in found], dtype=np.float64)


def _numbers(found: Sequence[Location], name: str) -> Floats:
    """A field of each location as numbers; NaN for None."""
    return np.array([getattr(one, name) for one in found], dtype=np.float64)
