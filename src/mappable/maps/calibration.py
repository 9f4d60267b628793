"""Calibration: convert feature distances to metres with intervals, and reject images that are not on the map."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.maps.between import FAR, Between, Interpolated, interpolate
from mappable.maps.drive_model import DriveModel
from mappable.maps.evidence import Evidence, gather_evidence
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.response import Response
from mappable.maps.spread import Spread

SAMPLE = 1000  # landmarks around which others are counted
FEWEST, MOST = 64, 512  # landmarks that are looked at for one image
Source = Literal["calibration", "train"]
SURE = float(np.log(4))  # logarithm of the odds that the place is right, from which on it is not one of several


@dataclass(frozen=True)
class Calibration:
    """What was measured on images of known position that are neither landmarks nor, at best, in the training set.

    `source` is the split they are of. Metres stand for the unit of the map's frame throughout.
    """

    source: Source
    images: int
    coverage: float  # of intervals, unless another is asked for
    false_accepts: float  # share of images from elsewhere that are held to be on the map
    elsewhere: int  # images of elsewhere that the threshold was set by; 0: by leaving out what is near an image
    landmarks: int
    spacing: float  # of these landmarks
    neighbors: int  # landmarks to look at for one image
    response: Response
    temperature: float  # of the weights of points between landmarks
    spread_factor: float  # covariance of a refined position = factor x spread + deviation² x identity
    deviation: float
    plain_deviation: float  # of a position that is that of the nearest landmark
    threshold: float  # squared feature distance of the nearest point up to which an image is on the map
    place: Odds  # that the place is the right one: by the squared distance that a rival is farther
    share_confident: float  # of the images
    confident: Spread  # metres beyond those from the refined position to the landmark, by feature distance
    doubtful: Spread | None  # the same of images that are not confident; None where there were too few
    retrieved: Spread  # metres from an image to the nearest landmark by feature
    pairs: Spread | None  # metres between two images within reach, by feature distance; None where there were none
    pairs_valid: float  # feature distance up to which few pairs are out of reach
    drive: DriveModel  # of whole drives
    usual_feature: float  # feature distance to the nearest landmark that 95 % of the images keep to

    @property
    def note(self) -> str:
        """What a user must know of it; "" if nothing."""
        if self.source == "train":
            return "calibrated on training images, coverage not guaranteed"
        return ""

    def doubt(self, feature: Floats) -> str:
        """A sentence if images with feature distances (n,) to their nearest landmarks look unlike calibration's; or "".

        They do if half of them are farther than 95 % of the images to calibrate by. Calibration on the landmarks' own
        visit expects other images to look unlike it.
        """
        if self.source == "train" or not len(feature) or np.median(feature) <= self.usual_feature:
            return ""
        share = float((feature > self.usual_feature).mean())
        return (
            f"{share:.0%} of the images are less like the map than 95 % of those that it was calibrated by: "
            "a condition that calibration did not see makes intervals hold less often"
        )

    def covariance(self, found: Interpolated) -> Floats:
        """Of refined positions (n, k, k)."""
        k = found.position.shape[1]
        covariance: Floats = self.spread_factor * found.spread + self.deviation**2 * np.eye(k)
        return covariance

    def predict(self, feature: Floats, coverage: float | None = None) -> tuple[Floats, Floats, Floats]:
        """Metres from images to their nearest landmarks by feature distances (n,), not squared, and an interval.

        Of all images, confident or not, by this distance alone; valid up to `retrieved.furthest`. `locate` knows more.
        The upper end is infinite if there were too few images for this coverage.
        """
        metres, low, high = self.retrieved.predict(feature, self.coverage if coverage is None else coverage)
        return metres, np.maximum(low, 0.0), high

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Calibration":
        """What `to_json` gave; KeyError, TypeError or ValueError if it is something else."""
        made = dict(values)
        made["response"] = Response(**_tuples(values["response"]))
        made["place"] = Odds.from_json(values["place"])
        for name in ("confident", "doubtful", "retrieved", "pairs"):
            optional = values[name] is None and name in ("doubtful", "pairs")
            made[name] = None if optional else Spread(**_tuples(values[name]))
        made["drive"] = DriveModel.from_json(values["drive"])
        return cls(**made)


@dataclass(frozen=True)
class Look:
    """Images looked at in a map."""

    evidence: Evidence
    found: Interpolated
    metres: Floats  # (n,) from the refined position to the nearest landmark
    matched: Floats  # (n,) squared feature distance of the nearest point
    place: Floats  # (n,) logarithms of the odds that it is the right one

    def confident(self, calibration: Calibration) -> Bools:
        """Which images are on the map, at a place that is not one of several."""
        valid = np.sqrt(self.evidence.nearest) <= calibration.retrieved.furthest
        sure: Bools = valid & (self.matched <= calibration.threshold) & (self.place >= SURE)
        return sure


def between_of(landmarks: Map, response: Response, spacing: float) -> Between:
    """The points between landmarks by which positions are refined."""
    at, store = landmarks.places.positions, landmarks.store
    return Between(at, store, reach=response.reach, floor=response.floor, spacing=spacing)


def whole_range(positions: Floats, reach: float) -> float:
    """The largest distance to one of the landmarks (n, k) that an image within reach of any of them may have."""
    return float(np.linalg.norm(np.ptp(positions, axis=0))) + reach


def neighbors_of(positions: Floats, reach: float) -> int:
    """How many landmarks to look at for one image, so that some of other places are among them."""
    some = positions[evenly(len(positions), SAMPLE)]
    crowd = KDTree(positions).query_ball_point(some, reach, return_length=True).mean()
    return min(len(positions), max(FEWEST, min(MOST, int(4 * crowd))))


def look(
    positions: Floats,
    between: Between,
    rows: Ints,
    squared: Floats32,
    calibration: Calibration,
    *,
    allowed: Bools | None = None,
    place: Bools | None = None,
) -> Look:
    """What landmarks `rows` (n, c) at squared distances (n, c) say about images; for the options `gather_evidence`."""
    evidence = gather_evidence(positions, rows, squared, calibration.response.reach, allowed=allowed, place=place)
    distances = squared if allowed is None else np.where(allowed, squared, np.float32(FAR))
    found = interpolate(between, evidence.landmark, rows, distances, calibration.temperature)
    return Look(
        evidence,
        found,
        np.linalg.norm(found.position - positions[evidence.landmark], axis=1),
        found.matched,
        calibration.place.log((evidence.rival_squared - found.matched)[:, None]),
    )


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON's lists as tuples."""
    return {name: _tuple(value) for name, value in values.items()}


def _tuple(value: Any) -> Any:
    return tuple(_tuple(one) for one in value) if isinstance(value, list) else value
