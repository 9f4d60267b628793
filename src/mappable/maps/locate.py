"""Localization: where an image is, how far from the nearest landmark, and whether to believe it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.maps.between import Between
from mappable.maps.calibration import Calibration, Look, between_of, look, neighbours_of
from mappable.maps.map import Map

CANDIDATES = 5  # landmarks that a position names


@dataclass(frozen=True, eq=False)
class Position:
    """Where an image is, in the frame and unit of the map.

    `metres` (in that unit) lie between the image and its nearest landmark by feature, and with the probability
    `coverage` between `low` and `high`. The `coordinates` (k,) are refined between landmarks where `refined`, and else
    those of the nearest landmark; if the place is right, they are known up to the `covariance` (k, k). An image that is
    not `confident` may be anywhere, for the `reason` given. What a calibration does not tell, or a map without one, is
    None.
    """

    coordinates: Floats
    frame: str
    unit: str
    landmark: str  # place_id of the nearest by feature
    feature_distance: float  # to it; not squared
    metres: float | None
    low: float | None
    high: float | None
    coverage: float | None
    covariance: Floats | None
    refined: bool
    confident: bool
    reason: str
    candidates: tuple[tuple[str, float], ...]  # place_ids of the nearest landmarks, and their feature distances

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        values = dict(vars(self))
        values["coordinates"] = self.coordinates.tolist()
        values["covariance"] = None if self.covariance is None else self.covariance.tolist()
        values["candidates"] = [{"landmark": name, "feature_distance": far} for name, far in self.candidates]
        return values


class Locator:
    """A map made ready for queries; several threads may ask at once."""

    def __init__(self, landmarks: Map) -> None:
        self.map = landmarks
        self.positions = landmarks.places.positions

    @cached_property
    def calibration(self) -> Calibration:
        """That of the map, which must have one."""
        if self.map.calibration is None:
            raise BadInputError("the map has no calibration: build it with images to calibrate by")
        return self.map.calibration

    @cached_property
    def between(self) -> Between:
        """The points between landmarks."""
        return between_of(self.map, self.calibration.response, self.calibration.spacing)

    @cached_property
    def neighbours(self) -> int:
        """Landmarks to look at for one image: as many as for the calibration, or more where the map has grown."""
        return max(self.calibration.neighbours, neighbours_of(self.positions, self.calibration.response.reach))

    def locate(self, descriptors: Floats32, *, encoder: str, coverage: float | None = None) -> list[Position]:
        """Where the images of descriptors (n, D) are, which the encoder of that fingerprint made.

        Intervals have the coverage of the calibration, unless another is asked for.
        """
        if self.map.calibration is None:
            rows, squared = self.map.nearest(descriptors, CANDIDATES, encoder=encoder)
            return [self._uncalibrated(*one) for one in zip(rows, squared, strict=True)]
        rows, squared = self.map.nearest(descriptors, self.neighbours, encoder=encoder)
        return self.judge(rows, squared, self.look(rows, squared), coverage)

    def look(self, rows: Ints, squared: Floats32, place: Bools | None = None) -> Look:
        """What the nearest landmarks (n, c) say about images, whose `place` may be known: which of them are there."""
        return look(self.positions, self.between, rows, squared, self.calibration, place=place)

    def judge(self, rows: Ints, squared: Floats32, seen: Look, coverage: float | None = None) -> list[Position]:
        """What is said of images of which so much was seen."""
        calibration, ids = self.calibration, self.map.places.place_id
        coverage = calibration.coverage if coverage is None else coverage
        confident, feature = seen.confident(calibration), np.sqrt(seen.evidence.nearest)
        stated = calibration.confident.predict(feature, coverage)
        known = confident
        if calibration.doubtful is not None:
            doubtful = calibration.doubtful.predict(feature, coverage)
            known = feature <= calibration.retrieved.furthest
        else:
            doubtful = stated  # and not told
        pairs = zip(stated, doubtful, strict=True)
        metres, low, high = (np.maximum(seen.metres + np.where(confident, *pair), 0.0) for pair in pairs)
        refined = seen.found.supported
        covariances = calibration.covariance(seen.found)
        plain = calibration.plain_deviation**2 * np.eye(self.positions.shape[1])
        return [
            Position(
                coordinates=seen.found.position[n],
                frame=self.map.frame.name,
                unit=self.map.unit,
                landmark=str(ids[seen.evidence.landmark[n]]),
                feature_distance=float(feature[n]),
                metres=float(metres[n]) if known[n] else None,
                low=float(low[n]) if known[n] else None,
                high=float(high[n]) if known[n] else None,
                coverage=coverage if known[n] else None,
                covariance=covariances[n] if refined[n] else plain,
                refined=bool(refined[n]),
                confident=bool(confident[n]),
                reason="" if confident[n] else self._reason(seen, n),
                candidates=self._candidates(rows[n], squared[n]),
            )
            for n in range(len(rows))
        ]

    def _reason(self, seen: Look, n: int) -> str:
        """Why an image is not confident."""
        evidence, calibration = seen.evidence, self.calibration
        feature, furthest = float(np.sqrt(evidence.nearest[n])), calibration.retrieved.furthest
        if feature > furthest:
            return f"outside validity: feature distance {feature:.3f}, where calibration saw {furthest:.3f} at most"
        if seen.matched[n] > calibration.threshold:
            return f"too far: farther from every landmark than images of this map are (feature distance {feature:.3f})"
        ids, rival = self.map.places.place_id, int(evidence.rival[n])
        if rival < 0:
            return "aliased: no other place is on the map to tell this one from"
        away = np.linalg.norm(self.positions[rival] - self.positions[evidence.landmark[n]])
        return f"aliased: {ids[rival]}, {away:.1f} {self.map.unit} from {ids[evidence.landmark[n]]}, is nearly as near"

    def _uncalibrated(self, rows: Ints, squared: Floats32) -> Position:
        return Position(
            coordinates=self.positions[rows[0]],
            frame=self.map.frame.name,
            unit=self.map.unit,
            landmark=str(self.map.places.place_id[rows[0]]),
            feature_distance=float(np.sqrt(squared[0])),
            metres=None,
            low=None,
            high=None,
            coverage=None,
            covariance=None,
            refined=False,
            confident=False,
            reason="the map has no calibration",
            candidates=self._candidates(rows, squared),
        )

    def _candidates(self, rows: Ints, squared: Floats32) -> tuple[tuple[str, float], ...]:
        some = zip(rows[:CANDIDATES], squared[:CANDIDATES], strict=True)
        return tuple((str(self.map.places.place_id[row]), float(np.sqrt(far))) for row, far in some)


def locate(landmarks: Map, descriptors: Floats32, *, encoder: str, coverage: float | None = None) -> list[Position]:
    """Where images are in a map, by their descriptors (n, D); for many calls make a `Locator` once."""
    return Locator(landmarks).locate(descriptors, encoder=encoder, coverage=coverage)
