"""Photos with EXIF positions: the EXIF blocks are written here byte by byte, not by the library that reads them."""

import struct
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from mappable.places.table import Places
from mappable.readers.registry import read_places

BYTE, ASCII, RATIONAL = 1, 2, 5

LATITUDE_REF, LATITUDE, LONGITUDE_REF, LONGITUDE, ALTITUDE_REF, ALTITUDE, TIME = 1, 2, 3, 4, 5, 6, 7

TAKEN, OFFSET, SUBSECONDS = 0x9003, 0x9011, 0x9291

OXFORD = (51.7520, -1.2577)

Value = str | bytes | tuple[tuple[int, int], ...]

Tags = dict[int, Value]


def exif(gps: Tags | None = None, camera: Tags | None = None, order: str = "<") -> bytes:
    """An EXIF block: the TIFF header, a main directory that points to the two others, and those."""
    header = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    pointers = [(tag, tags) for tag, tags in ((0x8769, camera), (0x8825, gps)) if tags is not None]
    at = 8 + 2 + 12 * len(pointers) + 4
    main, rest = struct.pack(f"{order}H", len(pointers)), b""
    for tag, tags in pointers:
        main += struct.pack(f"{order}HHII", tag, 4, 1, at + len(rest))
        rest += directory(tags, at + len(rest), order)
    return b"Exif\0\0" + header + main + bytes(4) + rest


def directory(tags: Tags, at: int, order: str) -> bytes:
    entries, data = struct.pack(f"{order}H", len(tags)), b""
    data_at = at + 2 + 12 * len(tags) + 4
    for tag, value in sorted(tags.items()):
        if isinstance(value, str):
            kind, count, raw = ASCII, len(value) + 1, value.encode() + b"\0"
        elif isinstance(value, bytes):
            kind, count, raw = BYTE, len(value), value
        else:
            kind, count, raw = RATIONAL, len(value), b"".join(struct.pack(f"{order}II", *pair) for pair in value)
        entries += struct.pack(f"{order}HHI", tag, kind, count)
        if len(raw) > 4:
            entries += struct.pack(f"{order}I", data_at + len(data))
            data += raw + b"\0" * (len(raw) % 2)
        else:
            entries += raw.ljust(4, b"\0")
    return entries + bytes(4) + data


BY_NAME = {"altitude": 6, "altitude_ref": 5, "status": 9, "date": 29, "time": 7}


def at(latitude: float, longitude: float, **more: Value) -> Tags:
    """GPS tags of a position, in degrees, minutes and millionths of a second; more tags by their names above."""
    tags: Tags = {LATITUDE: sexagesimal(latitude), LONGITUDE: sexagesimal(longitude)}
    tags |= {LATITUDE_REF: "S" if latitude < 0 else "N", LONGITUDE_REF: "W" if longitude < 0 else "E"}
    return tags | {BY_NAME[name]: value for name, value in more.items()}


def sexagesimal(degrees: float) -> tuple[tuple[int, int], ...]:
    micro = round(abs(degrees) * 3_600_000_000)
    return (micro // 3_600_000_000, 1), (micro // 60_000_000 % 60, 1), (micro % 60_000_000, 1_000_000)


def hms(hours: int, minutes: int, thousandths: int) -> tuple[tuple[int, int], ...]:
    return (hours, 1), (minutes, 1), (thousandths, 1000)


def nanoseconds(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 10**9  # type: ignore[arg-type,misc]


def listed(places: Places, words: str) -> list[str]:
    """The items of the one note whose text holds `words`."""
    notes = [note for note in places.notes if words in note.text]
    assert len(notes) == 1, [note.text for note in places.notes]
    return list(notes[0].items)


Shoot = Callable[..., Path]


@pytest.fixture
def shoot(tmp_path: Path, draw: Callable[..., Path]) -> Shoot:
    """Write a photo below `tmp_path/set` with the given GPS and camera tags."""

    def write(name: str, gps: Tags | None = None, camera: Tags | None = None, **options: Any) -> Path:
        return draw(tmp_path / "set" / name, exif=exif(gps, camera), **options)

    return write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "set"


def test_an_exif_chunk_behind_the_pixels_of_a_png_is_found_without_decoding_them(
    root: Path, draw: Callable[..., Path]
) -> None:
    plain = draw(root / "late.png").read_bytes()
    body = b"eXIf" + exif(at(*OXFORD))[6:]
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    pixels = plain.index(b"IDAT") + 8
    damaged = plain[:pixels] + bytes(20) + plain[pixels + 20 : -12]
    (root / "late.png").write_bytes(damaged + chunk + plain[-12:])
    with pytest.raises(OSError, match="broken"), Image.open(root / "late.png") as image:
        image.load()
    assert len(read_places("photos", root)) == 1


@given(latitude=st.floats(-80, 80), longitude=st.floats(-180, 180), minutes_only=st.booleans())
@settings(max_examples=40)
def test_any_position_survives_degrees_and_minutes(
    tmp_path_factory: pytest.TempPathFactory, latitude: float, longitude: float, minutes_only: bool
) -> None:
    assume(abs(latitude) > 1e-6 or abs(longitude) > 1e-6)  # latitude 0, longitude 0 has its own test
    tags = at(latitude, longitude)
    if minutes_only:  # many phones write whole degrees, decimal minutes and no seconds
        for tag, degrees in ((LATITUDE, abs(latitude)), (LONGITUDE, abs(longitude))):
            millionths = round(degrees * 60_000_000)
            tags[tag] = (millionths // 60_000_000, 1), (millionths % 60_000_000, 1_000_000), (0, 1)
    root = tmp_path_factory.mktemp("any")
    Image.new("L", (8, 8)).save(root / "photo.jpg", exif=exif(tags))
    places = read_places("photos", root)
    found = places.frames[places.frame[0]].to_latlon(places.positions)
    turn = (found[1][0] - longitude + 180) % 360 - 180
    assert found[0][0] == pytest.approx(latitude, abs=2e-8)
    assert turn == pytest.approx(0, abs=2e-8)


def test_a_folder_uses_one_clock_for_all_its_photos(shoot: Shoot, root: Path) -> None:
    """One camera knows its offset but runs five minutes fast; the other has GPS time alone. Both have GPS time."""
    fast: Tags = {TAKEN: "2024:05:01 12:05:00", OFFSET: "+00:00"}
    shoot("walk/a.jpg", at(*OXFORD, date="2024:05:01", time=hms(12, 0, 0)), fast)
    shoot("walk/b.jpg", at(*OXFORD, date="2024:05:01", time=hms(12, 1, 0)))
    shoot("alone/c.jpg", at(*OXFORD, date="2024:05:01", time=hms(12, 0, 0)), fast)
    places = read_places("photos", root)
    minute = 60 * 10**9
    noon = nanoseconds(2024, 5, 1, 12)
    assert dict(zip(places.path, (places.time - noon) // minute, strict=True)) == {
        "alone/c.jpg": 5,
        "walk/a.jpg": 0,
        "walk/b.jpg": 1,
    }
    assert not places.notes


def test_what_has_no_usable_position_is_left_out_and_listed_by_reason(
    shoot: Shoot, root: Path, draw: Callable[..., Path]
) -> None:
    shoot("good.jpg", at(*OXFORD))
    draw(root / "plain.jpg")
    draw(root / "plain.png")
    shoot("camera-only.jpg", None, {TAKEN: "2024:05:01 14:00:07"})
    shoot("zero-by-zero.jpg", at(*OXFORD) | {LATITUDE: ((0, 0), (0, 0), (0, 0))})
    shoot("no-letter.jpg", {tag: value for tag, value in at(*OXFORD).items() if tag != LATITUDE_REF})
    shoot("odd-letter.jpg", at(*OXFORD) | {LONGITUDE_REF: "X"})
    shoot("half.jpg", {LATITUDE: sexagesimal(51.0), LATITUDE_REF: "N"})
    shoot("text.jpg", at(*OXFORD) | {LATITUDE: "fifty-one"})
    shoot("north.jpg", at(*OXFORD) | {LATITUDE: ((95, 1), (0, 1), (0, 1))})
    shoot("east.jpg", at(*OXFORD) | {LONGITUDE: ((180, 1), (0, 1), (1, 1))})
    shoot("island.jpg", at(0, 0))
    shoot("void.jpg", at(*OXFORD, status="V"))
    (root / "empty.jpg").touch()
    (root / "words.jpg").write_text("not an image")
    places = read_places("photos", root)
    assert list(places.path) == ["good.jpg"]
    assert listed(places, "no GPS position") == ["camera-only.jpg", "plain.jpg", "plain.png"]
    unreadable = ["half.jpg", "no-letter.jpg", "odd-letter.jpg", "text.jpg", "zero-by-zero.jpg"]
    assert listed(places, "unreadable GPS position") == unreadable
    assert listed(places, "out of range") == ["east.jpg", "north.jpg"]
    assert listed(places, "latitude 0, longitude 0") == ["island.jpg"]
    assert listed(places, "void") == ["void.jpg"]
    assert listed(places, "cannot be read as images") == ["empty.jpg", "words.jpg"]
    assert all(note.warning for note in places.notes)
