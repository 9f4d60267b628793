"""Localization: where an image is, how far from the nearest landmark, and whether to believe it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.maps.believed import locations_of
from mappable.maps.between import Between
from mappable.maps.calibration import Calibration, Look, between_of, look, neighbors_of, whole_range
from mappable.maps.drive_model import Followed, believe_alone, look_at
from mappable.maps.location import Candidate, Location
from mappable.maps.map import Map
from mappable.maps.place_filter import Layout

CANDIDATES = 5  # landmarks that a location names, unless another number is asked for


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
    def neighbors(self) -> int:
        """Landmarks to look at for one image: as many as for the calibration, or more where the map has grown."""
        return max(self.calibration.neighbors, neighbors_of(self.positions, self.calibration.response.reach))

    @cached_property
    def farthest(self) -> float:
        """The upper end of an interval for which calibration saw too few images."""
        return whole_range(self.positions, self.calibration.response.reach)

    @cached_property
    def layout(self) -> Layout:
        """Distances between landmarks, for a filter over places."""
        return Layout(self.positions, self.calibration.spacing)

    def locate(
        self,
        descriptors: Floats32,
        *,
        encoder: str,
        coverage: float | None = None,
        images: Sequence[str] | None = None,
        candidates: int = CANDIDATES,
    ) -> list[Location]:
        """Locate images by their descriptors (n, D), which the encoder with that fingerprint made.

        `coverage` is that of the intervals (default: the calibration's), `images` are names (default: row numbers), and
        `candidates` is the number of landmarks to name for each image. Where calibration saw other visits than the
        landmarks' own, these tell the intervals; else, and for images unlike any that it saw, the model of drives does.
        """
        if self.map.calibration is None:
            rows, squared = self.map.nearest(descriptors, max(1, candidates), encoder=encoder)
            return self._uncalibrated(rows, squared, images, candidates)
        if self.calibration.source == "train":
            self.map.check_encoder(encoder)
            return self._believed(descriptors, coverage, images, candidates)
        rows, squared = self.nearest(descriptors, encoder, candidates)
        found = self.judge(rows, squared, self.look(rows, squared), coverage, images=images, candidates=candidates)
        unknown = [row for row, one in enumerate(found) if one.low is None]
        if unknown:
            names = [found[row].image for row in unknown]
            for row, one in zip(
                unknown, self._believed(descriptors[unknown], coverage, names, candidates), strict=True
            ):
                if one.low is not None:
                    found[row] = replace(one, confident=False, reason=found[row].reason)
        return found

    def _believed(
        self, descriptors: Floats32, coverage: float | None, images: Sequence[str] | None, candidates: int
    ) -> list[Location]:
        """Locations of images, each by itself, by the model of drives."""
        looks = look_at(self.map.store, descriptors)
        alone = Followed(believe_alone(self.calibration.drive, self.layout, looks))
        return locations_of(
            self,
            descriptors,
            looks,
            alone,
            coverage=coverage,
            images=images,
            candidates=candidates,
        )

    def nearest(self, descriptors: Floats32, encoder: str, candidates: int = CANDIDATES) -> tuple[Ints, Floats32]:
        """The landmarks (n, c) to look at for each image, nearest first, and their squared feature distances."""
        return self.map.nearest(descriptors, max(self.neighbors, candidates), encoder=encoder)

    def look(self, rows: Ints, squared: Floats32, place: Bools | None = None) -> Look:
        """What the nearest landmarks (n, c) say about images, whose `place` may be known: which of them are there."""
        rows, squared = rows[:, : self.neighbors], squared[:, : self.neighbors]
        return look(self.positions, self.between, rows, squared, self.calibration, place=place)

    def covariances(self, seen: Look) -> Floats:
        """Covariances (n, k, k) of the positions that were seen."""
        plain = self.calibration.plain_deviation**2 * np.eye(self.positions.shape[1])
        covariances: Floats = np.where(
            seen.found.supported[:, None, None], self.calibration.covariance(seen.found), plain
        )
        return covariances

    def judge(
        self,
        rows: Ints,
        squared: Floats32,
        seen: Look,
        coverage: float | None = None,
        *,
        images: Sequence[str] | None = None,
        candidates: int = CANDIDATES,
    ) -> list[Location]:
        """The locations of images, from what was `seen`."""
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
        distance, low, high = (np.clip(seen.metres + np.where(confident, *pair), 0.0, self.farthest) for pair in pairs)
        coordinates, covariances = seen.found.position, self.covariances(seen)
        degrees = self.map.frame.degrees(coordinates)
        names = range(len(rows)) if images is None else images
        return [
            Location(
                image=str(name),
                coordinates=tuple(coordinates[n].tolist()),
                latitude=degrees[n][0],
                longitude=degrees[n][1],
                frame=self.map.frame.name,
                unit=self.map.unit,
                landmark=str(ids[seen.evidence.landmark[n]]),
                feature_distance=float(feature[n]),
                distance=float(distance[n]) if known[n] else None,
                low=float(low[n]) if known[n] else None,
                high=float(high[n]) if known[n] else None,
                coverage=coverage if known[n] else None,
                covariance=tuple(map(tuple, covariances[n].tolist())),
                refined=bool(seen.found.supported[n]),
                confident=bool(confident[n]),
                reason="" if confident[n] else self._reason(seen, n),
                candidates=self.candidates(rows[n, :candidates], squared[n]),
            )
            for n, name in enumerate(names)
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

    def _uncalibrated(
        self, rows: Ints, squared: Floats32, images: Sequence[str] | None, candidates: int
    ) -> list[Location]:
        coordinates = self.positions[rows[:, 0]]
        degrees = self.map.frame.degrees(coordinates)
        names = range(len(rows)) if images is None else images
        return [
            Location(
                image=str(name),
                coordinates=tuple(coordinates[n].tolist()),
                latitude=degrees[n][0],
                longitude=degrees[n][1],
                frame=self.map.frame.name,
                unit=self.map.unit,
                landmark=str(self.map.places.place_id[rows[n, 0]]),
                feature_distance=float(np.sqrt(squared[n, 0])),
                distance=None,
                low=None,
                high=None,
                coverage=None,
                covariance=None,
                refined=False,
                confident=False,
                reason="the map has no calibration",
                candidates=self.candidates(rows[n, :candidates], squared[n]),
            )
            for n, name in enumerate(names)
        ]

    def candidates(self, rows: Ints, squared: Floats32) -> tuple[Candidate, ...]:
        ids, far = self.map.places.place_id, np.sqrt(squared[: len(rows)])
        return tuple(
            Candidate(str(ids[row]), tuple(self.positions[row].tolist()), float(far[n])) for n, row in enumerate(rows)
        )
