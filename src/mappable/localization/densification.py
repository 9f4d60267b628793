"""Densify a map: add images without positions as landmarks, if the map locates them well enough."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats32, Strings
from mappable.errors import BadInputError
from mappable.localization.locate import Locator
from mappable.localization.location import Location
from mappable.maps.map import Map
from mappable.places.table import Places

ON_TOP = 0.02  # images within this distance of a measured landmark are not added; in spacings


@dataclass(frozen=True)
class Densified:
    """A map with more landmarks, and what became of the images."""

    map: Map
    added: Bools  # (n,) whether each image was added
    locations: list[Location]  # of all images


def densify(
    landmarks: Map,
    places: Places,
    descriptors: Floats32,
    *,
    encoder: str,
    within: float | None = None,
    sequence: bool = False,
) -> Densified:
    """Add images to the map by their descriptors (n, D), at estimated positions with covariances.

    An image is added if the map is confident of it and its position is refined. The standard deviation of the position
    must also be at most `within` metres (default: the spacing of the map's landmarks). With `sequence`, the images, in
    the order taken, are located as one drive.

    Positions in `places` are ignored; time, sequence and condition are kept. Landmarks of the map do not change. An
    image with the place_id of a landmark raises, and an image on top of a landmark is not added.
    """
    locator = Locator(landmarks)
    limit = locator.model.states.spacing if within is None else within
    if not limit > 0:
        raise BadInputError(f"the largest deviation of added positions must be above 0, got {limit} {landmarks.unit}")
    _check(landmarks, places, descriptors)
    locations = locator.locate(descriptors, encoder=encoder, images=places.place_id.tolist(), together=sequence)
    covariance = np.array([one.covariance for one in locations])
    largest = np.sqrt(np.linalg.eigvalsh(covariance)[:, -1])
    added = np.array([one.confident and one.refined for one in locations]) & (largest <= limit)
    places_of = np.array([one.coordinates for one in locations])
    measured = KDTree(landmarks.places.positions[~landmarks.estimated]) if not landmarks.estimated.all() else None
    if measured is not None:
        added &= measured.query(places_of)[0] > ON_TOP * locator.model.states.spacing
    if not added.any():
        return Densified(landmarks, added, locations)
    rows = np.flatnonzero(added)
    at = places_of[rows]
    coordinates = dict(zip("xyz", at.T, strict=False))
    fresh = places[rows].replace(
        **coordinates,
        frames=landmarks.frame,
        frame=landmarks.frame.name,
        dimensions=landmarks.places.dimensions,
        yaw=np.full(len(rows), np.nan),
        split="",
        role="",
    )
    return Densified(landmarks.add(fresh, descriptors[rows], encoder, covariance[rows]), added, locations)


def _check(landmarks: Map, places: Places, descriptors: Floats32) -> None:
    if not len(places) or len(places) != len(descriptors):
        raise BadInputError(
            f"got {len(places):,} images and {len(descriptors):,} descriptors, expected one descriptor per image"
        )
    known: Strings = landmarks.places.place_id
    twice = set(known) & set(places.place_id)
    if twice:
        raise BadInputError(f"the map already has a landmark {min(twice)!r}: leave this image out")
