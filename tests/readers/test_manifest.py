"""The reader of plain tables: coordinates, angles, times, and everything that can be wrong with a table."""

import math

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable.readers.registry import read_places


@pytest.fixture
def read(tmp_path):
    """Write a table's text to a folder called `town` and read it."""

    def write_and_read(text: str | bytes, name: str = "places.csv", **options) -> Places:
        file = tmp_path / "town" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_places("manifest", file, **options)

    return write_and_read


def notes(places: Places) -> list[str]:
    return [str(note) for note in places.notes]


@pytest.mark.parametrize(
    ("heading", "yaw"), [(0, 90), (90, 0), (180, -90), (270, 180), (359, 91), (-45, 135)]
)
def test_heading_is_degrees_clockwise_from_north(read, heading, yaw):
    places = read(f"path,x,y,heading\na.jpg,0,0,{heading}\nb.jpg,0,0,\n")
    assert np.rad2deg(places.yaw[0]) == pytest.approx(yaw)
    assert np.isnan(places.yaw[1])


@pytest.mark.parametrize(
    ("texts", "nanoseconds", "unit"),
    [
        (
            ["1418132416.737115001", "1418132416.737115002"],
            [1418132416737115001, 1418132416737115002],
            "s",
        ),
        (["1418132416", "1418132417"], [1418132416000000000, 1418132417000000000], "s"),
        (
            ["1418132416737", "1418132416738.000001"],
            [1418132416737000000, 1418132416738000001],
            "ms",
        ),
        (
            ["1418132416737115", "1418132416737116"],
            [1418132416737115000, 1418132416737116000],
            "us",
        ),
        (
            ["1418132416737115001", "1418132416737115002"],
            [1418132416737115001, 1418132416737115002],
            "ns",
        ),
        (["0", "0.103622401"], [0, 103622401], "s"),
    ],
)
def test_times_as_numbers_are_exact_and_their_unit_is_told(read, texts, nanoseconds, unit):
    for column in ("time", "timestamp"):
        places = read(f"path,x,y,{column}\na.jpg,0,0,{texts[0]}\nb.jpg,0,0,{texts[1]}\n")
        assert places.time.tolist() == nanoseconds
        assert notes(places) == [f"times in places.csv are numbers, used as {unit}"]
        assert not places.notes[0].warning


@pytest.mark.parametrize("name", ["places.parquet", "places.csv", "other.csv"])
def test_a_table_of_our_own_comes_back_whole(tmp_path, name):
    ours = Places(
        path=["a.jpg", "b.jpg"],
        x=[0.1 + 0.2, -1e-300],
        y=[1.0, 2.0],
        z=[3.0, np.nan],
        yaw=[np.nan, -3.0],
        time=[1418132416737115001, 1418132416737115002],
        sequence="drive",
        condition="rain",
        split=["train", "test"],
        role=["reference", "query"],
        place_id=["A", "B"],
        frames=Frame(
            "kitti-00", crs=None, axes=((1, 0, 0), (0, 0, -1), (0, 1, 0)), origin=(1, 2, 3)
        ),
        root=tmp_path,
    )
    save_places(ours, tmp_path / name)
    places = read_places("manifest", tmp_path / name)
    assert places == ours
    assert places.root == ours.root
    assert read_places("manifest", tmp_path) == ours


def test_radians_are_not_degrees(read):
    rows = [(math.radians(48.1 + 0.001 * n), math.radians(11.5)) for n in range(3)]
    text = "path,latitude,longitude\n" + "".join(
        f"{n}.jpg,{a!r},{b!r}\n" for n, (a, b) in enumerate(rows)
    )
    with pytest.raises(
        BadInputError, match=r"places\.csv, row 2: column 'latitude' is '0\.839.*radians"
    ):
        read(text)
    places = read(text, angles="radians")
    assert places.frames[places.frame[0]].crs == "EPSG:32632"
    assert np.diff(places.y) == pytest.approx(111.2, abs=0.1)
    assert np.hypot(*np.diff(read(text, angles="degrees").positions, axis=0)[0]) < 3
