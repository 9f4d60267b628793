"""Localization in metres: refined positions, how far intervals hold, whole drives, and images not on the map."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints, evenly
from mappable.evaluation.metrics import interval_scores, percent_within, precision_recall
from mappable.evaluation.scoring import AT_ONCE, Scoring, by_condition, landmarks_of
from mappable.evaluation.setup import Setup
from mappable.maps.calibrate import calibrate, calibrating
from mappable.maps.calibration import Calibration, Source
from mappable.maps.errors import UncalibratedError
from mappable.maps.locate import Locator
from mappable.maps.location import Location
from mappable.maps.map import Map
from mappable.maps.sequence import locate_sequence

CALIBRATION, TRAIN = 2500, 1500  # images at most to calibrate by, of either split
OTHERS = 1500  # images at most that are not on the map
COVERAGE, FALSE_ACCEPTS = 0.9, 0.05


@dataclass(frozen=True)
class Errors:
    """The median, and the percentages within the radii."""

    median: float
    positive: float
    negative: float


@dataclass(frozen=True)
class Intervals:
    """How often intervals of confident queries hold the truth, and how wide they are. Shares are percentages."""

    calibrated_on: str
    covered: float | None
    width: float | None
    unconditional_width: float | None  # of an interval that is the same for all
    confident: float | None
    refined: float | None


@dataclass(frozen=True)
class LocatedCondition:
    """The queries of one condition; medians are of errors, and shares percentages."""

    covered: float | None
    confident: float | None
    median: float | None
    top1_median: float


@dataclass(frozen=True)
class Rejection:
    """Precision and recall by a threshold of the feature distance; and percentages that the calibration accepts."""

    absent: Ints  # rows of the table: images that are not on the map
    thresholds: Floats
    precision: Floats
    recall: Floats
    average_precision: float
    accepted: float | None
    falsely_accepted: float | None


@dataclass(frozen=True)
class Localization:
    """Where all queries are found, and how much of what is said about them is true.

    Without a calibration there are no intervals, numbers that only a calibration gives are NaN, no query is confident,
    and `note` says why.
    """

    queries: Ints  # rows of the table
    landmarks: Ints  # rows of the table
    nearest: Ints  # row of the nearest landmark by feature, per query
    refined: Floats  # errors of refined positions, per query
    sequence: Floats  # errors of positions along whole drives, per query
    distance: Floats  # stated distance to the nearest landmark, per query, and its interval
    low: Floats
    high: Floats
    confident: Bools
    coverage: float
    intervals: Intervals | None
    errors: dict[str, Errors]  # of top-1, refined, sequence and bound
    by_condition: dict[str, LocatedCondition]
    rejection: Rejection
    note: str


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([setup.queries, rows_to_calibrate(setup), _some(setup.absent, OTHERS)])


def rows_to_calibrate(setup: Setup) -> Ints:
    """Those of the landmarks, of the images that their map is calibrated by, and of images from elsewhere."""
    return np.concatenate([landmarks_of(setup), known(setup)[0], _some(setup.elsewhere, OTHERS)])


def known(setup: Setup) -> tuple[Ints, Source]:
    """Rows of the images to calibrate by, and whether the encoder was trained on them."""
    images, source = calibrating(setup.calibration, setup.references, landmarks_of(setup))
    return _some(images, CALIBRATION if source == "calibration" else TRAIN), source


def calibrated_map(scoring: Scoring) -> tuple[Map, str]:
    """The usual landmarks, calibrated as given or by images of the set; else without, and a sentence why."""
    setup, described, landmarks = scoring.setup, scoring.descriptors, scoring.landmarks()
    bare = Map.build(setup.places[landmarks], described[landmarks], described.encoder)
    if scoring.calibration is not None:
        return bare.with_calibration(scoring.calibration), ""
    images, source = known(setup)
    elsewhere = _some(setup.elsewhere, OTHERS)
    try:
        calibration = calibrate(
            bare,
            described[images],
            setup.places.positions[images],
            source=source,
            coverage=COVERAGE,
            false_accepts=FALSE_ACCEPTS,
            elsewhere=described[elsewhere] if len(elsewhere) >= 1 / FALSE_ACCEPTS else None,
        )
    except UncalibratedError as error:
        return bare, f"The map is not calibrated: {error}."
    return bare.with_calibration(calibration), ""


def depends(scoring: Scoring) -> str:
    """What a result depends on beside the model and the set: a calibration that was given."""
    return "" if scoring.calibration is None else json.dumps(scoring.calibration.to_json())


def score(scoring: Scoring) -> Localization:
    """Where all queries are found, one by one and as drives, and how much of what is said about them is true."""
    landmarks, why_not = calibrated_map(scoring)
    one, calibration = _Located(scoring, Locator(landmarks)), landmarks.calibration
    return Localization(
        queries=scoring.setup.queries,
        landmarks=scoring.landmarks(),
        nearest=scoring.landmarks()[one.nearest(one.found)],
        refined=one.refined,
        sequence=one.sequence,
        distance=one.distance,
        low=one.low,
        high=one.high,
        confident=one.confident,
        coverage=COVERAGE if calibration is None else calibration.coverage,
        intervals=None if calibration is None else one.intervals(calibration),
        errors=one.errors(),
        by_condition=one.by_condition(),
        rejection=one.rejection(),
        note=why_not,
    )


class _Located:
    """The queries in a map. What only a calibration tells is NaN without one, and no query is confident."""

    def __init__(self, scoring: Scoring, locator: Locator) -> None:
        self.scoring, self.setup, self.locator = scoring, scoring.setup, locator
        self.calibrated = locator.map.calibration is not None
        self.found = self.locate(self.setup.queries)
        self.confident = _confident(self.found)
        self.distance, self.low, self.high = (_numbers(self.found, name) for name in ("distance", "low", "high"))
        self.top1 = self.to_nearest(self.setup.queries, self.found)
        self.bound = scoring.metres(self.setup.queries, scoring.landmarks()).min(axis=1)
        self.refined, self.sequence = np.full((2, len(self.found)), np.nan)
        if self.calibrated:
            self.refined = self.off(self.setup.queries, self.found)
            for own in self.setup.places[self.setup.queries].sequences().values():
                self.sequence[own] = self.off_as_drive(self.setup.queries[own])

    def locate(self, rows: Ints) -> list[Location]:
        """Where images are, each for itself."""
        described, found = self.scoring.descriptors, []
        for start in range(0, len(rows), AT_ONCE):
            found += self.locator.locate(described[rows[start : start + AT_ONCE]], encoder=described.encoder)
        return found

    def off(self, rows: Ints, found: Sequence[Location]) -> Floats:
        """How far images are from where they were found."""
        at = np.array([one.coordinates for one in found])
        errors: Floats = np.linalg.norm(self.setup.places.positions[rows] - at, axis=1)
        return errors

    def off_as_drive(self, rows: Ints) -> Floats:
        """The same of one drive, located as a whole."""
        described = self.scoring.descriptors
        return self.off(rows, locate_sequence(self.locator, described[rows], encoder=described.encoder))

    def nearest(self, found: Sequence[Location]) -> Ints:
        """Which landmarks of the map are nearest by feature."""
        number = {name: row for row, name in enumerate(self.locator.map.places.place_id)}
        return np.array([number[one.landmark] for one in found], dtype=np.int64)

    def to_nearest(self, rows: Ints, found: Sequence[Location]) -> Floats:
        """How far images are from their nearest landmarks by feature."""
        nearest = self.locator.positions[self.nearest(found)]
        metres: Floats = np.linalg.norm(self.setup.places.positions[rows] - nearest, axis=1)
        return metres

    def errors(self) -> dict[str, Errors]:
        """Medians, and percentages within the radii."""
        kinds = {"top-1": self.top1, "refined": self.refined, "sequence": self.sequence, "bound": self.bound}
        radii = self.setup.positive_radius, self.setup.negative_radius
        return {
            kind: Errors(float(np.median(own)), *(percent_within(own, radius) for radius in radii))
            for kind, own in kinds.items()
            if np.isfinite(own).all()
        }

    def intervals(self, calibration: Calibration) -> Intervals:
        """How often they hold the truth, and how wide they are: of confident queries."""
        covered, width = self.covered(np.arange(len(self.found)))
        return Intervals(
            calibrated_on=calibration.source,
            covered=covered,
            width=width,
            unconditional_width=self.unconditional_width(calibration.coverage),
            confident=_percent(self.confident),
            refined=_percent(np.array([one.refined for one in self.found])),
        )

    def covered(self, which: Ints) -> tuple[float | None, float | None]:
        sure = which[self.confident[which]]
        return interval_scores(self.low[sure], self.high[sure], self.top1[sure])

    def unconditional_width(self, coverage: float) -> float | None:
        """Of an interval that is the same for all: from a low to a high quantile of what was calibrated by."""
        images = known(self.setup)[0]
        found = self.locate(images)
        metres = self.to_nearest(images, found)[_confident(found)]
        if not len(metres):
            return None
        return float(np.ptp(np.quantile(metres, [(1 - coverage) / 2, (1 + coverage) / 2])))

    def by_condition(self) -> dict[str, LocatedCondition]:
        """The main figures of each condition."""
        return {
            name: LocatedCondition(
                covered=self.covered(own)[0],
                confident=_percent(self.confident[own]) if self.calibrated else None,
                median=float(np.median(self.refined[own])) if self.calibrated else None,
                top1_median=float(np.median(self.top1[own])),
            )
            for name, own in by_condition(self.setup).items()
        }

    def rejection(self) -> Rejection:
        """By feature distance alone, where images that are not on the map are never right; and by the calibration."""
        rows = _some(self.setup.absent, OTHERS)
        absent = self.locate(rows)
        on_the_map = self.bound <= self.setup.positive_radius
        right = np.concatenate([self.top1 <= self.setup.positive_radius, np.zeros(len(absent), dtype=bool)])
        distances = _numbers([*self.found, *absent], "feature_distance")
        thresholds, precision, recall, average = precision_recall(distances, right, int(on_the_map.sum()))
        return Rejection(
            absent=rows,
            thresholds=thresholds,
            precision=precision,
            recall=recall,
            average_precision=average,
            accepted=_percent(self.confident[on_the_map]) if self.calibrated else None,
            falsely_accepted=_percent(_confident(absent)) if self.calibrated else None,
        )


def _some(rows: Ints, most: int) -> Ints:
    return rows[evenly(len(rows), most, nearest=True)]


def _numbers(found: Sequence[Location], name: str) -> Floats:
    """What is said of each; NaN where nothing is."""
    return np.array([getattr(one, name) for one in found], dtype=np.float64)


def _confident(found: Sequence[Location]) -> Bools:
    return np.array([one.confident for one in found], dtype=bool)


def _percent(holds: Bools) -> float | None:
    return 100.0 * float(holds.mean()) if len(holds) else None
