"""Locations by beliefs about places: where an image is, how far that may be wrong, and why it is not confident."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Floats32
from mappable.maps.drive_model import (
    Followed,
    FoundPlaces,
    Looks,
    alike_around,
    coordinates_of,
    deviations_of,
    find_places,
    first_to_second,
    mass_around,
)
from mappable.maps.location import Location

if TYPE_CHECKING:
    from mappable.maps.locate import Locator

SURE_ALONE = 0.7  # least probability of the place of an image by itself that is confident; by scripts/real.py
ALIKE_AROUND = -0.4  # least log odds to be on the map, median of the images around one, if it is confident
AT_ONCE = 256  # landmarks whose descriptors are read together


def locations_of(
    locator: "Locator",
    descriptors: Floats32,
    looks: Looks,
    drive: Followed,
    *,
    coverage: float | None,
    images: Sequence[str] | None,
    candidates: int,
) -> list[Location]:
    """Locations of images (n, D) by what the `drive` says about them.

    The landmark is the likeliest one if the drive helped, and else the nearest one by feature.
    """
    places, coordinates, mass = placed(locator, looks, drive)
    model, frame, ids, at = locator.calibration.drive, locator.map.frame, locator.map.places.place_id, locator.positions
    coverage = locator.calibration.coverage if coverage is None else coverage
    feature = _feature_distances(locator, descriptors, places)
    distance = np.linalg.norm(coordinates - at[places.landmark], axis=1)
    wide = model.width(coverage, float(np.median(looks.contrast)) if drive.together else -np.inf)
    half = np.minimum(wide * deviations_of(model, places, drive), locator.farthest)
    covariances = model.covariance_factor * places.covariance + model.covariance_deviation**2 * np.eye(at.shape[1])
    known, confident = places.away < 0.5, mass >= (model.sure if drive.together else SURE_ALONE)
    if drive.together:
        confident &= alike_around(model, looks) >= ALIKE_AROUND
    else:
        confident &= first_to_second(looks, at, model.radius) <= model.clear_ratio
    degrees = frame.degrees(coordinates)
    return [
        Location(
            image=str(name),
            coordinates=tuple(coordinates[n].tolist()),
            latitude=degrees[n][0],
            longitude=degrees[n][1],
            frame=frame.name,
            unit=locator.map.unit,
            landmark=str(ids[places.landmark[n]]),
            feature_distance=float(feature[n]),
            distance=float(distance[n]) if known[n] else None,
            low=float(max(distance[n] - half[n], 0.0)) if known[n] else None,
            high=float(min(distance[n] + half[n], locator.farthest)) if known[n] else None,
            coverage=coverage if known[n] else None,
            covariance=tuple(map(tuple, covariances[n].tolist())),
            refined=bool((coordinates[n] != at[places.likeliest[n]]).any()),
            confident=bool(confident[n]),
            reason="" if confident[n] else _reason(locator, places, n, float(mass[n]), float(feature[n])),
            candidates=locator.candidates(looks.rows[n, :candidates], looks.squared[n]),
            together=drive.together,
        )
        for n, name in enumerate(range(len(coordinates)) if images is None else images)
    ]


def placed(locator: "Locator", looks: Looks, drive: Followed) -> tuple[FoundPlaces, Floats, Floats]:
    """Places of images, their coordinates (n, k), and the probability (n,) that each is near its coordinates."""
    model, nearest = locator.calibration.drive, None if drive.together else looks.rows[:, 0]
    places = find_places(drive.beliefs, locator.positions, model.radius, nearest)
    coordinates = coordinates_of(model, locator.between, locator.calibration.temperature, looks, places, drive)
    return places, coordinates, mass_around(drive.beliefs, locator.positions, coordinates, model.radius)


def _feature_distances(locator: "Locator", descriptors: Floats32, places: FoundPlaces) -> Floats:
    """Of images (n, D) from their landmarks, not squared."""
    parts = []
    for start in range(0, len(descriptors), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        off = descriptors[some] - locator.map.store.take(places.landmark[some])
        parts.append(np.sqrt(np.einsum("nd,nd->n", off, off)))
    return np.concatenate(parts).astype(np.float64)


def _reason(locator: "Locator", places: FoundPlaces, n: int, mass: float, feature: float) -> str:
    """Why an image of a drive is not confident."""
    away, rival, ids = places.away[n], int(places.rival[n]), locator.map.places.place_id
    if rival < 0 or away >= (1 - mass) / 2:
        return f"too far: not on the map with probability {away:.2f} (feature distance {feature:.3f})"
    metres = np.linalg.norm(locator.positions[rival] - locator.positions[places.landmark[n]])
    where = f"{ids[rival]}, {metres:.1f} {locator.map.unit} from {ids[places.landmark[n]]}"
    return f"aliased: {where}, is likely, too; this place has probability {mass:.2f}"
