"""`Location`: the record of a located image. JSON, CSV, HTTP, tables and recordings all use its fields."""

from dataclasses import dataclass, field
from typing import Any


def documented(description: str, example: Any) -> Any:
    """A field with the description and the example that the OpenAPI document and docs/formats.md
    show.
    """
    return field(metadata={"description": description, "examples": [example]})


@dataclass(frozen=True)
class Candidate:
    """A landmark that is near an image by feature."""

    landmark: str = documented("Id of the landmark.", "sun/0048.jpg")
    coordinates: tuple[float, ...] = documented(
        "Its position in the frame of the map.", [48.0, 6.1]
    )
    feature_distance: float = documented("Distance between both descriptors, not squared.", 0.412)


@dataclass(frozen=True)
class Location:
    """Where an image was taken. A value that the map does not know is None."""

    image: str = documented("Name of the image.", "photo.jpg")
    coordinates: tuple[float, ...] = documented(
        "x, y (and z) in the frame of the map, in its unit.", [51.3, 7.9]
    )
    latitude: float | None = documented(
        "Degrees (WGS 84); None if the frame is not georeferenced.", 51.75213
    )
    longitude: float | None = documented(
        "Degrees (WGS 84); None if the frame is not georeferenced.", -1.25794
    )
    frame: str = documented("Name of the coordinate frame.", "utm-30N")
    unit: str = documented(
        "Unit of coordinates and distances: m (metres), frames (of a route) or units (scale"
        " unknown).",
        "m",
    )
    landmark: str = documented("Id of the likeliest landmark.", "sun/0048.jpg")
    feature_distance: float = documented(
        "Distance between the descriptors of image and landmark, not squared.", 0.412
    )
    distance: float | None = documented(
        "Distance from the image to that landmark, in the unit.", 3.6
    )
    low: float | None = documented("Lower end of the interval of the distance.", 1.2)
    high: float | None = documented("Upper end of the interval of the distance.", 6.4)
    coverage: float | None = documented(
        "Probability that the interval holds the true distance.", 0.9
    )
    covariance: tuple[tuple[float, ...], ...] | None = documented(
        "Covariance of the coordinates if the place is right, in squares of the unit.",
        [[1.4, 0.1], [0.1, 0.9]],
    )
    heading: float | None = documented(
        "Direction in which the camera looks, in radians counter-clockwise from +x; None if the map"
        " has no headings.",
        1.57,
    )
    heading_error: float | None = documented(
        "Half the width of the interval of the heading, in radians; its coverage is that of the"
        " distance.",
        0.1,
    )
    refined: bool = documented(
        "True if the coordinates lie between landmarks, False if they are the landmark's.", True
    )
    confident: bool = documented("False if the image may be anywhere.", True)
    reason: str = documented("Why the map is not confident; empty if it is.", "")
    candidates: tuple[Candidate, ...] = documented(
        "The nearest landmarks by feature, nearest first.", []
    )
    together: bool = field(
        default=False,
        metadata={
            "description": "True if the other images of its drive helped to locate it.",
            "examples": [False],
        },
    )
    calibrated_on: str = field(
        default="own visit",
        metadata={
            "description": "What calibrated the map: own visit, other visits, or a drive.",
            "examples": ["other visits"],
        },
    )
    error: None = field(default=None, metadata={"description": "Always null here."})


@dataclass(frozen=True)
class NotLocated:
    """An image that cannot be read, and the cause."""

    image: str = documented("Name of the image.", "notes.txt")
    error: str = documented("Why it cannot be read.", "notes.txt: not a JPEG, PNG or WebP image")


Outcome = Location | NotLocated  # result for one image; `dataclasses.asdict` turns it into JSON
