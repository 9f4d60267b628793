"""Conversion: what it refuses, keeps and records."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.files import load_places, save_places
from mappable.places.joining import concatenate
from mappable.readers.conversion import convert
from mappable.readers.registry import read_places

Draw = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path, draw: Draw) -> Path:
    for name in ("a", "b"):
        draw(tmp_path / f"set/{name}.jpg")
    (tmp_path / "set/places.csv").write_text("path,x,y,z\na.jpg,0,0,1\nb.jpg,1,0,5\n")
    return tmp_path / "set"


def test_another_reading_of_the_same_set_is_not_overwritten_unasked(
    root: Path, tmp_path: Path
) -> None:
    convert("manifest", root, tmp_path / "out", pixels=False)
    with pytest.raises(BadInputError, match="manifest unit=m"):
        convert("manifest", root, tmp_path / "out", options={"unit": "frames"}, pixels=False)
    convert(
        "manifest", root, tmp_path / "out", options={"unit": "frames"}, pixels=False, overwrite=True
    )
    assert load_places(tmp_path / "out").unit == "frames"


def test_sequences_that_were_kept_from_training_stay_so(root: Path, tmp_path: Path) -> None:
    table = "path,x,y,sequence\na.jpg,0,0,monday\nb.jpg,1,0,tuesday\n"
    (root / "places.csv").write_text(table)
    out = tmp_path / "out"
    save_places(
        convert("manifest", root, out).replace(split=["train", "calibration"]),
        out / "places.parquet",
    )
    (root / "c.jpg").write_bytes((root / "a.jpg").read_bytes())
    (root / "places.csv").write_text(f"{table}c.jpg,2,0,wednesday\n")
    again = convert("manifest", root, out)
    assert again.split.tolist() == ["train", "calibration", "train"]
    assert "the splits of the existing table were kept; --overwrite discards them" in map(
        str, again.notes
    )
    assert convert("manifest", root, out, overwrite=True).split.tolist() == ["", "", ""]


def test_photos_in_linked_folders_are_found_and_circles_end(
    tmp_path: Path, geotagged: Callable[..., list[Path]]
) -> None:
    geotagged(tmp_path / "elsewhere/day", 6)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/linked").symlink_to(tmp_path / "elsewhere/day")
    (tmp_path / "photos/linked again").symlink_to(tmp_path / "elsewhere/day")
    (tmp_path / "elsewhere/day/circle").symlink_to(tmp_path / "photos")
    assert len(read_places("photos", tmp_path / "photos")) == 6


def test_copies_of_an_image_are_listed_with_the_distance_between_them(
    root: Path, tmp_path: Path
) -> None:
    (root / "c.jpg").write_bytes((root / "a.jpg").read_bytes())
    (root / "places.csv").write_text(
        "path,x,y,split\na.jpg,0,0,train\nb.jpg,1,0,train\nc.jpg,300,400,test\n"
    )
    for _ in range(2):  # also if all images are packed already
        (note,) = convert("manifest", root, tmp_path / "out").notes
        assert str(note).startswith("1 images have the content of an earlier image")
        assert note.items == ("c.jpg is a.jpg, 500.0 m apart",)


def test_a_table_is_thinned_and_outliers_are_dropped_on_request(root: Path, tmp_path: Path) -> None:
    rows = [f"{number:02d}.jpg,{5000 if number == 30 else number},0" for number in range(40)]
    (root / "places.csv").write_text("\n".join(["path,x,y", *rows]))
    places = convert(
        "manifest", root, tmp_path / "out", pixels=False, drop_outliers=True, spacing=2.0
    )
    assert places.x.tolist() == [*range(0, 30, 2), 31, *range(32, 40, 2)]
    assert [note.warning for note in places.notes] == [False, False]
    with pytest.raises(BadInputError, match="--spacing is -1"):
        convert("manifest", root, tmp_path / "out", spacing=-1)


def test_two_scans_of_one_world_meet_in_the_frame_of_the_first(tmp_path: Path) -> None:
    """The poses of both count in one world; each conversion alone has an origin, and axes, of its
    own.
    """
    turned = Rotation.from_euler("xyz", (90, 0, 30), degrees=True)
    level = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])
    for name, first in (("one", 0), ("two", 3)):
        for number in range(first, first + 6):
            pose = np.eye(4)
            pose[:3, :3] = (turned * Rotation.from_euler("z", 0.4 * number)).as_matrix() @ level
            pose[:3, 3] = turned.apply((number, 0.3 * number**2, 1.5))
            file = tmp_path / name / f"frame-{number:06d}.pose.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(" ".join(map(str, pose.ravel())))
            file.with_name(f"frame-{number:06d}.color.png").touch()
    one = convert("matrices", tmp_path / "one", tmp_path / "a", pixels=False)
    apart = convert(
        "matrices", tmp_path / "two", tmp_path / "b", pixels=False, options={"frame": "one"}
    )
    with pytest.raises(
        BadInputError, match=r"frame 'one' has two definitions, with origin .* --like"
    ):
        concatenate([one, apart])
    two = convert("matrices", tmp_path / "two", tmp_path / "c", pixels=False, like=one)
    assert two.frames == one.frames
    both = [
        dict(
            zip(
                table.path,
                np.column_stack([table.x, table.y, table.z, table.yaw]).tolist(),
                strict=True,
            )
        )
        for table in (one, two)
    ]
    shared = sorted(both[0].keys() & both[1].keys())
    assert len(shared) == 3
    for path in shared:
        assert both[0][path] == pytest.approx(both[1][path], abs=1e-6)


# Images upside down, or with a border.


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Photos of a bright sky over dark ground, upside down, over a strip that is the same in all."""
    folder, draw = tmp_path / "odd", np.random.default_rng(3)
    folder.mkdir()
    for number in range(14):
        pixels = draw.integers(0, 60, (60, 80, 3)) + np.linspace(60, 190, 60)[:, None, None]
        pixels[54:] = 200
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02d}.png")
    rows = "".join(f"{number:02d}.png,{number},0\n" for number in range(14))
    (folder / "places.csv").write_text("path,x,y\n" + rows)
    return folder


def test_a_border_and_images_upside_down_are_noted_with_the_option_that_mends_them(
    odd: Path, tmp_path: Path
) -> None:
    places = convert("manifest", odd, tmp_path / "out", size=(80, 60))
    text = " | ".join(str(note) for note in places.notes)
    assert "--crop-border 0,0,0,10" in text
    assert (
        "14 of 14 images are brighter below than above; if they are upside down, turn them:"
        " mappable convert" in text
    )
    assert "--overwrite --rotate 180" in text
    mended = convert(
        "manifest", odd, tmp_path / "mended", size=(80, 60), rotate="180", crop_border="0,0,0,10"
    )
    assert mended.notes == ()
    found = np.asarray(Image.open(mended.files[3]))
    assert np.array_equal(found, np.asarray(Image.open(odd / "03.png"))[::-1, ::-1][6:])
    assert mended.files[3].is_relative_to(tmp_path / "mended")
    with pytest.raises(BadInputError, match="holds"):
        convert("manifest", odd, tmp_path / "mended", size=(80, 60))
