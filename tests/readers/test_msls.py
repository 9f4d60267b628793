"""The reader of Mapillary Street-Level Sequences, on trees written as the published archives hold them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyproj
import pytest

from mappable.places.table import Places
from mappable.readers.registry import read_places

POSTPROCESSED = ",key,easting,northing,unique_cluster,control_panel,night,view_direction\n"

RAW = ",key,lon,lat,ca,captured_at,pano\n"

SEQUENCES = ",key,sequence_key,frame_number\n"

SUBTASKS = ",key,all,s2w,w2s,o2n,n2o,d2n,n2d\n"

EPSG = {"cph": 32633, "london": 32630, "sf": 32610, "melbourne": 32755}

CENTER = {"cph": (55.68, 12.57), "london": (51.5, -0.12), "sf": (37.77, -122.42), "melbourne": (-37.81, 144.96)}


@dataclass(frozen=True)
class Image:
    """One image as the tables describe it; easting and northing are those of longitude and latitude unless given."""

    key: str
    latitude: float
    longitude: float
    easting: str = ""
    northing: str = ""
    ca: str = "90.0"
    captured_at: str = "2018-05-04"
    pano: str = "False"
    night: str = "False"
    view: str = "Forward"
    sequence: str = "s1"
    number: int = 1
    subtasks: str = "True,False,False,False,False,False,False"


def image(city: str, key: str, east: float = 0.0, north: float = 0.0, **fields: object) -> Image:
    """An image some metres east and north (on the ellipsoid) of the city's center."""
    latitude, longitude = CENTER[city]
    angle, distance = math.degrees(math.atan2(east, north)), math.hypot(east, north)
    longitude, latitude, _ = pyproj.Geod(ellps="WGS84").fwd(longitude, latitude, angle, distance)
    return replace(Image(key, latitude, longitude), **fields)


def project(one: Image, epsg: int) -> tuple[float, float]:
    return pyproj.Transformer.from_crs(4326, epsg, always_xy=True).transform(one.longitude, one.latitude)


def write(folder: Path, images: Iterable[Image], epsg: int, pictures: bool = True) -> Path:
    """A query or database folder with its four tables and, empty, its image files."""
    (folder / "images").mkdir(parents=True)
    tables = {"postprocessed": POSTPROCESSED, "raw": RAW, "seq_info": SEQUENCES, "subtask_index": SUBTASKS}
    for row, one in enumerate(images):
        east, north = project(one, epsg)
        position = f"{one.easting or repr(east)},{one.northing or repr(north)}"
        tables["postprocessed"] += f"{row},{one.key},{position},{row // 3},False,{one.night},{one.view}\n"
        tables["raw"] += f"{row},{one.key},{one.longitude!r},{one.latitude!r},{one.ca},{one.captured_at},{one.pano}\n"
        tables["seq_info"] += f"{row},{one.key},{one.sequence},{one.number}\n"
        tables["subtask_index"] += f"{row},{one.key},{one.subtasks}\n"
        if pictures:
            (folder / "images" / f"{one.key}.jpg").touch()
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def write_city(root: Path, city: str, database: Iterable[Image], query: Iterable[Image] = ()) -> Path:
    folder = root / "train_val" / city
    write(folder / "database", database, EPSG[city])
    write(folder / "query", query, EPSG[city])
    return folder


def original(places: Places, city: str) -> np.ndarray:
    frame = places.frames[city]
    return frame.to_original(np.column_stack([places.x, places.y])[places.frame == city])[:, :2]


def test_a_city_on_a_zone_border_with_the_zone_of_each_image_keeps_its_distances(tmp_path: Path) -> None:
    west, east = (replace(image("london", "w"), longitude=-0.0005), replace(image("london", "e"), longitude=0.0005))
    more = replace(west, key="w2", longitude=-0.001)
    easting, northing = project(east, 32631)
    write_city(tmp_path, "london", [west, more, replace(east, easting=repr(easting), northing=repr(northing))])
    places = read_places("msls", tmp_path)
    assert places.frames["london"].crs == "EPSG:32630"
    rows = [places.place_id.tolist().index(f"london/database/{key}") for key in "we"]
    expected = pyproj.Geod(ellps="WGS84").inv(west.longitude, west.latitude, east.longitude, east.latitude)[2]
    assert math.dist(*((places.x[row], places.y[row]) for row in rows)) == pytest.approx(expected, rel=1e-3)
    assert "london: 1 images were converted from utm-31N to utm-30N" in "".join(map(str, places.notes))


def test_coordinates_that_agree_with_no_zone_are_kept_without_a_crs(tmp_path: Path) -> None:
    write_city(tmp_path, "cph", [image("cph", f"k{n}", easting=f"{n}.5", northing="7.0") for n in range(3)])
    places = read_places("msls", tmp_path)
    assert places.frames["cph"].crs is None
    assert original(places, "cph").tolist() == [[0.5, 7.0], [1.5, 7.0], [2.5, 7.0]]
    assert "cph: easting and northing agree with lon and lat in no UTM zone: the frame has no CRS" in map(
        str, places.notes
    )
