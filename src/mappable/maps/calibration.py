"""Calibration: convert feature distances to metres with intervals, and reject images that are not on the map."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.maps.between import FAR, Between, Interpolated, interpolate
from mappable.maps.conformal import conformal_quantile
from mappable.maps.drive_model import DriveModel
from mappable.maps.evidence import Evidence, gather_evidence
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.response import Response
from mappable.maps.spread import Spread

CROWD_SAMPLE = 1000  # largest number of landmarks around which the others within reach are counted
FEWEST_NEIGHBORS, MOST_NEIGHBORS = 64, 512  # limits for the number of landmarks that are searched per image
LEAST_HEADING_ERROR = 0.01  # radians: no table knows headings better, and programs that take poses divide by it
Source = Literal["calibration", "visits", "train"]
SURE_LOG_ODDS = float(np.log(4))  # least log odds that the place is right; below, an image is aliased


@dataclass(frozen=True)
class Calibration:
    """What was measured on images of known position. These are not landmarks, and ideally not training images.

    `source` is their split. Where this class says metres, the unit is the unit of the map's frame.
    """

    source: Source
    images: int  # number of images that it was measured on
    coverage: float  # default coverage of intervals
    false_accepts: float  # share of images from elsewhere that the threshold accepts
    elsewhere: int  # number of images from elsewhere that set the threshold; 0: set by leaving out landmarks
    landmarks: int  # number of landmarks of the map at that time
    spacing: float  # spacing of the landmarks at that time, in metres
    neighbors: int  # number of landmarks to search per image
    response: Response
    temperature: float  # for the weights of points between landmarks; in squared feature distance
    spread_factor: float  # covariance of a refined position = factor x spread + deviation² x identity
    deviation: float  # see `spread_factor`; in metres
    plain_deviation: float  # standard deviation, in metres, of a position that is the nearest landmark's
    threshold: float  # an image is on the map if the squared feature distance to the nearest point is at most this
    place: Odds  # odds that the place is right, by how much farther the rival is in squared feature distance
    share_confident: float  # share of the images that are confident
    confident: Spread  # confident images: true distance to the landmark minus refined distance, by feature distance
    doubtful: Spread | None  # the same for the other images; None if there were too few
    retrieved: Spread  # metres from an image to the nearest landmark by feature
    pairs: Spread | None  # metres between two images within reach, by feature distance; None without such pairs
    pairs_valid: float  # largest feature distance at which few pairs are out of reach
    drive: DriveModel  # what the map knows about whole drives
    usual_feature: float  # 95 % of the images have at most this feature distance to the nearest landmark
    headings: tuple[float, ...] = ()  # rising errors of headings, in radians; () without headings

    @property
    def note(self) -> str:
        """A warning for the user; "" if there is nothing to warn about."""
        if self.source == "train":
            return "calibrated on training images, coverage not guaranteed"
        return ""

    def doubt(self, feature: Floats) -> str:
        """A warning if images look unlike those of calibration, by feature distances (n,) to their nearest landmarks.

        The warning appears if more than half of the images are farther than 95 % of the calibration images. It is ""
        otherwise, and always after calibration on the landmarks' own visit, which expects other images to differ.
        """
        if self.source == "train" or not len(feature) or np.median(feature) <= self.usual_feature:
            return ""
        share = float((feature > self.usual_feature).mean())
        return (
            f"{share:.0%} of the images look less like the map than 95 % of the calibration images do. "
            "Calibration may not have seen their condition, and then intervals are right less often"
        )

    def heading_error(self, coverage: float) -> float | None:
        """Half the width of the interval of a heading, in radians, at most pi; None if headings are not calibrated."""
        if not self.headings:
            return None
        return float(np.clip(conformal_quantile(np.array(self.headings), coverage), LEAST_HEADING_ERROR, np.pi))

    def covariance(self, found: Interpolated) -> Floats:
        """Covariances (n, k, k) of refined positions."""
        k = found.position.shape[1]
        covariance: Floats = self.spread_factor * found.spread + self.deviation**2 * np.eye(k)
        return covariance

    def predict(self, feature: Floats, coverage: float | None = None) -> tuple[Floats, Floats, Floats]:
        """Metres from images to their nearest landmarks by feature distances (n,), not squared, and an interval.

        This uses the feature distance alone, for confident and other images alike; `locate` uses more. Valid up to
        `retrieved.furthest`. The upper end is infinite if calibration had too few images for this coverage.
        """
        metres, low, high = self.retrieved.predict(feature, self.coverage if coverage is None else coverage)
        return metres, np.maximum(low, 0.0), high

    def to_json(self) -> dict[str, Any]:
        """Return all fields in a form that JSON can store."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Calibration":
        """Read what `to_json` returned; raise KeyError, TypeError or ValueError for anything else."""
        made = dict(values)
        made["response"] = Response(**_tuples(values["response"]))
        made["place"] = Odds.from_json(values["place"])
        for name in ("confident", "doubtful", "retrieved", "pairs"):
            optional = values[name] is None and name in ("doubtful", "pairs")
            made[name] = None if optional else Spread(**_tuples(values[name]))
        made["headings"] = tuple(values.get("headings", ()))
        made["drive"] = DriveModel.from_json(values["drive"])
        return cls(**made)


@dataclass(frozen=True)
class Look:
    """What the landmarks of a map say about images (n,)."""

    evidence: Evidence
    found: Interpolated
    metres: Floats  # (n,) distance from the refined position to the nearest landmark
    matched: Floats  # (n,) squared feature distance to the nearest point
    place: Floats  # (n,) log odds that the place is right

    def confident(self, calibration: Calibration) -> Bools:
        """Which images (n,) are on the map, at a place that no other place resembles too much."""
        valid = np.sqrt(self.evidence.nearest) <= calibration.retrieved.furthest
        sure: Bools = valid & (self.matched <= calibration.threshold) & (self.place >= SURE_LOG_ODDS)
        return sure


def between_of(landmarks: Map, response: Response, spacing: float) -> Between:
    """The points between landmarks, which refine positions."""
    at, store = landmarks.places.positions, landmarks.store
    return Between(at, store, reach=response.reach, floor=response.floor, spacing=spacing)


def whole_range(positions: Floats, reach: float) -> float:
    """The largest possible distance to a landmark, if an image is within `reach` of any landmark (n, k)."""
    return float(np.linalg.norm(np.ptp(positions, axis=0))) + reach


def neighbors_of(positions: Floats, reach: float) -> int:
    """How many landmarks to search per image, so that some of them belong to other places."""
    some = positions[evenly(len(positions), CROWD_SAMPLE)]
    crowd = KDTree(positions).query_ball_point(some, reach, return_length=True).mean()
    return min(len(positions), max(FEWEST_NEIGHBORS, min(MOST_NEIGHBORS, int(4 * crowd))))


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
    """What landmarks `rows` (n, c) at squared distances (n, c) say about images; options as in `gather_evidence`."""
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
    """Turn the lists of JSON into tuples."""
    return {name: _tuple(value) for name, value in values.items()}


def _tuple(value: Any) -> Any:
    return tuple(_tuple(one) for one in value) if isinstance(value, list) else value
