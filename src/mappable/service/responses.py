"""The bodies of requests and responses, made from the records of the package."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
from fastapi import Response
from pydantic import Field, TypeAdapter

from mappable.localization.location import Outcome, documented
from mappable.maps.landmarks import Landmarks
from mappable.maps.summary import MapSummary, summarize_map
from mappable.recovery.report import Report
from mappable.recovery.result import Recovered

# Of a known position: coordinates and sigma in metres, and the number of the image.
LARGEST_NUMBER = 1_000_000_000
SMALLEST_SIGMA = 1e-6  # metres
JSON = "application/json"
_Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER, allow_inf_nan=False)]


@dataclass(frozen=True)
class Error:
    """Why a request failed."""

    error: str = documented("One sentence.", "the queue is full: 256 images are waiting")


@dataclass(frozen=True)
class Positions:
    """One entry per image, in the order of the images."""

    positions: list[Outcome]
    error: str | None = documented("Set if no image can be used, else null.", None)


@dataclass(frozen=True)
class KnownPosition:
    """A known position of an image."""

    point: Annotated[
        int,
        Field(ge=0, le=LARGEST_NUMBER, description="Number of the image, from 0.", examples=[0]),
    ]
    coordinates: Annotated[
        list[_Number], Field(description="In the frame of the map.", examples=[[12.0, 3.5]])
    ]
    sigma: Annotated[
        float,
        Field(ge=SMALLEST_SIGMA, le=LARGEST_NUMBER, description="Standard deviation, in metres."),
    ] = 0.5


@dataclass(frozen=True)
class Point:
    """An image of a trajectory; no distance connects points of different parts."""

    image: str = documented("Name of the image.", "0001.jpg")
    coordinates: list[float] | None = documented("Null if unknown.", [0.4, -3.1])  # noqa: RUF009
    covariance: list[list[float]] | None = documented("Null if unknown.", [[0.3, 0.0], [0.0, 0.5]])  # noqa: RUF009
    part: int = documented("Number of its part.", 0)


@dataclass(frozen=True)
class Trajectory(Report):
    """Positions recovered from distances, and what the distances leave undetermined."""

    images: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Landmark:
    """A landmark of the map."""

    id: str = documented("Its id.", "sun/0048.jpg")
    coordinates: list[float] = documented("x, y (and z) in the frame of the map.", [51.3, 7.9])  # noqa: RUF009
    latitude: float | None = documented(
        "Degrees; null if the frame is not georeferenced.", 51.75213
    )
    longitude: float | None = documented(
        "Degrees; null if the frame is not georeferenced.", -1.25794
    )
    yaw: float | None = documented("Radians counter-clockwise from +x.", 1.57)
    condition: str = documented("Its condition.", "sun")
    estimated: bool = documented("Whether its position is estimated.", False)
    image: str = documented("Address of its picture.", "/landmarks/sun/0048.jpg/image")


@dataclass(frozen=True)
class WholeMap(MapSummary):
    """A map: its frame, its calibration and its landmarks."""

    crs: str | None
    places: tuple[Landmark, ...]


@dataclass(frozen=True)
class NewSession:
    """A session: it follows one camera on the map."""

    id: str = documented("Id for further requests.", "9f86d081884c7d659a2feaa0c55ad015")
    revision: str = documented("Revision of the map.", "0f3c9a51d2b7")
    seconds: float = documented("Seconds without an update after which the session expires.", 600.0)


@dataclass(frozen=True)
class Deleted:
    """A session that was deleted."""

    deleted: str = documented("Its id.", "9f86d081884c7d659a2feaa0c55ad015")


@dataclass(frozen=True)
class Health:
    """State of the server."""

    status: str = documented("Always ok.", "ok")
    landmarks: int = documented("Number of landmarks.", 200)
    queue: int = documented("Number of images in progress or waiting.", 0)
    map_changed: bool = documented(
        "Whether the map on disk is not the one that is served; a restart loads it.", False
    )


REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": Error, "description": "The body does not match its header."},
    401: {"model": Error, "description": "The token is missing or wrong."},
    403: {
        "model": Error,
        "description": "The image file is not in a folder that the server may show.",
    },
    404: {"model": Error, "description": "The name does not exist."},
    410: {"model": Error, "description": "The image file no longer exists, or cannot be read."},
    413: {
        "model": Error,
        "description": "The body is too long, an image is too large, or there are too many images.",
    },
    415: {"model": Error, "description": "The content type is not supported."},
    422: {"model": Error, "description": "An image or an option cannot be used."},
    503: {
        "model": Error,
        "description": "The server is overloaded; Retry-After gives the seconds to wait.",
    },
    "default": {"model": Error, "description": "The request failed; the body says why."},
}
IMAGE_ERRORS = (400, 401, 413, 415, 422, 503)  # statuses of a failed request with images


def refusals(*which: int | str) -> dict[int | str, dict[str, Any]]:
    """The entries of `REFUSED` with these keys; they describe the errors of an address in OpenAPI."""
    return {key: REFUSED[key] for key in which}


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """What checks and writes a type of body."""
    return TypeAdapter(kind)


def respond(record: Any, status: int = 200) -> Response:
    """A response with a record as JSON."""
    return Response(adapter(record.__class__).dump_json(record), status, media_type=JSON)


def trajectory(names: list[str], recovered: Recovered, report: Report) -> Trajectory:
    """The response of `/recover`; `names` are those of the images."""
    covariances = recovered.covariances
    points = [
        Point(
            image=name,
            coordinates=_finite(recovered.positions[row]),
            covariance=None if covariances is None else _finite(covariances[row]),
            part=int(recovered.parts[row]),
        )
        for row, name in enumerate(names)
    ]
    return Trajectory(**vars(report), images=tuple(points))


def whole_map(landmarks: Landmarks, image_of: Callable[[str], str]) -> WholeMap:
    """The response of `/map`; `image_of` returns the address of a landmark's picture."""
    places = landmarks.places
    degrees = landmarks.frame.degrees(places.positions)
    listed = [
        Landmark(
            id=str(name),
            coordinates=places.positions[row].tolist(),
            latitude=degrees[row][0],
            longitude=degrees[row][1],
            yaw=_finite(places.yaw[row]),
            condition=str(places.condition[row]),
            estimated=bool(landmarks.estimated[row]),
            image=image_of(str(name)),
        )
        for row, name in enumerate(places.place_id)
    ]
    return WholeMap(**vars(summarize_map(landmarks)), crs=landmarks.frame.crs, places=tuple(listed))


def _finite(values: Any) -> Any:
    """The values as lists, or None if any is not finite."""
    return values.tolist() if np.isfinite(values).all() else None
