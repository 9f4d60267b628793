"""kapture folders: one that kapture 1.1.12 itself wrote (`data/kapture`), with and without a rig."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.places.readers import find_reader, read_places

WRITTEN = Path(__file__).parent / "data/kapture"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(WRITTEN, tmp_path / "set")
    return tmp_path / "set"


def test_a_folder_of_kapture_is_read_to_the_last_digit(folder: Path) -> None:
    places = read_places("kapture", folder, up="z")
    expected = json.loads((WRITTEN / "expected.json").read_text())
    assert set(places.path) == set(expected)
    centers = places.frames[places.frame[0]].to_original(np.column_stack([places.x, places.y, places.z]))
    np.testing.assert_allclose(centers, [expected[path] for path in places.path], rtol=0, atol=1e-9)
    assert set(zip(places.sequence, (path.split("/")[0] for path in places.path), strict=True)) == {
        ("cam", "day"),
        ("left", "rig"),
    }
    assert places.unit == "units"
    assert read_places("kapture", folder, up="z", scale=1.0).unit == "m"


def test_lenses_are_those_of_the_sensors(folder: Path) -> None:
    lenses = find_reader("kapture").lenses
    assert lenses is not None
    found = lenses(folder)
    assert {path.split("/")[0] for path in found} == {"rig"}
    assert set(found.values()) == {Lens((64, 48), (60, 60), (31.5, 23.5), "plumb_bob", (0.05,))}
    (folder / "sensors/sensors.txt").write_text("left, , camera, SIMPLE_RADIAL, 64, 48, 60, 32, 24, wide\n")
    with pytest.raises(BadInputError, match=r"sensors.txt, row 1: 'left"):
        lenses(folder)


def test_an_image_without_a_pose_is_listed(folder: Path) -> None:
    (folder / "sensors/rigs.txt").unlink()
    places = read_places("kapture", folder, up="z")
    assert len(places) == 5
    assert [len(note.items) for note in places.notes if "no pose" in note.text] == [5]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("trajectories.txt", "# a\n0, cam, 1, 0\n", "trajectories.txt, row 2: 4 values, expected at least 9"),
        ("trajectories.txt", "0, cam, 3, 0, 4, 0, 0, 0, 0\n", "row 1: the quaternion 0 4 0 3 has length 5"),
        ("trajectories.txt", "0, cam, 1, 0, 0, 0, nan, 0, 0\n", "row 1: column 'tx' is 'nan'"),
        ("trajectories.txt", "7, cam, 1, 0, 0, 0, 0, 0, 0\n", "no image of records_camera.txt has a pose"),
        ("records_camera.txt", "0, cam, ../../a.jpg\n", "records_camera.txt, row 1: path '../../a.jpg' leads outside"),
    ],
)
def test_damaged_files_are_named(folder: Path, name: str, text: str, words: str) -> None:
    (folder / "sensors" / name).write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_places("kapture", folder, up="z")
    assert words in str(caught.value)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="records_camera"):
        read_places("kapture", tmp_path)
