"""Readers are found by name, say what they want, and refuse what they do not know."""

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Union, get_args, get_origin

import pytest

from mappable.errors import BadInputError
from mappable.places import readers
from mappable.places.readers import find_reader, image_files, read_places, reader_names

NAMES = reader_names()
NEW_READER = '''"""Points of a text file: one image a line.

    ROOT/
      points.txt
"""

from pathlib import Path
from typing import Annotated, Literal

from mappable.places.frames import Frame
from mappable.places.notes import warn
from mappable.places.table import Places

SIZE = (320, 240)


def read(
    root: Path,
    *,
    file: Annotated[str, "name of the file"] = "points.txt",
    order: Annotated[Literal["xy", "yx"], "which coordinate comes first"] = "xy",
) -> Places:
    lines = (root / file).read_text().splitlines()
    rows = [line.split() for line in lines if len(line.split()) == 3]
    x, y = (1, 2) if order == "xy" else (2, 1)
    return Places(
        path=[row[0] for row in rows],
        x=[float(row[x]) for row in rows],
        y=[float(row[y]) for row in rows],
        frames=Frame("points"),
        root=root,
        notes=warn("lines without three words", (line for line in lines if len(line.split()) != 3)),
    )
'''


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Path]:
    """A reader `points` in a folder that the package also looks in, and a data set for it."""
    package, data = tmp_path / "package", tmp_path / "data"
    package.mkdir()
    data.mkdir()
    (package / "points.py").write_text(NEW_READER)
    (data / "points.txt").write_text("a.jpg 1 2\n")
    readers.__path__.append(str(package))
    yield data
    readers.__path__.remove(str(package))
    sys.modules.pop("mappable.places.readers.points", None)
    if hasattr(readers, "points"):
        del readers.points


def test_readers_are_listed_in_alphabetical_order():
    assert sorted(NAMES) == NAMES
    assert {"kitti", "manifest", "tum"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_reader_is_documented_with_a_summary_and_a_tree(name):
    reader = find_reader(name)
    assert reader.name == name
    lines = reader.documentation.splitlines()
    assert reader.summary == lines[0]
    assert len(reader.summary) > 20
    assert reader.summary.endswith(".")
    assert lines[1] == ""
    tree = [line for line in lines if line.startswith("    ")]
    assert len(tree) >= 2
    assert "ROOT" in tree[0]
    assert reader.image_size[0] > 0
    assert reader.image_size[1] > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_help_a_default_and_a_type_that_a_command_line_can_ask_for(name):
    for option in find_reader(name).options:
        assert len(option.help) > 5, option.name
        if get_origin(option.type) is Literal:
            assert option.default in get_args(option.type), option.name
            continue
        kinds = get_args(option.type) if get_origin(option.type) in (Union, types.UnionType) else (option.type,)
        assert set(kinds) <= {str, int, float, bool, Path, list[str], type(None)}, option.name
        assert isinstance(option.default, tuple(get_origin(kind) or kind for kind in kinds)), option.name


def test_an_unknown_reader_lists_the_known_ones(tmp_path):
    with pytest.raises(BadInputError) as caught:
        read_places("kity", tmp_path)
    assert str(caught.value) == f"unknown reader 'kity'; choose one of: {', '.join(NAMES)}"


@pytest.mark.parametrize("name", ["", "..", "manifest.read", "__init__"])
def test_odd_names_are_unknown_too(name):
    with pytest.raises(BadInputError, match="reader"):
        find_reader(name)


def test_an_unknown_option_lists_the_known_ones(points):
    with pytest.raises(BadInputError) as caught:
        read_places("points", points, size=3, color="red")
    assert str(caught.value) == "reader 'points' has no option color, size; its options: file, order"


def test_an_unknown_choice_lists_the_known_ones(points):
    with pytest.raises(BadInputError) as caught:
        read_places("points", points, order="zx")
    assert str(caught.value) == "reader 'points': order is 'zx', expected one of: xy, yx"


def test_a_missing_root_is_refused(tmp_path):
    with pytest.raises(BadInputError, match=r"nowhere.*file"):
        read_places("manifest", tmp_path / "nowhere")


def test_a_new_file_is_a_new_reader(points):
    assert "points" in reader_names()
    reader = find_reader("points")
    assert reader.summary == "Points of a text file: one image a line."
    assert reader.documentation.endswith("ROOT/\n      points.txt")
    assert reader.image_size == (320, 240)
    assert [(option.name, option.type, option.help, option.default) for option in reader.options] == [
        ("file", str, "name of the file", "points.txt"),
        ("order", Literal["xy", "yx"], "which coordinate comes first", "xy"),
    ]
    places = read_places("points", str(points), order="yx")
    assert (places.path[0], places.x[0], places.y[0]) == ("a.jpg", 2, 1)


def test_images_are_packed_at_240_by_180_unless_the_reader_says_otherwise():
    assert find_reader("manifest").image_size == (240, 180)


def test_a_set_without_images_is_refused_with_what_was_noted(points):
    (points / "points.txt").write_text("a.jpg 1\nb.jpg\n")
    with pytest.raises(BadInputError) as caught:
        read_places("points", points)
    assert str(caught.value) == f"{points}: no usable images for reader 'points'; 2 lines without three words"


def test_image_files_are_found_in_all_folders_by_name_but_not_hidden_ones(tmp_path):
    wanted = ["a.JPG", "b/c.png", "b/d/e.jpeg", "f.webp"]
    for name in [*wanted, "notes.txt", ".hidden.jpg", "b/readme"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.jpg").mkdir()
    assert [file.relative_to(tmp_path).as_posix() for file in image_files(tmp_path)] == wanted
