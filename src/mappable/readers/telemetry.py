"""Telemetry of cameras: GPMF (GoPro) and CAMM tracks inside MP4 files, DJI subtitles, and NMEA logs."""

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import MAX_COORDINATE
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.notes import Findings
from mappable.readers.toolkit import unknown
from mappable.readers.track_files import TrackPoints
from mappable.readers.video_files import opened
from mappable.times import from_datetime

SRT_CUE = re.compile(r"(\d{1,3}):(\d\d):(\d\d)[,.](\d{3})\s*-->")
# Some drones write [longtitude: 8.5].
SRT_DEGREES = re.compile(r"\[\s*(lat|lon)\w*\s*[:=]\s*(-?\d+(?:\.\d+)?)")
SRT_HEIGHT = re.compile(r"(?:abs_alt|\[\s*altitude)\s*:\s*(-?\d+(?:\.\d+)?)")
# Longitude first.
SRT_GPS = re.compile(
    r"GPS\s*\(\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)"
)
NMEA = re.compile(r"\$(..(RMC|GGA),(.*))\*([0-9A-Fa-f]{2})\s*$")
# Between GPS time and UTC, since 2017.
GPS_EPOCH, LEAP_SECONDS = datetime(1980, 1, 6, tzinfo=UTC), 18
GPMF_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
DEEPEST = 8  # levels of nesting in GPMF; cameras write three
FIX_2D = 2  # the least fix with a position
GPS9 = np.dtype([("numbers", ">i4", 7), ("dop", ">u2"), ("fix", ">u2")])
CAMM_SHORTEST = 12  # bytes of the shortest sample
CAMM_5, CAMM_6 = struct.Struct("<3d"), struct.Struct("<di2df")
Payload = tuple[int, int, bytes]  # time since the first frame and length, both in ns, and content
# Ns, degrees north and east, metres; UTC in ns, 0 if unknown.
Fix = tuple[int, float, float, float, int]


def read_telemetry(file: Path, found: Findings) -> TrackPoints | None:
    """The positions in the GPMF or CAMM track of a video, with times since its first frame; None
    without a track.
    """
    payloads: dict[int, list[Payload]] = defaultdict(list)
    with opened(file) as (container, stream):
        start = _since_zero(stream, stream.start_time or 0)
        for packet in container.demux(container.streams.data) if container.streams.data else ():
            if packet.pts is not None and packet.size > 0:
                time, length = (
                    _since_zero(packet.stream, ticks)
                    for ticks in (packet.pts, packet.duration or 0)
                )
                payloads[packet.stream.index].append((time - start, length, bytes(packet)))
    tracks = [(_kind(parts[0][2]), parts) for parts in payloads.values()]
    kind, parts = max(tracks, key=lambda track: track[0], default=("", []))
    fixes = list({"GPMF": _gpmf_fixes, "CAMM": _camm_fixes}[kind](file, parts)) if kind else []
    if not fixes:
        return None
    first = next(
        (utc - time for time, north, east, _, utc in fixes if utc and (north or east)), None
    )
    labels = [f"{kind} position {number}" for number in range(len(fixes))]
    item = f"{file.name}: {len(fixes):,} in its {kind} track"
    found.note("videos have positions of their own", [item], warning=False)
    return _track(file, labels, fixes, since_start=True, start=first)


def _since_zero(stream: Any, ticks: int) -> int:
    return round(ticks * Fraction(stream.time_base.numerator, stream.time_base.denominator) * 10**9)


def _kind(content: bytes) -> str:
    """The kind of a data track, by its first payload; "" if it has no positions."""
    if content.startswith(b"DEVC"):
        return "GPMF"
    # Time codes are data, too, of 4 bytes. A CAMM sample has a header of 4 bytes, with the kinds 0
    # to 7.
    is_camm = (
        len(content) >= CAMM_SHORTEST
        and content[:2] == b"\0\0"
        and content[2] <= 7
        and content[3] == 0
    )
    return "CAMM" if is_camm else ""


def _track(
    file: Path,
    labels: list[str],
    fixes: Sequence[Fix],
    *,
    since_start: bool,
    start: int | None = None,
) -> TrackPoints:
    numbers = np.array([fix[1:4] for fix in fixes], dtype=np.float64)
    up = np.where(np.abs(numbers[:, 2]) <= MAX_COORDINATE, numbers[:, 2], np.nan)
    time = np.array([fix[0] for fix in fixes], dtype=np.int64)
    north, east = numbers[:, 0], numbers[:, 1]
    return TrackPoints(
        file, labels, time, east, north, up, unknown(len(fixes)), True, since_start, start
    )


# GPMF: https://github.com/gopro/gpmf-parser has the format.


def _streams(file: Path, data: bytes, depth: int = 0) -> Iterator[dict[bytes, bytes]]:
    """The entries of each stream (STRM) in a payload: their contents by key."""
    if depth > DEEPEST:
        raise BadInputError(f"{file}: its GPMF track is nested too deeply")
    entries: dict[bytes, bytes] = {}
    at = 0
    while at + 8 <= len(data):
        key, kind, size, count = struct.unpack_from(">4scBH", data, at)
        length = size * count
        if key == b"\0\0\0\0":  # padding at the end
            break
        if at + 8 + length > len(data):
            what = (
                f"{key.decode('ascii', 'replace')!r} states {length:,} bytes, but"
                f" {len(data) - at - 8:,} are left"
            )
            raise BadInputError(f"{file}: its GPMF track is damaged ({what})")
        entries[key] = data[at + 8 : at + 8 + length]
        if kind == b"\0":
            yield from _streams(file, entries[key], depth + 1)
        at += 8 + length + -length % 4
    yield entries


def _gpmf_fixes(file: Path, payloads: Sequence[Payload]) -> Iterator[Fix]:
    for number, (start, length, content) in enumerate(payloads):
        for stream in _streams(file, content):
            key = next((key for key in (b"GPS9", b"GPS5") if key in stream), None)
            if key is None or b"SCAL" not in stream:
                continue
            scales = np.frombuffer(stream[b"SCAL"], dtype=">i4", count=len(stream[b"SCAL"]) // 4)
            if len(scales) < int(key[3:]) or not scales.all():
                problem = f"payload {number}: SCAL is {shown(scales.tolist())}"
                raise BadInputError(f"{file}: its GPMF track is damaged ({problem})")
            rows, fixed, utc = _gps9(stream, scales) if key == b"GPS9" else _gps5(stream, scales)
            positions = rows[:, :3] * np.column_stack([fixed, fixed, np.ones(len(rows))])
            for row, ((north, east, up), moment) in enumerate(
                zip(positions.tolist(), utc, strict=True)
            ):
                yield start + length * row // len(rows), north, east, up, moment


def _gps9(stream: dict[bytes, bytes], scales: Any) -> tuple[Any, Any, list[int]]:
    """Rows with a time each: their numbers, whether each is a fix, and UTC."""
    content = stream[b"GPS9"]
    records = np.frombuffer(content, dtype=GPS9, count=len(content) // GPS9.itemsize)
    rows = records["numbers"] / scales[:7]
    since = np.round((rows[:, 5] * 86_400 + rows[:, 6]) * 1e9).astype(np.int64)
    return rows, records["fix"] / scales[8] >= FIX_2D, (from_datetime(GPMF_EPOCH) + since).tolist()


def _gps5(stream: dict[bytes, bytes], scales: Any) -> tuple[Any, Any, list[int]]:
    """Rows of 5 numbers. The kind of fix, and the time of the first row, are in entries of their
    own.
    """
    content, fix = stream[b"GPS5"], stream.get(b"GPSF", b"")
    rows = (
        np.frombuffer(content, dtype=">i4", count=len(content) // 20 * 5).reshape(-1, 5)
        / scales[:5]
    )
    fixed = len(fix) < 4 or int.from_bytes(fix[:4], "big") >= FIX_2D
    try:
        text = stream.get(b"GPSU", b"").decode()[:16]
        moment = from_datetime(datetime.strptime(text, "%y%m%d%H%M%S.%f").replace(tzinfo=UTC))
    except ValueError:
        moment = 0
    return rows, np.full(len(rows), fixed), ([moment] + [0] * len(rows))[: len(rows)]


# CAMM: https://developers.google.com/streetview/publish/camm-spec has the format.


def _camm_fixes(file: Path, samples: Sequence[Payload]) -> Iterator[Fix]:
    for number, (time, _, content) in enumerate(samples):
        kind = content[2] if len(content) >= 4 else 0
        layout = {5: CAMM_5, 6: CAMM_6}.get(kind)
        if layout is None:
            continue
        if len(content) < 4 + layout.size:
            raise BadInputError(
                f"{file}: its CAMM track is damaged (sample {number} has {len(content)} bytes)"
            )
        values = layout.unpack_from(content, 4)
        if kind == 5:
            yield time, *values, 0
        else:
            seconds, fix, north, east, up = values
            fixed = fix >= FIX_2D
            yield time, north if fixed else 0.0, east if fixed else 0.0, up, _from_gps_time(seconds)


def _from_gps_time(seconds: float) -> int:
    try:
        return from_datetime(GPS_EPOCH + timedelta(seconds=seconds - LEAP_SECONDS))
    except (OverflowError, ValueError):
        return 0


# Files next to a video.


def read_srt(file: Path) -> TrackPoints:
    """The subtitles of a DJI drone: a cue per frame or second, with its position; times since the
    first frame.
    """
    with reading(file):
        text = file.read_text("utf-8-sig", errors="replace")
    cues = [*SRT_CUE.finditer(text)]
    fixes, labels = list[Fix](), list[str]()
    ends = [*(cue.start() for cue in cues[1:]), len(text)]
    for cue, end in zip(cues, ends, strict=False):
        block = text[cue.start() : end]
        degrees = dict(SRT_DEGREES.findall(block))
        if gps := SRT_GPS.search(block):
            degrees |= {"lon": gps[1], "lat": gps[2]}
        if len(degrees) == 2:
            hours, minutes, seconds, thousandths = map(int, cue.groups())
            time = ((hours * 60 + minutes) * 60 + seconds) * 10**9 + thousandths * 10**6
            height = SRT_HEIGHT.search(block)
            up = float(height[1]) if height else np.nan
            fixes.append((time, float(degrees["lat"]), float(degrees["lon"]), up, 0))
            labels.append(f"row {text.count(chr(10), 0, cue.start()) + 1}")
    if not fixes:
        expected = "[latitude: 47.1] [longitude: 8.5] or GPS(8.5,47.1,20)"
        raise BadInputError(f"{file}: no cue has a position such as {expected}")
    return _track(file, labels, fixes, since_start=True)


def read_nmea(file: Path, found: Findings) -> TrackPoints:
    """An NMEA 0183 log: times and positions of its RMC sentences, altitudes of the GGA sentences of
    the same time.
    """
    with reading(file):
        lines = file.read_text("ascii", errors="replace").splitlines()
    fixes, labels, bad = list[tuple[str, Fix]](), list[str](), list[str]()
    heights: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        if match := NMEA.search(line):
            words = match[3].split(",")
            try:
                if reduce(xor, match[1].encode("ascii", "replace")) != int(match[4], 16):
                    raise ValueError("checksum")
                if match[2] == "GGA" and words[8]:
                    heights[words[0]] = float(words[8])
                elif match[2] == "RMC" and words[1] == "A":
                    second = datetime.strptime(
                        f"{words[8]} {words[0][:6]}", "%d%m%y %H%M%S"
                    ).replace(tzinfo=UTC)
                    time = from_datetime(second) + round(float(f"0{words[0][6:]}") * 1e9)
                    place = (
                        _nmea_degrees(words[2], words[3], "NS"),
                        _nmea_degrees(words[4], words[5], "EW"),
                    )
                    fixes.append((words[0], (time, *place, np.nan, 0)))
                    labels.append(f"row {number}")
            except (ValueError, IndexError, OverflowError):
                bad.append(f"{file.name}, row {number}")
    if not fixes:
        raise BadInputError(f"{file}: no RMC sentence with a fix ($GPRMC,…,A,…) was found")
    found.note("NMEA sentences are damaged (left out)", bad)
    placed = [(*fix[:3], heights.get(clock, np.nan), 0) for clock, fix in fixes]
    return _track(file, labels, placed, since_start=False)


def _nmea_degrees(text: str, side: str, sides: str) -> float:
    """4807.038 N: the last two digits before the point and all after it are minutes."""
    point = text.index(".") if "." in text else len(text)
    degrees = int(text[: point - 2]) + float(text[point - 2 :]) / 60
    return degrees * (1, -1)[sides.index(side or "?")]
