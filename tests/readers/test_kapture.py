"""kapture folders: one that kapture 1.1.12 itself wrote (`data/kapture`), with and without a rig."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.readers.registry import find_reader, read_places

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
    lenses = find_reader("kapture").function("lenses")
    assert lenses is not None
    found = lenses(folder)
    assert {path.split("/")[0] for path in found} == {"rig"}
    assert set(found.values()) == {Lens((64, 48), (60, 60), (31.5, 23.5), "plumb_bob", (0.05,))}
    (folder / "sensors/sensors.txt").write_text("left, , camera, SIMPLE_RADIAL, 64, 48, 60, 32, 24, wide\n")
    with pytest.raises(BadInputError, match=r"sensors.txt, row 1: column 'parameters' is"):
        lenses(folder)
