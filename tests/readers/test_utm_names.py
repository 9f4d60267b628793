"""The reader of `@east@north@…@.jpg` names, on trees written as the field's own tools write them."""

import math
from pathlib import Path

import numpy as np
import pyproj
import pytest

from mappable.places.table import Places
from mappable.readers.registry import read_places

FULL = "@0544388.51@4172758.25@10@S@037.70098@-122.49646@kPnABhWJ1kA61eMNPLs1vQ@03@210@@@12.5@20160612_081530@note@.jpg"


def touch(root: Path, *names: str) -> Path:
    """Empty files: the names alone are read."""
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


def note(places: Places, part: str) -> tuple[str, ...]:
    """The items of the one note whose text holds `part`."""
    (found,) = [note for note in places.notes if part in str(note)]
    return found.items


def utm_name(latitude: float, longitude: float, epsg: int, zone: str) -> str:
    """A name such as the field's tools give, by pyproj: `zone` is the two fields for zone and
    letter.
    """
    east, north = pyproj.Transformer.from_crs(4326, epsg, always_xy=True).transform(
        longitude, latitude
    )
    return f"@{east:.4f}@{north:.4f}@{zone}@{latitude:.7f}@{longitude:.7f}@@@@@@@@@.jpg"


@pytest.mark.parametrize(
    "inside", [".", "images", "images/val", "images/val/queries", "images/val/../val/queries/"]
)
def test_the_place_is_the_same_whichever_folder_is_the_root(tmp_path: Path, inside: str) -> None:
    touch(tmp_path, f"set/images/val/queries/{FULL}")
    places = read_places("utm_names", tmp_path / "set" / inside)
    assert places.place_id.tolist() == [f"val/queries/{FULL}"]
    assert (places.split[0], places.role[0], places.sequence[0]) == (
        "calibration",
        "query",
        "val/queries",
    )
    assert places.files[0].is_file()


def test_points_on_both_sides_of_a_zone_border_keep_their_distance(tmp_path: Path) -> None:
    geod, middle = pyproj.Geod(ellps="WGS84"), (51.48, 0.0)  # Greenwich, where zones 30 and 31 meet
    east_of, north_east_of = (
        geod.fwd(middle[1], middle[0], 90, 25)[:2],
        geod.fwd(middle[1], middle[0], 45, 300)[:2],
    )
    west_of = geod.fwd(middle[1], middle[0], -90, 25)[:2]
    names = [
        utm_name(west_of[1], west_of[0], 32630, "30@U"),
        utm_name(east_of[1], east_of[0], 32631, "31@U"),
    ]
    names.append(utm_name(north_east_of[1], north_east_of[0], 32631, "31@U"))
    touch(tmp_path, *(f"images/train/database/{name}" for name in names))
    places = read_places("utm_names", tmp_path)
    rows = [[name in path for path in places.path].index(True) for name in names]
    x, y = places.x[rows], places.y[rows]
    assert list(places.frames) == ["utm-31N"]
    assert math.hypot(x[1] - x[0], y[1] - y[0]) == pytest.approx(50, rel=1e-3)
    expected = geod.inv(*west_of, *north_east_of)[2]
    assert math.hypot(x[2] - x[0], y[2] - y[0]) == pytest.approx(expected, rel=1e-3)
    latitude, longitude = places.frames["utm-31N"].to_latlon(np.column_stack([x, y]))
    assert latitude.tolist() == pytest.approx([west_of[1], east_of[1], north_east_of[1]], abs=1e-8)
    assert longitude.tolist() == pytest.approx([west_of[0], east_of[0], north_east_of[0]], abs=1e-8)
    (found,) = places.notes
    assert (
        str(found)
        == "1 images were converted from utm-30N to utm-31N, the zone of the images around them"
    )
    assert not found.warning
