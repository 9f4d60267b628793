"""kapture folders: one that kapture 1.1.12 itself wrote (`data/kapture`), with and without a rig."""

import shutil
from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.readers.registry import find_reader

WRITTEN = Path(__file__).parent / "data/kapture"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(WRITTEN, tmp_path / "set")
    return tmp_path / "set"


def test_lenses_are_those_of_the_sensors(folder: Path) -> None:
    lenses = find_reader("kapture").function("lenses")
    assert lenses is not None
    found = lenses(folder)
    assert {path.split("/")[0] for path in found} == {"rig"}
    assert set(found.values()) == {Lens((64, 48), (60, 60), (31.5, 23.5), "plumb_bob", (0.05,))}
    (folder / "sensors/sensors.txt").write_text("left, , camera, SIMPLE_RADIAL, 64, 48, 60, 32, 24, wide\n")
    with pytest.raises(BadInputError, match=r"sensors.txt, row 1: column 'parameters' is"):
        lenses(folder)
