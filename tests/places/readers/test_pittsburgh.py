"""The reader of Pittsburgh 250k and 30k: .mat files in both layouts, and plain folders without positions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from mappable.errors import BadInputError
from mappable.places.images import load_image
from mappable.places.notes import Note
from mappable.places.readers import read_places
from mappable.places.table import NO_TIME, Places

EAST, NORTH = 584_321.125, 4_476_543.75  # in the middle of Pittsburgh


def name(panorama: int, pitch: int = 1, yaw: int = 1) -> str:
    return f"{panorama // 1000:03d}/{panorama:06d}_pitch{pitch}_yaw{yaw}.jpg"


def cells(names: Sequence[Any]) -> np.ndarray:
    """A MATLAB cell array, N x 1."""
    column = np.empty((len(names), 1), dtype=object)
    column[:, 0] = names
    return column


def utm(count: int, start: int = 0) -> np.ndarray:
    """2 x N: east and north, a metre further east and two further north from image to image."""
    steps = np.arange(start, start + count, dtype=np.float64)
    return np.stack([EAST + steps, NORTH + 2 * steps])


def lists(database: Sequence[Any], queries: Sequence[Any], start: int = 0) -> dict[str, Any]:
    """The fields of dbStruct in their order."""
    return {
        "whichSet": "train",
        "dbImageFns": cells(database),
        "utmDb": utm(len(database), start),
        "qImageFns": cells(queries),
        "utmQ": utm(len(queries), start + 100),
        "numImages": float(len(database)),
        "numQueries": float(len(queries)),
        "posDistThr": 25.0,
        "posDistSqThr": 625.0,
        "nonTrivPosDistSqThr": 100.0,
    }


def save(file: Path, fields: dict[str, Any], struct: bool = True, compressed: bool = True) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(file, {"dbStruct": fields} if struct else fields, do_compression=compressed)
    return file


def note(places: Places, words: str) -> Note:
    (found,) = [one for one in places.notes if words in one.text]
    return found


def test_a_mat_file_gives_paths_positions_and_roles(tmp_path: Path) -> None:
    save(tmp_path / "datasets" / "pitts250k_train.mat", lists([name(7), name(1007, 2, 12)], [name(3, yaw=5)]))
    places = read_places("pittsburgh", tmp_path)
    assert places.path.tolist() == [
        "000/000007_pitch1_yaw1.jpg",
        "001/001007_pitch2_yaw12.jpg",
        "queries_real/000/000003_pitch1_yaw5.jpg",
    ]
    assert places.place_id.tolist() == [
        "database/000/000007_pitch1_yaw1",
        "database/001/001007_pitch2_yaw12",
        "queries/000/000003_pitch1_yaw5",
    ]
    assert places.sequence.tolist() == ["database/000", "database/001", "queries/000"]
    assert places.role.tolist() == ["reference", "reference", "query"]
    assert places.split.tolist() == ["train"] * 3
    assert np.isnan(places.yaw).all()
    assert (places.time == NO_TIME).all()
    frame = places.frames["pittsburgh"]
    assert (frame.unit, frame.crs, frame.origin) == ("m", "EPSG:32617", (584_000.0, 4_476_000.0, 0.0))
    original = frame.to_original(places.positions)
    assert original[:, :2].tolist() == [
        [584_321.125, 4_476_543.75],
        [584_322.125, 4_476_545.75],
        [584_421.125, 4_476_743.75],
    ]


@pytest.mark.parametrize("folder", [".", "datasets"])
@pytest.mark.parametrize("compressed", [True, False])
def test_train_val_and_test_files_become_splits(tmp_path: Path, folder: str, compressed: bool) -> None:
    for number, word in enumerate(("train", "val", "test")):
        fields = lists([name(number)], [name(number)])
        save(tmp_path / folder / f"pitts30k_{word}.mat", fields, compressed=compressed)
    places = read_places("pittsburgh", tmp_path)
    found = dict(zip(places.place_id.tolist(), places.split.tolist(), strict=True))
    for number, split in enumerate(("train", "calibration", "test")):
        assert found[f"database/000/00000{number}_pitch1_yaw1"] == split
        assert found[f"queries/000/00000{number}_pitch1_yaw1"] == split
    assert [one for one in places.notes if one.warning] == []
    assert (
        note(places, "published").text == "images in the database: pitts30k_train 1 (published: 10,000); "
        "pitts30k_val 1 (published: 10,000); pitts30k_test 1 (published: 10,000)"
    )


def test_splits_whose_file_is_missing_are_named(tmp_path: Path) -> None:
    save(tmp_path / "pitts250k_val.mat", lists([name(0)], []))
    places = read_places("pittsburgh", tmp_path)
    assert note(places, "missing").items == ("pitts250k_train.mat", "pitts250k_test.mat")
    assert "pitts250k_val 1 (published: 78,648)" in note(places, "published").text


def test_the_flat_layout_is_the_whole_set_without_splits(tmp_path: Path) -> None:
    fields = lists([name(0), name(1)], [f"queries_real/{name(0)}"])
    flat = {key: fields[key] for key in ("dbImageFns", "utmDb", "qImageFns", "utmQ")}
    save(tmp_path / "pittsburgh.mat", flat, struct=False)
    places = read_places("pittsburgh", tmp_path)
    assert places.path.tolist() == [name(0), name(1), f"queries_real/{name(0)}"]
    assert places.split.tolist() == ["", "", ""]
    assert places.role.tolist() == ["reference", "reference", "query"]
    assert "pittsburgh 2 (published: 254,064)" in note(places, "published").text
    assert [one for one in places.notes if one.warning] == []


def test_names_in_a_matrix_of_characters_lose_their_padding(tmp_path: Path) -> None:
    fields = lists([name(0), name(0, yaw=12)], [])
    fields["dbImageFns"] = np.array([name(0), name(0, yaw=12)])
    save(tmp_path / "pittsburgh.mat", fields, struct=False)
    assert read_places("pittsburgh", tmp_path).path.tolist() == [name(0), name(0, yaw=12)]


def test_two_subsets_need_a_choice(tmp_path: Path) -> None:
    save(tmp_path / "pitts250k_train.mat", lists([name(0), name(1)], []))
    save(tmp_path / "pitts30k_train.mat", lists([name(1)], []))
    with pytest.raises(BadInputError, match=r"pitts250k.*pitts30k"):
        read_places("pittsburgh", tmp_path)
    assert read_places("pittsburgh", tmp_path, subset="pitts250k").path.tolist() == [name(0), name(1)]
    assert read_places("pittsburgh", tmp_path, subset="pitts30k").path.tolist() == [name(1)]


def test_a_chosen_subset_must_be_there(tmp_path: Path) -> None:
    save(tmp_path / "pitts30k_train.mat", lists([name(1)], []))
    with pytest.raises(BadInputError, match=r"pitts250k_train\.mat.*pitts250k_val\.mat.*pitts250k_test\.mat"):
        read_places("pittsburgh", tmp_path, subset="pitts250k")


def test_a_mat_file_in_both_folders_is_refused(tmp_path: Path) -> None:
    first = save(tmp_path / "pitts30k_train.mat", lists([name(1)], []))
    second = save(tmp_path / "datasets" / "pitts30k_train.mat", lists([name(1)], []))
    with pytest.raises(BadInputError) as caught:
        read_places("pittsburgh", tmp_path)
    assert "duplicate file" in str(caught.value)
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


def test_street_views_leave_out_those_that_look_upwards(tmp_path: Path) -> None:
    save(tmp_path / "pitts30k_train.mat", lists([name(0, 1), name(0, 2), name(1, 1)], [name(0, 2)]))
    places = read_places("pittsburgh", tmp_path, views="street")
    assert places.path.tolist() == [name(0, 1), name(1, 1)]
    assert note(places, "look up").text == "2 images that look up are left out"
    assert "pitts30k_train 3 (published: 10,000)" in note(places, "published").text


def test_an_image_in_two_splits_is_refused_naming_both_files(tmp_path: Path) -> None:
    first = save(tmp_path / "pitts30k_train.mat", lists([name(1)], []))
    second = save(tmp_path / "pitts30k_test.mat", lists([name(2), name(1)], []))
    with pytest.raises(BadInputError) as caught:
        read_places("pittsburgh", tmp_path)
    assert str(caught.value) == f"duplicate image {name(1)}: in {first} and in {second}"


@pytest.mark.parametrize(
    "bad",
    [
        "000/000001.jpg",
        "../../000/000001_pitch1_yaw1.jpg",
        name(1, pitch=3),
        name(1, yaw=13),
        name(1, yaw=0),
        name(1) + ".bak",
    ],
)
def test_listed_names_that_do_not_match_are_noted(tmp_path: Path, bad: str) -> None:
    save(tmp_path / "pitts30k_train.mat", lists([name(0), bad], []))
    places = read_places("pittsburgh", tmp_path)
    assert places.path.tolist() == [name(0)]
    assert note(places, "not named").items == (f"pitts30k_train.mat: {bad}",)


def without(field: str) -> dict[str, Any]:
    fields = lists([name(0), name(1)], [name(2)])
    del fields[field]
    return fields


def but(**changes: Any) -> dict[str, Any]:
    return lists([name(0), name(1)], [name(2)]) | changes


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (without("utmDb"), "no field utmDb; found: whichSet, dbImageFns, qImageFns"),
        (without("qImageFns"), "no field qImageFns; found:"),
        (but(utmDb=utm(3)), "utmDb is 2x3 of float64, expected 2x2 numbers for 2 images"),
        (but(utmQ=utm(1).T), "utmQ is 1x2 of float64, expected 2x1 numbers for 1 images"),
        (but(utmDb=utm(2) * [1, np.nan]), "column 2 of utmDb is [nan, nan], expected a position in UTM"),
        (but(utmQ=np.array([[EAST], [np.inf]])), "column 1 of utmQ is [584321.125, inf], expected a position in UTM"),
        (but(utmDb=utm(2) * [[1, 0], [1, 1]]), "column 2 of utmDb is [0.0, 4476545.75], expected a position in UTM"),
        (but(utmDb=utm(2) * [[1, 1], [1, 0]]), "column 2 of utmDb is [584322.125, 0.0], expected a position in UTM"),
        (but(utmQ=utm(1)[::-1]), "column 1 of utmQ is [4476543.75, 584321.125], expected a position in UTM"),
        (but(dbImageFns=cells([name(0), 5.0])), "element 2 of dbImageFns is not text"),
        (but(dbImageFns=cells([name(0), ""])), "element 2 of dbImageFns is not text"),
        (but(qImageFns=np.array([[1.0]])), "element 1 of qImageFns is not text"),
    ],
)
def test_a_mat_file_with_wrong_fields_is_refused_by_name(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    file = save(tmp_path / "pitts30k_train.mat", fields)
    with pytest.raises(BadInputError) as caught:
        read_places("pittsburgh", tmp_path)
    assert str(caught.value).startswith(f"{file}: {problem}")


@pytest.mark.parametrize("content", [np.arange(3.0), np.zeros((1, 2), dtype=[("dbImageFns", object)])])
def test_a_dbstruct_that_is_not_one_struct_is_refused(tmp_path: Path, content: np.ndarray) -> None:
    scipy.io.savemat(tmp_path / "pitts30k_train.mat", {"dbStruct": content})
    with pytest.raises(BadInputError, match=r"pitts30k_train\.mat.*dbStruct"):
        read_places("pittsburgh", tmp_path)


def test_a_mat_file_of_version_7_3_is_refused_in_one_sentence(tmp_path: Path) -> None:
    text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2018 HDF5 schema 1.00 ."
    header = text.ljust(116) + bytes(8) + b"\x00\x02IM"  # text, subsystem offset, version 2 and byte order
    (tmp_path / "pitts30k_train.mat").write_bytes(header.ljust(512, b"\x00") + b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(BadInputError, match=r"7\.3"):
        read_places("pittsburgh", tmp_path)


def test_mat_files_of_other_names_are_noted(tmp_path: Path) -> None:
    save(tmp_path / "pitts30k_train.mat", lists([name(0)], []))
    save(tmp_path / "datasets" / "tokyo247.mat", lists([name(9)], []))
    places = read_places("pittsburgh", tmp_path)
    assert places.path.tolist() == [name(0)]
    assert note(places, "not read").items == ("tokyo247.mat",)


# Plain folders.


def test_plain_folders_number_their_panoramas_and_say_that_positions_are_unknown(
    tmp_path: Path, draw: Callable[..., Path]
) -> None:
    for path in (name(1002, 1), name(1002, 2, 12), name(3), f"queries_real/{name(5)}"):
        draw(tmp_path / path)
    places = read_places("pittsburgh", tmp_path)
    assert places.path.tolist() == [name(3), name(1002, 1), name(1002, 2, 12), f"queries_real/{name(5)}"]
    assert places.place_id.tolist() == [
        "database/000/000003_pitch1_yaw1",
        "database/001/001002_pitch1_yaw1",
        "database/001/001002_pitch2_yaw12",
        "queries/000/000005_pitch1_yaw1",
    ]
    assert places.x.tolist() == [3, 1002, 1002, 5]
    assert places.y.tolist() == [0, 0, 0, 0]
    assert places.frame.tolist() == ["pittsburgh-unposed"] * 3 + ["pittsburgh-unposed-queries"]
    assert {frame.unit for frame in places.frames.values()} == {"frames"}
    assert places.role.tolist() == ["reference"] * 3 + ["query"]
    assert set(places.split) == {""}
    assert note(places, "positions are unknown").warning
    assert load_image(places.files[0], (32, 24)).shape == (24, 32, 3)


@pytest.mark.parametrize(("inner", "place_id"), [("000", "database/000"), ("queries_real", "queries/000")])
def test_root_may_be_one_folder_of_the_plain_set(tmp_path: Path, inner: str, place_id: str) -> None:
    folder = tmp_path / inner / "000" if inner == "queries_real" else tmp_path / inner
    folder.mkdir(parents=True)
    (folder / "000007_pitch1_yaw1.jpg").touch()
    places = read_places("pittsburgh", tmp_path / inner)
    assert places.place_id.tolist() == [f"{place_id}/000007_pitch1_yaw1"]


def test_plain_folders_keep_street_views_and_note_other_names(tmp_path: Path) -> None:
    (tmp_path / "000").mkdir()
    for path in (name(0, 1), name(0, 2), "000/panorama.jpg", "cover.png"):
        (tmp_path / path).touch()
    places = read_places("pittsburgh", tmp_path, views="street")
    assert places.path.tolist() == [name(0, 1)]
    assert note(places, "not named").items == ("000/panorama.jpg", "cover.png")


def test_an_empty_folder_and_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"usable.*reader.*'pittsburgh'"):
        read_places("pittsburgh", tmp_path)
    file = save(tmp_path / "pitts30k_train.mat", lists([], []))
    with pytest.raises(BadInputError, match=r"usable.*reader.*'pittsburgh'"):
        read_places("pittsburgh", tmp_path)
    with pytest.raises(BadInputError, match="folder"):
        read_places("pittsburgh", file)
