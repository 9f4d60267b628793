"""The reader of `@east@north@…@.jpg` names, on trees written as the field's own tools write them."""

import math
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.places.readers import read_places
from mappable.places.table import NO_TIME, Places

FULL = "@0544388.51@4172758.25@10@S@037.70098@-122.49646@kPnABhWJ1kA61eMNPLs1vQ@03@210@@@12.5@20160612_081530@note@.jpg"
Draw = Callable[..., Path]


def touch(root: Path, *names: str) -> Path:
    """Empty files: the names alone are read."""
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


def original(places: Places) -> np.ndarray:
    """East and north of every place in the coordinates of its frame's CRS."""
    xy = np.column_stack([places.x, places.y])
    return np.vstack([places.frames[places.frame[row]].to_original(xy[row : row + 1])[:, :2] for row in range(len(xy))])


def note(places: Places, part: str) -> tuple[str, ...]:
    """The items of the one note whose text holds `part`."""
    (found,) = [note for note in places.notes if part in str(note)]
    return found.items


def utm_name(latitude: float, longitude: float, epsg: int, zone: str) -> str:
    """A name such as the field's tools give, by pyproj: `zone` is the two fields for zone and letter."""
    east, north = pyproj.Transformer.from_crs(4326, epsg, always_xy=True).transform(longitude, latitude)
    return f"@{east:.4f}@{north:.4f}@{zone}@{latitude:.7f}@{longitude:.7f}@@@@@@@@@.jpg"


def test_a_full_name_gives_every_column(tmp_path: Path, draw: Draw) -> None:
    draw(tmp_path / "images/test/queries" / FULL)
    places = read_places("utm_names", tmp_path)
    assert len(places) == 1
    assert places.path[0] == f"images/test/queries/{FULL}"
    assert places.place_id[0] == f"test/queries/{FULL}"
    assert original(places)[0] == pytest.approx([544388.51, 4172758.25], abs=1e-6)
    assert places.frames["utm-10N"].crs == "EPSG:32610"
    assert places.frames["utm-10N"].origin == (544000.0, 4172000.0, 0.0)
    assert places.yaw[0] == pytest.approx(math.radians(90 - 210))
    assert places.z[0] == 12.5
    assert places.time[0] == datetime(2016, 6, 12, 8, 15, 30, tzinfo=UTC).timestamp() * 1e9
    assert (places.split[0], places.role[0], places.sequence[0]) == ("test", "query", "test/queries")
    assert places.condition[0] == ""
    assert places.files[0].is_file()
    assert not places.notes


@pytest.mark.parametrize("inside", [".", "images", "images/val", "images/val/queries", "images/val/../val/queries/"])
def test_the_place_is_the_same_whichever_folder_is_the_root(tmp_path: Path, inside: str) -> None:
    touch(tmp_path, f"set/images/val/queries/{FULL}")
    places = read_places("utm_names", tmp_path / "set" / inside)
    assert places.place_id.tolist() == [f"val/queries/{FULL}"]
    assert (places.split[0], places.role[0], places.sequence[0]) == ("calibration", "query", "val/queries")
    assert places.files[0].is_file()


def test_a_root_named_like_a_split_does_not_override_the_splits_within(tmp_path: Path) -> None:
    touch(tmp_path, f"test/images/train/database/{FULL}")
    places = read_places("utm_names", tmp_path / "test")
    assert (places.split[0], places.role[0], places.sequence[0]) == ("train", "reference", "train/database")


def test_folders_give_split_role_and_condition(tmp_path: Path) -> None:
    folders = {
        "train/database": ("train", "reference", ""),
        "val/queries": ("calibration", "query", ""),
        "test/gallery": ("test", "reference", ""),
        "test/queries_night": ("test", "query", "night"),
        "train/37.70": ("train", "", ""),
        "elsewhere": ("", "", ""),
    }
    touch(tmp_path, *(f"images/{folder}/{FULL}" for folder in folders))
    places = read_places("utm_names", tmp_path)
    found = zip(places.split, places.role, places.condition, strict=True)
    assert dict(zip(places.sequence, found, strict=True)) == folders


def test_a_plain_folder_of_images_says_nothing_of_split_and_role(tmp_path: Path) -> None:
    touch(tmp_path, FULL)
    places = read_places("utm_names", tmp_path)
    assert (places.place_id[0], places.sequence[0], places.split[0], places.role[0]) == (FULL, ".", "", "")


def test_a_note_of_day_or_night_is_the_condition_and_any_other_note_is_not(tmp_path: Path) -> None:
    start = "@0349000.00@6172000.00@33@U@055.66@0012.60@key@@@@@@@"
    touch(tmp_path, *(f"{start}{text}@.jpg" for text in ("night_forward_cph", "day_sideways_cph", "pitch1_yaw3", "")))
    places = read_places("utm_names", tmp_path)
    assert sorted(places.condition) == ["", "", "day", "night"]
    assert places.condition[[("night" in path) for path in places.path]].tolist() == ["night"]


@pytest.mark.parametrize("name", ["@5.5@-7@.jpg", "@5.5@-7.jpg", "@5.5@-7@@@@@@@@@@@@@.jpg", "@+5.5@-7e0@.PNG"])
def test_east_and_north_are_enough(tmp_path: Path, name: str) -> None:
    touch(tmp_path, name)
    places = read_places("utm_names", tmp_path)
    assert original(places)[0].tolist() == [5.5, -7.0]
    assert np.isnan(places.z[0])
    assert np.isnan(places.yaw[0])
    assert places.time[0] == NO_TIME
    assert places.frames["local"].crs is None
    assert "no name has a UTM zone" in str(places.notes[0])


def test_names_that_hold_no_position_are_listed_with_the_reason(tmp_path: Path) -> None:
    bad = {
        "plain.jpg": "does not begin with @",
        "5@6@7@.jpg": "does not begin with @",
        "@5@.jpg": "north '' is not a finite number",
        "@5.jpg": "east and north are missing",
        "@nan@6@.jpg": "east 'nan' is not a finite number",
        "@5@inf@.jpg": "north 'inf' is not a finite number",
        "@5@1_000@.jpg": "north '1_000' is not a finite number",
        "@@@@.jpg": "east '' is not a finite number",
    }
    touch(tmp_path, *bad, "@5@6@.jpg", ".@1@2@.jpg", "@1@2@.txt")
    places = read_places("utm_names", tmp_path)
    assert places.path.tolist() == ["@5@6@.jpg"]
    assert set(note(places, "@east@north")) == {f"{name}: {reason}" for name, reason in bad.items()}


def test_a_folder_without_a_usable_name_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"usable.*reader.*'utm_names'"):
        read_places("utm_names", tmp_path)
    touch(tmp_path, "plain.jpg", "other.png")
    with pytest.raises(BadInputError, match=r"2.*names"):
        read_places("utm_names", tmp_path)
    with pytest.raises(BadInputError, match="folder"):
        read_places("utm_names", tmp_path / "plain.jpg")


def test_heading_and_height_that_are_no_numbers_are_unknown_and_listed(tmp_path: Path) -> None:
    names = ["@1@2@@@@@a@@north@@@@@@.jpg", "@1@2@@@@@b@@@@@tall@@@.jpg", "@1@2@@@@@c@@90@@@3@@@.jpg"]
    touch(tmp_path, *names)
    places = read_places("utm_names", tmp_path)
    assert note(places, "heading") == (f"{names[0]}: 'north'",)
    assert note(places, "height") == (f"{names[1]}: 'tall'",)
    assert places.yaw.tolist() == pytest.approx([np.nan, np.nan, 0.0], nan_ok=True)
    assert places.z.tolist() == pytest.approx([np.nan, np.nan, 3.0], nan_ok=True)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("20070125_101530", "2007-01-25T10:15:30"),
        ("20070125_1015", "2007-01-25T10:15:00"),
        ("20070125_10", "2007-01-25T10:00:00"),
        ("20070125101530", "2007-01-25T10:15:30"),
        ("200701251015", "2007-01-25T10:15:00"),
        ("20070125T101530", "2007-01-25T10:15:30"),
        ("2007-01-25T10:15:30+01:00", "2007-01-25T09:15:30"),
        ("2007-01-25 10:15:30Z", "2007-01-25T10:15:30"),
        ("1169720130", "2007-01-25T10:15:30"),
        ("1169720130.000000", "2007-01-25T10:15:30"),
        ("1169720130000", "2007-01-25T10:15:30"),
        ("1169720130000000", "2007-01-25T10:15:30"),
        ("1169720130000000000", "2007-01-25T10:15:30"),
    ],
)
def test_timestamps_of_one_meaning_become_times(tmp_path: Path, text: str, time: str) -> None:
    touch(tmp_path, f"@1@2@@@@@@@@@@@{text}@@.jpg")
    places = read_places("utm_names", tmp_path)
    assert places.time[0] == np.datetime64(time, "ns").astype(np.int64)


@pytest.mark.parametrize("text", ["2016", "201606", "20160612", "2016-06", "2016-06-12"])
def test_a_mere_date_gives_no_time_and_is_counted(tmp_path: Path, text: str) -> None:
    touch(tmp_path, f"@1@2@@@@@a@@@@@@{text}@@.jpg", f"@1@2@@@@@b@@@@@@{text}@@.jpg")
    places = read_places("utm_names", tmp_path)
    assert (places.time == NO_TIME).all()
    (found,) = [note for note in places.notes if "2 names have only a date" in str(note)]
    assert not found.warning


@pytest.mark.parametrize(
    "text", ["2016061208", "20161350", "20160231_101010", "20160612_251010", "12", "noon", "2016-06-12T99:00"]
)
def test_a_timestamp_without_one_meaning_is_unknown_and_listed(tmp_path: Path, text: str) -> None:
    name = f"@1@2@@@@@@@@@@@{text}@@.jpg"
    touch(tmp_path, name)
    places = read_places("utm_names", tmp_path)
    assert places.time[0] == NO_TIME
    assert note(places, "timestamp") == (f"{name}: {text!r}",)


def test_points_on_both_sides_of_a_zone_border_keep_their_distance(tmp_path: Path) -> None:
    geod, middle = pyproj.Geod(ellps="WGS84"), (51.48, 0.0)  # Greenwich, where zones 30 and 31 meet
    east_of, north_east_of = geod.fwd(middle[1], middle[0], 90, 25)[:2], geod.fwd(middle[1], middle[0], 45, 300)[:2]
    west_of = geod.fwd(middle[1], middle[0], -90, 25)[:2]
    names = [utm_name(west_of[1], west_of[0], 32630, "30@U"), utm_name(east_of[1], east_of[0], 32631, "31@U")]
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
    assert str(found) == "1 images were converted from utm-30N to utm-31N, the zone of the images around them"
    assert not found.warning


def test_points_on_both_sides_of_the_equator_keep_their_distance(tmp_path: Path) -> None:
    geod, longitude = pyproj.Geod(ellps="WGS84"), 32.45
    latitudes = [0.0004, -0.0002, -0.0006]
    names = [utm_name(latitudes[0], longitude, 32636, "36@N")]
    names += [utm_name(latitude, longitude, 32736, "36@M") for latitude in latitudes[1:]]
    assert float(names[1].split("@")[2]) - float(names[0].split("@")[2]) > 9_999_000
    touch(tmp_path, *names)
    places = read_places("utm_names", tmp_path)
    assert list(places.frames) == ["utm-36S"]
    rows = [places.path.tolist().index(name) for name in names]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        expected = geod.inv(longitude, latitudes[first], longitude, latitudes[second])[2]
        found = math.dist(*([places.x[rows[one]], places.y[rows[one]]] for one in (first, second)))
        assert found == pytest.approx(expected, rel=1e-3)


def test_cities_far_apart_are_frames_and_sequences_of_their_own(tmp_path: Path) -> None:
    berlin, zurich = utm_name(52.5, 13.4, 32633, "33@U"), utm_name(47.4, 8.5, 32632, "32@T")
    sydney, basel = utm_name(-33.9, 151.2, 32756, "56@H"), utm_name(47.56, 7.59, 32632, "32@T")
    touch(tmp_path, *(f"train/database/{name}" for name in (berlin, zurich, sydney, basel)))
    places = read_places("utm_names", tmp_path)
    frame_of = {path.split("/")[-1]: frame for path, frame in zip(places.path, places.frame, strict=True)}
    assert frame_of == {berlin: "utm-33N", zurich: "utm-32N", basel: "utm-32N", sydney: "utm-56S"}
    assert places.sequence.tolist() == [f"train/database/{frame}" for frame in places.frame]
    for row, path in enumerate(places.path):
        assert original(places)[row].tolist() == pytest.approx([float(text) for text in path.split("@")[1:3]], abs=1e-6)


def test_towns_in_two_zones_with_a_hundred_kilometres_between_them_stay_in_their_zones(tmp_path: Path) -> None:
    touch(tmp_path, utm_name(51.5, -0.7, 32630, "30@U"), utm_name(51.5, 0.74, 32631, "31@U"))
    places = read_places("utm_names", tmp_path)
    assert sorted(places.frame) == ["utm-30N", "utm-31N"]
    assert not places.notes


def test_without_a_letter_the_latitude_tells_the_hemisphere(tmp_path: Path) -> None:
    touch(tmp_path, "@502000@6957000@56@@-27.5@153.01@.jpg")
    assert list(read_places("utm_names", tmp_path).frames) == ["utm-56S"]


@pytest.mark.parametrize(("letter", "frame"), [("N", "utm-36N"), ("M", "utm-36S"), ("S", "utm-36N"), ("k", "utm-36S")])
def test_without_a_latitude_the_letter_tells_the_hemisphere(tmp_path: Path, letter: str, frame: str) -> None:
    touch(tmp_path, f"@502000@6957000@36@{letter}@.jpg")
    assert list(read_places("utm_names", tmp_path).frames) == [frame]


def test_a_zone_without_letter_and_latitude_is_no_crs(tmp_path: Path) -> None:
    name = "@502000@6957000@56@@@@.jpg"
    touch(tmp_path, name)
    places = read_places("utm_names", tmp_path)
    assert places.frames["local"].crs is None
    assert note(places, "neither a zone letter nor a latitude") == (name,)


def test_the_latitude_is_believed_where_the_letter_says_south_for_a_band_in_the_north(tmp_path: Path) -> None:
    name = "@502000@6957000@56@S@-27.5@153.01@.jpg"
    touch(tmp_path, name)
    places = read_places("utm_names", tmp_path)
    assert list(places.frames) == ["utm-56S"]
    assert note(places, "on different hemispheres") == (name,)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ("61@U@51@0", "not from 1 to 60"),
        ("x@U@51@0", "not from 1 to 60"),
        ("31@I@@0", "not from C to X"),
        ("31@U@91@0", "latitude that is not a number between -90 and 90"),
    ],
)
def test_a_zone_letter_or_latitude_that_cannot_be_is_listed(tmp_path: Path, fields: str, part: str) -> None:
    touch(tmp_path, f"@5@6@{fields}@.jpg")
    (item,) = note(read_places("utm_names", tmp_path), part)
    assert item.startswith(f"@5@6@{fields}@.jpg")


def test_names_without_a_zone_join_the_one_zone_of_the_others(tmp_path: Path) -> None:
    query = "test/queries/@544400@4172700@.jpg"
    touch(tmp_path, f"test/database/{FULL}", query)
    places = read_places("utm_names", tmp_path)
    assert list(places.frames) == ["utm-10N"]
    assert original(places)[places.role == "query"][0].tolist() == [544400, 4172700]
    assert note(places, "put into the zone of the other images, utm-10N") == (query,)


def test_names_without_a_zone_are_a_local_frame_where_there_are_several_zones(tmp_path: Path) -> None:
    touch(tmp_path, utm_name(52.5, 13.4, 32633, "33@U"), utm_name(47.4, 8.5, 32632, "32@T"), "@5@6@.jpg")
    places = read_places("utm_names", tmp_path)
    assert set(places.frames) == {"local", "utm-32N", "utm-33N"}
    assert note(places, "separate frame local") == ("@5@6@.jpg",)


def test_coordinates_that_no_zone_can_hold_stay_as_they_are(tmp_path: Path) -> None:
    touch(tmp_path, "@1e9@1e9@31@U@@@.jpg", utm_name(47.4, 8.5, 32632, "32@T"))
    places = read_places("utm_names", tmp_path)
    assert original(places)[places.frame == "utm-31N"].tolist() == [[1e9, 1e9]]


def test_a_list_of_images_stands_in_for_the_folder(tmp_path: Path) -> None:
    touch(tmp_path, "test/database/sub/@1@2@.jpg", "test/database/@3@4@.jpg", "test/queries/@5@6@.jpg")
    listed = "sub/@1@2@.jpg\r\n./sub/@7@8@.jpg\n\nplain.jpg\n@9@9"
    (tmp_path / "test/database_images_paths.txt").write_text(listed)
    expected = ["test/database/sub/@1@2@.jpg", "test/database/sub/@7@8@.jpg"]
    for root, inside in (
        (tmp_path, "test/database/"),
        (tmp_path / "test", "database/"),
        (tmp_path / "test/database", ""),
    ):
        places = read_places("utm_names", root)
        references = places.where(role="reference")
        assert references.place_id.tolist() == expected
        assert references.path.tolist() == [inside + "sub/@1@2@.jpg", inside + "sub/@7@8@.jpg"]
        assert note(places, "@east@north") == (
            f"{inside}plain.jpg: does not begin with @",
            f"{inside}@9@9: not an image file",
        )


@pytest.mark.parametrize(
    "line", ["../@1@2@.jpg", "/etc/@1@2@.jpg", "a/../../@1@2@.jpg", "..\\@1@2@.jpg", "C:\\@1@2@.jpg"]
)
def test_a_listed_path_that_leads_out_of_the_folder_is_refused(tmp_path: Path, line: str) -> None:
    touch(tmp_path, "database/@1@2@.jpg")
    (tmp_path / "database_images_paths.txt").write_text(f"@1@2@.jpg\n{line}\n")
    with pytest.raises(BadInputError) as caught:
        read_places("utm_names", tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/database_images_paths.txt, row 2: {line!r} leads outside")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"@1@2@.jpg\n@1@2@.jpg\n", r"row 2.*'@1@2@.jpg'"),
        (b"\n@7@7@.jpg\n@1@2@.jpg\n", r"row 2.*'@7@7@.jpg'"),
        (b"\n\n", "empty"),
        (b"\xff\xfe@\x001\x00", "UTF-8"),
    ],
)
def test_a_list_that_cannot_be_right_is_refused(tmp_path: Path, text: bytes, problem: str) -> None:
    touch(tmp_path, "database/@1@2@.jpg")
    (tmp_path / "database_images_paths.txt").write_bytes(text)
    with pytest.raises(BadInputError, match=problem):
        read_places("utm_names", tmp_path)


def test_linked_folders_are_read_and_circles_of_links_are_not(tmp_path: Path) -> None:
    touch(tmp_path, f"store/{FULL}", "set/images/train/readme.md")
    (tmp_path / "set/images/test").symlink_to(tmp_path / "store", target_is_directory=True)
    (tmp_path / "set/images/train/again").symlink_to(tmp_path / "set", target_is_directory=True)
    places = read_places("utm_names", tmp_path / "set")
    assert places.place_id.tolist() == [f"test/{FULL}"]


METRES = st.floats(-1e7, 1e7).map(lambda value: f"{value:.2f}")
WORDS = st.text("abcXYZ019_-", max_size=8)
OPTIONAL = st.one_of(st.just(""), st.floats(-720, 720).map(lambda value: f"{value:.1f}"))


@pytest.mark.medium
@given(st.lists(st.tuples(METRES, METRES, WORDS, OPTIONAL, OPTIONAL), min_size=1, max_size=20))
def test_any_name_of_the_convention_is_read_back(rows: list[tuple[str, str, str, str, str]]) -> None:
    names = [
        f"@{east}@{north}@@@@@{pano}@{number}@{heading}@@@{height}@@@.jpg"
        for number, (east, north, pano, heading, height) in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        touch(Path(folder), f"set/{names[0]}")
        (Path(folder) / "set_images_paths.txt").write_text("\n".join(names))
        places = read_places("utm_names", Path(folder) / "set")
    assert places.path.tolist() == names
    for row, (east, north, _, heading, height) in enumerate(rows):
        assert original(places)[row].tolist() == pytest.approx([float(east), float(north)], abs=1e-6)
        assert np.isnan(places.z[row]) if not height else places.z[row] == float(height)
        if heading:  # east and north parts of the viewing direction
            angle = math.radians(float(heading))
            assert (math.cos(places.yaw[row]), math.sin(places.yaw[row])) == pytest.approx(
                (math.sin(angle), math.cos(angle)), abs=1e-9
            )
        else:
            assert np.isnan(places.yaw[row])
