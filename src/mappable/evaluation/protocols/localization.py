"""Localization in metres: refined positions, how far intervals hold, whole drives, and images not on the map."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Ints, evenly
from mappable.evaluation.metrics import interval_scores, percent_within, precision_recall
from mappable.evaluation.protocols.table1 import by_condition
from mappable.evaluation.scoring import AT_ONCE, Scored, Scoring, landmarks_of
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


def score(scoring: Scoring) -> Scored:
    """Where all queries are found, one by one and as drives, and how much of what is said about them is true."""
    landmarks, why_not = calibrated_map(scoring)
    one = _Located(scoring, Locator(landmarks))
    values: dict[str, Any] = {"coverage": COVERAGE}
    if landmarks.calibration is not None:
        values |= one.intervals(landmarks.calibration)
    else:
        nothing = ("calibrated_on", "covered", "width", "unconditional_width", "confident", "refined")
        values |= dict.fromkeys(nothing) | {"note": why_not}
    values |= {"errors": one.errors(), "by_condition": one.by_condition(), "rejection": one.rejection()}
    return Scored(values, {"refined": one.refined, "sequence": one.sequence, **one.said, "confident": one.confident})


class _Located:
    """The queries in a map. What only a calibration tells is NaN without one, and no query is confident."""

    def __init__(self, scoring: Scoring, locator: Locator) -> None:
        self.scoring, self.setup, self.locator = scoring, scoring.setup, locator
        self.calibrated = locator.map.calibration is not None
        self.found = self.locate(self.setup.queries)
        self.confident = _confident(self.found)
        stated = {"metres": "distance", "low": "low", "high": "high"}
        self.said = {name: _numbers(self.found, field) for name, field in stated.items()}
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

    def to_nearest(self, rows: Ints, found: Sequence[Location]) -> Floats:
        """How far images are from their nearest landmarks by feature."""
        number = {name: row for row, name in enumerate(self.locator.map.places.place_id)}
        nearest = self.locator.positions[[number[one.landmark] for one in found]]
        metres: Floats = np.linalg.norm(self.setup.places.positions[rows] - nearest, axis=1)
        return metres

    def errors(self) -> dict[str, Any]:
        """Medians, and percentages within the radii."""
        kinds = {"top-1": self.top1, "refined": self.refined, "sequence": self.sequence, "bound": self.bound}
        radii = {"positive": self.setup.positive_radius, "negative": self.setup.negative_radius}
        return {
            kind: {"median": float(np.median(own)), **{name: percent_within(own, far) for name, far in radii.items()}}
            for kind, own in kinds.items()
            if np.isfinite(own).all()
        }

    def intervals(self, calibration: Calibration) -> dict[str, Any]:
        """How often they hold the truth, and how wide they are: of confident queries."""
        covered, width = self.covered(np.arange(len(self.found)))
        return {
            "calibrated_on": calibration.source,
            "coverage": calibration.coverage,
            "covered": covered,
            "width": width,
            "unconditional_width": self.unconditional_width(calibration.coverage),
            "confident": _percent(self.confident),
            "refined": _percent(np.array([one.refined for one in self.found])),
        }

    def covered(self, which: Ints) -> tuple[float | None, float | None]:
        sure = which[self.confident[which]]
        return interval_scores(self.said["low"][sure], self.said["high"][sure], self.top1[sure])

    def unconditional_width(self, coverage: float) -> float | None:
        """Of an interval that is the same for all: from a low to a high quantile of what was calibrated by."""
        images = known(self.setup)[0]
        found = self.locate(images)
        metres = self.to_nearest(images, found)[_confident(found)]
        if not len(metres):
            return None
        return float(np.ptp(np.quantile(metres, [(1 - coverage) / 2, (1 + coverage) / 2])))

    def by_condition(self) -> dict[str, Any]:
        """The main figures of each condition."""
        return {
            name: {
                "covered": self.covered(own)[0],
                "confident": _percent(self.confident[own]) if self.calibrated else None,
                "median": float(np.median(self.refined[own])) if self.calibrated else None,
                "top-1": float(np.median(self.top1[own])),
            }
            for name, own in by_condition(self.setup).items()
        }

    def rejection(self) -> dict[str, Any]:
        """By feature distance alone, where images that are not on the map are never right; and by the calibration."""
        absent = self.locate(_some(self.setup.absent, OTHERS))
        on_the_map = self.bound <= self.setup.positive_radius
        right = np.concatenate([self.top1 <= self.setup.positive_radius, np.zeros(len(absent), dtype=bool)])
        distances = _numbers([*self.found, *absent], "feature_distance")
        thresholds, precision, recall, average = precision_recall(distances, right, int(on_the_map.sum()))
        return {
            "thresholds": thresholds.tolist(),
            "precision": precision.tolist(),
            "recall": recall.tolist(),
            "average_precision": average,
            "accepted": _percent(self.confident[on_the_map]) if self.calibrated else None,
            "falsely_accepted": _percent(_confident(absent)) if self.calibrated else None,
            "absent": len(absent),
        }


def _some(rows: Ints, most: int) -> Ints:
    return rows[evenly(len(rows), most, nearest=True)]


def _numbers(found: Sequence[Location], name: str) -> Floats:
    """What is said of each; NaN where nothing is."""
    return np.array([getattr(one, name) for one in found], dtype=np.float64)


def _confident(found: Sequence[Location]) -> Bools:
    return np.array([one.confident for one in found], dtype=bool)


def _percent(holds: Bools) -> float | None:
    return 100.0 * float(holds.mean()) if len(holds) else None
