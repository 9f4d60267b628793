"""Localization: where an image was taken, how far from the nearest landmark, and whether to trust the answer."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.maps.believed import locations_of
from mappable.maps.between import Between
from mappable.maps.calibration import Calibration, Look, between_of, look, neighbors_of, whole_range
from mappable.maps.drive_model import Followed, believe_alone
from mappable.maps.headings import headings_at
from mappable.maps.location import Location
from mappable.maps.looks import look_at
from mappable.maps.map import Map
from mappable.maps.place_filter import Layout
from mappable.maps.records import TWO_PLACES, UNLIKE_CALIBRATION, UNLIKE_MAP, locations_at

CANDIDATES = 5  # default number of landmarks that a location lists as candidates


class Locator:
    """A map ready for queries. Several threads may use one locator at the same time."""

    def __init__(self, landmarks: Map) -> None:
        self.map = landmarks
        self.positions = landmarks.places.positions

    @cached_property
    def calibration(self) -> Calibration:
        """The calibration of the map; raise if the map has none."""
        if self.map.calibration is None:
            raise BadInputError("the map has no calibration: build the map again, with images for calibration")
        return self.map.calibration

    @cached_property
    def between(self) -> Between:
        """The points between landmarks, which refine positions."""
        return between_of(self.map, self.calibration.response, self.calibration.spacing)

    @cached_property
    def neighbors(self) -> int:
        """Number of landmarks to search per image: as in calibration, or more if the map has grown since."""
        return max(self.calibration.neighbors, neighbors_of(self.positions, self.calibration.response.reach))

    @cached_property
    def farthest(self) -> float:
        """The largest upper end of an interval. It replaces an infinite end, if calibration saw too few images."""
        return whole_range(self.positions, self.calibration.response.reach)

    @cached_property
    def layout(self) -> Layout:
        """Distances between landmarks that the filter over places needs."""
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
        """Locate images by their descriptors (n, D). `encoder` is the fingerprint of the encoder that made them.

        `coverage` applies to the intervals (default: the calibration's coverage). `images` are names (default: row
        numbers). `candidates` is the number of landmarks to list per image.

        If calibration saw other visits than the one of the landmarks, its errors there set the intervals. Otherwise
        the model of drives sets them. The same model sets them for images unlike all images of calibration. If a visit
        of the map calibrated it, the same model locates all images that are not confident: another visit may change
        more than the visits of the map did.
        """
        if self.map.calibration is None:
            rows, squared = self.map.nearest(descriptors, max(1, candidates), encoder=encoder)
            return self._uncalibrated(rows, squared, images, candidates)
        if self.calibration.source == "train":
            self.map.check_encoder(encoder)
            return self._believed(descriptors, coverage, images, candidates)
        rows, squared = self.nearest(descriptors, encoder, candidates)
        found = self.judge(rows, squared, self.look(rows, squared), coverage, images=images, candidates=candidates)
        visits = self.calibration.source == "visits"
        unknown = [row for row, one in enumerate(found) if one.low is None or (visits and not one.confident)]
        if unknown:
            names = [found[row].image for row in unknown]
            others = self._believed(descriptors[unknown], coverage, names, candidates)
            for row, one in zip(unknown, others, strict=True):
                if visits or one.low is not None:
                    found[row] = replace(one, confident=False, reason=found[row].reason)
        return found

    def _believed(
        self, descriptors: Floats32, coverage: float | None, images: Sequence[str] | None, candidates: int
    ) -> list[Location]:
        """Locate images with the model of drives, each image alone."""
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
        """Search landmarks (n, c) for each image: rows, nearest first, and squared feature distances."""
        return self.map.nearest(descriptors, max(self.neighbors, candidates), encoder=encoder)

    def look(self, rows: Ints, squared: Floats32, place: Bools | None = None) -> Look:
        """What the nearest landmarks (n, c) say about images; `place` (n, c) marks those at a known place."""
        rows, squared = rows[:, : self.neighbors], squared[:, : self.neighbors]
        return look(self.positions, self.between, rows, squared, self.calibration, place=place)

    def headings(self, rows: Ints, squared: Floats | Floats32, at: Floats) -> Floats | None:
        """Headings (n,) of images located `at` (n, k), by the nearest landmarks (n, c); None if not calibrated."""
        if not self.calibration.headings:
            return None
        given = {"radius": self.calibration.drive.radius, "temperature": self.calibration.temperature}
        return headings_at(self.map.places.yaw, self.positions, rows, squared, at, **given)

    def covariances(self, seen: Look) -> Floats:
        """Covariances (n, k, k) of the positions in `seen`."""
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
        """Turn what was `seen` into locations: add intervals, confidence and reasons."""
        calibration = self.calibration
        coverage = calibration.coverage if coverage is None else coverage
        confident, feature = seen.confident(calibration), np.sqrt(seen.evidence.nearest)
        stated = calibration.confident.predict(feature, coverage)
        known = confident
        if calibration.doubtful is not None:
            doubtful = calibration.doubtful.predict(feature, coverage)
            known = feature <= calibration.retrieved.furthest
        else:
            doubtful = stated  # not shown: only confident images are known then
        pairs = zip(stated, doubtful, strict=True)
        distances = (np.clip(seen.metres + np.where(confident, *pair), 0.0, self.farthest) for pair in pairs)
        return locations_at(
            self.map,
            rows[:, :candidates],
            squared,
            images,
            coordinates=seen.found.position,
            landmark=seen.evidence.landmark,
            feature=feature,
            distances=np.where(known[:, None], np.column_stack([*distances]), np.nan),
            coverage=coverage,
            covariances=self.covariances(seen),
            refined=seen.found.supported,
            headings=self.headings(rows, squared, seen.found.position),
            heading_error=calibration.heading_error(coverage),
            confident=confident,
            reason=lambda n: self._reason(seen, n),
        )

    def _reason(self, seen: Look, n: int) -> str:
        """Why the map is not confident of an image."""
        evidence, calibration = seen.evidence, self.calibration
        feature, furthest = float(np.sqrt(evidence.nearest[n])), calibration.retrieved.furthest
        if feature > furthest:
            more = f"feature distance {feature:.3f}, at most {furthest:.3f} in calibration"
            return f"{UNLIKE_CALIBRATION}: {more}"
        if seen.matched[n] > calibration.threshold:
            return f"{UNLIKE_MAP}: feature distance {feature:.3f} to the nearest"
        ids, rival = self.map.places.place_id, int(evidence.rival[n])
        if rival < 0:
            return "nothing to compare with: the map has only one place"
        away = np.linalg.norm(self.positions[rival] - self.positions[evidence.landmark[n]])
        return (
            f"{TWO_PLACES}: {ids[evidence.landmark[n]]}, and nearly as much {ids[rival]}, "
            f"{away:.1f} {self.map.unit} away"
        )

    def _uncalibrated(
        self, rows: Ints, squared: Floats32, images: Sequence[str] | None, candidates: int
    ) -> list[Location]:
        return locations_at(
            self.map,
            rows[:, :candidates],
            squared,
            images,
            coordinates=self.positions[rows[:, 0]],
            landmark=rows[:, 0],
            feature=np.sqrt(squared[:, 0]),
            reason=lambda n: "the map has no calibration",
        )
