"""Densifying: images without positions become landmarks, where the map itself knows well enough where they are."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats32, Strings
from mappable.errors import BadInputError
from mappable.maps.locate import Locator
from mappable.maps.location import Location
from mappable.maps.map import Map
from mappable.maps.sequence import locate_sequence
from mappable.places.table import Places

ON_TOP = 0.02  # spacings: no image is added that near to a measured landmark


@dataclass(frozen=True)
class Densified:
    """A map with more landmarks, and which of the images they are; the locations of all images."""

    map: Map
    added: Bools
    locations: list[Location]


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

    Added are those that the map is confident of, whose position is refined and known `within` so many metres (one
    standard deviation; default: the spacing of the map's landmarks). A `sequence` of them, in the order taken, locates
    together. Positions that `places` have do not count; time, sequence and condition are kept. Landmarks of the map
    stay as they are: an image of the same place_id as one of them is refused, and none is added on top of one.
    """
    locator = Locator(landmarks)
    limit = locator.calibration.spacing if within is None else within
    if not limit > 0:
        raise BadInputError(f"positions are to be known within {limit} {landmarks.unit}, but that must be above 0")
    _check(landmarks, places, descriptors)
    locate = (lambda **values: locate_sequence(locator, **values)) if sequence else locator.locate
    locations = locate(descriptors=descriptors, encoder=encoder, images=places.place_id.tolist())
    covariance = np.array([one.covariance for one in locations])
    largest = np.sqrt(np.linalg.eigvalsh(covariance)[:, -1])
    added = np.array([one.confident and one.refined for one in locations]) & (largest <= limit)
    places_of = np.array([one.coordinates for one in locations])
    measured = KDTree(landmarks.places.positions[~landmarks.estimated]) if not landmarks.estimated.all() else None
    if measured is not None:
        added &= measured.query(places_of)[0] > ON_TOP * locator.calibration.spacing
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
        raise BadInputError(f"there are {len(places):,} images to add, but {len(descriptors):,} descriptors")
    known: Strings = landmarks.places.place_id
    twice = set(known) & set(places.place_id)
    if twice:
        raise BadInputError(f"the map has a landmark {min(twice)!r} already, whose position stays as it is")
