"""The reader of plain tables: coordinates, angles, times, and everything that can be wrong with a table."""

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from pyproj import Geod, Transformer

from mappable.errors import BadInputError
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.readers import read_places
from mappable.places.table import NO_TIME, Places

WGS84 = Geod(ellps="WGS84")
NORDLAND = Path(os.environ.get("MAPPABLE_NORDLAND") or Path(__file__).parents[4] / "shared" / "data" / "nordland")


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


# ---- coordinates


def test_metres_are_taken_as_they_are(read):
    places = read("path,x,y,z\na.jpg,1.5,-2.25,0.125\nb.jpg,1e3,-0.0,\n")
    assert places.x.tolist() == [1.5, 1000]
    assert places.y.tolist() == [-2.25, 0]
    assert places.z[0] == 0.125
    assert np.isnan(places.z[1])
    assert places.frames == {"town": Frame("town")}
    assert places.place_id.tolist() == ["a.jpg", "b.jpg"]
    assert places.notes == ()


def test_columns_are_found_by_name_in_any_order_and_others_ignored(read):
    places = read("weather,y,path,x\nrain,2,a.jpg,1\n")
    assert (places.x[0], places.y[0], places.path[0]) == (1, 2, "a.jpg")


def test_the_frame_can_be_named_and_counted_in_route_frames(read):
    places = read("path,x,y\na.jpg,1,0\n", frame="line", unit="frames")
    assert places.frames == {"line": Frame("line", "frames")}
    assert places.unit == "frames"


def test_frames_may_differ_between_sequences(read):
    places = read("path,x,y,frame,sequence\na.jpg,1,0,lab-a,one\nb.jpg,1,0,lab-b,two\n")
    assert sorted(places.frames) == ["lab-a", "lab-b"]
    assert places.frame.tolist() == ["lab-a", "lab-b"]


def test_map_coordinates_become_small_and_lead_back(read):
    places = read("path,x,y,z\na.jpg,619500.5,5735000.25,7\nb.jpg,620100,5735900,8\n", crs="EPSG:32630")
    frame = places.frames["town"]
    assert frame.crs == "EPSG:32630"
    assert frame.origin == (619000, 5735000, 0)
    assert places.x.tolist() == [500.5, 1100]
    assert places.y.tolist() == [0.25, 900]
    assert places.z.tolist() == [7, 8]
    original = frame.to_original(np.column_stack([places.x, places.y, places.z]))
    assert original.tolist() == [[619500.5, 5735000.25, 7], [620100, 5735900, 8]]
    latitude, longitude = frame.to_latlon(places.positions)
    expected = Transformer.from_crs("EPSG:32630", "EPSG:4326").transform([619500.5, 620100], [5735000.25, 5735900])
    assert latitude == pytest.approx(expected[0], abs=1e-9)
    assert longitude == pytest.approx(expected[1], abs=1e-9)


def test_each_frame_of_map_coordinates_has_an_origin_of_its_own(read):
    rows = "a.jpg,1200,0,west,1\nb.jpg,900300,0,east,2\nc.jpg,1300,-1,west,1\n"
    places = read("path,x,y,frame,sequence\n" + rows, crs="EPSG:32630")
    assert places.frames["west"].origin == (1000, -1000, 0)
    assert places.frames["east"].origin == (900000, 0, 0)
    by_path = dict(zip(places.path, places.x, strict=True))
    assert by_path == {"a.jpg": 200, "b.jpg": 300, "c.jpg": 300}


def test_a_crs_in_degrees_is_refused(read):
    with pytest.raises(BadInputError, match=r"CRS.*EPSG:4326.*metres"):
        read("path,x,y\na.jpg,1,0\n", crs="EPSG:4326")


def test_a_crs_in_feet_becomes_metres(read):
    places = read("path,x,y,z\na.jpg,980000,200000,10\nb.jpg,981000,200000,20\n", crs="EPSG:2263")
    assert np.linalg.norm(np.diff(places.positions, axis=0)) == pytest.approx(304.8, rel=1e-3)
    assert np.diff(places.z) == pytest.approx(3.048, rel=1e-4)


@pytest.mark.parametrize(("options", "metres"), [({"unit": "ft"}, 3.048), ({"scale": 0.001}, 0.01)])
def test_feet_and_other_units_become_metres(read, options, metres):
    places = read("path,x,y\na.jpg,0,0\nb.jpg,10,0\n", **options)
    assert places.x.tolist() == [0, pytest.approx(metres)]
    assert places.unit == "m"


def test_scale_is_for_coordinates_without_another_unit(read):
    with pytest.raises(BadInputError, match=r"--scale.*--unit is frames"):
        read("path,x,y\na.jpg,0,0\n", scale=2.0, unit="frames")
    with pytest.raises(BadInputError, match="--scale is 0"):
        read("path,x,y\na.jpg,0,0\n", scale=0.0)


def test_images_may_be_in_another_folder_than_the_table(read, tmp_path):
    (tmp_path / "camera").mkdir()
    assert read("path,x,y\na.jpg,0,0\n", images=tmp_path / "camera").root == tmp_path / "camera"
    with pytest.raises(BadInputError, match=r"--images is .*nowhere"):
        read("path,x,y\na.jpg,0,0\n", images=tmp_path / "nowhere")


def test_an_unknown_crs_is_refused(read):
    with pytest.raises(BadInputError, match=r"CRS.*'EPSG:99999999'"):
        read("path,x,y\na.jpg,1,0\n", crs="EPSG:99999999")


def test_map_coordinates_are_not_route_frames(read):
    with pytest.raises(BadInputError, match=r"CRS EPSG:32630.*--unit"):
        read("path,x,y\na.jpg,1,0\n", crs="EPSG:32630", unit="frames")


def test_short_names_and_altitude_serve_too(read):
    places = read("path,lat,lon,altitude\na.jpg,51.752,-1.2577,63.5\n", frame="oxford")
    assert list(places.frames) == ["oxford"]
    assert places.z.tolist() == [63.5]


def test_latitudes_share_one_frame(read):
    with pytest.raises(BadInputError, match=r"frame.*a, b"):
        read("path,lat,lon,frame\na.jpg,51,0,a\nb.jpg,51,0,b\n")


@pytest.mark.parametrize("options", [{"crs": "EPSG:32630"}, {"unit": "frames"}])
def test_unit_and_crs_are_not_about_latitudes(read, options):
    with pytest.raises(BadInputError, match=r"unit.*crs.*latitude"):
        read("path,lat,lon\na.jpg,51,0\n", **options)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("95,0", "column 'latitude' is '95', expected -90 to 90"),
        ("-90.001,0", "column 'latitude' is '-90.001', expected -90 to 90"),
        ("51,181", "column 'longitude' is '181', expected -180 to 180"),
        ("nan,0", "column 'latitude' is 'nan', expected a finite number"),
        ("51,inf", "column 'longitude' is 'inf', expected a finite number"),
        (",0", "column 'latitude' is '', expected a number"),
    ],
)
def test_latitudes_and_longitudes_out_of_range_are_named(read, row, problem):
    with pytest.raises(BadInputError) as caught:
        read(f"path,latitude,longitude\na.jpg,51,0\nb.jpg,{row}\n")
    assert str(caught.value).endswith(f"town/places.csv, row 3: {problem}")


@pytest.mark.parametrize("value", ["", "north", "1,5", "0x10"])
def test_a_position_that_is_not_a_number_is_named(read, value):
    with pytest.raises(BadInputError, match=rf"row 2.*x.*'{value}'"):
        read(f"path;x;y\na.jpg;{value};0\n")


# ---- angles


def test_yaw_is_radians_and_may_be_unknown(read):
    places = read("path,x,y,yaw\na.jpg,0,0,1.5\nb.jpg,0,0,\nc.jpg,0,0,4\n")
    assert places.yaw[0] == 1.5
    assert np.isnan(places.yaw[1])
    assert places.yaw[2] == pytest.approx(4 - 2 * np.pi)


@pytest.mark.parametrize(("heading", "yaw"), [(0, 90), (90, 0), (180, -90), (270, 180), (359, 91), (-45, 135)])
def test_heading_is_degrees_clockwise_from_north(read, heading, yaw):
    places = read(f"path,x,y,heading\na.jpg,0,0,{heading}\nb.jpg,0,0,\n")
    assert np.rad2deg(places.yaw[0]) == pytest.approx(yaw)
    assert np.isnan(places.yaw[1])


def test_degrees_in_the_column_yaw_are_refused(read):
    with pytest.raises(BadInputError, match=r"row 3.*yaw.*'90'"):
        read("path,x,y,yaw\na.jpg,0,0,1\nb.jpg,0,0,90\n")


# ---- times


@pytest.mark.parametrize(
    ("texts", "nanoseconds", "unit"),
    [
        (["1418132416.737115001", "1418132416.737115002"], [1418132416737115001, 1418132416737115002], "s"),
        (["1418132416", "1418132417"], [1418132416000000000, 1418132417000000000], "s"),
        (["1418132416737", "1418132416738.000001"], [1418132416737000000, 1418132416738000001], "ms"),
        (["1418132416737115", "1418132416737116"], [1418132416737115000, 1418132416737116000], "us"),
        (["1418132416737115001", "1418132416737115002"], [1418132416737115001, 1418132416737115002], "ns"),
        (["0", "0.103622401"], [0, 103622401], "s"),
    ],
)
def test_times_as_numbers_are_exact_and_their_unit_is_told(read, texts, nanoseconds, unit):
    for column in ("time", "timestamp"):
        places = read(f"path,x,y,{column}\na.jpg,0,0,{texts[0]}\nb.jpg,0,0,{texts[1]}\n")
        assert places.time.tolist() == nanoseconds
        assert notes(places) == [f"times in places.csv are numbers, used as {unit}"]
        assert not places.notes[0].warning


def test_the_unit_of_times_can_be_said(read):
    places = read("path,x,y,time\na.jpg,0,0,5\nb.jpg,0,0,1000000000007\n", time_unit="ns")
    assert places.time.tolist() == [5, 1000000000007]
    assert places.notes == ()


def test_times_whose_unit_cannot_be_guessed_are_refused(read):
    with pytest.raises(BadInputError, match=r"places\.csv.*times"):
        read("path,x,y,time\na.jpg,0,0,1418132416\nb.jpg,0,0,1418132417000\n")


def test_unknown_times_stay_unknown_and_are_noted_where_only_some_are(read):
    places = read("path,x,y,time\nb.jpg,0,0,2\na.jpg,0,0,\n", time_unit="s")
    assert places.time.tolist() == [2_000_000_000, NO_TIME]
    assert "sequences have unknown times" in notes(places)[0]
    assert set(read("path,x,y,time\na.jpg,0,0,\n").time) == {NO_TIME}
    assert set(read("path,x,y\na.jpg,0,0\n").time) == {NO_TIME}


@pytest.mark.parametrize("value", ["yesterday", "nan", "2014-13-01T00:00:00", "9" * 25])
def test_a_time_that_is_none_is_named(read, value):
    with pytest.raises(BadInputError, match=rf"row 3.*time.*'{value}'"):
        read(f"path,x,y,time\na.jpg,0,0,1418132416\nb.jpg,0,0,{value}\n", time_unit="s")


def test_rows_come_back_in_time_order_with_a_note(read):
    rows = "a.jpg,0,0,30\nb.jpg,0,0,10\nc.jpg,0,0,20\nd.jpg,0,0,20\n"
    places = read("path,x,y,time\n" + rows, time_unit="s")
    assert places.path.tolist() == ["b.jpg", "c.jpg", "d.jpg", "a.jpg"]
    unsorted, repeated = places.notes
    assert unsorted.items == ("b.jpg", "c.jpg", "d.jpg")
    assert repeated.items == ("d.jpg",)


# ---- text columns


def test_all_text_columns_are_read(read):
    header = "path,x,y,place_id,sequence,condition,split,role\n"
    places = read(header + "a.jpg,0,0,A,morning,snow,train,reference\nb.jpg,0,0,B,night,rain,calibration,query\n")
    assert places.place_id.tolist() == ["A", "B"]
    assert places.sequence.tolist() == ["morning", "night"]
    assert places.condition.tolist() == ["snow", "rain"]
    assert places.split.tolist() == ["train", "calibration"]
    assert places.role.tolist() == ["reference", "query"]


def test_without_the_column_sequence_each_folder_is_one(read):
    places = read("path,x,y\nday/a.jpg,0,0\nnight/a.jpg,0,0\nc.jpg,0,0\nday/b.jpg,0,0\n")
    by_path = dict(zip(places.path, places.sequence, strict=True))
    assert by_path == {"day/a.jpg": "day", "night/a.jpg": "night", "c.jpg": ".", "day/b.jpg": "day"}


def test_an_unknown_split_is_refused_or_cleared(read):
    text = "path,x,y,split\na.jpg,0,0,train\nb.jpg,0,0,val\nc.jpg,0,0,gap\nd.jpg,0,0,val\n"
    with pytest.raises(BadInputError, match=r"row 3.*split.*'val'"):
        read(text)
    places = read(text, other_splits="clear")
    assert places.split.tolist() == ["train", "", "", ""]
    assert notes(places) == [
        "1 places of split 'gap' are not used",
        "2 places of split 'val' are not used",
    ]


def test_a_sequence_that_mixes_frames_is_named(read):
    with pytest.raises(BadInputError, match=r"row 3.*frame.*'lab-b'.*'lab-a'.*sequence 'one'"):
        read("path,x,y,frame,sequence\na.jpg,1,0,lab-a,one\nb.jpg,1,0,lab-b,one\n")


def test_a_frame_without_a_name_is_named(read):
    with pytest.raises(BadInputError, match=r"row 3.*frame.*''"):
        read("path,x,y,frame,sequence\na.jpg,1,0,lab-a,one\nb.jpg,1,0,,two\n")


# ---- paths


@pytest.mark.parametrize("path", ["../x.jpg", "/etc/x.jpg", "a/../../x.jpg", "..", "a/..", "C:/x.jpg", "..\\x.jpg"])
def test_a_path_that_leads_out_of_the_root_is_named(read, path):
    with pytest.raises(BadInputError) as caught:
        read(f"path,x,y\na.jpg,0,0\n{path},0,0\n")
    assert str(caught.value).endswith(f"places.csv, row 3: path {path!r} leads outside the root folder")


@pytest.mark.parametrize("again", ["a/b.jpg", "./a/b.jpg", "a//b.jpg", "a/./b.jpg"])
def test_a_path_that_appears_twice_is_named_however_it_is_spelt(read, again):
    with pytest.raises(BadInputError, match=r"row 4.*(path|place_id).*'a/b\.jpg'"):
        read(f"path,x,y\na/b.jpg,0,0\nc.jpg,0,0\n{again},1,1\n")


# ---- the file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x,y\n1,2\n", "no column path; it has x, y; name the column with --column path=NAME"),
        ("path,x\na.jpg,1\n", "no column y; it has path, x"),
        ("path,y\na.jpg,1\n", "no column x; it has path, y"),
        ("path,lat\na.jpg,1\n", "expected columns x and y, or latitude and longitude; found: path, lat"),
        ("path\na.jpg\n", "expected columns x and y, or latitude and longitude; found: path"),
        ("path,x,y,x\na.jpg,1,2,3\n", "column x appears more than once"),
        ("path,x,y\n", "the table has no rows"),
        ("", "the file is empty"),
    ],
)
def test_a_table_without_what_is_needed_is_refused(read, text, problem):
    with pytest.raises(BadInputError) as caught:
        read(text)
    assert str(caught.value).endswith(f"town/places.csv: {problem}")


def test_a_folder_stands_for_its_table(tmp_path):
    (tmp_path / "images.csv").write_text("path,x,y\na.jpg,1,2\n")
    places = read_places("manifest", tmp_path)
    assert places.path.tolist() == ["a.jpg"]
    assert places.root == tmp_path.resolve()


@pytest.mark.parametrize("name", ["places.csv", "manifest.csv"])
def test_of_several_tables_the_one_of_a_known_name_is_taken(tmp_path, name):
    (tmp_path / "images.csv").write_text("path,x,y\nwrong.jpg,1,2\n")
    (tmp_path / name).write_text("path,x,y\nright.jpg,1,2\n")
    assert read_places("manifest", tmp_path).path.tolist() == ["right.jpg"]


def test_two_tables_without_a_known_name_or_none_at_all_are_refused(tmp_path):
    with pytest.raises(BadInputError, match=r"\.csv.*\.parquet"):
        read_places("manifest", tmp_path)
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text("path,x,y\na.jpg,1,2\n")
    with pytest.raises(BadInputError, match=r"a\.csv.*b\.csv"):
        read_places("manifest", tmp_path)
    assert len(read_places("manifest", tmp_path / "b.csv")) == 1


# ---- Parquet


def test_parquet_is_read_as_csv_is(tmp_path, read):
    columns = {
        "path": ["a.jpg", "b.jpg"],
        "x": [1.1, 0.1 + 0.2],
        "y": [2, 3],
        "yaw": [None, 0.5],
        "time": [1418132416737115001, 1418132416737115003],
        "split": ["train", None],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "places.parquet")
    places = read_places("manifest", tmp_path, time_unit="ns")
    text = "path,x,y,yaw,time,split\na.jpg,1.1,2,,1418132416737115001,train\n"
    text += "b.jpg,0.30000000000000004,3,0.5,1418132416737115003,\n"
    assert places == read(text, time_unit="ns", frame=tmp_path.name)
    assert places.x[1] == 0.1 + 0.2


# ---- our own tables, and a real one


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
        frames=Frame("kitti-00", crs=None, axes=((1, 0, 0), (0, 0, -1), (0, 1, 0)), origin=(1, 2, 3)),
        root=tmp_path,
    )
    save_places(ours, tmp_path / name)
    places = read_places("manifest", tmp_path / name)
    assert places == ours
    assert places.root == ours.root
    assert read_places("manifest", tmp_path) == ours


@pytest.mark.skipif(
    not (NORDLAND / "places.csv").is_file(),
    reason=f"the Nordland images are not at {NORDLAND}; set MAPPABLE_NORDLAND to their folder to run this",
)
def test_nordland_is_read_as_its_readme_says():
    with pytest.raises(BadInputError, match=r"split.*'gap'"):
        read_places("manifest", NORDLAND, unit="frames")
    places = read_places("manifest", NORDLAND, unit="frames", other_splits="clear")
    assert places.unit == "frames"
    assert Counter(places.condition) == {"summer": 1622, "winter": 1622}
    assert Counter(places.split) == {"train": 2 * 1200, "": 2 * 50, "test": 2 * 372}
    assert notes(places) == ["100 places of split 'gap' are not used"]
    for season in ("summer", "winter"):
        rows = places.where(sequence=season)
        assert rows.x.tolist() == list(range(1622))
        assert rows.path.tolist() == [f"{season}/{number:05d}.jpg" for number in range(1622)]
    assert all(file.is_file() for file in places.files)


@pytest.mark.parametrize("column", ["path", "x", "time", "split", "role", "yaw", "frame", "place_id"])
def test_a_long_value_is_cut_in_errors(column: str, tmp_path: Path) -> None:
    long = "v" * 5000
    values = {"path": "../a.jpg", "x": "1", "y": "2", "time": "3", "split": "", "role": "", "yaw": "0", "frame": "f"}
    values |= {"place_id": "p", column: f"../{long}" if column == "path" else long, long: ""}
    (tmp_path / "places.csv").write_text(f"{','.join(values)}\n{','.join(values.values())}\n")
    with pytest.raises(BadInputError) as refused:
        read_places("manifest", tmp_path)
    assert len(str(refused.value)) < 500 + len(str(tmp_path))


# Tables as other programs write them.


@pytest.mark.parametrize(
    "header",
    [
        "image_file,Latitude,Longitude",
        "filename,lat,lng",
        "file_name,LAT,LON",
        "image_name,gps_latitude,gps_longitude",
        "File Name,Latitude,Longitude",
    ],
)
def test_usual_names_of_columns_are_taken_in_any_case_and_told(read, header):
    places = read(f"{header}\na.jpg,51.5,-1.25\nb.jpg,51.6,-1.25\n")
    assert list(places.path) == ["a.jpg", "b.jpg"]
    assert places.y[1] - places.y[0] == pytest.approx(11_130, abs=20)
    told = [item for note in places.notes for item in note.items if "taken" in note.text]
    assert f"path from {header.split(',')[0]}" in told


def test_our_own_names_win(read):
    places = read("path,filename,x,easting,y\na.jpg,b.jpg,1,2,3\n")
    assert (places.path[0], places.x[0]) == ("a.jpg", 1.0)
    assert places.notes == ()


def test_any_other_column_can_be_named(read):
    places = read("photo,e,n\na.jpg,1,2\n", column=["path=photo", "x=e", "y=n"])
    assert (places.path[0], places.x[0], places.y[0]) == ("a.jpg", 1.0, 2.0)
    with pytest.raises(BadInputError, match="no column 'picture'; it has photo, e, n"):
        read("photo,e,n\na.jpg,1,2\n", column=["path=picture"])
    with pytest.raises(BadInputError, match=r"column is 'pfad=photo'.*names: path"):
        read("photo,e,n\na.jpg,1,2\n", column=["pfad=photo"])


def test_errors_name_the_column_of_the_file(read):
    with pytest.raises(BadInputError, match=r"row 3: column 'Latitude' is '91'"):
        read("filename,Latitude,Longitude\na.jpg,1,2\nb.jpg,91,2\n")


def test_radians_are_not_degrees(read):
    rows = [(math.radians(48.1 + 0.001 * n), math.radians(11.5)) for n in range(3)]
    text = "path,latitude,longitude\n" + "".join(f"{n}.jpg,{a!r},{b!r}\n" for n, (a, b) in enumerate(rows))
    with pytest.raises(BadInputError, match=r"places\.csv, row 2: latitude 0\.839.*radians"):
        read(text)
    places = read(text, angles="radians")
    assert places.frames[places.frame[0]].crs == "EPSG:32632"
    assert np.diff(places.y) == pytest.approx(111.2, abs=0.1)
    assert np.hypot(*np.diff(read(text, angles="degrees").positions, axis=0)[0]) < 3


def test_rows_without_a_fix_are_left_out_and_listed(read):
    places = read("path,lat,lon\na.jpg,48.1,11.5\nb.jpg,0,0\nc.jpg,48.2,11.5\n")
    assert list(places.path) == ["a.jpg", "c.jpg"]
    assert [note.items for note in places.notes] == [("b.jpg, row 3",)]
    with pytest.raises(BadInputError, match="every row is at latitude 0"):
        read("path,lat,lon\na.jpg,0,0\nb.jpg,0,0\n")


def test_a_heading_that_is_0_in_every_row_is_unknown(read):
    places = read("path,x,y,heading\na.jpg,0,0,0\nb.jpg,1,0,0.0\n")
    assert np.isnan(places.yaw).all()
    assert notes(places) == ["heading is 0 in all rows of places.csv, so it counts as unknown"]
    assert not np.isnan(read("path,x,y,heading\na.jpg,0,0,0\nb.jpg,1,0,3\n").yaw).any()
