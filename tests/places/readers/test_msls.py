"""The reader of Mapillary Street-Level Sequences, on trees written as the published archives hold them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyproj
import pytest

from mappable.errors import BadInputError
from mappable.places.readers import read_places
from mappable.places.table import NO_TIME, Places

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


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def items(places: Places, part: str) -> tuple[str, ...]:
    """The items of the one note whose text holds `part`."""
    (found,) = [note for note in places.notes if part in str(note)]
    return found.items


def original(places: Places, city: str) -> np.ndarray:
    frame = places.frames[city]
    return frame.to_original(np.column_stack([places.x, places.y])[places.frame == city])[:, :2]


def test_a_city_gives_every_column(tmp_path: Path, draw: Callable[..., Path]) -> None:
    database = [image("cph", "aB-_1", 10, 20, ca="0.0"), image("cph", "aB-_2", 30, 20, ca="135.5", number=2)]
    query = [image("cph", "q1", 12, 21, ca="270.0", night="True", sequence="s9")]
    folder = write_city(tmp_path, "cph", database, query)
    draw(folder / "query/images/q1.jpg")
    places = read_places("msls", tmp_path)
    assert places.path.tolist() == [
        "train_val/cph/database/images/aB-_1.jpg",
        "train_val/cph/database/images/aB-_2.jpg",
        "train_val/cph/query/images/q1.jpg",
    ]
    assert places.place_id.tolist() == ["cph/database/aB-_1", "cph/database/aB-_2", "cph/query/q1"]
    assert places.sequence.tolist() == ["cph/database/s1", "cph/database/s1", "cph/query/s9"]
    assert places.role.tolist() == ["reference", "reference", "query"]
    assert places.condition.tolist() == ["day", "day", "night"]
    assert set(places.split) == {"calibration"}
    assert places.yaw.tolist() == pytest.approx([math.pi / 2, math.radians(-45.5), math.pi])
    assert np.isnan(places.z).all()
    assert all(file.is_file() for file in places.files)
    assert list(places.frames) == ["cph"]
    assert places.frames["cph"].crs == "EPSG:32633"
    assert original(places, "cph") == pytest.approx(np.array([project(one, 32633) for one in database + query]))
    latitude, longitude = places.frames["cph"].to_latlon(np.column_stack([places.x, places.y]))
    assert latitude.tolist() == pytest.approx([one.latitude for one in database + query], abs=1e-8)
    assert longitude.tolist() == pytest.approx([one.longitude for one in database + query], abs=1e-8)
    assert places.x[1] - places.x[0] == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize("inside", [".", "train_val", "train_val/sf", "train_val/sf/../sf/"])
def test_the_place_is_the_same_whichever_folder_is_the_root(tmp_path: Path, inside: str) -> None:
    write_city(tmp_path, "sf", [image("sf", "k")])
    places = read_places("msls", tmp_path / inside)
    assert (places.place_id[0], places.sequence[0], places.frame[0]) == ("sf/database/k", "sf/database/s1", "sf")
    assert places.split[0] == "calibration"
    assert places.files[0].is_file()


def test_cities_are_frames_and_splits_of_their_own(tmp_path: Path) -> None:
    for city in EPSG:
        write_city(tmp_path, city, [image(city, "same")])
    write(tmp_path / "test/miami/database", [image("sf", "published")], EPSG["sf"])
    write(tmp_path / "test/new/database", [image("sf", "published")], EPSG["sf"])
    places = read_places("msls", tmp_path)
    assert dict(zip(places.frame, places.split, strict=True)) == {
        "cph": "calibration",
        "sf": "calibration",
        "london": "train",
        "melbourne": "train",
        "miami": "test",
        "new": "test",
    }
    assert {name: frame.crs for name, frame in places.frames.items()}["melbourne"] == "EPSG:32755"


def test_tables_are_joined_by_key_whatever_their_order_and_first_column(tmp_path: Path) -> None:
    images = [image("cph", f"k{number}", 10 * number, number=number, ca=f"{number}.0") for number in range(8)]
    folder = write_city(tmp_path, "cph", images) / "database"
    for name, step in (("raw.csv", 3), ("seq_info.csv", 5), ("postprocessed.csv", 7)):
        header, *rows = (folder / name).read_text().splitlines()
        rows = [rows[step * row % 8] for row in range(8)]
        if name != "raw.csv":  # without the unnamed column of row numbers
            header, rows = header[1:], [row.partition(",")[2] for row in rows]
        (folder / name).write_text("\n".join([header, *rows]) + "\n")
    places = read_places("msls", tmp_path)
    assert places.place_id.tolist() == [f"cph/database/k{number}" for number in range(8)]
    assert original(places, "cph") == pytest.approx(np.array([project(one, 32633) for one in images]))
    assert places.yaw.tolist() == pytest.approx([math.radians(90 - number) for number in range(8)])


def test_a_sequence_is_in_order_of_frame_numbers_and_the_days_give_no_time(tmp_path: Path) -> None:
    numbers = [3, 10, 1, 2]
    write_city(tmp_path, "cph", [image("cph", f"k{n}", n, number=n, captured_at="2018-05-04") for n in numbers])
    places = read_places("msls", tmp_path)
    assert places.place_id.tolist() == [f"cph/database/k{n}" for n in (1, 2, 3, 10)]
    assert (places.time == NO_TIME).all()
    (found,) = places.notes
    assert str(found) == "4 images have at most a date: their time is unknown"
    assert not found.warning


def test_a_time_of_day_is_taken(tmp_path: Path) -> None:
    texts = ["2018-05-04T10:11:12Z", "1525428673000"]
    images = [image("cph", f"k{n}", n, number=n, captured_at=text) for n, text in enumerate(texts)]
    write_city(tmp_path, "cph", images)
    places = read_places("msls", tmp_path)
    assert places.time.tolist() == [1525428672 * 10**9, 1525428673 * 10**9]
    assert not places.notes


def test_sequence_id_is_another_name_of_sequence_key(tmp_path: Path) -> None:
    folder = write_city(tmp_path, "cph", [image("cph", "k", sequence="xyz")])
    edit(folder / "database/seq_info.csv", "sequence_key", "sequence_id")
    assert read_places("msls", tmp_path).sequence[0] == "cph/database/xyz"


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


def test_a_city_on_a_zone_border_in_one_zone_stays_as_it_is(tmp_path: Path) -> None:
    images = [replace(image("london", f"k{n}"), longitude=longitude) for n, longitude in enumerate((-0.01, 0.01, 0.02))]
    write_city(tmp_path, "london", images)
    places = read_places("msls", tmp_path)
    assert places.frames["london"].crs == "EPSG:32630"
    assert original(places, "london") == pytest.approx(np.array([project(one, 32630) for one in images]))


def test_coordinates_that_agree_with_no_zone_are_kept_without_a_crs(tmp_path: Path) -> None:
    write_city(tmp_path, "cph", [image("cph", f"k{n}", easting=f"{n}.5", northing="7.0") for n in range(3)])
    places = read_places("msls", tmp_path)
    assert places.frames["cph"].crs is None
    assert original(places, "cph").tolist() == [[0.5, 7.0], [1.5, 7.0], [2.5, 7.0]]
    assert "cph: easting and northing agree with lon and lat in no UTM zone: the frame has no CRS" in map(
        str, places.notes
    )


def test_a_city_whose_coordinates_mostly_contradict_each_other_has_no_crs(tmp_path: Path) -> None:
    odd = [image("cph", f"k{n}", easting="1.0", northing=f"{n}.0", number=n) for n in (1, 2)]
    write_city(tmp_path, "cph", [image("cph", "k0", number=0), *odd])
    places = read_places("msls", tmp_path)
    assert places.frames["cph"].crs is None
    assert original(places, "cph")[1:].tolist() == [[1.0, 1.0], [1.0, 2.0]]


def test_a_position_far_from_its_longitude_is_left_out_and_listed(tmp_path: Path) -> None:
    images = [image("cph", f"k{n}", n) for n in range(4)]
    east, _ = project(images[0], 32633)
    near, far = (
        replace(images[n], key=key, easting=repr(east + off)) for n, key, off in ((0, "n", 4900), (1, "f", 5100))
    )
    write_city(tmp_path, "cph", [*images, near, far])
    places = read_places("msls", tmp_path)
    assert len(places) == 5
    assert items(places, "far from longitude and latitude") == ("cph/database/f",)


def test_keys_that_a_table_or_the_disk_lacks_are_left_out_and_listed(tmp_path: Path) -> None:
    folder = write_city(tmp_path, "cph", [image("cph", f"k{n}", n, number=n) for n in range(5)]) / "database"
    (folder / "images/k0.jpg").unlink()
    for name in ("extra.jpg", "index.txt", ".hidden.jpg"):
        (folder / "images" / name).touch()
    for name, key in (("raw.csv", "k1"), ("seq_info.csv", "k2"), ("postprocessed.csv", "k3")):
        lines = (folder / name).read_text().splitlines()
        (folder / name).write_text("\n".join(line for line in lines if f",{key}," not in line))
    places = read_places("msls", tmp_path)
    assert places.place_id.tolist() == ["cph/database/k4"]
    assert items(places, "missing in a table or on disk") == (
        "cph/database/extra: not in postprocessed.csv, raw.csv, seq_info.csv",
        "cph/database/k0: not in images",
        "cph/database/k1: not in raw.csv",
        "cph/database/k2: not in seq_info.csv",
        "cph/database/k3: not in postprocessed.csv",
    )


def test_a_key_that_leads_out_of_the_folder_is_left_out_and_listed(tmp_path: Path) -> None:
    folder = write_city(tmp_path, "cph", [image("cph", "good"), image("cph", "evil")]) / "database"
    for name in ("raw.csv", "seq_info.csv", "postprocessed.csv"):
        edit(folder / name, "evil", "../../evil")
    (folder / "images/evil.jpg").rename(folder.parent / "evil.jpg")
    places = read_places("msls", tmp_path)
    assert places.place_id.tolist() == ["cph/database/good"]
    assert items(places, "missing in a table or on disk") == ("cph/database/../../evil: not in images",)


def test_a_repeated_key_is_listed_and_its_first_row_taken(tmp_path: Path) -> None:
    folder = write_city(tmp_path, "cph", [image("cph", "k", ca="90.0")]) / "database"
    with (folder / "raw.csv").open("a") as stream:
        stream.write("1,k,12.57,55.68,0.0,2018-05-04,False\n")
    places = read_places("msls", tmp_path)
    assert places.yaw.tolist() == [0.0]
    assert items(places, "same key") == (f"{folder}/raw.csv, row 3: key 'k'",)


def test_images_without_a_position_are_left_out_and_listed(tmp_path: Path) -> None:
    folder = write_city(tmp_path, "cph", [image("cph", "k1"), image("cph", "k2", easting="123.25")]) / "database"
    edit(folder / "postprocessed.csv", "123.25", "")
    places = read_places("msls", tmp_path)
    assert places.place_id.tolist() == ["cph/database/k1"]
    assert items(places, "easting or northing is missing") == ("cph/database/k2",)


def test_a_missing_angle_longitude_or_night_is_unknown(tmp_path: Path) -> None:
    folder = write_city(tmp_path, "cph", [image("cph", "k1"), image("cph", "k2", 5, ca="", night="", number=2)])
    latitude = repr(image("cph", "k2", 5).latitude)
    edit(folder / "database/raw.csv", f",{image('cph', 'k2', 5).longitude!r},{latitude},", ",,,")
    places = read_places("msls", tmp_path)
    assert np.isnan(places.yaw).tolist() == [False, True]
    assert places.condition.tolist() == ["day", ""]
    assert places.frames["cph"].crs == "EPSG:32633"


def test_test_cities_without_positions_are_left_out_and_listed(tmp_path: Path) -> None:
    write_city(tmp_path, "cph", [image("cph", "k")], [image("cph", "q")])
    for side in ("database", "query"):
        folder = write(tmp_path / "test/miami" / side, [image("sf", "t")], EPSG["sf"])
        (folder / "raw.csv").unlink()
        (folder / "postprocessed.csv").unlink()
    places = read_places("msls", tmp_path)
    assert set(places.frame) == {"cph"}
    assert items(places, "folders were left out") == (
        "miami/database: no postprocessed.csv, raw.csv",
        "miami/query: no postprocessed.csv, raw.csv",
    )
    with pytest.raises(BadInputError, match=r"reader.*'msls'.*2"):
        read_places("msls", tmp_path, cities="miami")


def test_a_city_whose_images_were_not_downloaded_is_left_out_and_listed(tmp_path: Path) -> None:
    write_city(tmp_path, "cph", [image("cph", "k")])
    folder = write(tmp_path / "train_val/london/query", [image("london", "k")], EPSG["london"], pictures=False)
    (folder / "images").rmdir()
    places = read_places("msls", tmp_path)
    assert set(places.frame) == {"cph"}
    skipped = items(places, "folders were left out")
    assert "london/query: no images" in skipped
    assert "london/database: no postprocessed.csv, raw.csv, seq_info.csv, images" in skipped


def test_panoramas_are_counted_and_dropped_unless_kept(tmp_path: Path) -> None:
    flags = ["True", "False", "True", "False"]
    write_city(tmp_path, "cph", [image("cph", f"k{n}", n, number=n, pano=flag) for n, flag in enumerate(flags)])
    places = read_places("msls", tmp_path)
    assert places.place_id.tolist() == ["cph/database/k1", "cph/database/k3"]
    assert "2 panoramas were left out" in map(str, places.notes)
    assert len(read_places("msls", tmp_path, panoramas="keep")) == 4
    write_city(tmp_path, "sf", [image("sf", "k", pano="True")])
    with pytest.raises(BadInputError, match=r"1.*panoramas"):
        read_places("msls", tmp_path, cities="sf")


def test_one_view_can_be_chosen(tmp_path: Path) -> None:
    views = ["Forward", "Backward", "Sideways", "Forward"]
    write_city(tmp_path, "cph", [image("cph", f"k{n}", n, number=n, view=view) for n, view in enumerate(views)])
    places = read_places("msls", tmp_path, view="forward")
    assert places.place_id.tolist() == ["cph/database/k0", "cph/database/k3"]
    assert "2 images that do not look forward were left out" in map(str, places.notes)
    assert read_places("msls", tmp_path, view="sideways").place_id.tolist() == ["cph/database/k2"]


def test_one_subtask_of_the_benchmark_can_be_chosen(tmp_path: Path) -> None:
    names = ["all", "summer2winter", "winter2summer", "old2new", "new2old", "day2night", "night2day"]  # as in SUBTASKS
    flags = [",".join(str(row == column) for column in range(7)) for row in range(7)]
    folder = write_city(tmp_path, "cph", [image("cph", f"k{n}", n, subtasks=flag) for n, flag in enumerate(flags)])
    assert len(read_places("msls", tmp_path)) == 7
    for row, name in enumerate(names):
        places = read_places("msls", tmp_path, subtask=name)
        assert places.place_id.tolist() == [f"cph/database/k{row}"]
        assert f"6 images outside the subtask {name} were left out" in map(str, places.notes)
    edit(folder / "database/subtask_index.csv", ",d2n,", ",day2night,")
    assert read_places("msls", tmp_path, subtask="day2night").place_id.tolist() == ["cph/database/k5"]
    (folder / "database/subtask_index.csv").unlink()
    with pytest.raises(BadInputError, match=r"database/subtask_index\.csv.*file"):
        read_places("msls", tmp_path, subtask="all")


def test_cities_can_be_chosen_by_name(tmp_path: Path) -> None:
    for city in EPSG:
        write_city(tmp_path, city, [image(city, "k")])
    places = read_places("msls", tmp_path, cities="sf, cph,sf")
    assert list(places.frames) == ["sf", "cph"]
    with pytest.raises(BadInputError, match=r"city.*'atlantis'"):
        read_places("msls", tmp_path, cities="cph,atlantis")


@pytest.mark.parametrize(
    ("table", "old", "new", "problem"),
    [
        ("postprocessed.csv", "easting", "east", "no column easting; it has"),
        ("seq_info.csv", "sequence_key", "sequence", "no column sequence_key; it has"),
        ("raw.csv", "captured_at", "taken", "no column captured_at; it has"),
        ("raw.csv", "pano", "panorama", "no column pano; it has"),
        (
            "postprocessed.csv",
            "False,Forward",
            "maybe,Forward",
            "row 2: column 'night' is 'maybe', expected True or False",
        ),
        ("postprocessed.csv", "111.5", "nan", "row 2: column 'easting' is 'nan', expected a finite number"),
        ("postprocessed.csv", "222.5", "-inf", "row 2: column 'northing' is '-inf', expected a finite number"),
        ("raw.csv", "55.68", "155.68", "row 2: column 'lat' is '155.68', expected -90 to 90"),
        ("raw.csv", "12.57", "212.57", "row 2: column 'lon' is '212.57', expected -180 to 180"),
        ("raw.csv", "90.0", "north", "row 2: column 'ca' is 'north', expected a number"),
        ("raw.csv", "2018-05-04", "May", "row 2: column 'captured_at' is 'May', expected a date or a time"),
        ("seq_info.csv", "s1,1", "s1,first", "row 2: column 'frame_number' is 'first', expected a number"),
    ],
)
def test_a_damaged_table_is_refused_by_file_row_and_value(
    tmp_path: Path, table: str, old: str, new: str, problem: str
) -> None:
    one = Image("k", 55.68, 12.57, easting="111.5", northing="222.5")
    folder = write_city(tmp_path, "cph", [one]) / "database"
    edit(folder / table, old, new)
    with pytest.raises(BadInputError) as caught:
        read_places("msls", tmp_path)
    assert str(caught.value).startswith(f"{folder / table}")
    assert problem in str(caught.value)


def test_a_folder_that_is_not_the_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train_val/cph").mkdir(parents=True)
    with pytest.raises(BadInputError, match=r"train_val.*database"):
        read_places("msls", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="folder"):
        read_places("msls", tmp_path / "file")


def test_a_city_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    write_city(tmp_path, "cph", [image("cph", "k")])
    write(tmp_path / "test/cph/query", [image("cph", "k")], EPSG["cph"])
    with pytest.raises(BadInputError, match=r"duplicate city cph"):
        read_places("msls", tmp_path)
