"""`Poses`: what a map says about images, in the terms that all formats share."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.localization.localizer import Estimate
from mappable.localization.location import Location, Outcome
from mappable.maps.landmarks import Landmarks
from mappable.places.files import load_places
from mappable.places.frames import Frame
from mappable.places.pixels import Images
from mappable.places.table import NO_TIME, Places
from mappable.readers.unposed import is_table

# Probability that an ellipse contains the image, if neither image nor map says another.
USUAL_COVERAGE = 0.9


@dataclass(frozen=True)
class Pose:
    """Where one image was taken; `record` has all fields that the map gave it."""

    name: str
    record: dict[str, Any]
    time: int | None = None  # nanoseconds
    sequence: str = ""
    path: str | None = None  # of its file, as in a table; None for an image of a video
    position: tuple[float, ...] | None = None  # None if the image cannot be read
    covariance: Floats | None = None
    coverage: float = USUAL_COVERAGE  # of the ellipse
    heading: float | None = None  # radians counter-clockwise from +x
    heading_deviation: float | None = None  # radians
    trusted: bool = False
    reason: str = ""  # why it is not trusted, or cannot be read

    @property
    def xyz(self) -> tuple[float, float, float]:
        """The position with all three coordinates; those that the map does not have are 0."""
        x, y, z = (*(self.position or ()), 0.0, 0.0, 0.0)[:3]
        return x, y, z

    @cached_property
    def ellipse(self) -> Floats | None:
        """Matrix (2, 2) from the unit circle to the ellipse that contains the image, if the place
        is right.
        """
        if self.covariance is None:
            return None
        scale = np.sqrt(-2 * np.log1p(-self.coverage))  # for two dimensions
        shape: Floats = scale * np.linalg.cholesky(self.covariance[:2, :2])
        return shape


@dataclass(frozen=True)
class Poses:
    """Images that a map located, a camera that it followed, or places with their true positions, in
    order.
    """

    frame: Frame
    poses: Sequence[Pose]
    landmarks: Landmarks | None = None  # None if the positions are not those that a map says
    places: Places | None = None  # the images as a table, if they are not of a video
    images: Images | None = None  # their packed pixels, if they are packed
    truth: Floats | None = None  # true positions (n, k); NaN if unknown

    def __len__(self) -> int:
        return len(self.poses)

    @property
    def needed_map(self) -> Landmarks:
        """The map, for a format that shows its landmarks."""
        if self.landmarks is None:
            raise BadInputError(
                "formats that show landmarks (.rrd, .pairs) need a map; use `mappable locate`"
            )
        return self.landmarks

    @cached_property
    def located(self) -> list[tuple[int, Pose]]:
        """Number and pose of each image that can be read."""
        return [
            (number, pose) for number, pose in enumerate(self.poses) if pose.position is not None
        ]

    @cached_property
    def trusted(self) -> list[tuple[int, Pose]]:
        """Number and pose of each trusted image; of each located image if the map has no
        calibration.
        """
        calibrated = any(pose.covariance is not None for _, pose in self.located)
        return [(number, pose) for number, pose in self.located if pose.trusted or not calibrated]

    @cached_property
    def timed(self) -> bool:
        """Whether all images have a time."""
        return all(pose.time is not None for pose in self.poses)

    @cached_property
    def stamps(self) -> list[int]:
        """The times of the images in nanoseconds; without times, image number n is at n seconds."""
        return [
            pose.time or 0 if self.timed else number * 10**9
            for number, pose in enumerate(self.poses)
        ]


def poses_of_locations(
    landmarks: Landmarks,
    places: Places,
    outcomes: Sequence[Outcome],
    images: Images | None = None,
    truth: Floats | None = None,
) -> Poses:
    """What a map says about the images of a table, in the order of its rows."""
    poses = []
    for row, outcome in enumerate(outcomes):
        image = _image_of(places, row) | {"name": outcome.image, "record": asdict(outcome)}
        if isinstance(outcome, Location):
            poses.append(Pose(**image, **_pose_of(outcome, landmarks)))
        else:
            poses.append(Pose(**image, reason=outcome.error))
    return Poses(landmarks.frame, poses, landmarks, places, images, truth)


def poses_of_estimates(
    landmarks: Landmarks, estimates: Sequence[Estimate], images: Sequence[str | Path]
) -> Poses:
    """A followed camera; `images` are its files, or the names of its images if they have no files."""
    return Poses(
        landmarks.frame,
        [
            Pose(
                name=str(image),
                record={"image": str(image), **asdict(estimate)},
                time=round(estimate.time * 1e9),
                path=str(image) if isinstance(image, Path) else None,
                position=estimate.position,
                covariance=np.array(estimate.covariance),
                heading=estimate.heading,
                heading_deviation=estimate.heading_deviation,
                trusted=estimate.trusted,
                reason=estimate.reason,
            )
            for image, estimate in zip(images, estimates, strict=True)
        ],
        landmarks,
    )


def poses_of_places(places: Places) -> Poses:
    """The true positions of a table, whose places are in one frame."""
    frame = next(iter(places.frames.values()))
    if len(places.frames) > 1:
        raise BadInputError(
            f"the places are in {len(places.frames)} frames, but a file of positions has one frame"
        )
    poses = []
    for row, position in enumerate(places.positions.tolist()):
        yaw = float(places.yaw[row])
        image = _image_of(places, row)
        record = {
            "image": image["name"],
            "coordinates": position,
            "yaw": None if np.isnan(yaw) else yaw,
        }
        record |= {
            "sequence": image["sequence"],
            "condition": str(places.condition[row]),
            "frame": frame.name,
        }
        poses.append(
            Pose(
                **image,
                record=record,
                position=tuple(position),
                heading=record["yaw"],
                trusted=True,
            )
        )
    return Poses(frame, poses, places=places)


def known_positions(landmarks: Landmarks, places: Places, paths: Sequence[Path]) -> Floats:
    """True positions (n, k) of the places, from those `paths` that are tables in the map's frame;
    NaN if unknown.
    """
    known: dict[Path, Floats] = {}
    for table in (load_places(path) for path in paths if is_table(path)):
        if (
            table.dimensions == landmarks.dimensions
            and table.frames.get(landmarks.frame.name) == landmarks.frame
        ):
            table = table.where(frame=landmarks.frame.name)
            known |= dict(zip(table.files, table.positions, strict=True))
    unknown = np.full(landmarks.dimensions, np.nan)
    return np.array([known.get(file, unknown) for file in places.files])


def seconds_of(places: Places) -> Floats | None:
    """The times of the places in seconds since 1970; None if a time is missing."""
    return places.time / 1e9 if (places.time != NO_TIME).all() else None


def _image_of(places: Places, row: int) -> dict[str, Any]:
    time = int(places.time[row])
    return {
        "name": str(places.place_id[row]),
        "time": None if time == NO_TIME else time,
        "sequence": str(places.sequence[row]),
        "path": str(places.path[row]),
    }


def _pose_of(location: Location, landmarks: Landmarks) -> dict[str, Any]:
    coverage = location.coverage
    if coverage is None:
        coverage = (
            USUAL_COVERAGE if landmarks.calibration is None else landmarks.calibration.coverage
        )
    deviation = None
    if location.heading_error is not None:
        deviation = location.heading_error / NormalDist().inv_cdf((1 + coverage) / 2)
    return {
        "position": location.coordinates,
        "covariance": None if location.covariance is None else np.array(location.covariance),
        "coverage": coverage,
        "heading": location.heading,
        "heading_deviation": deviation,
        "trusted": location.confident,
        "reason": location.reason,
    }
