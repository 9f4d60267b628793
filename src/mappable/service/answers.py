"""The models of the server's responses, with examples for the OpenAPI document."""

from dataclasses import fields
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mappable.arrays import Floats
from mappable.maps.location import Candidate, Location, NotLocated, Outcome
from mappable.maps.map import Map
from mappable.maps.summary import CalibrationSummary, summarize_map
from mappable.recovery.report import Report
from mappable.recovery.result import Recovered

LARGEST_NUMBER = 1_000_000_000  # of a known position: coordinates and sigma in metres, and the number of the image
SMALLEST_SIGMA = 1e-6  # metres

_WHERE: dict[str, Any] = {"coordinates": [51.3, 7.9], "latitude": 51.75213, "longitude": -1.25794}
_PLACE: dict[str, Any] = {
    "id": "sun/0048.jpg",
    **_WHERE,
    "yaw": 1.57,
    "condition": "sun",
    "estimated": False,
    "image": "/landmarks/sun/0048.jpg/image",
}
_CALIBRATION: dict[str, Any] = {
    "source": "calibration",
    "images": 500,
    "elsewhere": 0,
    "landmarks": 200,
    "coverage": 0.9,
    "false_accepts": 0.05,
    "reach": 24.0,
    "valid": 1.02,
    "confident": 0.83,
    "width": 5.6,
    "note": "",
}
_POINT: dict[str, Any] = {
    "image": "0001.jpg",
    "coordinates": [0.4, -3.1],
    "covariance": [[0.3, 0.0], [0.0, 0.5]],
    "part": 0,
}


class Answer(BaseModel):
    """A response body, or a part of one, without additional fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": list(examples)})


def _example_of(record: type) -> dict[str, Any]:
    """An example of a record, from the examples of its fields."""
    return {one.name: one.metadata["examples"][0] for one in fields(record) if "examples" in one.metadata}


_LOCATION = _example_of(Location) | {"candidates": [_example_of(Candidate)], "error": None}


class Error(Answer):
    """Why a request failed, in one sentence."""

    model_config = _example({"error": "the queue is full: 256 images are waiting"})
    error: str


class Positions(Answer):
    """One entry per image, in the order of the images."""

    model_config = _example({"positions": [_LOCATION, _example_of(NotLocated)], "error": None})
    positions: list[Outcome]
    error: str | None = Field(default=None, description="Set if no image can be used, else null.")


class KnownPosition(Answer):
    """A known position: the number of the image, counted from 0, its coordinates, and their deviation in metres."""

    model_config = _example({"point": 0, "coordinates": [12.0, 3.5], "sigma": 0.5})
    point: int = Field(ge=0, le=LARGEST_NUMBER)
    coordinates: list[Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER, allow_inf_nan=False)]]
    sigma: float = Field(default=0.5, ge=SMALLEST_SIGMA, le=LARGEST_NUMBER, allow_inf_nan=False)


class Point(Answer):
    """An image of a trajectory; no distance connects points of different parts."""

    model_config = _example(_POINT)
    image: str
    coordinates: list[float] | None
    covariance: list[list[float]] | None
    part: int


class Trajectory(Answer):
    """Positions recovered from distances, and what the distances leave undetermined."""

    model_config = _example(
        {
            "points": [_POINT],
            "dimensions": 2,
            "ranges": 812,
            "thrown_out": 14,
            "parts": [120],
            "known": 0,
            "assumed": 3,
            "noise": 1.06,
            "undetermined": ["Where the map lies, how it is turned, and whether it is mirrored."],
        }
    )
    points: list[Point]
    dimensions: int
    ranges: int
    thrown_out: int = Field(description="Number of ranges rejected as outliers.")
    parts: list[int] = Field(description="Number of points per part, the largest part first.")
    known: int
    assumed: int = Field(description="Number of steps to a next image that no range measures; a usual step is assumed.")
    noise: float | None
    undetermined: list[str] = Field(description="One sentence for each property that the distances do not determine.")


class Landmark(Answer):
    """A landmark of the map; `image` is the address of its picture."""

    model_config = _example(_PLACE)
    id: str
    coordinates: list[float]
    latitude: float | None
    longitude: float | None
    yaw: float | None = Field(description="Radians counter-clockwise from +x.")
    condition: str
    estimated: bool
    image: str


class MapAnswer(Answer):
    """A map: its frame, its calibration and its landmarks."""

    model_config = _example(
        {
            "frame": "utm-30N",
            "unit": "m",
            "crs": "EPSG:32630",
            "dimensions": 2,
            "encoder": "0f3c9a51d2b7e684",
            "spacing": 8.4,
            "low": [-3.0, -41.5],
            "high": [812.6, 390.2],
            "calibration": _CALIBRATION,
            "landmarks": [_PLACE],
        }
    )
    frame: str
    unit: str
    crs: str | None
    dimensions: int
    encoder: str
    spacing: float
    low: list[float]
    high: list[float]
    calibration: CalibrationSummary | None
    landmarks: list[Landmark]


class Session(Answer):
    """A session: it follows one camera on the map."""

    model_config = _example({"id": "9f86d081884c7d659a2feaa0c55ad015", "revision": "0f3c9a51d2b7", "seconds": 600.0})
    id: str
    revision: str = Field(description="Revision of the map.")
    seconds: float = Field(description="Seconds without an update after which the session expires.")


class Deleted(Answer):
    """A session that was deleted."""

    model_config = _example({"deleted": "9f86d081884c7d659a2feaa0c55ad015"})
    deleted: str


class Health(Answer):
    """State of the server."""

    model_config = _example({"status": "ok", "landmarks": 200, "queue": 0})
    status: str
    landmarks: int
    queue: int = Field(description="Number of images in progress or waiting.")


REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": Error, "description": "The body does not match its header."},
    401: {"model": Error, "description": "The token is missing or wrong."},
    403: {"model": Error, "description": "The image file is not in a folder that the server may show."},
    404: {"model": Error, "description": "The name does not exist."},
    408: {"model": Error, "description": "The body arrived too slowly."},
    410: {"model": Error, "description": "The image file no longer exists, or cannot be read."},
    413: {"model": Error, "description": "The body is too long, an image is too large, or there are too many images."},
    415: {"model": Error, "description": "The content type is not supported."},
    422: {"model": Error, "description": "An image or an option cannot be used."},
    503: {"model": Error, "description": "The server is overloaded; Retry-After gives the seconds to wait."},
    "default": {"model": Error, "description": "The request failed; the body says why."},
}


def refusals(*which: int | str) -> dict[int | str, dict[str, Any]]:
    """The entries of `REFUSED` with these keys; they describe the errors of an address in OpenAPI."""
    return {one: REFUSED[one] for one in which}


def positions(outcomes: list[Outcome]) -> Positions:
    """The response of `/locate`."""
    none = outcomes and not any(isinstance(one, Location) for one in outcomes)
    return Positions(positions=outcomes, error="none of the images can be used" if none else None)


def trajectory(names: list[str], recovered: Recovered, summary: Report) -> Trajectory:
    """The response of `/recover`; `names` are those of the images."""
    covariances = recovered.covariances
    points = [
        Point(
            image=name,
            coordinates=_numbers(recovered.positions[n]),
            covariance=None if covariances is None else _numbers(covariances[n]),
            part=int(recovered.parts[n]),
        )
        for n, name in enumerate(names)
    ]
    return Trajectory(
        points=points,
        dimensions=summary.dimensions,
        ranges=summary.ranges,
        thrown_out=summary.thrown_out,
        parts=list(summary.parts),
        known=summary.known,
        assumed=summary.assumed,
        noise=summary.noise,
        undetermined=list(summary.undetermined),
    )


def describe_map(landmarks: Map, image_of: Any) -> MapAnswer:
    """The response of `/map`; `image_of` returns the address of a landmark's picture."""
    summary, places = summarize_map(landmarks), landmarks.places
    degrees = landmarks.frame.degrees(places.positions)
    return MapAnswer(
        frame=summary.frame,
        unit=summary.unit,
        crs=landmarks.frame.crs,
        dimensions=summary.dimensions,
        encoder=summary.encoder,
        spacing=summary.spacing,
        low=list(summary.low),
        high=list(summary.high),
        calibration=summary.calibration,
        landmarks=[
            Landmark(
                id=str(name),
                coordinates=places.positions[row].tolist(),
                latitude=degrees[row][0],
                longitude=degrees[row][1],
                yaw=None if np.isnan(places.yaw[row]) else float(places.yaw[row]),
                condition=str(places.condition[row]),
                estimated=bool(landmarks.estimated[row]),
                image=image_of(str(name)),
            )
            for row, name in enumerate(places.place_id)
        ],
    )


def _numbers(values: Floats) -> Any:
    """Nested lists of the values, or None if any value is not finite."""
    return values.tolist() if np.isfinite(values).all() else None
