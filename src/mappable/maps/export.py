"""Export results for other programs: CSV, TUM trajectories, and pairs of images for hloc."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.features.export import write_hloc
from mappable.files import write_text
from mappable.maps.location import Location, Outcome, table
from mappable.maps.map import Map
from mappable.places.table import NO_TIME, Places
from mappable.trajectories import write_tum


def export_csv(file: Path, found: Sequence[Outcome], dimensions: int) -> None:
    """Write a CSV file with one line per image; see `location.table`."""
    rows = table(found, dimensions)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(file, text.getvalue())


def export_tum(file: Path, places: Places, found: Sequence[Outcome]) -> int:
    """Write the trajectory of the confident images; return the number of positions.

    Orientations are rotations about z by the heading. An image whose heading is unknown has no rotation.
    A map without a calibration is confident of no image, so all images are written. Times are seconds since 1970 if
    all images have a time, and otherwise the number of the image.
    """
    located = trusted(found)
    where: Floats = np.full((len(found), len(located[0][1].coordinates) if located else 2), np.nan)
    headings: Floats = np.full(len(found), np.nan)
    for row, one in located:
        where[row] = one.coordinates
        headings[row] = np.nan if one.heading is None else one.heading
    write_tum(file, where, seconds_of(places), headings)
    return len(located)


def trusted(found: Sequence[Outcome]) -> list[tuple[int, Location]]:
    """Row and location of each confident image; of each located image if the map has no calibration."""
    located = [(row, one) for row, one in enumerate(found) if isinstance(one, Location)]
    # The covariance tells if a map is calibrated. The distance does not: it may be unknown in a calibrated map.
    calibrated = any(one.covariance is not None for _, one in located)
    return [(row, one) for row, one in located if one.confident or not calibrated]


def ellipse_shape(landmarks: Map, one: Location) -> Floats | None:
    """Matrix (2, 2) from the unit circle to the ellipse that contains the image, if the place is right.

    Its probability is that of the interval. None if the map has no calibration.
    """
    if one.covariance is None or landmarks.calibration is None:
        return None
    share = landmarks.calibration.coverage if one.coverage is None else one.coverage
    scale = np.sqrt(-2 * np.log1p(-share))  # for two dimensions
    shape: Floats = scale * np.linalg.cholesky(np.array(one.covariance)[:2, :2])
    return shape


def seconds_of(places: Places) -> Floats | None:
    """The times of the places in seconds since 1970; None if a time is missing."""
    return places.time / 1e9 if (places.time != NO_TIME).all() else None


def check_drive(places: Places) -> None:
    """Raise if the images belong to several drives, because `export_tum` writes one drive."""
    names = sorted(set(places.sequence))
    if len(names) > 1:
        raise BadInputError(
            f"the images are of {len(names):,} sequences, such as {names[0]!r}, but a TUM file stores one drive"
        )


def check_words(landmarks: Map, places: Places) -> None:
    """Raise if `export_pairs` cannot write a path."""
    for path in (*places.path, *landmarks.places.path):
        _one_word(path)


def export_pairs(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> None:
    """Write a list of pairs for hloc: the path of an image, and the path of each of its candidate landmarks."""
    path_of = dict(zip(landmarks.places.place_id, landmarks.places.path, strict=True))
    lines = [
        f"{_one_word(path)} {_one_word(path_of[near.landmark])}\n"
        for path, one in zip(places.path, found, strict=True)
        if isinstance(one, Location)
        for near in one.candidates
    ]
    write_text(file, "".join(lines))


def export_landmarks(file: Path, landmarks: Map) -> None:
    """Write the descriptors of the landmarks for hloc: HDF5, float32, of length one."""
    descriptors = landmarks.store.take(np.arange(len(landmarks)))
    descriptors = descriptors / np.linalg.norm(
        descriptors, axis=1, keepdims=True
    )  # rounding to float16 changed lengths
    write_hloc(file, landmarks.places, descriptors)


def _one_word(path: str) -> str:
    if len(path.split()) != 1:
        raise BadInputError(
            f"{path!r}: the list of pairs for hloc cannot contain a path with a space; rename the file or folder"
        )
    return path
