"""Telemetry of cameras: GPMF (GoPro) and CAMM tracks inside MP4 files, DJI subtitles, and NMEA logs."""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import MAX_COORDINATE
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.notes import Findings
from mappable.readers.track_files import TrackPoints
from mappable.readers.video_files import opened
from mappable.times import from_datetime

SRT_CUE = re.compile(r"(\d{1,3}):(\d\d):(\d\d)[,.](\d{3})\s*-->")
SRT_DEGREES = re.compile(r"\[\s*(lat\w*|lon\w*)\s*[:=]\s*(-?\d+(?:\.\d+)?)")  # some drones write [longtitude: 8.5]
SRT_HEIGHT = re.compile(r"(?:abs_alt|\[\s*altitude)\s*:\s*(-?\d+(?:\.\d+)?)")
SRT_GPS = re.compile(r"GPS\s*\(\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)")  # longitude first
NMEA = re.compile(r"\$(..)(RMC|GGA),(.*)\*([0-9A-Fa-f]{2})\s*$")
GPS_EPOCH, LEAP_SECONDS = datetime(1980, 1, 6, tzinfo=UTC), 18  # between GPS time and UTC, since 2017
GPMF_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
DEEPEST = 8  # levels of nesting in GPMF; cameras write three
FIX_2D = 2  # the least fix with a position
GPS5_ROW, GPS9_ROW = struct.Struct(">5i"), struct.Struct(">7i2H")
CAMM_SHORTEST = 12  # bytes of the shortest sample
CAMM_5, CAMM_6 = struct.Struct("<3d"), struct.Struct("<di2df")


@dataclass(frozen=True)
class _Fix:
    """One position: ns since the first frame, degrees, metres; `utc` in ns since 1970, if known. No fix is at 0, 0."""

    time: int
    latitude: float
    longitude: float
    altitude: float
    utc: int | None = None


def read_telemetry(file: Path, found: Findings) -> TrackPoints | None:
    """The positions in the GPMF or CAMM track of a video, with times since its first frame; None without a track."""
    with opened(file) as (container, stream):
        payloads = dict[int, list[tuple[int, int, bytes]]]()
        start = round((stream.start_time or 0) * _tick(stream) * 10**9)
        for packet in container.demux(container.streams.data) if container.streams.data else ():
            if packet.pts is not None and packet.size > 0:
                at, length = (
                    round(ticks * _tick(packet.stream) * 10**9) for ticks in (packet.pts, packet.duration or 0)
                )
                payloads.setdefault(packet.stream.index, []).append((at - start, length, bytes(packet)))
    for parts in payloads.values():
        if parts[0][2].startswith(b"DEVC"):
            return _points(file, list(_gpmf_fixes(file, parts)), "GPMF", found)
    for parts in payloads.values():
        content = parts[0][2]
        # Time codes are data, too, of 4 bytes. A CAMM sample has a header of 4 bytes, with the kinds 0 to 7.
        if len(content) >= CAMM_SHORTEST and content[:2] == b"\0\0" and content[2] <= 7 and content[3] == 0:
            return _points(file, list(_camm_fixes(file, parts)), "CAMM", found)
    return None


def _tick(stream: Any) -> Fraction:
    return Fraction(stream.time_base.numerator, stream.time_base.denominator)


def _points(file: Path, fixes: Sequence[_Fix], kind: str, found: Findings) -> TrackPoints | None:
    if not fixes:
        return None
    known = next((fix for fix in fixes if fix.utc is not None and (fix.latitude or fix.longitude)), None)
    start = None if known is None or known.utc is None else known.utc - known.time
    labels = [f"{kind} position {number}" for number in range(len(fixes))]
    item = f"{file.name}: {len(fixes):,} in its {kind} track"
    found.note("videos have positions of their own", [item], warning=False)
    return _track(file, labels, fixes, since_start=True, start=start)


def _track(
    file: Path, labels: list[str], fixes: Sequence[_Fix], *, since_start: bool, start: int | None = None
) -> TrackPoints:
    latitude, longitude, up = (
        np.array([getattr(fix, name) for fix in fixes], dtype=np.float64)
        for name in ("latitude", "longitude", "altitude")
    )
    wrong = np.flatnonzero(~((np.abs(latitude) <= 90) & (np.abs(longitude) <= 180)))
    if len(wrong):
        where = f"latitude {latitude[wrong[0]]:g}, longitude {longitude[wrong[0]]:g}"
        raise BadInputError(f"{file}, {labels[wrong[0]]}: {where}, expected degrees")
    up = np.where(np.abs(up) <= MAX_COORDINATE, up, np.nan)
    time = np.array([fix.time for fix in fixes], dtype=np.int64)
    unknown = np.full(len(fixes), np.nan)
    return TrackPoints(file, labels, time, longitude, latitude, up, unknown, True, since_start, start)


# GPMF: https://github.com/gopro/gpmf-parser has the format.


def _entries(file: Path, data: bytes, depth: int = 0) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Key, type and content of the entries of a GPMF payload at one level."""
    if depth > DEEPEST:
        raise BadInputError(f"{file}: its GPMF track is nested too deeply")
    at = 0
    while at + 8 <= len(data):
        key, kind, size, count = struct.unpack_from(">4scBH", data, at)
        if key == b"\0\0\0\0":  # padding at the end
            return
        length = size * count
        if at + 8 + length > len(data):
            what = f"{key.decode('ascii', 'replace')!r} states {length:,} bytes, but {len(data) - at - 8:,} are left"
            raise BadInputError(f"{file}: its GPMF track is damaged ({what})")
        yield key, kind, data[at + 8 : at + 8 + length]
        at += 8 + length + -length % 4


def _streams(file: Path, data: bytes, depth: int = 0) -> Iterator[dict[bytes, bytes]]:
    """The entries of each stream (STRM) in a payload: their contents by key."""
    for key, kind, content in _entries(file, data, depth):
        if key == b"STRM":
            yield {name: inner for name, _, inner in _entries(file, content, depth + 1)}
        elif kind == b"\0":
            yield from _streams(file, content, depth + 1)


def _gpmf_fixes(file: Path, payloads: Sequence[tuple[int, int, bytes]]) -> Iterator[_Fix]:
    for number, (at, length, content) in enumerate(payloads):
        for stream in _streams(file, content):
            key = next((key for key in (b"GPS9", b"GPS5") if key in stream), None)
            if key is None or b"SCAL" not in stream:
                continue
            scales = np.frombuffer(stream[b"SCAL"], dtype=">i4", count=len(stream[b"SCAL"]) // 4).tolist()
            if len(scales) < (9 if key == b"GPS9" else 5) or 0 in scales:
                raise BadInputError(f"{file}: its GPMF track is damaged (payload {number}: SCAL is {shown(scales)})")
            rows = list(_gps9_rows(stream, scales) if key == b"GPS9" else _gps5_rows(stream, scales))
            for row, (fixed, (latitude, longitude, altitude), utc) in enumerate(rows):
                since = at + length * row // len(rows)
                yield _Fix(since, latitude * fixed, longitude * fixed, altitude, utc)


Row = tuple[bool, tuple[float, float, float], int | None]  # whether it is a fix; latitude, longitude, altitude; UTC


def _gps9_rows(stream: dict[bytes, bytes], scales: Sequence[int]) -> Iterator[Row]:
    """Rows with a time each: 9 numbers, the last of them the kind of fix."""
    content = stream[b"GPS9"]
    for raw in GPS9_ROW.iter_unpack(content[: len(content) // GPS9_ROW.size * GPS9_ROW.size]):
        values = [value / scale for value, scale in zip(raw, scales, strict=False)]
        utc = from_datetime(GPMF_EPOCH) + round((values[5] * 86_400 + values[6]) * 1e9)
        yield values[8] >= FIX_2D, (values[0], values[1], values[2]), utc


def _gps5_rows(stream: dict[bytes, bytes], scales: Sequence[int]) -> Iterator[Row]:
    """Rows of 5 numbers. The kind of fix, and the time of the first row, are in entries of their own."""
    content, fix = stream[b"GPS5"], stream.get(b"GPSF", b"")
    fixed = len(fix) < 4 or int.from_bytes(fix[:4], "big") >= FIX_2D
    moment = _gpmf_moment(stream.get(b"GPSU", b""))
    for raw in GPS5_ROW.iter_unpack(content[: len(content) // GPS5_ROW.size * GPS5_ROW.size]):
        values = [value / scale for value, scale in zip(raw, scales, strict=False)]
        yield fixed, (values[0], values[1], values[2]), moment
        moment = None


def _gpmf_moment(text: bytes) -> int | None:
    try:
        return from_datetime(datetime.strptime(text.decode()[:16], "%y%m%d%H%M%S.%f").replace(tzinfo=UTC))
    except ValueError:
        return None


# CAMM: https://developers.google.com/streetview/publish/camm-spec has the format.


def _camm_fixes(file: Path, samples: Sequence[tuple[int, int, bytes]]) -> Iterator[_Fix]:
    for number, (at, _, content) in enumerate(samples):
        kind = struct.unpack_from("<2H", content)[1] if len(content) >= 4 else None
        if kind == 5 or kind == 6:
            layout = CAMM_5 if kind == 5 else CAMM_6
            if len(content) < 4 + layout.size:
                raise BadInputError(f"{file}: its CAMM track is damaged (sample {number} has {len(content)} bytes)")
            values = layout.unpack_from(content, 4)
            if kind == 5:
                yield _Fix(at, *values)
            else:
                seconds, fix, latitude, longitude, altitude = values
                fixed = fix >= FIX_2D
                utc = _from_gps_time(seconds)
                yield _Fix(at, latitude if fixed else 0.0, longitude if fixed else 0.0, altitude, utc)


def _from_gps_time(seconds: float) -> int | None:
    try:
        return from_datetime(GPS_EPOCH + timedelta(seconds=seconds - LEAP_SECONDS))
    except (OverflowError, ValueError):
        return None


# Files next to a video.


def read_srt(file: Path) -> TrackPoints:
    """The subtitles of a DJI drone: a cue per frame or second, with its position; times since the first frame."""
    with reading(file):
        lines = file.read_text("utf-8-sig", errors="replace").splitlines()
    fixes, labels, cue = list[_Fix](), list[str](), None
    seen = dict[str, float]()

    def close() -> None:
        if cue is not None and {"lat", "lon"} <= seen.keys():
            fixes.append(_Fix(cue[1], seen["lat"], seen["lon"], seen.get("alt", np.nan)))
            labels.append(f"row {cue[0]}")

    for number, line in enumerate(lines, start=1):
        match = SRT_CUE.search(line)
        if match:
            close()
            hours, minutes, seconds, thousandths = (int(part) for part in match.groups())
            cue, seen = (number, ((hours * 60 + minutes) * 60 + seconds) * 10**9 + thousandths * 10**6), {}
            continue
        seen |= {name[:3]: float(value) for name, value in SRT_DEGREES.findall(line)}
        gps, height = SRT_GPS.search(line), SRT_HEIGHT.search(line)
        if gps:
            seen |= {"lon": float(gps[1]), "lat": float(gps[2])}
        if height:
            seen["alt"] = float(height[1])
    close()
    if not fixes:
        raise BadInputError(
            f"{file}: no cue has a position such as [latitude: 47.1] [longitude: 8.5] or GPS(8.5,47.1,20)"
        )
    return _track(file, labels, fixes, since_start=True)


def read_nmea(file: Path, found: Findings) -> TrackPoints:
    """An NMEA 0183 log: times and positions of its RMC sentences, altitudes of its GGA sentences."""
    with reading(file):
        lines = file.read_text("ascii", errors="replace").splitlines()
    fixes, labels, bad = list[_Fix](), list[str](), list[str]()
    height, moment = ("", np.nan), ""  # GGA may come before or after the RMC of the same moment
    for number, line in enumerate(lines, start=1):
        match = NMEA.search(line)
        if not match:
            continue
        body = line[line.index("$") + 1 : line.rindex("*")]
        total = 0
        for character in body.encode("ascii", "replace"):
            total ^= character
        words = match[3].split(",")
        try:
            if total != int(match[4], 16):
                raise ValueError("checksum")
            if match[2] == "GGA" and len(words) > 8 and words[8]:
                height = words[0], float(words[8])
                if moment == height[0]:
                    fixes[-1] = replace(fixes[-1], altitude=height[1])
            elif match[2] == "RMC" and words[1] == "A":
                second = datetime.strptime(f"{words[8]} {words[0][:6]}", "%d%m%y %H%M%S").replace(tzinfo=UTC)
                time = from_datetime(second) + round(float(f"0{words[0][6:]}") * 1e9)
                place = _nmea_degrees(words[2], words[3], "NS"), _nmea_degrees(words[4], words[5], "EW")
                moment = words[0]
                fixes.append(_Fix(time, *place, height[1] if height[0] == moment else np.nan))
                labels.append(f"row {number}")
        except (ValueError, IndexError, OverflowError):
            bad.append(f"{file.name}, row {number}")
    if not fixes:
        raise BadInputError(f"{file}: no RMC sentence with a fix ($GPRMC,…,A,…) was found")
    found.note("NMEA sentences are damaged (left out)", bad)
    return _track(file, labels, fixes, since_start=False)


def _nmea_degrees(text: str, side: str, sides: str) -> float:
    """4807.038 N: the last two digits before the point and all after it are minutes."""
    if side not in tuple(sides):
        raise ValueError(side)
    point = text.index(".") if "." in text else len(text)
    degrees = int(text[: point - 2]) + float(text[point - 2 :]) / 60
    return -degrees if side == sides[1] else degrees
