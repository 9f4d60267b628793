"""Make the records of located images from arrays."""

from collections.abc import Callable, Sequence

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints, Strings
from mappable.maps.location import Candidate, Location
from mappable.maps.map import Map

# How the reason of an image that is not confident begins; docs/maps.md explains these words.
UNLIKE_MAP = "looks unlike every landmark"
UNLIKE_CALIBRATION = "looks unlike every calibration image"
TWO_PLACES = "looks like two places"


def locations_at(
    landmarks: Map,
    rows: Ints,
    squared: Floats | Floats32,
    images: Sequence[str] | None,
    *,
    coordinates: Floats,
    landmark: Ints,
    feature: Floats | Floats32,
    reason: Callable[[int], str],
    distances: Floats | None = None,
    coverage: float | None = None,
    covariances: Floats | None = None,
    refined: Bools | None = None,
    confident: Bools | None = None,
    together: bool = False,
    headings: Floats | None = None,
    heading_error: float | None = None,
) -> list[Location]:
    """Make the records of images (n,) at `coordinates` (n, k), all in the same order.

    `rows` (n, c) are the candidates to name, nearest first, at `squared` feature distances (n, at least c).
    `landmark` (n,) is the row of each image's landmark, at the `feature` distance (n,), not squared. `reason` says
    why the image with a given number is not confident. Without `confident` (n,), no image is. `distances` (n, 3)
    are the distance to the landmark and both ends of its interval, which has the `coverage`; NaN if unknown. `headings`
    (n,) in radians err by at most `heading_error`, with the same coverage.
    """
    frame, ids, at = landmarks.frame, landmarks.places.place_id, landmarks.places.positions
    degrees = frame.degrees(coordinates)
    numbers = np.full((len(coordinates), 3), np.nan) if distances is None else distances
    stated = [[None if np.isnan(value) else value for value in row] for row in numbers.tolist()]
    return [
        Location(
            image=str(name),
            coordinates=tuple(coordinates[n].tolist()),
            latitude=degrees[n][0],
            longitude=degrees[n][1],
            frame=frame.name,
            unit=landmarks.unit,
            landmark=str(ids[landmark[n]]),
            feature_distance=float(feature[n]),
            distance=stated[n][0],
            low=stated[n][1],
            high=stated[n][2],
            coverage=None if stated[n][0] is None else coverage,
            covariance=None if covariances is None else tuple(map(tuple, covariances[n].tolist())),
            heading=(heading := None if headings is None or np.isnan(headings[n]) else float(headings[n])),
            heading_error=None if heading is None else heading_error,
            refined=refined is not None and bool(refined[n]),
            confident=(sure := confident is not None and bool(confident[n])),
            reason="" if sure else reason(n),
            candidates=_candidates(ids, at, rows[n], squared[n]),
            together=together,
        )
        for n, name in enumerate(range(len(coordinates)) if images is None else images)
    ]


def _candidates(ids: Strings, at: Floats, rows: Ints, squared: Floats | Floats32) -> tuple[Candidate, ...]:
    feature = np.sqrt(squared[: len(rows)])
    return tuple(Candidate(str(ids[row]), tuple(at[row].tolist()), float(feature[n])) for n, row in enumerate(rows))
