"""Images without positions as a table."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import NO_TIME, Places
from mappable.readers.unposed import find_images, is_table

Draw = Callable[..., Path]


def test_files_and_folders_in_the_order_given(
    draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b/2.jpg", "b/1.png", "a/3.jpg"):
        draw(tmp_path / name)
    (tmp_path / "b/notes.txt").write_text("no image")
    monkeypatch.chdir(tmp_path)
    found = find_images([Path("b"), Path("a/3.jpg"), Path("gone.jpg")])
    assert found.place_id.tolist() == ["b/1.png", "b/2.jpg", "a/3.jpg", "gone.jpg"]
    assert found.files == [tmp_path.resolve() / name for name in found.place_id]
    assert found.sequence.tolist() == ["b", "b", "a", ""]
    assert set(found.time) == {NO_TIME}


def test_tables_lose_their_positions_alone(draw: Draw, tmp_path: Path) -> None:
    for name in ("set/1.jpg", "set/2.jpg", "3.jpg"):
        draw(tmp_path / name)
    columns = {
        "path": ["1.jpg", "2.jpg"],
        "x": [5.0, 6.0],
        "y": [1.0, 2.0],
        "z": [0.0, 1.0],
        "dimensions": 3,
    }
    table = Places(
        **columns, frames=Frame("town"), sequence="s", time=[1, 2], root=tmp_path / "set"
    )
    save_places(table, tmp_path / "set/places.parquet")
    save_places(table, tmp_path / "table.csv")
    for path in (tmp_path / "set", tmp_path / "set/places.parquet", tmp_path / "table.csv"):
        assert is_table(path)
        found = find_images([path])
        assert found.files == table.files
        assert (found.time.tolist(), found.sequence.tolist()) == ([1, 2], ["s", "s"])
        assert not found.positions.any()
        assert set(found.frame) == {"nowhere"}
    both = find_images([tmp_path / "set", tmp_path / "3.jpg"])
    assert [file.name for file in both.files] == ["3.jpg", "1.jpg", "2.jpg"]
    assert not is_table(tmp_path / "3.jpg")


def test_a_file_that_is_named_again_counts_once(draw: Draw, tmp_path: Path) -> None:
    for name in ("set/1.jpg", "set/2.jpg", "set/3.jpg"):
        draw(tmp_path / name)
    (tmp_path / "link.jpg").symlink_to(tmp_path / "set/2.jpg")
    first = tmp_path / "set/2.jpg"
    found = find_images(
        [first, Path(os.path.relpath(first)), tmp_path / "link.jpg", tmp_path / "set"]
    )
    assert found.place_id.tolist() == [
        str(first),
        str(tmp_path / "set/1.jpg"),
        str(tmp_path / "set/3.jpg"),
    ]
    table = Places(
        path=["1.jpg", "2.jpg"],
        x=[5.0, 6.0],
        y=[1.0, 2.0],
        frames=Frame("town"),
        root=tmp_path / "set",
    )
    save_places(table, tmp_path / "table.csv")
    both = find_images([tmp_path / "table.csv", first, tmp_path / "table.csv"])
    assert both.place_id.tolist() == [str(first), "1.jpg"]
    assert [file.name for file in both.files] == ["2.jpg", "1.jpg"]
