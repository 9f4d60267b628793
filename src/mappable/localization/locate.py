"""`Locator`: where images were taken, how far from a landmark, and whether to trust the answer."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mappable.arrays import Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.localization.answers import Answers
from mappable.localization.fitting import calibrate, model_of
from mappable.localization.location import Candidate, Location
from mappable.localization.place_model import PlaceModel, Posterior
from mappable.maps.calibration import Calibration, Way
from mappable.maps.map import Map
from mappable.maps.store import squared_lengths

CANDIDATES = 5  # default number of landmarks that a location lists as candidates

# How the reason of an image that is not confident begins; docs/maps.md explains these words.
OFF_THE_MAP = "off the map"
TWO_PLACES = "looks like two places"
SEVERAL_PLACES = "looks like several places"
NO_DRIVE = "the images do not move as a camera moves"


class Locator:
    """A map ready for queries. Several threads may use one locator at the same time."""

    def __init__(self, landmarks: Map) -> None:
        self.map = landmarks
        self.positions = landmarks.places.positions

    @cached_property
    def calibration(self) -> Calibration:
        """The calibration of the map; a map without one is calibrated on its own visits."""
        return self.map.calibration or calibrate(self.map)

    @cached_property
    def model(self) -> PlaceModel:
        """The place model of the map."""
        return model_of(self.map)

    def locate(
        self,
        descriptors: Floats32,
        *,
        encoder: str,
        coverage: float | None = None,
        images: Sequence[str] | None = None,
        candidates: int = CANDIDATES,
        together: bool = False,
    ) -> list[Location]:
        """Locate images by their descriptors (n, D). `encoder` is the fingerprint of the encoder that made them.

        Each image is located by itself; the images only share what their visit adds to all of them, such as its light.
        With `together`, they are one drive in the order taken, and all of them help to locate each.

        `coverage` applies to the intervals (default: the calibration's coverage). `images` are names (default: row
        numbers). `candidates` is the number of landmarks to list per image.
        """
        rows, squared = self.map.nearest(descriptors, max(1, candidates), encoder=encoder)
        if not len(descriptors):
            return []
        way: Way = "drive" if together and len(descriptors) > 1 else "single"
        posterior = self.model.drive(descriptors) if way == "drive" else self.model.single(descriptors)
        answers = self.answers(posterior, way)
        landmark = answers.landmarks()
        names = [str(name) for name in range(len(descriptors))] if images is None else list(map(str, images))
        return self._records(names, descriptors, answers, way, landmark, coverage, rows[:, :candidates], squared)

    def answers(self, posterior: Posterior, way: Way) -> Answers:
        """What the place model says, with the calibration's radius of a place and width of intervals."""
        known = self.calibration
        return Answers(self.model, posterior, known.radius, known.width[way])

    def reason(self, answers: Answers, row: int, way: Way) -> str:
        """Why not to trust the place of an image; "" if it is sure. This is the one rule of `confident`."""
        place, away = answers.places[row], float(answers.away[row])
        if away > 0.5:
            return f"{OFF_THE_MAP}: with probability {away:.2f}"
        if answers.posterior.evidence < 0:
            return f"{NO_DRIVE}: their order says less than each of them by itself"
        least = self.calibration.sure[way]
        if place.mass >= least:
            return ""
        if place.rival < 0 or place.rival_mass + place.mass < least:
            return f"{SEVERAL_PLACES}: the likeliest has probability {place.mass:.2f}, expected {least:.2f}"
        states, ids = self.model.states, self.map.places.place_id
        here, there = (ids[self.landmark_of(int(state))] for state in (place.states[place.share.argmax()], place.rival))
        apart = np.linalg.norm(states.positions[place.rival] - answers.positions[row])
        return f"{TWO_PLACES}: {here}, and nearly as much {there}, {apart:.1f} {self.map.unit} away"

    def landmark_of(self, state: int) -> int:
        """The landmark that is nearest to a state."""
        states = self.model.states
        return int((states.first if states.blend[state] < 0.5 else states.second)[state])

    def _records(
        self,
        names: Sequence[str],
        descriptors: Floats32,
        answers: Answers,
        way: Way,
        landmark: Ints,
        coverage: float | None,
        rows: Ints,
        squared: Floats32,
    ) -> list[Location]:
        known, frame, ids = self.calibration, self.map.frame, self.map.places.place_id
        coverage = known.coverage if coverage is None else coverage
        if not 0 < coverage < 1:
            raise BadInputError(f"coverage must be between 0 and 1, got {coverage}")
        distance = np.linalg.norm(answers.positions - self.positions[landmark], axis=1)
        half = answers.intervals(coverage)
        feature = feature_distances(self.map, descriptors, landmark)
        degrees = frame.degrees(answers.positions)
        headings: Floats = answers.headings(self.map.places.yaw)
        reasons = [self.reason(answers, row, way) for row in range(len(names))]
        error = known.heading_error(coverage)
        return [
            Location(
                image=name,
                coordinates=tuple(answers.positions[row].tolist()),
                latitude=degrees[row][0],
                longitude=degrees[row][1],
                frame=frame.name,
                unit=self.map.unit,
                landmark=str(ids[landmark[row]]),
                feature_distance=float(feature[row]),
                distance=float(distance[row]),
                low=float(max(distance[row] - half[row], 0.0)),
                high=float(distance[row] + half[row]),
                coverage=coverage,
                covariance=tuple(map(tuple, answers.covariances[row].tolist())),
                heading=float(headings[row]) if error is not None and np.isfinite(headings[row]) else None,
                heading_error=error if np.isfinite(headings[row]) else None,
                refined=bool(distance[row] > 0),
                confident=not reasons[row],
                reason=reasons[row],
                candidates=_candidates(self.map, rows[row], squared[row]),
                together=way == "drive",
                calibrated_on=known.calibrated_on,
            )
            for row, name in enumerate(names)
        ]


def locate_sequence(
    locator: Locator,
    descriptors: Floats32,
    *,
    encoder: str,
    coverage: float | None = None,
    images: Sequence[str] | None = None,
    candidates: int = CANDIDATES,
) -> list[Location]:
    """Locate the images of one drive by descriptors (n, D), in the order taken; options as in `Locator.locate`."""
    if not len(descriptors):
        raise BadInputError("a sequence needs at least one image")
    return locator.locate(
        descriptors, encoder=encoder, coverage=coverage, images=images, candidates=candidates, together=True
    )


def feature_distances(landmarks: Map, descriptors: Floats32, rows: Ints) -> Floats32:
    """Distances (n,) between descriptors (n, D) and those of landmarks `rows` (n,)."""
    return np.sqrt(squared_lengths(descriptors - landmarks.store.take(rows)))


def _candidates(landmarks: Map, rows: Ints, squared: Floats32) -> tuple[Candidate, ...]:
    ids, at = landmarks.places.place_id, landmarks.places.positions
    feature = np.sqrt(squared[: len(rows)])
    return tuple(Candidate(str(ids[row]), tuple(at[row].tolist()), float(feature[n])) for n, row in enumerate(rows))
