"""Readers are found by name, say what they want, and refuse what they do not know; `convert auto` asks them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import BadInputError
from mappable.readers.registry import read_places
from mappable.readers.toolkit import image_files


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"size": 3, "color": "red"},
            "reader 'tum' has no option color, size; its options: trajectory, images",
        ),
        ({"plane": "zx"}, "reader 'tum': plane is 'zx', expected one of: xy, xz"),
        ({"max_gap_s": "1 s"}, "reader 'tum': max_gap_s is '1 s', expected a float"),
    ],
)
def test_bad_options_are_named_with_what_is_expected(
    tmp_path: Path, options: dict[str, object], words: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        read_places("tum", tmp_path, **options)
    assert words in str(caught.value)


def test_image_files_are_found_in_all_folders_by_name_but_not_hidden_ones(tmp_path: Path) -> None:
    wanted = ["a.JPG", "b/c.png", "b/d/e.jpeg", "f.webp"]
    for name in [*wanted, "notes.txt", ".hidden.jpg", "b/readme"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.jpg").mkdir()
    assert [file.relative_to(tmp_path).as_posix() for file in image_files(tmp_path)] == wanted


def test_close_readers_are_all_proposed_and_nothing_is_converted(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("path,x,y\nimages/000000.png,1,2\n")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/000000.png").touch()
    (tmp_path / "poses.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0\n")
    shown = CliRunner().invoke(app, ["convert", "auto", str(tmp_path), "my places"])
    assert shown.exit_code == 0, shown.output
    assert f"mappable convert kitti {tmp_path} 'my places'" in shown.output
    assert f"mappable convert manifest {tmp_path} 'my places'" in shown.output
    assert "2 readers fit" in shown.output
    assert not (tmp_path / "my places").exists()
