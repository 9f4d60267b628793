"""Photos with GPS positions in their EXIF data: any tree of folders, from phones, drones or action cameras.

    ROOT/
      any/folder/IMG_0001.jpg       JPEG, TIFF, PNG or WebP
      any/folder/IMG_0002.HEIC      not read: convert it to JPEG first (listed unless IMG_0002.jpg or similar exists)

The reader takes latitude, longitude and altitude, the viewing direction of the camera (`GPSImgDirection`), and the
time. All positions are in one UTM zone, even if the photos lie on both sides of a zone border. A direction from
magnetic north is used without correction, with a note. The reader opens only the headers of the files.

The photos of one folder are one sequence. Its name is the path of the folder below ROOT; for photos in ROOT itself it
is the name of ROOT. All photos of a sequence use the same clock, so that their order is right. It is the first clock in
this list that all photos of the sequence have:

1. the time of the camera with its offset from UTC (`DateTimeOriginal`, `SubSecTimeOriginal`, `OffsetTimeOriginal`). It
   is finer than a second. The GPS time of a phone is the time of the last fix, often the same for several photos.
2. the GPS time, which is in UTC
3. the time of the camera without an offset, assumed to be UTC, with a note

These files are left out and listed:

- photos without a position, or with a position that is unreadable, out of range, marked void (no fix), or at latitude 0
  and longitude 0
- photos more than 1,000 km from the median position of the set
- files that are not images
"""

import math
import re
import struct
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

from mappable import progress
from mappable.arrays import MAX_COORDINATE, Ints
from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import MAX_RADIUS, frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.readers import image_files
from mappable.places.table import NO_TIME, Places
from mappable.times import nanoseconds

TO_CONVERT = frozenset((".heic", ".heif", ".hif", ".avif", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".raf"))
DAY = re.compile(r"(\d{4})[:/-](\d\d)[:/-](\d\d)", re.ASCII)
MOMENT = re.compile(DAY.pattern + r"[ T](\d\d:\d\d:\d\d)", re.ASCII)
OFFSET = re.compile(r"Z|[+-]\d\d:\d\d", re.ASCII)
DIGITS = re.compile(r"\d+", re.ASCII)
Fields = Mapping[int, Any]  # one directory of EXIF data: value by tag
Clocks = tuple[int | None, int | None, int | None]


def read(root: Path) -> Places:
    if not root.is_dir():
        raise BadInputError(f"{root}: expected a folder of photos, got a file")
    found = Findings()
    photos = _read_photos(root, list(image_files(root)), found)
    if not photos:
        return Places(path=[], x=[], y=[], frames=(), root=root, notes=found.notes())
    latitude = np.array([photo.latitude for photo in photos])
    frame, x, y = frame_from_latlon(latitude, np.array([photo.longitude for photo in photos]))
    near = np.hypot(x, y) < MAX_RADIUS  # also False if the projection fails
    far = (
        f"photos are more than {MAX_RADIUS / 1000:,.0f} km from the median position (left out); convert them separately"
    )
    found[far] += [photos[row].path for row in np.flatnonzero(~near)]
    photos = [photos[row] for row in np.flatnonzero(near)]
    times = _times(photos, found)
    return Places(
        path=[photo.path for photo in photos],
        x=x[near],
        y=y[near],
        z=[photo.altitude for photo in photos],
        yaw=yaw_from_compass(np.deg2rad([photo.direction for photo in photos])),
        time=times,
        sequence=[photo.sequence for photo in photos],
        frames=frame,
        root=root,
        notes=found.notes(),
    )


def time_of(file: Path) -> int:
    """The time (ns) of a photo from its first clock; `NO_TIME` if it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            clocks = _clocks(*_exif(file))
        except _LeftOutError:
            return NO_TIME
    return next((clock for clock in clocks if clock is not None), NO_TIME)


@dataclass(frozen=True)
class _Photo:
    """One photo: position in degrees, altitude in metres, direction in degrees clockwise from north; NaN if unknown.

    `clocks` are three times (ns), None if unknown: of the camera with UTC offset, of the GPS, of the camera without.
    """

    path: str
    sequence: str
    latitude: float
    longitude: float
    altitude: float
    direction: float
    clocks: Clocks


class _LeftOutError(Exception):
    """The photo has no usable position; the text of the error is the note that lists it."""


def _read_photos(root: Path, files: list[Path], found: Findings) -> list[_Photo]:
    readable = {file.with_suffix("") for file in files}
    others = sorted(file for file in root.rglob("*") if file.suffix.lower() in TO_CONVERT and file.is_file())
    found["files have an unsupported format (left out); convert them to JPEG first"] += [
        file.relative_to(root).as_posix()
        for file in others
        if file.with_suffix("") not in readable and not file.name.startswith(".")
    ]
    photos = []
    with warnings.catch_warnings():
        # Pillow warns about damaged EXIF data. Notes report the fields that matter here.
        warnings.simplefilter("ignore")
        for file in progress.track(files, "reading EXIF data", len(files)):
            path = file.relative_to(root).as_posix()
            try:
                photos.append(_read_photo(file, path, _sequence(root, file.parent), found))
            except _LeftOutError as reason:
                found[str(reason)].append(path)
    return photos


def _sequence(root: Path, folder: Path) -> str:
    """The path of the folder below the root; for the root its name, or "." if one of its folders has that name."""
    name = root.resolve().name
    if folder != root:
        return folder.relative_to(root).as_posix()
    return name if name and not (root / name).is_dir() else "."


def _read_photo(file: Path, path: str, sequence: str, found: Findings) -> _Photo:
    gps, camera = _exif(file)
    latitude, longitude = _position(gps)
    if _text(gps.get(GPS.GPSImgDirectionRef)).upper() == "M" and GPS.GPSImgDirection in gps:
        found["photos have a direction from magnetic north, used without correction"].append(path)
    datum = "".join(filter(str.isalnum, _text(gps.get(GPS.GPSMapDatum)).upper()))
    if datum not in ("", "WGS84", "WGS1984"):
        found["photos have a datum other than WGS 84; their positions are used as WGS 84"].append(f"{path}: {datum}")
    altitude = _number(gps, GPS.GPSAltitude, -MAX_COORDINATE, MAX_COORDINATE)
    direction = _number(gps, GPS.GPSImgDirection, 0, 360)
    for value, tag, name in ((altitude, GPS.GPSAltitude, "altitude"), (direction, GPS.GPSImgDirection, "direction")):
        if math.isnan(value) and tag in gps:
            found[f"photos have an unreadable {name} (set to unknown)"].append(path)
    if _is_below(gps.get(GPS.GPSAltitudeRef)):
        altitude = -altitude
    return _Photo(path, sequence, latitude, longitude, altitude, direction, _clocks(gps, camera))


def _exif(file: Path) -> tuple[Fields, Fields]:
    """The GPS fields and the camera fields in the header of the file; no pixel is decoded."""
    try:
        with Image.open(file) as image:
            if image.format == "PNG" and "exif" not in image.info:
                image.info["exif"] = _exif_behind_pixels(file)
            exif = Image.Image.getexif(image)  # PngImageFile.getexif would decode the pixels to search behind them
            return exif.get_ifd(IFD.GPSInfo), exif.get_ifd(IFD.Exif)
    except Exception:  # a damaged file can make Pillow raise almost any exception
        raise _LeftOutError("files cannot be read as images (left out)") from None


def _exif_behind_pixels(file: Path) -> bytes | None:
    """The EXIF chunk of a PNG file, at any position."""
    with file.open("rb") as stream:
        stream.seek(8)  # the signature
        while len(head := stream.read(8)) == 8:
            length, kind = struct.unpack(">I4s", head)
            if kind == b"eXIf":
                return stream.read(length)
            stream.seek(length + 4, 1)  # the chunk and its checksum
    return None


def _position(gps: Fields) -> tuple[float, float]:
    """Latitude and longitude in degrees."""
    if GPS.GPSLatitude not in gps and GPS.GPSLongitude not in gps:
        raise _LeftOutError("photos have no GPS position (left out)")
    if _text(gps.get(GPS.GPSStatus)).upper() == "V":
        raise _LeftOutError("photos have a position marked void, so no GPS fix (left out)")
    latitude = _angle(gps.get(GPS.GPSLatitude), gps.get(GPS.GPSLatitudeRef), "N", "S")
    longitude = _angle(gps.get(GPS.GPSLongitude), gps.get(GPS.GPSLongitudeRef), "E", "W")
    if math.isnan(latitude) or math.isnan(longitude):
        raise _LeftOutError("photos have an unreadable GPS position (left out)")
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise _LeftOutError("photos have a latitude or longitude out of range (left out)")
    if latitude == 0 and longitude == 0:
        raise _LeftOutError("photos are at latitude 0, longitude 0, so no GPS fix (left out)")
    return latitude, longitude


def _angle(value: Any, reference: Any, positive: str, negative: str) -> float:
    """Signed degrees from degrees, minutes, seconds and a letter (N, S, E, W); NaN if they are invalid."""
    parts, letter = _numbers(value), _text(reference).upper()[:1]
    if not 1 <= len(parts) <= 3 or not all(part >= 0 for part in parts) or letter not in (positive, negative):
        return math.nan
    degrees, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    return (degrees + minutes / 60 + seconds / 3600) * (1 if letter == positive else -1)


def _number(fields: Fields, tag: int, low: float, high: float) -> float:
    """A finite number within [low, high], else NaN."""
    values = _numbers(fields.get(tag))
    return values[0] if len(values) == 1 and math.isfinite(values[0]) and low <= values[0] <= high else math.nan


def _numbers(value: Any) -> list[float]:
    """The numbers of a field, NaN for a fraction such as 0/0; an empty list if it holds anything else."""
    try:
        return [float(part) for part in (value if isinstance(value, tuple | list) else (value,))]
    except (TypeError, ValueError, ArithmeticError):
        return []


def _is_below(reference: Any) -> bool:
    """True if an altitude counts downward: reference 1 (below sea level; in EXIF 3 below the ellipsoid) or 3
    (EXIF 3: below sea level)."""
    number = reference[0] if isinstance(reference, bytes) and reference else reference
    return isinstance(number, int) and number % 2 == 1


def _text(value: Any) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return text.strip("\0 ") if isinstance(text, str) else ""


def _clocks(gps: Fields, camera: Fields) -> Clocks:
    return _camera_time(camera, with_offset=True), _gps_time(gps), _camera_time(camera, with_offset=False)


def _camera_time(camera: Fields, with_offset: bool) -> int | None:
    moment = MOMENT.fullmatch(_text(camera.get(Base.DateTimeOriginal)))
    decimals = _text(camera.get(Base.SubsecTimeOriginal))
    offset = _text(camera.get(Base.OffsetTimeOriginal)) if with_offset else "Z"
    if moment is None or not OFFSET.fullmatch(offset):
        return None
    year, month, day, clock = moment.groups()
    fraction = f".{decimals}" if DIGITS.fullmatch(decimals) else ""
    try:
        return nanoseconds(f"{year}-{month}-{day}T{clock}{fraction}{offset}")
    except ValueError:
        return None


def _gps_time(gps: Fields) -> int | None:
    day, clock = DAY.fullmatch(_text(gps.get(GPS.GPSDateStamp))), _numbers(gps.get(GPS.GPSTimeStamp))
    if day is None or len(clock) != 3:
        return None
    hours, minutes, seconds = clock
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 61):  # a leap second has 60
        return None
    try:
        return nanoseconds("-".join(day.groups()) + "T00:00:00Z") + round((hours * 3600 + minutes * 60 + seconds) * 1e9)
    except ValueError:
        return None


def _times(photos: Sequence[_Photo], found: Findings) -> Ints:
    """The time of each photo (ns), from the first clock that all photos of its sequence have."""
    times = np.full(len(photos), NO_TIME)
    rows_of: dict[str, list[int]] = {}
    for row, photo in enumerate(photos):
        rows_of.setdefault(photo.sequence, []).append(row)
    for sequence, rows in rows_of.items():
        timed = [row for row in rows if photos[row].clocks != (None, None, None)]
        found["photos have no readable time"] += [photos[row].path for row in sorted({*rows} - {*timed})]
        shared = [clock for clock in range(3) if all(photos[row].clocks[clock] is not None for row in timed)]
        if not shared:
            found["folders have photos without a common clock, so their order may be wrong"].append(sequence)
        for row in timed:
            clocks = photos[row].clocks
            clock = shared[0] if shared else next(which for which in range(3) if clocks[which] is not None)
            times[row] = clocks[clock]
            if clock == 2:
                found["photos have a time without UTC offset; it is used as UTC"].append(photos[row].path)
    return times
