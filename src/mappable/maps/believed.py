"""Turn beliefs about places into locations: position, interval, and why the map is not confident."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Floats32
from mappable.maps.drive_model import Followed, alike_around, coordinates_of, deviations_of, moved_around
from mappable.maps.found_places import FoundPlaces, find_places, mass_around
from mappable.maps.location import Location
from mappable.maps.looks import Looks, first_to_second
from mappable.maps.records import TWO_PLACES, UNLIKE_MAP, locations_at

if TYPE_CHECKING:
    from mappable.maps.locate import Locator

# An image located alone is confident if its place has at least this probability. Chosen by studies/drives.
SURE_ALONE = 0.7
# An image of a drive is confident only if the images around it look like the map: least median of their log odds.
ALIKE_AROUND = -0.4
# An image of a drive is confident only if positions move at least this share of what the images' differences tell.
MOVED = 0.3
UNLIKE = f"{UNLIKE_MAP}: the images before and after this one do not look like the map"
STANDING = "looks like one place throughout: the images differ, but all look like one place of the map"
NO_BETTER = f"{TWO_PLACES}: another place looks nearly as much like the image"
BATCH = 256  # images per batch, which limits how many descriptors of landmarks are in memory


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
    """Locations of images (n, D) by the beliefs of the `drive`.

    Each location names the likeliest landmark if the drive helped, and otherwise the nearest landmark by feature.
    """
    places, coordinates, mass = placed(locator, looks, drive)
    model, at = locator.calibration.drive, locator.positions
    coverage = locator.calibration.coverage if coverage is None else coverage
    feature = _feature_distances(locator, descriptors, places)
    distance = np.linalg.norm(coordinates - at[places.landmark], axis=1)
    wide = model.width(coverage, float(np.median(looks.contrast)) if drive.together else -np.inf)
    half = np.minimum(wide * deviations_of(model, places, drive), locator.farthest)
    covariances = model.covariance_factor * places.covariance + model.covariance_deviation**2 * np.eye(at.shape[1])
    known, confident = places.away < 0.5, mass >= (model.sure if drive.together else SURE_ALONE)
    if drive.together:
        doubts = {UNLIKE: alike_around(model, looks) < ALIKE_AROUND}
        doubts[STANDING] = moved_around(model, drive, coordinates) < MOVED
    else:
        doubts = {NO_BETTER: first_to_second(looks, at, model.radius) > model.clear_ratio}
    likely = confident.copy()
    for doubt in doubts.values():
        confident &= ~doubt

    def reason(n: int) -> str:
        if likely[n]:
            return next(words for words, doubt in doubts.items() if doubt[n])
        return _reason(locator, places, n, float(mass[n]), float(feature[n]))

    distances = [distance, np.maximum(distance - half, 0.0), np.minimum(distance + half, locator.farthest)]
    return locations_at(
        locator.map,
        looks.rows[:, :candidates],
        looks.squared,
        images,
        coordinates=coordinates,
        landmark=places.landmark,
        feature=feature,
        distances=np.where(known[:, None], np.column_stack(distances), np.nan),
        coverage=coverage,
        covariances=covariances,
        headings=locator.headings(looks.rows, looks.squared, coordinates),
        heading_error=locator.calibration.heading_error(coverage),
        refined=(coordinates != at[places.likeliest]).any(axis=1),
        confident=confident,
        reason=reason,
        together=drive.together,
    )


def placed(locator: "Locator", looks: Looks, drive: Followed) -> tuple[FoundPlaces, Floats, Floats]:
    """Places of images, their coordinates (n, k), and the probability (n,) that each is near its coordinates."""
    model, nearest = locator.calibration.drive, None if drive.together else looks.rows[:, 0]
    places = find_places(drive.beliefs, locator.positions, model.radius, nearest)
    coordinates = coordinates_of(model, locator.between, locator.calibration.temperature, looks, places, drive)
    return places, coordinates, mass_around(drive.beliefs, locator.positions, coordinates, model.radius)


def _feature_distances(locator: "Locator", descriptors: Floats32, places: FoundPlaces) -> Floats:
    """Feature distances (n,) from images (n, D) to their landmarks, not squared."""
    parts = []
    for start in range(0, len(descriptors), BATCH):
        some = slice(start, start + BATCH)
        off = descriptors[some] - locator.map.store.take(places.landmark[some])
        parts.append(np.sqrt(np.einsum("nd,nd->n", off, off)))
    return np.concatenate(parts).astype(np.float64)


def _reason(locator: "Locator", places: FoundPlaces, n: int, mass: float, feature: float) -> str:
    """Why the map is not confident of an image."""
    away, rival, ids = places.away[n], int(places.rival[n]), locator.map.places.place_id
    if rival < 0 or away >= (1 - mass) / 2:
        return f"{UNLIKE_MAP}: not on the map with probability {away:.2f} (feature distance {feature:.3f})"
    metres = np.linalg.norm(locator.positions[rival] - locator.positions[places.landmark[n]])
    where = f"{ids[places.landmark[n]]} with probability {mass:.2f}, or {ids[rival]}"
    return f"{TWO_PLACES}: {where}, {metres:.1f} {locator.map.unit} away"
