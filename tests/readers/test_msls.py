"""The reader of Mapillary Street-Level Sequences: cities on the border of two UTM zones, and without a zone."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pyproj
import pytest

from mappable.places.table import Places
from mappable.readers.registry import read_places

Golden = Callable[[str], Path]


def read_with(
    golden_folder: Golden, tmp_path: Path, city: str, east_north: Callable[[int, str, str], object]
) -> Places:
    """The golden database of a city, alone, with other eastings and northings, by the number of the
    row.
    """
    folder = tmp_path / f"train_val/{city}/database"
    shutil.copytree(golden_folder("msls") / f"train_val/{city}/database", folder)
    header, *rows = (folder / "postprocessed.csv").read_text().splitlines()
    split = [row.split(",", 4) for row in rows]
    rows = [
        f"{row[0]},{row[1]},{east_north(n, row[2], row[3])},{row[4]}" for n, row in enumerate(split)
    ]
    (folder / "postprocessed.csv").write_text("\n".join([header, *rows]))
    return read_places("msls", tmp_path, panoramas="keep")


def test_a_city_on_a_zone_border_with_the_zone_of_each_image_keeps_its_distances(
    golden_folder: Golden, tmp_path: Path
) -> None:
    change = pyproj.Transformer.from_crs(32630, 32631, always_xy=True)

    def eastern(number: int, east: str, north: str) -> str:
        at = change.transform(float(east), float(north)) if number == 2 else (east, north)
        return f"{at[0]},{at[1]}"

    places = read_with(golden_folder, tmp_path, "london", eastern)
    assert places.frames["london"].crs == "EPSG:32630"
    rows = [places.place_id.tolist().index(f"london/database/k{number}") for number in (1, 2)]
    assert math.dist(*places.positions[rows]) == pytest.approx(12, rel=1e-3)
    notes = " ".join(map(str, places.notes))
    assert "london: 1 images were converted from utm-31N to utm-30N" in notes
