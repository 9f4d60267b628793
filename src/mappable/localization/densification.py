"""Densify a map: add images without positions as landmarks, if the map locates them well enough."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats32, Strings
from mappable.errors import BadInputError
from mappable.localization.location import Location
from mappable.localization.map import Map
from mappable.localization.queries import queries_of_places
from mappable.maps.landmarks import Landmarks
from mappable.places.pixels import Images
from mappable.places.table import Places

ON_TOP = 0.02  # images within this distance of a measured landmark are not added; in spacings


@dataclass(frozen=True)
class Densified:
    """A map with more landmarks, and what became of the images."""

    landmarks: Landmarks
    added: Bools  # (n,) whether each image was added
    locations: list[Location]  # of all images


def densify(
    opened: Map,
    places: Places,
    descriptors: Floats32,
    *,
    within: float | None = None,
    sequence: bool = False,
) -> Densified:
    """Add images to the map by their descriptors (n, D), at estimated positions with covariances.

    An image is added if the map is confident of it and its position is refined. The standard
    deviation of the position must also be at most `within` metres (default: the spacing of the
    map's landmarks). With `sequence`, the images, in the order taken, are located as one drive.

    Positions in `places` are ignored; time, sequence and condition are kept. Landmarks of the map
    do not change. An image with the place_id of a landmark raises, and an image on top of a
    landmark is not added.
    """
    landmarks = opened.landmarks
    limit = opened.model.states.spacing if within is None else within
    if not limit > 0:
        raise BadInputError(
            f"the largest deviation of added positions must be above 0, got {limit}"
            f" {landmarks.unit}"
        )
    _check(landmarks, places, descriptors)
    locate = opened.locate_drive if sequence else opened.locate_all
    locations = locate(descriptors, names=places.place_id.tolist())
    covariance = np.array([one.covariance for one in locations])
    largest = np.sqrt(np.linalg.eigvalsh(covariance)[:, -1])
    added = np.array([one.confident and one.refined for one in locations]) & (largest <= limit)
    places_of = np.array([one.coordinates for one in locations])
    measured = (
        KDTree(landmarks.places.positions[~landmarks.estimated])
        if not landmarks.estimated.all()
        else None
    )
    if measured is not None:
        added &= measured.query(places_of)[0] > ON_TOP * opened.model.states.spacing
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
    return Densified(
        landmarks.add(fresh, descriptors[rows], landmarks.encoder, covariance[rows]),
        added,
        locations,
    )


@dataclass(frozen=True)
class Placed:
    """A map after images were added to it."""

    landmarks: Landmarks
    added: int  # number of images added
    left_out: Counter[str]  # number of images not added, by reason
    bad: tuple[str, ...]  # errors of images that cannot be read


def densify_images(
    opened: Map,
    places: Places,
    images: Images | None = None,
    *,
    sequence: bool = False,
    within: float | None = None,
) -> Placed:
    """Add those images that can be read and that the map locates well enough; see `densify`."""
    names = sorted(set(places.sequence))
    if sequence and len(names) > 1:
        raise BadInputError(
            f"the images are of {len(names):,} sequences, such as {names[0]!r}: add one sequence at"
            " a time"
        )
    landmarks = opened.landmarks
    queries = queries_of_places(opened.encoder, places, images)
    bad = tuple(map(str, queries.errors.values()))
    if not len(queries.rows):
        return Placed(landmarks, 0, Counter(), bad)
    dense = densify(
        opened, places[queries.rows], queries.descriptors, within=within, sequence=sequence
    )
    denser = dense.landmarks
    # Notes about two tables in one frame do not apply: the images have no frame.
    if dense.added.any():
        denser = replace(denser, places=denser.places.replace(notes=landmarks.places.notes))
    others = [one for one, added in zip(dense.locations, dense.added, strict=True) if not added]
    return Placed(denser, int(dense.added.sum()), Counter(_why_not(one) for one in others), bad)


def _why_not(location: Location) -> str:
    if not location.confident:
        return location.reason.partition(":")[0]
    return "position not known well enough" if location.refined else "not between landmarks"


def _check(landmarks: Landmarks, places: Places, descriptors: Floats32) -> None:
    if not len(places) or len(places) != len(descriptors):
        raise BadInputError(
            f"got {len(places):,} images and {len(descriptors):,} descriptors, expected one"
            " descriptor per image"
        )
    known: Strings = landmarks.places.place_id
    twice = set(known) & set(places.place_id)
    if twice:
        raise BadInputError(f"the map already has a landmark {min(twice)!r}: leave this image out")
