"""Videos with telemetry tracks, written box by box from the public formats, for tests of the reader and for fuzzing."""

import struct
from collections.abc import Sequence
from pathlib import Path

Sample = tuple[int, bytes]  # duration in milliseconds, and content


def box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I", 8 + len(content)) + kind + content


def full(kind: bytes, *parts: bytes) -> bytes:
    return box(kind, bytes(4), *parts)


def track(kind: bytes, number: int, samples: Sequence[Sample], at: int) -> bytes:
    """The box of a track whose samples lie one after the other from byte `at` on; ticks are
    milliseconds.
    """
    length = sum(duration for duration, _ in samples)
    matrix = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    head = box(
        b"tkhd",
        b"\0\0\0\1",
        struct.pack(">5I", 0, 0, number, 0, length),
        bytes(16),
        matrix,
        bytes(8),
    )
    runs = b"".join(struct.pack(">2I", 1, duration) for duration, _ in samples)
    sizes = b"".join(struct.pack(">I", len(content)) for _, content in samples)
    places, offset = [], at
    for _, content in samples:
        places.append(struct.pack(">I", offset))
        offset += len(content)
    table = box(
        b"stbl",
        full(b"stsd", struct.pack(">I", 1), box(kind, bytes(6), struct.pack(">H", 1))),
        full(b"stts", struct.pack(">I", len(samples)), runs),
        full(b"stsc", struct.pack(">4I", 1, 1, 1, 1)),
        full(b"stsz", struct.pack(">2I", 0, len(samples)), sizes),
        full(b"stco", struct.pack(">I", len(samples)), *places),
    )
    data = box(b"dinf", full(b"dref", struct.pack(">I", 1), box(b"url ", b"\0\0\0\1")))
    media = box(
        b"mdia",
        full(b"mdhd", struct.pack(">4I", 0, 0, 1000, length), b"\x55\xc4\0\0"),
        full(b"hdlr", bytes(4), b"meta", bytes(12), b"telemetry\0"),
        box(b"minf", full(b"nmhd"), data, table),
    )
    return box(b"trak", head, media)


def add_track(file: Path, kind: bytes, samples: Sequence[Sample]) -> Path:
    """Add a track of telemetry (`gpmd` or `camm`) to an MP4 file whose moov box is the last one."""
    data, at = file.read_bytes(), 0
    while data[at + 4 : at + 8] != b"moov":
        at += struct.unpack(">I", data[at : at + 4])[0]
    movie = data[at + 8 :]
    content = b"".join(sample for _, sample in samples)
    extra = box(b"mdat", content)
    file.write_bytes(data[:at] + extra + box(b"moov", movie, track(kind, 9, samples, at + 8)))
    return file


def klv(key: bytes, kind: bytes, size: int, content: bytes) -> bytes:
    """One entry of GPMF: key, type, size of an element, number of elements, and the content in
    multiples of 4 bytes.
    """
    count = len(content) // size if kind != b"\0" else len(content)
    return (
        key
        + kind
        + struct.pack(">BH", 1 if kind == b"\0" else size, count)
        + content
        + bytes(-len(content) % 4)
    )


def gps5(
    points: Sequence[tuple[float, float, float]], moment: bytes = b"260501120000.000", fix: int = 3
) -> bytes:
    """A GPMF payload with positions (latitude, longitude, altitude), as cameras up to the HERO10
    write it.
    """
    rows = [(round(a * 1e7), round(b * 1e7), round(c * 1e3), 5000, 500) for a, b, c in points]
    stream = klv(b"GPSF", b"L", 4, struct.pack(">I", fix)) + klv(b"GPSU", b"U", 16, moment)
    stream += klv(b"GPSP", b"S", 2, struct.pack(">H", 150)) + klv(
        b"SCAL", b"l", 4, struct.pack(">5i", *SCALES)
    )
    stream += klv(b"GPS5", b"l", 20, b"".join(struct.pack(">5i", *row) for row in rows))
    other = klv(b"SCAL", b"s", 2, struct.pack(">h", 418)) + klv(b"ACCL", b"s", 6, bytes(12))
    device = (
        klv(b"DVID", b"L", 4, bytes(4))
        + klv(b"STRM", b"\0", 1, other)
        + klv(b"STRM", b"\0", 1, stream)
    )
    return klv(b"DEVC", b"\0", 1, device)


def gps9(
    points: Sequence[tuple[float, float, float]], days: int, milliseconds: int, fix: int = 3
) -> bytes:
    """The same as the HERO11 and later write it: with a time per position, 100 ms apart."""
    rows = b""
    for number, (latitude, longitude, altitude) in enumerate(points):
        place = round(latitude * 1e7), round(longitude * 1e7), round(altitude * 1e3), 5000, 500
        rows += struct.pack(">7i2H", *place, days, milliseconds + 100 * number, 150, fix)
    scales = struct.pack(">9i", *SCALES, 1, 1000, 100, 1)
    stream = (
        klv(b"TYPE", b"c", 1, b"lllllllSS")
        + klv(b"SCAL", b"l", 4, scales)
        + klv(b"GPS9", b"?", 32, rows)
    )
    return klv(b"DEVC", b"\0", 1, klv(b"STRM", b"\0", 1, stream))


def camm(
    latitude: float,
    longitude: float,
    altitude: float,
    gps_seconds: float | None = None,
    fix: int = 3,
) -> bytes:
    """A CAMM sample: of type 6 with a GPS time, else of type 5."""
    if gps_seconds is None:
        return struct.pack("<2H3d", 0, 5, latitude, longitude, altitude)
    head = struct.pack("<2Hdi2d", 0, 6, gps_seconds, fix, latitude, longitude)
    return head + struct.pack("<7f", altitude, 2, 3, 0, 0, 0, 1)


SCALES = (10_000_000, 10_000_000, 1000, 1000, 100)
