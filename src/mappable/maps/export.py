"""What other programs take: positions as CSV and for TUM's tools, pairs of images and landmarks for hloc."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadImageError, BadInputError
from mappable.features.export import write_hloc
from mappable.files import write_atomically
from mappable.maps.locate import Position
from mappable.maps.map import Map
from mappable.places.table import NO_TIME, Places
from mappable.recovery.files import write_tum

Found = Sequence[Position | BadImageError]  # of the images of a table, row by row
Degrees = tuple[float, float] | tuple[None, None]  # latitude and longitude (WGS 84), where they are known
AXES = "xyz"


def degrees_of(landmarks: Map, positions: Floats) -> Sequence[Degrees]:
    """Latitude and longitude of positions (n, k) in the frame of a map, where that is georeferenced."""
    if not landmarks.frame.crs or not len(positions):
        return [(None, None)] * len(positions)
    latitude, longitude = landmarks.frame.to_latlon(positions)
    return list(zip(latitude.tolist(), longitude.tolist(), strict=True))


def degrees_of_found(landmarks: Map, found: Sequence[Position | Exception]) -> list[Degrees]:
    """Latitude and longitude of images, row by row; of those without a position they are not known."""
    positions = np.array([one.coordinates for one in found if isinstance(one, Position)])
    known = iter(degrees_of(landmarks, positions))
    return [next(known) if isinstance(one, Position) else (None, None) for one in found]


def to_json(landmarks: Map, places: Places, found: Found) -> list[dict[str, Any]]:
    """An entry for each image: its id, and either its position or an error."""
    entries: list[dict[str, Any]] = []
    for name, one, (latitude, longitude) in _rows(landmarks, places, found):
        if isinstance(one, BadImageError):
            entries.append({"image": name, "error": str(one)})
            continue
        values = one.to_json()
        where = {"coordinates": values.pop("coordinates"), "latitude": latitude, "longitude": longitude}
        entries.append({"image": name, **where, **values, "error": None})
    return entries


def export_csv(file: Path, landmarks: Map, places: Places, found: Found) -> None:
    """A line for each image: coordinates, metres with their interval, covariances (xx, xy, yy, ...), and why not."""
    dimensions = next((len(one.coordinates) for one in found if isinstance(one, Position)), 2)
    pairs = [(a, b) for b in range(dimensions) for a in range(b + 1)]
    plain = ("frame", "unit", "landmark", "feature_distance", "metres", "low", "high", "coverage")
    where = (*AXES[:dimensions], "latitude", "longitude")
    header = ["image", *where, *plain, *(AXES[a] + AXES[b] for a, b in pairs)]
    rows: list[list[Any]] = [[*header, "refined", "confident", "reason", "error"]]
    for name, one, degrees in _rows(landmarks, places, found):
        if isinstance(one, BadImageError):
            rows.append([name, *[""] * (len(header) + 2), str(one)])
            continue
        covariance = ["" if one.covariance is None else one.covariance[a, b] for a, b in pairs]
        values = [getattr(one, what) for what in plain]
        told = one.refined, one.confident, one.reason, ""
        rows.append([name, *one.coordinates, *degrees, *values, *covariance, *told])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    _write(file, text.getvalue())


def export_tum(file: Path, places: Places, found: Found) -> int:
    """The trajectory of the images that the map is confident of, and how many these are; without rotation.

    Of a map without a calibration, which is confident of none, it is that of all. Times are seconds since 1970 if all
    images have one, and else the number of the image.
    """
    positions = [one for one in found if isinstance(one, Position)]
    calibrated = any(one.covariance is not None for one in positions)  # metres may be unknown even so
    dimensions = len(positions[0].coordinates) if positions else 2
    where: Floats = np.full((len(found), dimensions), np.nan)
    for row, one in enumerate(found):
        if isinstance(one, Position) and (one.confident or not calibrated):
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


def export_pairs(file: Path, landmarks: Map, places: Places, found: Found) -> None:
    """hloc's list of pairs: the path of an image and that of a landmark, for its nearest landmarks by feature."""
    path_of = dict(zip(landmarks.places.place_id, landmarks.places.path, strict=True))
    lines = [
        f"{_one_word(path)} {_one_word(path_of[landmark])}\n"
        for path, one in zip(places.path, found, strict=True)
        if isinstance(one, Position)
        for landmark, _ in one.candidates
    ]
    _write(file, "".join(lines))


def export_landmarks(file: Path, landmarks: Map) -> None:
    """The descriptors of the landmarks as hloc reads them: HDF5, float32, of length one."""
    descriptors = landmarks.store.take(np.arange(len(landmarks)))
    descriptors = descriptors / np.linalg.norm(descriptors, axis=1, keepdims=True)  # float16 rounds
    write_hloc(file, landmarks.places, descriptors)


def _rows(landmarks: Map, places: Places, found: Found) -> Iterator[tuple[str, Position | BadImageError, Degrees]]:
    """The id of each image, what is known of it, and its degrees."""
    return zip(places.place_id, found, degrees_of_found(landmarks, found), strict=True)


def _one_word(path: str) -> str:
    if len(path.split()) != 1:
        raise BadInputError(f"{path!r}: hloc's lists of pairs cannot hold a path with a space; rename it")
    return path


def _write(file: Path, text: str) -> None:
    write_atomically(file, lambda stream: stream.write(text.encode()))
