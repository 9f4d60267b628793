"""Oxford RobotCar: trees written as the data set has them, and what comes back."""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyproj import Transformer

from mappable.errors import BadInputError
from mappable.places.decoding import RawDecoding
from mappable.places.images import load_image
from mappable.places.readers import read_places
from mappable.places.table import Places

START = 1417534208000000  # microseconds
TRAVERSAL = "2014-12-02-15-30-08"
TRAIN = ("2014-11-18-13-20-12", "2014-12-02-15-30-08", "2014-12-17-18-18-43", "2015-02-03-08-45-10")
TEST = ("2014-12-16-18-44-24", "2015-02-13-09-16-26", "2015-10-29-12-18-17")
LOOK_UP_TABLE = "stereo_narrow_left_distortion_lut.bin"

POSITION = "latitude,longitude,altitude"
MOTION = "velocity_north,velocity_east,velocity_down,roll,pitch,yaw"
COLUMNS = {
    "ins": f"timestamp,ins_status,{POSITION},northing,easting,down,utm_zone,{MOTION}".split(","),
    "rtk": f"timestamp,{POSITION},northing,easting,down,utm_zone,{MOTION}".split(","),
    "gps": (
        f"timestamp,num_satellites,{POSITION},latitude_sigma,longitude_sigma,altitude_sigma,northing,easting,down,utm_zone"
    ).split(","),
}
VALUES = {
    "ins_status": "INS_SOLUTION_GOOD",
    "num_satellites": 9,
    "latitude": 51.760642,
    "longitude": -1.260381,
    "altitude": 113.5,
    "northing": 5735000.0,
    "easting": 619500.0,
    "down": -112.25,
    "utm_zone": "30U",
    "yaw": 0.0,
}


def sample(milliseconds: float, x: float = 0.0, y: float = 0.0, **values: Any) -> dict[str, Any]:
    """One row of a pose file, at a time after START, x and y metres from our origin."""
    moment = {"timestamp": START + round(milliseconds * 1000), "easting": 619500.0 + x, "northing": 5735000.0 + y}
    return VALUES | moment | values


def write_poses(file: Path, samples: Iterable[dict[str, Any]], columns: list[str] | None = None) -> None:
    names = columns or COLUMNS[file.stem]
    lines = [",".join(str(row.get(name, "0.000000")) for name in names) for row in samples]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([",".join(names), *lines]) + "\n", encoding="ascii")


def write_images(folder: Path, milliseconds: Iterable[float]) -> None:
    """Empty files: an index needs the names alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for moment in milliseconds:
        (folder / f"{START + round(moment * 1000)}.png").touch()


def write_traversal(
    root: Path,
    samples: Iterable[dict[str, Any]],
    images: Iterable[float],
    name: str = TRAVERSAL,
    source: str = "ins",
) -> Path:
    write_images(root / name / "stereo" / "centre", images)
    write_poses(root / name / "gps" / f"{source}.csv", samples)
    return root


def drive(steps: int, metres: float = 10.0, start: float = 0.0, y: float = 0.0) -> list[dict[str, Any]]:
    """Eastwards at 20 m/s and more, two samples a second, `metres` a step."""
    return [sample(500 * step, start + metres * step, y, yaw=math.pi / 2) for step in range(steps + 1)]


def moments(samples: list[dict[str, Any]]) -> list[float]:
    return [(row["timestamp"] - START) / 1000 for row in samples]


def ids(*milliseconds: float, name: str = TRAVERSAL) -> tuple[str, ...]:
    return tuple(f"{name}/{START + round(moment * 1000)}" for moment in milliseconds)


def noted(places: Places, text: str) -> tuple[str, ...]:
    """The items of the one note that says `text`."""
    (note,) = (note for note in places.notes if text in note.text)
    return note.items


def quiet(places: Places) -> bool:
    """True if nothing is wrong but the missing look-up table."""
    return all("stay distorted" in note.text for note in places.notes if note.warning)


def test_a_raw_traversal_comes_back_with_all_its_columns(tmp_path: Path) -> None:
    samples = [sample(0, 517.123456, 848.358489, down=-110.5), sample(20, 517.623456, 848.358489, down=-111.5)]
    places = read_places("robotcar", write_traversal(tmp_path, samples, [0, 10, 20]))
    assert places.path.tolist() == [f"{TRAVERSAL}/stereo/centre/{START + 10000 * step}.png" for step in range(3)]
    assert tuple(places.place_id) == ids(0, 10, 20)
    assert places.x == pytest.approx([517.123456, 517.373456, 517.623456], abs=1e-6)
    assert places.y == pytest.approx([848.358489] * 3, abs=1e-6)
    assert places.z == pytest.approx([110.5, 111.0, 111.5])
    assert places.time.tolist() == [(START + 10000 * step) * 1000 for step in range(3)]
    assert set(places.sequence) == {TRAVERSAL}
    assert set(places.condition) == {"overcast"}
    assert set(places.split) == {""}
    assert quiet(places)


def test_the_frame_leads_back_to_utm_and_to_latitude_and_longitude(tmp_path: Path) -> None:
    easting, northing = Transformer.from_crs("EPSG:4326", "EPSG:32630", always_xy=True).transform(-1.2604, 51.7606)
    samples = [sample(0, easting=easting, northing=northing)]
    places = read_places("robotcar", write_traversal(tmp_path, samples, [0]))
    frame = places.frames["oxford"]
    assert frame.crs == "EPSG:32630"
    assert frame.to_original(places.positions)[0, :2] == pytest.approx([easting, northing], abs=1e-6)
    latitude, longitude = frame.to_latlon(places.positions)
    assert (latitude[0], longitude[0]) == pytest.approx((51.7606, -1.2604), abs=1e-9)


def test_one_traversal_may_be_the_root_and_keeps_its_identifiers(tmp_path: Path) -> None:
    write_traversal(tmp_path, [sample(0), sample(20)], [0, 20])
    whole, alone = read_places("robotcar", tmp_path), read_places("robotcar", tmp_path / TRAVERSAL)
    assert alone.path[0] == f"stereo/centre/{START}.png"
    assert tuple(alone.place_id) == tuple(whole.place_id) == ids(0, 20)
    assert set(alone.sequence) == {TRAVERSAL}


def test_the_pose_lies_between_the_samples_that_bracket_the_image_not_between_the_nearest_two(tmp_path: Path) -> None:
    samples = [sample(0, 0), sample(10, 1), sample(100, 19)]  # nearest to 12 ms are 10 ms and 0 ms
    places = read_places("robotcar", write_traversal(tmp_path, samples, [12]))
    assert places.x[0] == pytest.approx(1 + 18 * 2 / 90)


def test_images_beside_a_sample_of_bad_status_are_dropped_and_listed(tmp_path: Path) -> None:
    samples = [sample(20 * step, step) for step in range(6)]
    samples[2] |= {"ins_status": "INS_SOLUTION_NOT_GOOD", "easting": 700000.0}
    places = read_places("robotcar", write_traversal(tmp_path, samples, [10, 20, 30, 40, 50, 60, 70]))
    assert tuple(places.place_id) == ids(10, 20, 60, 70)
    assert noted(places, "not INS_SOLUTION_GOOD") == ids(30, 40, 50)
    assert places.x == pytest.approx([0.5, 1.0, 3.0, 3.5])


def test_images_outside_the_poses_or_in_a_gap_are_dropped_and_listed_apart(tmp_path: Path) -> None:
    samples = [sample(0, 0), sample(500, 5), sample(1001, 10), sample(1020, 11)]
    places = read_places(
        "robotcar", write_traversal(tmp_path, samples, [-1, 0, 250, 501, 1000, 1001, 1010, 1021, 5000])
    )
    assert tuple(places.place_id) == ids(0, 250, 1001, 1010)  # a bracket of just 0.5 s is no gap
    assert noted(places, "outside the time") == ids(-1, 1021, 5000)
    assert noted(places, "in a gap") == ids(501, 1000)


@pytest.mark.parametrize("folder", [f"{TRAVERSAL}/gps", TRAVERSAL, f"rtk/{TRAVERSAL}"])
def test_rtk_poses_have_no_status_and_are_found_where_people_keep_them(folder: str, tmp_path: Path) -> None:
    write_images(tmp_path / TRAVERSAL / "stereo" / "centre", [10])
    write_poses(tmp_path / folder / "rtk.csv", [sample(0, 4, 8, yaw=3.1), sample(20, 6, 10, yaw=-3.1)])
    places = read_places("robotcar", tmp_path, poses="rtk")
    assert (places.x[0], places.y[0], places.z[0]) == pytest.approx((5, 9, 112.25))
    assert places.yaw[0] == pytest.approx(-math.pi / 2)


def test_gps_poses_come_several_a_second_and_know_no_yaw(tmp_path: Path) -> None:
    samples = [sample(200 * step, step) for step in range(4)]
    places = read_places("robotcar", write_traversal(tmp_path, samples, [0, 100, 600], source="gps"), poses="gps")
    assert places.x == pytest.approx([0, 0.5, 3])
    assert np.isnan(places.yaw).all()
    assert quiet(places)


def test_without_a_column_down_the_height_is_the_altitude(tmp_path: Path) -> None:
    write_traversal(tmp_path, [], [0])
    columns = [name for name in COLUMNS["ins"] if name != "down"]
    write_poses(tmp_path / TRAVERSAL / "gps" / "ins.csv", [sample(0, altitude=97.5)], columns)
    assert read_places("robotcar", tmp_path).z[0] == 97.5


@pytest.mark.parametrize("bad", [{"easting": "NaN"}, {"northing": "inf"}, {"yaw": "nan"}, {"down": ""}])
def test_a_sample_that_is_not_finite_counts_as_missing_and_is_listed(bad: dict[str, str], tmp_path: Path) -> None:
    samples = [sample(20 * step, 2 * step, yaw=0.1 * step) for step in range(4)]
    samples[1] |= bad
    places = read_places("robotcar", write_traversal(tmp_path, samples, [0, 10, 20, 30, 50]))
    assert len(places) == 5
    assert places.x == pytest.approx([0, 1, 2, 3, 5])
    assert noted(places, "not finite numbers") == (f"{TRAVERSAL}/gps/ins.csv, row 3",)


def test_numbers_of_a_sample_of_bad_status_do_not_matter(tmp_path: Path) -> None:
    samples = [sample(20 * step, step) for step in range(4)]
    samples[0] |= {"ins_status": "INS_ALIGNING", "easting": "nan", "yaw": "nan", "utm_zone": ""}
    places = read_places("robotcar", write_traversal(tmp_path, samples, [10, 30, 60]))
    assert noted(places, "not INS_SOLUTION_GOOD") == ids(10)
    assert tuple(places.place_id) == ids(30, 60)
    assert not [note for note in places.notes if "not finite" in note.text]


def test_unsorted_and_repeated_samples_are_mended_and_listed(tmp_path: Path) -> None:
    samples = [sample(0, 0), sample(40, 4), sample(20, 2), sample(40, 99), sample(60, 6)]
    places = read_places("robotcar", write_traversal(tmp_path, samples, [10, 30, 50]))
    assert places.x == pytest.approx([1, 3, 5])
    assert noted(places, "out of time order") == (f"{TRAVERSAL}/gps/ins.csv, row 4",)
    assert noted(places, "same time as an earlier sample") == (f"{TRAVERSAL}/gps/ins.csv, row 5",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"easting": "east"}, r"ins.csv.*row 3.*easting.*'east'"),
        ({"timestamp": "12:30"}, r"ins.csv.*row 3.*timestamp.*'12:30'.*1970"),
        ({"timestamp": "1417534208"}, r"ins.csv.*row 3.*timestamp.*'1417534208'"),
        ({"utm_zone": "U30"}, r"ins.csv.*row 3.*utm_zone.*'U30'.*UTM.*30U"),
        ({"utm_zone": "31U"}, r"ins.csv.*row 3.*utm_zone.*'31U'.*30U"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error_with_file_and_row(
    change: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=problem):
        read_places("robotcar", write_traversal(tmp_path, [sample(0), sample(20) | change, sample(40)], [10]))


@pytest.mark.parametrize("column", ["timestamp", "easting", "northing", "utm_zone", "yaw", "ins_status"])
def test_a_missing_column_is_an_error_that_names_it(column: str, tmp_path: Path) -> None:
    write_traversal(tmp_path, [], [0])
    columns = [name for name in COLUMNS["ins"] if name != column]
    write_poses(tmp_path / TRAVERSAL / "gps" / "ins.csv", [sample(0)], columns)
    with pytest.raises(BadInputError, match=rf"ins.csv.*column {column}"):
        read_places("robotcar", tmp_path)


def test_a_pose_file_without_samples_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"ins\.csv.*sample"):
        read_places("robotcar", write_traversal(tmp_path, [], [0]))


@pytest.mark.parametrize(("zone", "crs"), [("30U", "EPSG:32630"), ("01N", "EPSG:32601"), ("56H", "EPSG:32756")])
def test_the_utm_zone_and_hemisphere_come_from_the_column(zone: str, crs: str, tmp_path: Path) -> None:
    places = read_places("robotcar", write_traversal(tmp_path, [sample(0, utm_zone=zone)], [0]))
    assert places.frames["oxford"].crs == crs


def test_traversals_in_two_utm_zones_are_refused(tmp_path: Path) -> None:
    write_traversal(tmp_path, [sample(0)], [0])
    write_traversal(tmp_path, [sample(0, utm_zone="31U")], [0], name="elsewhere")
    with pytest.raises(BadInputError, match=rf"{TRAVERSAL}.*EPSG:32630.*EPSG:32631"):
        read_places("robotcar", tmp_path)


def test_names_that_are_no_times_are_listed_and_hidden_files_passed_over(tmp_path: Path) -> None:
    write_traversal(tmp_path, [sample(0)], [0])
    folder = tmp_path / TRAVERSAL / "stereo" / "centre"
    bad = ["14175342080.png", "1417534208000000 (1).png", "1417534208000000.jpg", "x1417534208000000.png"]
    for name in [*bad, ".1417534208000000.png", ".DS_Store"]:
        (folder / name).touch()
    places = read_places("robotcar", tmp_path)
    assert tuple(places.place_id) == ids(0)
    assert set(noted(places, "not named <microseconds>.png")) == {f"{TRAVERSAL}/stereo/centre/{name}" for name in bad}


def test_times_in_stereo_timestamps_without_an_image_are_counted(tmp_path: Path) -> None:
    write_traversal(tmp_path, [sample(0), sample(200)], [0, 60])
    lines = "".join(f"{START + 60000 * step} {step // 2 + 1}\n" for step in range(4))
    (tmp_path / TRAVERSAL / "stereo.timestamps").write_text(lines, encoding="ascii")
    assert noted(read_places("robotcar", tmp_path), "stereo.timestamps") == (f"{TRAVERSAL}: 2 of 4",)


def test_a_traversal_without_poses_or_without_images_is_left_out_and_listed(tmp_path: Path) -> None:
    write_traversal(tmp_path, [sample(0)], [0])
    write_traversal(tmp_path, [sample(0)], [], name="2015-01-01-00-00-00")
    write_images(tmp_path / "2015-02-02-00-00-00" / "stereo" / "centre", [0, 60])
    places = read_places("robotcar", tmp_path)
    assert set(places.sequence) == {TRAVERSAL}
    assert noted(places, "have no images") == ("2015-01-01-00-00-00",)
    assert noted(places, "have no ins.csv") == ("2015-02-02-00-00-00: 2 images",)


def test_a_set_with_no_usable_image_is_refused_with_the_reasons(tmp_path: Path) -> None:
    write_traversal(tmp_path, [sample(0, ins_status="INS_INACTIVE"), sample(20)], [-5, 10])
    problem = r"no usable images.*1 images are outside.*1 images are next to an INS sample"
    with pytest.raises(BadInputError, match=problem):
        read_places("robotcar", tmp_path)


def test_a_folder_with_no_traversal_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()
    with pytest.raises(BadInputError, match="traversals"):
        read_places("robotcar", tmp_path)
    (tmp_path / "file.csv").touch()
    with pytest.raises(BadInputError, match=r"file\.csv.*folder"):
        read_places("robotcar", tmp_path / "file.csv")


@pytest.mark.parametrize("folder", [f"{TRAVERSAL}/gps", f"{TRAVERSAL}_gps/gps", f"{TRAVERSAL}_gps"])
def test_the_pre_processed_variant_is_read_with_its_poses(
    folder: str, draw: Callable[..., Path], tmp_path: Path
) -> None:
    for chunk, moment in ((1, 10), (2, 30)):
        draw(tmp_path / f"{TRAVERSAL}_stereo_centre_{chunk:02d}" / f"{START + moment * 1000}.png", (240, 180))
    write_poses(tmp_path / folder / "ins.csv", [sample(0, 0), sample(40, 0.4)])
    places = read_places("robotcar", tmp_path)
    assert places.decoding is None
    assert places.notes == ()
    assert tuple(places.place_id) == ids(10, 30)
    assert places.path[1] == f"{TRAVERSAL}_stereo_centre_02/{START + 30000}.png"
    assert places.x == pytest.approx([0.1, 0.3])
    with Image.open(places.files[0]) as image:
        assert np.array_equal(load_image(places.files[0], (240, 180), decoding=places.decoding), np.asarray(image))


def test_missing_chunks_and_images_that_two_chunks_hold_are_listed(tmp_path: Path) -> None:
    write_images(tmp_path / f"{TRAVERSAL}_stereo_centre_02", [0, 10])
    write_images(tmp_path / f"{TRAVERSAL}_stereo_centre_04", [10, 20])
    write_poses(tmp_path / TRAVERSAL / "gps" / "ins.csv", [sample(0), sample(20)])
    places = read_places("robotcar", tmp_path)
    assert tuple(places.place_id) == ids(0, 10, 20)
    again = f"{TRAVERSAL}_stereo_centre_04/{START + 10000}.png"
    assert noted(places, "same time as another image") == (again,)
    assert noted(places, "folders of images are missing") == tuple(f"{TRAVERSAL}_stereo_centre_0{k}" for k in (1, 3))


def test_tars_unpacked_each_into_its_own_folder_are_raw_too(tmp_path: Path) -> None:
    for chunk, moment in (("01", 0), ("02", 20)):
        write_images(tmp_path / f"{TRAVERSAL}_stereo_centre_{chunk}" / TRAVERSAL / "stereo" / "centre", [moment])
    write_poses(tmp_path / f"{TRAVERSAL}_gps" / TRAVERSAL / "gps" / "ins.csv", [sample(0), sample(20)])
    places = read_places("robotcar", tmp_path)
    assert tuple(places.place_id) == ids(0, 20)
    assert places.decoding == RawDecoding("GBRG")
    assert quiet(places)


def test_raw_and_pre_processed_images_under_one_root_are_refused(tmp_path: Path) -> None:
    write_traversal(tmp_path, [sample(0)], [0])
    write_images(tmp_path / f"{TEST[0]}_stereo_centre_01", [0])
    with pytest.raises(BadInputError, match=rf"{TRAVERSAL}.*{TEST[0]}"):
        read_places("robotcar", tmp_path)


@pytest.mark.parametrize("folder", ["models", "sdk/models", "robotcar-dataset-sdk/models", "elsewhere"])
def test_the_look_up_table_is_found_or_named(folder: str, tmp_path: Path) -> None:
    write_traversal(tmp_path / "root", [sample(0)], [0])
    table = tmp_path / "root" / folder / LOOK_UP_TABLE
    table.parent.mkdir(parents=True)
    table.touch()
    options = {"models": table.parent} if folder == "elsewhere" else {}
    places = read_places("robotcar", tmp_path / "root", **options)
    assert places.decoding == RawDecoding("GBRG", str(table.resolve()))
    assert places.notes == ()


def test_without_a_look_up_table_a_note_says_that_images_stay_distorted(tmp_path: Path) -> None:
    places = read_places("robotcar", write_traversal(tmp_path, [sample(0)], [0]))
    assert places.decoding == RawDecoding("GBRG", None)
    assert noted(places, f"found no {LOOK_UP_TABLE}, so the images stay distorted") == ()


def test_models_that_lack_the_table_or_are_not_needed_are_refused(tmp_path: Path) -> None:
    write_traversal(tmp_path / "raw", [sample(0)], [0])
    with pytest.raises(BadInputError, match=rf"folder has no {LOOK_UP_TABLE}"):
        read_places("robotcar", tmp_path / "raw", models=tmp_path)
    write_images(tmp_path / "small" / f"{TRAVERSAL}_stereo_centre_01", [0])
    with pytest.raises(BadInputError, match="preprocessed"):
        read_places("robotcar", tmp_path / "small", models=tmp_path)


def test_the_papers_traversals_come_with_its_split_and_our_counts_beside_its_own(tmp_path: Path) -> None:
    for name in (*TRAIN, *TEST, "2014-05-14-13-46-12"):
        write_traversal(tmp_path, drive(130), moments(drive(130)), name=name)
    places = read_places("robotcar", tmp_path, protocol="paper")
    assert set(places.where(split="train").sequence) == set(TRAIN)
    assert set(places.where(split="test").sequence) == set(TEST)
    conditions = {name: str(places.condition[rows[0]]) for name, rows in places.sequences().items()}
    assert [conditions[name] for name in TRAIN] == ["sun", "overcast", "night-rain", "snow"]
    assert [conditions[name] for name in TEST] == ["night", "overcast", "rain"]
    assert len(places) == 7 * 126  # every 10 m from 0 to 1,250 m
    assert places.x.max() == 1250
    texts = [str(note) for note in places.notes]
    assert "train 504 images (paper: 15,006); test 378 images (paper: 12,329)" in texts
    assert noted(places, "not used in the paper") == ("2014-05-14-13-46-12",)
    assert noted(places, "cropped to their first 1,250 m")[0] == f"{TRAIN[0]}: 126 of 131 images"
    assert quiet(places)


def test_all_traversals_come_whole_and_without_a_split_by_default(tmp_path: Path) -> None:
    for name in (TRAVERSAL, "2014-05-14-13-46-12"):
        write_traversal(tmp_path, drive(130), moments(drive(130)), name=name)
    places = read_places("robotcar", tmp_path)
    assert len(places) == 2 * 131
    assert set(places.split) == {""}
    assert set(places.where(sequence="2014-05-14-13-46-12").condition) == {""}


def test_the_crop_counts_from_the_first_valid_image_and_not_while_standing(tmp_path: Path) -> None:
    samples = drive(300, start=-100)
    for row in samples[:10]:  # the first 100 m have no valid pose
        row["ins_status"] = "INS_SOLUTION_NOT_GOOD"
    standing = 500 * 60  # at x = 500 the car waits for 400 samples, and its position trembles by 1.5 cm
    waiting = [sample(standing + 500 * k, 500 + 0.015 * (k % 2), yaw=math.pi / 2) for k in range(1, 401)]
    later = [row | {"timestamp": row["timestamp"] + 400 * 500000} for row in samples[61:]]
    samples = samples[:61] + waiting + later
    places = read_places("robotcar", write_traversal(tmp_path, samples, moments(samples)), protocol="paper")
    assert places.x.min() == 0
    assert places.x.max() == 1250  # trembling counted as driving would end it 6 m earlier
    assert len(places) == 126 + 400


def test_missing_traversals_of_the_paper_are_a_warning(tmp_path: Path) -> None:
    write_traversal(tmp_path, drive(3), moments(drive(3)))
    places = read_places("robotcar", tmp_path, protocol="paper")
    assert noted(places, "of the seven traversals of the paper are missing") == tuple(
        sorted({*TRAIN, *TEST} - {TRAVERSAL})
    )
    with pytest.raises(BadInputError, match=r"7.*traversals"):
        read_places("robotcar", write_traversal(tmp_path / "o", [sample(0)], [0], name="other"), protocol="paper")


def test_crop_reference_keeps_what_lies_near_the_references_first_1250_m(tmp_path: Path) -> None:
    write_traversal(tmp_path, drive(200), moments(drive(200)))
    write_traversal(tmp_path, drive(200, start=-300), moments(drive(200)), name=TRAIN[0])  # starts elsewhere
    write_traversal(tmp_path, drive(200, y=24), moments(drive(200)), name=TEST[0])
    write_traversal(tmp_path, drive(200, y=26), moments(drive(200)), name=TEST[1])  # on another road
    own = read_places("robotcar", tmp_path, protocol="paper")
    assert own.where(sequence=TRAIN[0]).x.max() == 950
    assert noted(own, "start far from") == (f"{TRAIN[0]}: 300 m", f"{TEST[1]}: 26 m")
    places = read_places("robotcar", tmp_path, protocol="paper", crop="reference")
    assert (places.where(sequence=TRAVERSAL).x.min(), places.where(sequence=TRAVERSAL).x.max()) == (0, 1270)
    assert (places.where(sequence=TRAIN[0]).x.min(), places.where(sequence=TRAIN[0]).x.max()) == (-20, 1270)
    assert places.where(sequence=TEST[0]).x.max() == 1250  # 24 m aside and 10 m on is more than 25 m
    assert noted(places, "within 25 m of the first 1,250 m")[-1] == f"{TEST[1]}: 0 of 201 images"


def test_crop_reference_needs_the_reference_and_the_papers_protocol(tmp_path: Path) -> None:
    write_traversal(tmp_path, drive(3), moments(drive(3)), name=TEST[0])
    with pytest.raises(BadInputError, match=rf"crop=reference.*{TRAVERSAL}"):
        read_places("robotcar", tmp_path, protocol="paper", crop="reference")
    with pytest.raises(BadInputError, match=r"crop=reference.*protocol=paper"):
        read_places("robotcar", tmp_path, crop="reference")


@pytest.mark.medium
def test_a_traversal_of_half_an_hour_is_indexed_in_a_moment(tmp_path: Path) -> None:
    samples = (sample(20 * k, 0.1 * k, yaw="-1.234567") for k in range(90_000))
    write_traversal(tmp_path, samples, np.arange(0, 1_799_000, 1000).tolist())
    began = time.process_time()
    places = read_places("robotcar", tmp_path)
    assert time.process_time() - began < 5  # seconds of computing, whatever else runs; about one
    assert len(places) == 1799
    assert places.x == pytest.approx(5 * np.arange(1799), abs=1e-6)
