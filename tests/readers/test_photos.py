"""Photos with EXIF positions: clocks, and what is left out."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from mappable.readers.registry import read_places

TAKEN, OFFSET = 0x9003, 0x9011
OXFORD = {1: "N", 2: (51.0, 45.0, 7.2), 3: "W", 4: (1.0, 15.0, 27.72)}


def shoot(file: Path, gps: dict[int, Any] | None, camera: dict[int, str] | None = None) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8825).update(gps or {})
    exif.get_ifd(0x8769).update(camera or {})
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (8, 8)).save(file, exif=exif)


def sexagesimal(degrees: float) -> tuple[float, float, float]:
    minutes = abs(degrees) % 1 * 60
    return float(int(abs(degrees))), float(int(minutes)), round(minutes % 1 * 60, 6)


@given(latitude=st.floats(-80, 80), longitude=st.floats(-180, 180))
@settings(max_examples=40)
def test_any_position_survives_degrees_and_minutes(
    tmp_path_factory: pytest.TempPathFactory, latitude: float, longitude: float
) -> None:
    assume(abs(latitude) > 1e-6 or abs(longitude) > 1e-6)  # no fix
    gps = {1: "S" if latitude < 0 else "N", 2: sexagesimal(latitude)}
    gps |= {3: "W" if longitude < 0 else "E", 4: sexagesimal(longitude)}
    root = tmp_path_factory.mktemp("any")
    shoot(root / "photo.jpg", gps)
    places = read_places("photos", root)
    found = places.frames[places.frame[0]].to_latlon(places.positions)
    assert found[0][0] == pytest.approx(latitude, abs=2e-8)
    assert (found[1][0] - longitude + 180) % 360 - 180 == pytest.approx(0, abs=2e-8)


def test_what_has_no_usable_position_is_left_out_and_listed_by_reason(tmp_path: Path) -> None:
    changes: dict[str, tuple[str, dict[int, Any] | None]] = {
        "plain.png": ("no GPS position", None),
        "no-letter.jpg": ("unreadable GPS position", {1: None}),
        "odd-letter.jpg": ("unreadable GPS position", {3: "X"}),
        "half.jpg": ("unreadable GPS position", {4: None}),
        "north.jpg": ("out of range", {2: (95.0, 0.0, 0.0)}),
        "east.jpg": ("out of range", {4: (180.0, 0.0, 1.0)}),
        "island.jpg": ("latitude 0, longitude 0", {2: (0.0, 0.0, 0.0), 4: (0.0, 0.0, 0.0)}),
        "void.jpg": ("void", {9: "V"}),
    }
    shoot(tmp_path / "good.jpg", OXFORD)
    for name, (_, change) in changes.items():
        tags = (
            None
            if change is None
            else {tag: value for tag, value in (OXFORD | change).items() if value is not None}
        )
        shoot(tmp_path / name, tags)
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "words.jpg").write_text("not an image")
    places = read_places("photos", tmp_path)
    assert list(places.path) == ["good.jpg"]
    listed = {
        name: note.text for note in places.notes if "left out" in note.text for name in note.items
    }
    assert listed.keys() == {*changes, "empty.jpg", "words.jpg"}
    for name, (words, _) in changes.items():
        assert words in listed[name], name
    assert "cannot be read as images" in listed["empty.jpg"]
    assert all(note.warning for note in places.notes)
