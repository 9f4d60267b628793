"""Photos with GPS positions in their EXIF data: any tree of folders, from phones, drones or action cameras.

    ROOT/
      any/folder/IMG_0001.jpg       JPEG, TIFF, PNG or WebP
      any/folder/IMG_0002.HEIC      not read: convert it to JPEG first (listed unless IMG_0002.jpg or similar exists)

The reader takes latitude, longitude and altitude, the viewing direction of the camera
(`GPSImgDirection`), and the time. All positions are in one UTM zone, even if the photos lie on both
sides of a zone border. A direction from magnetic north is used without correction, with a note. The
reader opens only the headers of the files.

The photos of one folder are one sequence. Its name is the path of the folder below ROOT; for photos
in ROOT itself it is the name of ROOT. All photos of a sequence use the same clock, so that their
order is right. It is the first clock in this list that all photos of the sequence have:

1. the time of the camera with its offset from UTC (`DateTimeOriginal`, `SubSecTimeOriginal`,
   `OffsetTimeOriginal`). It is finer than a second. The GPS time of a phone is the time of the last
   fix, often the same for several photos.
2. the GPS time, which is in UTC
3. the time of the camera without an offset, assumed to be UTC, with a note

These files are left out and listed:

- photos without a position, or with a position that is unreadable, out of range, marked void (no
  fix), or at latitude 0 and longitude 0
- photos more than 1,000 km from the median position of the set
- files that are not images
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

from mappable import progress
from mappable.arrays import MAX_COORDINATE, Ints
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import MAX_RADIUS, frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME, Places
from mappable.readers.toolkit import below, image_files, is_image, join, no_places, walk
from mappable.times import nanoseconds

TRIAL = False  # reading takes long
SCORE = 0.6  # other formats name the positions of photos more exactly
LOOKED_AT = 20  # photos whose EXIF data show that the reader fits
TO_CONVERT = (
    ".heic",
    ".heif",
    ".hif",
    ".avif",
    ".dng",
    ".cr2",
    ".cr3",
    ".nef",
    ".arw",
    ".orf",
    ".raf",
)
DAY = re.compile(r"(\d{4})[:/-](\d\d)[:/-](\d\d)", re.ASCII)
MOMENT = re.compile(DAY.pattern + r"[ T](\d\d:\d\d:\d\d)", re.ASCII)
OFFSET = re.compile(r"Z|[+-]\d\d:\d\d", re.ASCII)
DIGITS = re.compile(r"\d+", re.ASCII)
Fields = Mapping[int, Any]  # one directory of EXIF data: value by tag
Clocks = tuple[int | None, int | None, int | None]


def fits(root: Path) -> str:
    """The first photo with a position, among some photos in ROOT and its folders."""
    for level in ("*", "*/*") if root.is_dir() else ():
        for file in islice(
            (file for file in sorted(root.glob(level)) if is_image(file.name)), LOOKED_AT
        ):
            try:
                _position(_exif(file)[0])
            except _LeftOutError:
                continue
            return f"{below(root, file)} (GPS in its EXIF data)"
    return ""


def read(root: Path, found: Findings) -> Places:
    photos = _read_photos(root, found)
    if not photos:
        return no_places(root)
    latitude, longitude = np.array([(photo.latitude, photo.longitude) for photo in photos]).T
    frame, x, y = frame_from_latlon(latitude, longitude)
    near = np.hypot(x, y) < MAX_RADIUS  # also False if the projection fails
    far = f"photos are more than {MAX_RADIUS / 1000:,.0f} km from the median position (left out)"
    found.note(
        f"{far}; convert them separately", (photos[row].path for row in np.flatnonzero(~near))
    )
    photos = [photos[row] for row in np.flatnonzero(near)]
    return Places(
        path=[photo.path for photo in photos],
        x=x[near],
        y=y[near],
        z=[photo.altitude for photo in photos],
        yaw=yaw_from_compass(np.deg2rad([photo.direction for photo in photos])),
        time=_times(photos, found),
        sequence=[photo.sequence for photo in photos],
        frames=frame,
        root=root,
    )


def time_of(file: Path) -> int:
    """The time (ns) of a photo from its first clock; `NO_TIME` if it has none."""
    try:
        clocks = _clocks(*_exif(file))
    except _LeftOutError:
        return NO_TIME
    return next((clock for clock in clocks if clock is not None), NO_TIME)


@dataclass(frozen=True)
class _Photo:
    """One photo: position in degrees, altitude in metres, direction in degrees clockwise from
    north; NaN if unknown.

    `clocks` are three times (ns), None if unknown: of the camera with UTC offset, of the GPS, of
    the camera without.
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


def _read_photos(root: Path, found: Findings) -> list[_Photo]:
    files = image_files(root)
    readable = {file.with_suffix("") for file in files}
    others = (join(folder, name) for folder, _, names in walk(root) for name in names)
    raw = (path for path in others if path.lower().endswith(TO_CONVERT))
    alone = sorted(path for path in raw if (root / path).with_suffix("") not in readable)
    found.note("files have an unsupported format (left out); convert them to JPEG first", alone)
    photos = []
    for file in progress.track(files, "reading EXIF data", len(files)):
        path = below(root, file)
        try:
            photos.append(_read_photo(file, path, _sequence(root, file.parent), found))
        except _LeftOutError as reason:
            found.note(str(reason), [path])
    return photos


def _sequence(root: Path, folder: Path) -> str:
    """The path of the folder below the root; for the root its name, or "." if one of its folders
    has that name.
    """
    name = root.resolve().name
    return below(root, folder) or (name if name and not (root / name).is_dir() else ".")


def _read_photo(file: Path, path: str, sequence: str, found: Findings) -> _Photo:
    gps, camera = _exif(file)
    latitude, longitude = _position(gps)
    if _text(gps.get(GPS.GPSImgDirectionRef)).upper() == "M" and GPS.GPSImgDirection in gps:
        found.note("photos have a direction from magnetic north, used without correction", [path])
    datum = "".join(filter(str.isalnum, _text(gps.get(GPS.GPSMapDatum)).upper()))
    if datum not in ("", "WGS84", "WGS1984"):
        found.note(
            "photos have a datum other than WGS 84; their positions are used as WGS 84",
            [f"{path}: {datum}"],
        )

    def number(tag: int, name: str, low: float, high: float) -> float:
        numbers = _numbers(gps.get(tag))
        good = len(numbers) == 1 and low <= numbers[0] <= high
        found.note(
            f"photos have an unreadable {name} (set to unknown)",
            [path] if tag in gps and not good else [],
        )
        return numbers[0] if good else math.nan

    altitude = number(GPS.GPSAltitude, "altitude", -MAX_COORDINATE, MAX_COORDINATE)
    direction = number(GPS.GPSImgDirection, "direction", 0, 360)
    # The reference is odd for altitudes that count downward: from the sea level, or in EXIF 3 from
    # the ellipsoid.
    reference = gps.get(GPS.GPSAltitudeRef)
    reference = reference[0] if isinstance(reference, bytes) and reference else reference
    altitude *= -1 if isinstance(reference, int) and reference % 2 else 1
    return _Photo(path, sequence, latitude, longitude, altitude, direction, _clocks(gps, camera))


def _exif(file: Path) -> tuple[Fields, Fields]:
    """The GPS fields and the camera fields in the header of the file."""
    try:
        with warnings.catch_warnings(), Image.open(file) as image:
            # Pillow warns about damaged EXIF data; notes report what matters here.
            warnings.simplefilter("ignore")
            exif = image.getexif()
            return exif.get_ifd(IFD.GPSInfo), exif.get_ifd(IFD.Exif)
    except Exception:  # a damaged file can make Pillow raise almost any exception
        raise _LeftOutError("files cannot be read as images (left out)") from None


def _position(gps: Fields) -> tuple[float, float]:
    """Latitude and longitude in degrees."""
    if GPS.GPSLatitude not in gps and GPS.GPSLongitude not in gps:
        raise _LeftOutError("photos have no GPS position (left out)")
    if _text(gps.get(GPS.GPSStatus)).upper() == "V":
        raise _LeftOutError("photos have a position marked void, so no GPS fix (left out)")
    latitude = _angle(gps.get(GPS.GPSLatitude), gps.get(GPS.GPSLatitudeRef), "NS")
    longitude = _angle(gps.get(GPS.GPSLongitude), gps.get(GPS.GPSLongitudeRef), "EW")
    if math.isnan(latitude) or math.isnan(longitude):
        raise _LeftOutError("photos have an unreadable GPS position (left out)")
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise _LeftOutError("photos have a latitude or longitude out of range (left out)")
    if latitude == 0 and longitude == 0:
        raise _LeftOutError("photos are at latitude 0, longitude 0, so no GPS fix (left out)")
    return latitude, longitude


def _angle(value: Any, reference: Any, letters: str) -> float:
    """Signed degrees from degrees, minutes, seconds and a letter of `letters`, plus or minus; NaN
    if invalid.
    """
    parts, letter = _numbers(value), _text(reference).upper()[:1]
    if (
        not 1 <= len(parts) <= 3
        or not all(part >= 0 for part in parts)
        or letter not in (*letters,)
    ):
        return math.nan
    degrees, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    return (degrees + minutes / 60 + seconds / 3600) * (1 if letter == letters[0] else -1)


def _numbers(value: Any) -> list[float]:
    """The numbers of a field, NaN for a fraction such as 0/0; an empty list if it holds anything
    else.
    """
    try:
        return [float(part) for part in (value if isinstance(value, tuple | list) else (value,))]
    except (TypeError, ValueError, ArithmeticError):
        return []


def _text(value: Any) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return text.strip("\0 ") if isinstance(text, str) else ""


# Times


def _clocks(gps: Fields, camera: Fields) -> Clocks:
    offset = _text(camera.get(Base.OffsetTimeOriginal))
    return _camera_time(camera, offset), _gps_time(gps), _camera_time(camera, "Z")


def _moment(text: str) -> int | None:
    try:
        return nanoseconds(text)
    except ValueError:
        return None


def _camera_time(camera: Fields, offset: str) -> int | None:
    moment = MOMENT.fullmatch(_text(camera.get(Base.DateTimeOriginal)))
    if moment is None or not OFFSET.fullmatch(offset):
        return None
    decimals = _text(camera.get(Base.SubsecTimeOriginal))
    fraction = f".{decimals}" if DIGITS.fullmatch(decimals) else ""
    year, month, day, clock = moment.groups()
    return _moment(f"{year}-{month}-{day}T{clock}{fraction}{offset}")


def _gps_time(gps: Fields) -> int | None:
    day, clock = (
        DAY.fullmatch(_text(gps.get(GPS.GPSDateStamp))),
        _numbers(gps.get(GPS.GPSTimeStamp)),
    )
    if day is None or len(clock) != 3:
        return None
    hours, minutes, seconds = clock
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 61):  # a leap second has 60
        return None
    midnight = _moment("-".join(day.groups()) + "T00:00:00Z")
    return (
        None
        if midnight is None
        else midnight + round((hours * 3600 + minutes * 60 + seconds) * 1e9)
    )


def _times(photos: Sequence[_Photo], found: Findings) -> Ints:
    """The time of each photo (ns), from the first clock that all photos of its sequence have."""
    of_sequence: dict[str, list[_Photo]] = {}
    for photo in photos:
        of_sequence.setdefault(photo.sequence, []).append(photo)
    times = dict.fromkeys((photo.path for photo in photos), NO_TIME)
    for sequence, members in of_sequence.items():
        timed = [photo for photo in members if any(clock is not None for clock in photo.clocks)]
        found.note(
            "photos have no readable time",
            (photo.path for photo in members if photo.clocks == (None,) * 3),
        )
        order = [
            clock for clock in range(3) if all(photo.clocks[clock] is not None for photo in timed)
        ]
        if not order:
            found.note(
                "folders have photos without a common clock, so their order may be wrong",
                [sequence],
            )
        for photo in timed:
            clock = next(clock for clock in order or range(3) if photo.clocks[clock] is not None)
            times[photo.path] = photo.clocks[clock] or 0
            if clock == 2:
                found.note("photos have a time without UTC offset; it is used as UTC", [photo.path])
    return np.array([times[photo.path] for photo in photos])
