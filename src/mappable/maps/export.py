"""Exports for other programs: CSV, TUM trajectories, and pairs of images for hloc."""

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
    """A line per image, see `location.table`."""
    rows = table(found, dimensions)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(file, text.getvalue())


def export_tum(file: Path, places: Places, found: Sequence[Outcome]) -> int:
    """The trajectory of the images that the map is confident of, and how many these are; without rotation.

    Of a map without a calibration, which is confident of none, it is that of all. Times are seconds since 1970 if all
    images have one, and else the number of the image.
    """
    positions = [one for one in found if isinstance(one, Location)]
    calibrated = any(one.covariance is not None for one in positions)  # the distance may be unknown even so
    dimensions = len(positions[0].coordinates) if positions else 2
    where: Floats = np.full((len(found), dimensions), np.nan)
    for row, one in enumerate(found):
        if isinstance(one, Location) and (one.confident or not calibrated):
            where[row] = one.coordinates
    write_tum(file, where, seconds_of(places))
    return int(np.isfinite(where[:, 0]).sum())


def seconds_of(places: Places) -> Floats | None:
    """The times of the places, where all are known."""
    return places.time / 1e9 if (places.time != NO_TIME).all() else None


def check_drive(places: Places) -> None:
    """Refuse images of which `export_tum` would make one drive, though they are of several."""
    names = sorted(set(places.sequence))
    if len(names) > 1:
        raise BadInputError(
            f"the images are of {len(names):,} sequences, {names[0]!r} and others, but a TUM file holds one drive"
        )


def check_words(landmarks: Map, places: Places) -> None:
    """Refuse paths that `export_pairs` cannot write."""
    for path in (*places.path, *landmarks.places.path):
        _one_word(path)


def export_pairs(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> None:
    """hloc's list of pairs: the path of an image and that of a landmark, for its nearest landmarks by feature."""
    path_of = dict(zip(landmarks.places.place_id, landmarks.places.path, strict=True))
    lines = [
        f"{_one_word(path)} {_one_word(path_of[near.landmark])}\n"
        for path, one in zip(places.path, found, strict=True)
        if isinstance(one, Location)
        for near in one.candidates
    ]
    write_text(file, "".join(lines))


def export_landmarks(file: Path, landmarks: Map) -> None:
    """The descriptors of the landmarks as hloc reads them: HDF5, float32, of length one."""
    descriptors = landmarks.store.take(np.arange(len(landmarks)))
    descriptors = descriptors / np.linalg.norm(descriptors, axis=1, keepdims=True)  # float16 rounds
    write_hloc(file, landmarks.places, descriptors)


def _one_word(path: str) -> str:
    if len(path.split()) != 1:
        raise BadInputError(f"{path!r}: hloc's lists of pairs cannot hold a path with a space; rename it")
    return path
