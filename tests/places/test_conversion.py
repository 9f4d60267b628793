"""Conversion: what it refuses, keeps and records."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.places.conversion import convert
from mappable.places.files import load_places, save_places
from mappable.places.readers import read_places

Draw = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path, draw: Draw) -> Path:
    for name in ("a", "b"):
        draw(tmp_path / f"set/{name}.jpg")
    (tmp_path / "set/places.csv").write_text("path,x,y,z\na.jpg,0,0,1\nb.jpg,1,0,5\n")
    return tmp_path / "set"


def test_z_counts_if_the_user_or_the_table_says_so(root: Path, tmp_path: Path) -> None:
    assert convert("manifest", root, tmp_path / "flat").dimensions == 2
    assert convert("manifest", root, tmp_path / "deep", dimensions=3).dimensions == 3
    save_places(load_places(tmp_path / "deep"), tmp_path / "own/places.parquet")
    assert convert("manifest", tmp_path / "own", tmp_path / "again").dimensions == 3


def test_options_do_not_apply_to_a_table_of_our_own(root: Path, tmp_path: Path) -> None:
    save_places(read_places("manifest", root), tmp_path / "own/places.parquet")
    with pytest.raises(BadInputError, match="options of the reader do not apply"):
        read_places("manifest", tmp_path / "own", unit="frames")


def test_another_reading_of_the_same_set_is_not_overwritten_unasked(root: Path, tmp_path: Path) -> None:
    convert("manifest", root, tmp_path / "out", pixels=False)
    with pytest.raises(BadInputError, match="manifest unit=m"):
        convert("manifest", root, tmp_path / "out", options={"unit": "frames"}, pixels=False)
    convert("manifest", root, tmp_path / "out", options={"unit": "frames"}, pixels=False, overwrite=True)
    assert load_places(tmp_path / "out").unit == "frames"


def test_a_damaged_record_of_a_conversion_is_one_sentence(
    root: Path, tmp_path: Path, rewrite: Callable[..., None]
) -> None:
    convert("manifest", root, tmp_path / "out", pixels=False)
    record = tmp_path / "out/convert.json"
    rewrite(record, json.loads(record.read_text()) | {"options": None})
    with pytest.raises(BadInputError, match=r"convert\.json"):
        convert("manifest", root, tmp_path / "out", pixels=False)


def test_sequences_that_were_kept_from_training_stay_so(root: Path, tmp_path: Path) -> None:
    table = "path,x,y,sequence\na.jpg,0,0,monday\nb.jpg,1,0,tuesday\n"
    (root / "places.csv").write_text(table)
    out = tmp_path / "out"
    save_places(convert("manifest", root, out).replace(split=["train", "calibration"]), out / "places.parquet")
    (root / "c.jpg").write_bytes((root / "a.jpg").read_bytes())
    (root / "places.csv").write_text(f"{table}c.jpg,2,0,wednesday\n")
    again = convert("manifest", root, out)
    assert again.split.tolist() == ["train", "calibration", "train"]
    assert "the splits of the existing table were kept; --overwrite discards them" in map(str, again.notes)
    assert convert("manifest", root, out, overwrite=True).split.tolist() == ["", "", ""]


def test_new_queries_of_a_set_that_was_split_do_not_train(root: Path, tmp_path: Path) -> None:
    table, out = "path,x,y,sequence,role\na.jpg,0,0,monday,reference\n", tmp_path / "out"
    (root / "places.csv").write_text(table)
    save_places(convert("manifest", root, out, pixels=False).replace(split="train"), out / "places.parquet")
    (root / "places.csv").write_text(f"{table}b.jpg,1,0,monday,query\n")
    assert convert("manifest", root, out, pixels=False).split.tolist() == ["train", "test"]


def test_options_are_taken_as_text_and_refused_if_they_are_something_else(root: Path) -> None:
    with pytest.raises(BadInputError, match=r"reader.*'video'.*spacing.*'1 m'"):
        read_places("video", root, spacing="1 m")
    (root / "2014-12-02-15-30-08/stereo/centre").mkdir(parents=True)
    with pytest.raises(BadInputError, match=r"no_such_folder.*stereo_narrow_left"):
        read_places("robotcar", root, models="no_such_folder")


def test_photos_in_linked_folders_are_found_and_circles_end(
    tmp_path: Path, geotagged: Callable[..., list[Path]]
) -> None:
    geotagged(tmp_path / "elsewhere/day", 6)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/linked").symlink_to(tmp_path / "elsewhere/day")
    (tmp_path / "photos/linked again").symlink_to(tmp_path / "elsewhere/day")
    (tmp_path / "elsewhere/day/circle").symlink_to(tmp_path / "photos")
    assert len(read_places("photos", tmp_path / "photos")) == 6


def test_copies_of_an_image_are_listed_with_the_distance_between_them(root: Path, tmp_path: Path) -> None:
    (root / "c.jpg").write_bytes((root / "a.jpg").read_bytes())
    (root / "places.csv").write_text("path,x,y,split\na.jpg,0,0,train\nb.jpg,1,0,train\nc.jpg,300,400,test\n")
    for _ in range(2):  # also if all images are packed already
        (note,) = convert("manifest", root, tmp_path / "out").notes
        assert str(note).startswith("1 images have the content of an earlier image")
        assert note.items == ("c.jpg is a.jpg, 500.0 m apart",)
