"""Photos with EXIF positions: the EXIF blocks are written here byte by byte, not by the library that reads them."""

import math
import struct
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from mappable.errors import BadInputError
from mappable.places.readers import read_places
from mappable.places.table import NO_TIME, Places

BYTE, ASCII, RATIONAL = 1, 2, 5
LATITUDE_REF, LATITUDE, LONGITUDE_REF, LONGITUDE, ALTITUDE_REF, ALTITUDE, TIME = 1, 2, 3, 4, 5, 6, 7
STATUS, DIRECTION_REF, DIRECTION, DATUM, DATE = 9, 16, 17, 18, 29
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


def at(latitude: float, longitude: float, **more: Value) -> Tags:
    """GPS tags of a position, in degrees, minutes and millionths of a second; more tags by their names above."""
    tags: Tags = {LATITUDE: sexagesimal(latitude), LONGITUDE: sexagesimal(longitude)}
    tags |= {LATITUDE_REF: "S" if latitude < 0 else "N", LONGITUDE_REF: "W" if longitude < 0 else "E"}
    return tags | {globals()[name.upper()]: value for name, value in more.items()}


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


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg", ".JPG", ".png", ".webp"])
@pytest.mark.parametrize("position", [OXFORD, (-33.8568, 151.2153), (-22.9519, -43.2105), (35.6586, 139.7454)])
def test_positions_of_all_quarters_of_the_earth_come_back(
    shoot: Shoot, root: Path, suffix: str, position: tuple[float, float]
) -> None:
    shoot(f"photo{suffix}", at(*position))
    places = read_places("photos", root)
    (frame,) = places.frames.values()
    latitude, longitude = frame.to_latlon(places.positions)
    # A millionth of a second of arc is 3e-10 degrees.
    assert (latitude[0], longitude[0]) == pytest.approx(position, abs=1e-9)
    assert frame.unit == "m"
    assert [note.text for note in places.notes] == ["photos have no readable time"]


def test_tiff_and_big_endian_exif_are_read(root: Path, draw: Callable[..., Path]) -> None:
    draw(root / "big.jpg", exif=exif(at(*OXFORD), order=">"))
    tags = Image.Exif()
    tags.load(exif(at(*OXFORD)))
    draw(root / "photo.tif", exif=tags)
    places = read_places("photos", root)
    assert list(places.path) == ["big.jpg", "photo.tif"]
    assert places.x[0] == pytest.approx(places.x[1], abs=1e-6)


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


def test_a_photo_cut_off_behind_its_header_is_indexed_since_no_pixel_is_decoded(shoot: Shoot, root: Path) -> None:
    file = shoot("photo.jpg", at(*OXFORD))
    data = file.read_bytes()
    file.write_bytes(data[: data.index(b"\xff\xda") + 20])
    assert list(read_places("photos", root).path) == ["photo.jpg"]


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


def test_altitude_is_z_and_negative_below_the_sea(shoot: Shoot, root: Path) -> None:
    height = ((1234, 10),)
    for name, reference in (("a", b"\0"), ("b", b"\1"), ("c", b"\2"), ("d", b"\3")):
        shoot(f"{name}.jpg", at(*OXFORD, altitude=height, altitude_ref=reference))
    shoot("e.jpg", at(*OXFORD, altitude=height))
    shoot("f.jpg", at(*OXFORD))
    shoot("g.jpg", at(*OXFORD, altitude=((0, 0),)))
    places = read_places("photos", root)
    np.testing.assert_array_equal(places.z, [123.4, -123.4, 123.4, -123.4, 123.4, np.nan, np.nan])
    assert listed(places, "unreadable altitude") == ["g.jpg"]


def test_direction_becomes_yaw_from_east(shoot: Shoot, root: Path) -> None:
    for name, degrees in (("0", 0), ("1", 90), ("2", 180), ("3", 270), ("4", 315), ("5", 360)):
        shoot(f"{name}.jpg", at(*OXFORD, direction=((degrees * 100, 100),), direction_ref="T"))
    shoot("6.jpg", at(*OXFORD))
    yaw = read_places("photos", root).yaw
    np.testing.assert_allclose(np.cos(yaw[:6]), [0, 1, 0, -1, -math.sqrt(0.5), 0], atol=1e-12)
    np.testing.assert_allclose(np.sin(yaw[:6]), [1, 0, -1, 0, math.sqrt(0.5), 1], atol=1e-12)
    assert np.isnan(yaw[6])


def test_a_magnetic_direction_is_taken_as_it_is_and_noted(shoot: Shoot, root: Path) -> None:
    shoot("magnetic.jpg", at(*OXFORD, direction=((90, 1),), direction_ref="M"))
    shoot("true.jpg", at(*OXFORD, direction=((90, 1),), direction_ref="T"))
    places = read_places("photos", root)
    np.testing.assert_allclose(places.yaw, [0, 0], atol=1e-12)
    assert listed(places, "magnetic") == ["magnetic.jpg"]


def test_a_direction_that_is_none_leaves_yaw_unknown_and_is_noted(shoot: Shoot, root: Path) -> None:
    shoot("beyond.jpg", at(*OXFORD, direction=((400, 1),)))
    shoot("zero.jpg", at(*OXFORD, direction=((0, 0),)))
    places = read_places("photos", root)
    assert np.isnan(places.yaw).all()
    assert listed(places, "unreadable direction") == ["beyond.jpg", "zero.jpg"]


def test_another_datum_is_noted(shoot: Shoot, root: Path) -> None:
    shoot("a.jpg", at(35.0, 139.0, datum="TOKYO"))
    shoot("b.jpg", at(35.0, 139.0, datum="WGS-84"))
    assert listed(read_places("photos", root), "a datum other than WGS 84") == ["a.jpg: TOKYO"]


def test_the_camera_time_with_its_offset_wins_over_the_coarser_gps_time(shoot: Shoot, root: Path) -> None:
    camera: Tags = {TAKEN: "2024:05:01 14:00:07", SUBSECONDS: "25", OFFSET: "+02:00"}
    shoot("a.jpg", at(*OXFORD, date="2024:05:01", time=hms(12, 0, 3000)), camera)
    places = read_places("photos", root)
    assert places.time[0] == nanoseconds(2024, 5, 1, 12, 0, 7) + 250_000_000
    assert not places.notes


def test_gps_time_is_used_where_the_camera_names_no_offset(shoot: Shoot, root: Path) -> None:
    shoot("a.jpg", at(*OXFORD, date="2024:02:29", time=hms(23, 59, 59_875)), {TAKEN: "2024:03:01 00:59:59"})
    places = read_places("photos", root)
    assert places.time[0] == nanoseconds(2024, 2, 29, 23, 59, 59) + 875_000_000
    assert not places.notes


def test_a_camera_time_without_an_offset_is_taken_as_utc_and_noted(shoot: Shoot, root: Path) -> None:
    shoot("a.jpg", at(*OXFORD), {TAKEN: "2024:05:01 14:00:07", SUBSECONDS: "250   "})
    shoot("b.jpg", at(*OXFORD), {TAKEN: "2024:05:01 14:00:08", OFFSET: "   :  "})
    places = read_places("photos", root)
    first = nanoseconds(2024, 5, 1, 14, 0, 7)
    assert list(places.time) == [first + 250_000_000, first + 1_000_000_000]
    assert listed(places, "used as UTC") == ["a.jpg", "b.jpg"]


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


def test_photos_are_sorted_by_time_and_clocks_that_differ_are_noted(shoot: Shoot, root: Path) -> None:
    shoot("a.jpg", at(*OXFORD), {TAKEN: "2024:05:01 13:00:00"})
    shoot("b.jpg", at(*OXFORD, date="2024:05:01", time=hms(12, 0, 0)))
    places = read_places("photos", root)
    assert list(places.path) == ["b.jpg", "a.jpg"]
    assert listed(places, "without a common clock") == ["set"]


@pytest.mark.parametrize(
    ("gps", "camera"),
    [
        ({}, {}),
        ({DATE: "0000:00:00", TIME: hms(12, 0, 0)}, {}),
        ({DATE: "2024:05:01", TIME: ((12, 1), (0, 0), (0, 1))}, {}),
        ({DATE: "2024:05:01", TIME: hms(25, 0, 0)}, {}),
        ({DATE: "2024:05:01"}, {TAKEN: "    :  :     :  :  "}),
        ({TIME: hms(12, 0, 0)}, {TAKEN: "2024:13:41 25:00:00", OFFSET: "+02:00"}),
        ({}, {TAKEN: "0001:01:01 00:00:00"}),
    ],
)
def test_a_time_that_makes_no_sense_is_unknown_and_noted(shoot: Shoot, root: Path, gps: Tags, camera: Tags) -> None:
    shoot("a.jpg", at(*OXFORD) | gps, camera)
    places = read_places("photos", root)
    assert places.time[0] == NO_TIME
    assert listed(places, "no readable time") == ["a.jpg"]


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


def test_the_poles_and_the_edges_of_the_map_are_in_range(shoot: Shoot, root: Path) -> None:
    shoot("a.jpg", at(89.0, 180.0))
    shoot("b.jpg", at(90.0, -180.0))
    places = read_places("photos", root)
    assert math.dist(*places.positions) == pytest.approx(111_694, rel=1e-3)  # a degree of latitude at the pole


def test_files_to_convert_are_listed_unless_a_converted_one_lies_beside_them(shoot: Shoot, root: Path) -> None:
    shoot("day/a.jpg", at(*OXFORD))
    for name in ("day/a.HEIC", "day/b.HEIC", "c.heif", "day/d.dng", "day/.e.heic"):
        (root / name).touch()
    places = read_places("photos", root)
    assert listed(places, "convert them to JPEG first") == ["c.heif", "day/b.HEIC", "day/d.dng"]


def test_a_photo_from_another_continent_is_left_out_and_listed(shoot: Shoot, root: Path) -> None:
    for number in range(3):
        shoot(f"{number}.jpg", at(OXFORD[0] + number, OXFORD[1]))
    shoot("japan.jpg", at(35.6586, 139.7454))
    shoot("pacific.jpg", at(0.0, 88.7423))  # where this zone's projection goes to infinity
    places = read_places("photos", root)
    assert list(places.path) == ["0.jpg", "1.jpg", "2.jpg"]
    assert listed(places, "more than 1,000 km") == ["japan.jpg", "pacific.jpg"]


def test_each_folder_is_a_sequence_and_the_root_goes_by_its_name(shoot: Shoot, root: Path) -> None:
    for name in ("a.jpg", "walk/b.jpg", "walk/second/c.jpg"):
        shoot(name, at(*OXFORD))
    places = read_places("photos", root)
    assert dict(zip(places.path, places.sequence, strict=True)) == {
        "a.jpg": "set",
        "walk/b.jpg": "walk",
        "walk/second/c.jpg": "walk/second",
    }
    assert list(places.place_id) == list(places.path)
    assert set(places.condition) == {""}


def test_the_root_and_a_folder_of_the_same_name_stay_two_sequences(shoot: Shoot, root: Path) -> None:
    shoot("a.jpg", at(*OXFORD))
    shoot("set/b.jpg", at(*OXFORD))
    places = read_places("photos", root)
    assert dict(zip(places.path, places.sequence, strict=True)) == {"a.jpg": ".", "set/b.jpg": "set"}


def test_the_table_does_not_depend_on_how_the_root_is_spelt(
    shoot: Shoot, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shoot("a.jpg", at(*OXFORD))
    shoot("walk/b.jpg", at(*OXFORD))
    absolute = read_places("photos", root)
    monkeypatch.chdir(root)
    relative = read_places("photos", ".")
    assert relative == absolute
    assert relative.files == absolute.files


def test_a_set_without_usable_photos_is_an_error_that_says_why(shoot: Shoot, root: Path) -> None:
    shoot("a.jpg")
    shoot("b.jpg", at(0, 0))
    (root / "c.heic").touch()
    with pytest.raises(BadInputError, match=r"1.*GPS.*1.*latitude 0") as error:
        read_places("photos", root)
    assert "convert them to JPEG" in str(error.value)


def test_an_empty_folder_and_a_file_are_refused(shoot: Shoot, root: Path) -> None:
    root.mkdir()
    with pytest.raises(BadInputError, match="usable"):
        read_places("photos", root)
    file = shoot("a.jpg", at(*OXFORD))
    with pytest.raises(BadInputError, match="folder"):
        read_places("photos", file)
