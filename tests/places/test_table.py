"""The table of places: what it accepts, refuses, hands out and keeps."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError, BadRowError
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.notes import Note
from mappable.places.table import COLUMNS, NO_TIME, Places


def table(count: int = 3, **changes: Any) -> Places:
    """A valid table of `count` places on a line, with some columns changed."""
    columns: dict[str, Any] = {
        "path": [f"images/{row}.jpg" for row in range(count)],
        "x": np.arange(count, dtype=float),
        "y": np.zeros(count),
        "frames": Frame("town"),
    }
    return Places(**(columns | changes))


def with_value(name: str, row: int, value: Any, fill: Any) -> Places:
    """A table of four places whose column `name` holds `value` in `row` and `fill` elsewhere."""
    column = [fill] * 4
    column[row] = value
    return table(4, **{name: column})


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_position_that_is_not_finite_is_refused_by_row(name: str, value: float) -> None:
    with pytest.raises(BadRowError, match=rf"place 2.*'images/2.jpg'.*{name}.*{value}"):
        with_value(name, 2, value, 0.0)


@pytest.mark.parametrize("name", ["x", "y", "z"])
@pytest.mark.parametrize("value", [1e38, -1.7976931348623157e308, 1.0001e9])
def test_a_position_that_is_a_mark_of_a_missing_one_is_refused(name: str, value: float) -> None:
    given: dict[str, Any] = {"x": [0.0, 1.0], "y": [0.0, 1.0], "z": [0.0, 1.0]}
    given[name] = [1e9, value]
    with pytest.raises(BadInputError, match=rf"{name} is .*, expected at most 1e\+09"):
        Places(path=["a", "b"], frames=Frame("f"), **given)


@pytest.mark.parametrize("name", ["z", "yaw"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_z_and_yaw_may_be_unknown_but_not_infinite(name: str, value: float) -> None:
    assert np.isnan(getattr(with_value(name, 1, math.nan, 0.0), name)[1])
    with pytest.raises(BadRowError, match=rf"place 1.*{name}.*{value}"):
        with_value(name, 1, value, 0.0)


@pytest.mark.parametrize("name", ["path", "place_id"])
def test_a_second_appearance_of_a_path_or_id_is_refused_at_its_own_row(name: str) -> None:
    with pytest.raises(BadRowError, match=rf"place 2.*{name}.*'same'") as caught:
        table(4, **({"place_id": list("abcd")} | {name: ["same", "b", "same", "same"]}))
    assert caught.value.row == 2


@pytest.mark.parametrize("name", ["path", "place_id"])
def test_an_empty_path_or_id_is_refused(name: str) -> None:
    with pytest.raises(BadRowError, match=rf"place 1.*{name}"):
        table(3, **({"place_id": list("abc")} | {name: ["a", "", "c"]}))


def test_an_unknown_frame_lists_the_known_ones() -> None:
    frames = [Frame("north"), Frame("south")]
    with pytest.raises(BadRowError, match=r"place 1.*frame.*'east'"):
        table(2, frames=frames, frame=["north", "east"], sequence=["a", "b"])
    with pytest.raises(BadRowError, match=r"place 0.*frame.*''"):
        table(2, frames=frames)
    with pytest.raises(BadRowError, match=r"frame.*'\{0\}'.*\{x\}, \{\}"):
        table(1, frames=[Frame("{x}"), Frame("{}")], frame="{0}")


def test_an_unknown_split_or_role_lists_the_known_ones() -> None:
    with pytest.raises(BadRowError, match=r"place 1.*split.*'val'"):
        table(2, split=["train", "val"])
    with pytest.raises(BadRowError, match=r"place 0.*role.*'db'"):
        table(2, role="db")


def test_text_that_differs_by_a_trailing_zero_byte_is_different_text() -> None:
    with pytest.raises(BadRowError, match="split is"):
        table(2, split=["train", "train\0"])
    assert len(table(2, sequence=["a", "a\0"]).where(sequence="a")) == 1


def test_two_frames_of_one_name_are_refused() -> None:
    with pytest.raises(BadInputError, match="town, town"):
        table(frames=[Frame("town"), Frame("town", origin=(1.0, 0.0, 0.0))])


def test_a_sequence_that_mixes_frames_is_refused_at_the_first_row_that_does() -> None:
    frames = [Frame("a"), Frame("b")]
    with pytest.raises(BadRowError, match=r"frame.*'b'.*'a'.*sequence 'walk'") as caught:
        table(4, frames=frames, frame=["a", "b", "a", "b"], sequence=["walk", "run", "walk", "walk"])
    assert caught.value.row == 3
    assert len(table(3, frames=frames, frame=["a", "b", "a"], sequence=["walk", "run", "walk"])) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../up.jpg",
        "a/../../up.jpg",
        "a/..",
        "..",
        "\\windows\\up.jpg",
        "\\\\server\\share\\up.jpg",
        "//server/share/up.jpg",
        "C:\\up.jpg",
        "C:/up.jpg",
        "c:up.jpg",
        "a\\..\\..\\up.jpg",
        "a/..\\up.jpg",
    ],
)
def test_a_path_that_leads_out_of_the_root_is_refused(path: str) -> None:
    with pytest.raises(BadRowError, match=r"place 1.*folder"):
        table(2, path=["in.jpg", path])


def test_a_path_that_no_system_can_open_is_refused() -> None:
    with pytest.raises(BadRowError, match=r"place 1.*zero byte"):
        table(2, path=["in.jpg", "in.jpg\0.png"])


@pytest.mark.parametrize("path", ["a..b.jpg", "..a.jpg", "a/...jpg", "a/b..", "back\\slash.jpg", "10:30.jpg", " "])
def test_dots_and_blanks_that_are_part_of_a_name_are_welcome(path: str) -> None:
    assert table(1, path=[path]).path[0] == path


@pytest.mark.parametrize("name", ["path", "place_id", "sequence", "condition"])
def test_a_name_that_is_not_utf8_is_refused(name: str) -> None:
    as_listed_by_the_system = b"caf\xe9.jpg".decode("utf-8", "surrogateescape")
    assert getattr(table(2, **{name: ["a.jpg", "caf\N{LATIN SMALL LETTER E WITH ACUTE}.jpg"]}), name)[1] == "café.jpg"
    with pytest.raises(BadRowError, match=rf"{name}.*UTF-8"):
        table(2, **{name: ["a.jpg", as_listed_by_the_system]})


def test_a_frame_whose_name_is_not_utf8_is_refused() -> None:
    with pytest.raises(BadRowError, match=r"frame.*UTF-8"):
        table(1, frames=Frame(b"caf\xe9".decode("utf-8", "surrogateescape")))


@pytest.mark.parametrize("name", [*COLUMNS[3:8], "sequence", "condition", "split", "role", "place_id", "frame"])
@pytest.mark.parametrize("length", [0, 2, 4])
def test_a_column_of_the_wrong_length_is_refused(name: str, length: int) -> None:
    value: Any = 0 if name in COLUMNS[3:8] else "town"
    with pytest.raises(BadInputError, match=rf"column {name}.*{length}.*3"):
        table(3, **{name: [value] * length})


def test_a_column_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"x.*'far'"):
        table(2, x=["far", "near"])
    with pytest.raises(BadInputError, match=r"y.*\(2, 1\)"):
        table(2, y=[[0.0], [1.0]])
    with pytest.raises(BadInputError, match=r"sequence.*place 1.*None"):
        table(2, sequence=["a", None])
    with pytest.raises(BadInputError, match=r"condition.*place 0.*nan"):
        table(2, condition=[math.nan, "sun"])


@pytest.mark.parametrize(
    "time",
    [[1.5, 2.5], np.array([1.0, 2.0]), [2**63, 0], [2**70, 0], np.array([2**63, 1], dtype=np.uint64), [None, 1]],
)
def test_times_that_int64_cannot_hold_exactly_are_refused(time: Any) -> None:
    with pytest.raises(BadInputError, match="column time"):
        table(2, time=time)


def test_a_number_of_dimensions_other_than_two_or_three_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"dimensions.*4.*2.*3"):
        table(dimensions=4)


def test_three_dimensions_need_every_z() -> None:
    assert table(2, dimensions=3, z=[1.0, 2.0]).positions.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert table(2, z=[1.0, math.nan]).positions.tolist() == [[0, 0], [1, 0]]
    with pytest.raises(BadRowError, match=r"place 1.*z .*3"):
        table(2, dimensions=3, z=[1.0, math.nan])


def test_what_is_not_given_is_unknown() -> None:
    places = table(2)
    assert np.isnan(places.z).all()
    assert np.isnan(places.yaw).all()
    assert (places.time == NO_TIME).all()
    assert places.place_id.tolist() == places.path.tolist()
    assert places.frame.tolist() == ["town", "town"]
    assert {*places.sequence, *places.condition, *places.split, *places.role} == {""}
    assert (places.dimensions, places.decoding, places.notes) == (2, None, ())


def test_one_text_for_a_column_holds_in_every_row() -> None:
    assert table(2, condition="rain").condition.tolist() == ["rain", "rain"]


def test_every_array_is_read_only_and_apart_from_what_was_given() -> None:
    x = np.zeros(3)
    names = np.array(["a", "b", "c"], dtype=object)
    places = table(3, x=x, path=names, time=np.arange(3), yaw=np.zeros(3))
    for name in COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(places, name)[0] = getattr(places, name)[1]
    x[0], names[0] = 5.0, "z"
    assert (places.x[0], places.path[0]) == (0.0, "a")
    with pytest.raises(AttributeError):
        places.x = x  # type: ignore[misc]


def test_columns_have_the_promised_types() -> None:
    places = table(2, time=np.array([1, 2], dtype=np.int32), x=np.zeros(2, dtype=np.float32), path=np.array(["a", "b"]))
    assert (places.x.dtype, places.time.dtype, places.path.dtype) == (np.float64, np.int64, np.dtype(object))
    assert {type(text) for text in places.path} == {str}
    assert {type(text) for text in table(1, path=[np.str_("a")]).path} == {str}


@given(st.floats(-1e4, 1e4))
def test_yaw_is_the_same_direction_in_the_half_open_circle(yaw: float) -> None:
    kept = table(1, yaw=[yaw]).yaw[0]
    assert -math.pi < kept <= math.pi
    assert math.cos(kept) == pytest.approx(math.cos(yaw), abs=1e-9)
    assert math.sin(kept) == pytest.approx(math.sin(yaw), abs=1e-9)


def test_rows_are_taken_by_slice_mask_numbers_or_nothing() -> None:
    places = table(5)
    assert places[1:4].x.tolist() == [1, 2, 3]
    assert places[::-1].x.tolist() == [4, 3, 2, 1, 0]
    assert places[np.array([True, False, False, False, True])].x.tolist() == [0, 4]
    assert places[[True, False, False, True, False]].x.tolist() == [0, 3]
    assert places[[3, 0, -1]].x.tolist() == [3, 0, 4]
    assert places[np.array([2])].x.tolist() == [2]
    assert len(places[[]]) == 0
    assert len(places[np.zeros(5, dtype=bool)]) == 0
    assert len(places[5:]) == 0
    with pytest.raises(BadRowError, match="duplicate"):
        places[[1, 1]]
    with pytest.raises(IndexError):
        places[[5]]


def test_taking_rows_keeps_all_that_is_not_a_column() -> None:
    given_notes = (Note("seen"),)
    places = table(3, root="/data", dimensions=3, z=np.zeros(3), decoding=RawDecoding("GBRG"), notes=given_notes)
    part = places[1:]
    assert (part.root, part.dimensions) == (Path("/data"), 3)
    assert (part.decoding, part.notes, part.frames) == (RawDecoding("GBRG"), given_notes, places.frames)
    assert part.files == [Path("/data/images/1.jpg"), Path("/data/images/2.jpg")]


def test_an_empty_table_is_a_table() -> None:
    empty = Places(path=[], x=[], y=[], frames=[])
    assert len(empty) == 0
    assert empty.sequences() == {}
    assert empty.positions.shape == (0, 2)
    assert len(empty.in_time_order()) == 0
    assert len(empty.where(split="test")) == 0
    assert empty == empty[[]]


def test_where_filters_by_one_value_or_several_and_by_several_columns() -> None:
    places = table(6, split=["train", "test"] * 3, role=["query"] * 3 + ["reference"] * 3)
    assert places.where(split="test").x.tolist() == [1, 3, 5]
    assert places.where(split="test", role="query").x.tolist() == [1]
    assert places.where(split=["test", "train"]).x.tolist() == [0, 1, 2, 3, 4, 5]
    assert places.where(path={"images/4.jpg", "images/0.jpg"}).x.tolist() == [0, 4]
    assert len(places.where(split=[])) == 0
    assert len(places.where(condition="tes")) == 0
    assert places.where() == places


def test_where_refuses_a_column_that_is_not_text() -> None:
    with pytest.raises(BadInputError, match=r"'yaw'.*place_id"):
        table().where(yaw="north")


def test_equality_counts_unknown_values_as_equal_and_ignores_root_and_notes() -> None:
    places = table(2, z=[1.0, math.nan], yaw=[math.nan, 0.5], time=[NO_TIME, 5])
    assert places == table(2, z=[1.0, math.nan], yaw=[math.nan, 0.5], time=[NO_TIME, 5], root="/x", notes=[Note("n")])
    for name, value in (
        ("z", [1.0, 2.0]),
        ("yaw", [0.0, 0.5]),
        ("time", [4, 5]),
        ("sequence", "s"),
        ("place_id", ["p", "q"]),
        ("frames", Frame("town", origin=(1.0, 0.0, 0.0))),
        ("decoding", RawDecoding("RGGB")),
    ):
        assert places != places.replace(**{name: value}), name
    assert places != places[:1]
    assert places != table(2, z=[1.0, 2.0]).replace(dimensions=3)
    assert places != "places"


def test_replace_validates_anew() -> None:
    with pytest.raises(BadRowError, match=r"x.*nan"):
        table(2).replace(x=[math.nan, 0.0])


def test_noting_adds_to_the_notes() -> None:
    noted = table(1, notes=[Note("a")]).noting(Note("b"), Note("c"))
    assert [note.text for note in noted.notes] == ["a", "b", "c"]


def test_the_unit_is_that_of_all_frames() -> None:
    assert table(1).unit == "m"
    assert table(1, frames=Frame("train ride", unit="frames")).unit == "frames"
    mixed = table(2, frames=[Frame("a"), Frame("b", "frames")], frame=["a", "b"], sequence=["1", "2"])
    with pytest.raises(BadInputError, match=r"a, b.*units"):
        _ = mixed.unit
    assert repr(mixed) == "<Places: 2 places, 2 sequences, frames a (m), b (frames)>"


@given(st.lists(st.sampled_from(["", "b", "a", "é", "B"]), max_size=30))
def test_sequences_are_their_rows_in_order_of_first_appearance(names: list[str]) -> None:
    expected: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        expected.setdefault(name, []).append(row)
    found = table(len(names), sequence=names).sequences()
    assert [(name, rows.tolist()) for name, rows in found.items()] == list(expected.items())


@pytest.mark.medium
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 3) | st.none()), max_size=20))
def test_time_order_is_a_stable_sort_within_each_sequence(rows: list[tuple[str, int | None]]) -> None:
    times = [NO_TIME if time is None else time for _, time in rows]
    places = table(len(rows), sequence=[name for name, _ in rows], time=times)
    expected: list[int] = []
    for name in dict.fromkeys(name for name, _ in rows):
        own = [row for row, (other, _) in enumerate(rows) if other == name]
        partial = any(rows[row][1] is None for row in own)
        expected += own if partial else sorted(own, key=lambda row: times[row])
    assert places.in_time_order().x.tolist() == expected


def test_unsorted_times_are_sorted_and_every_late_place_is_listed() -> None:
    places = table(5, time=[1, 9, 2, 3, 10]).in_time_order()
    assert places.time.tolist() == [1, 2, 3, 9, 10]
    assert [str(note) for note in places.notes] == ["2 places were out of time order in their sequence and were sorted"]
    assert places.notes[0].items == ("images/2.jpg", "images/3.jpg")


def test_repeated_times_are_listed_and_keep_their_order() -> None:
    places = table(4, time=[5, 4, 5, 5]).in_time_order()
    assert places.x.tolist() == [1, 0, 2, 3]
    assert [(note.text, note.items) for note in places.notes][1:] == [
        ("places have the same time as the place before them", ("images/2.jpg", "images/3.jpg"))
    ]


def test_many_equal_times_keep_their_order() -> None:
    times = np.random.default_rng(0).integers(0, 5, 500)
    assert table(500, time=times).in_time_order().x.tolist() == sorted(range(500), key=lambda row: times[row])


def test_a_sequence_with_some_times_unknown_keeps_its_rows_and_says_so() -> None:
    places = table(3, sequence="walk", time=[9, NO_TIME, 1]).in_time_order()
    assert places.time.tolist() == [9, NO_TIME, 1]
    assert [(note.text, note.items) for note in places.notes] == [
        ("sequences have unknown times, so their rows were not sorted", ("walk: 1 of 3 places",))
    ]


def test_equal_times_of_different_sequences_and_tables_without_times_need_no_note() -> None:
    assert table(2, sequence=["a", "b"], time=[7, 7]).in_time_order().notes == ()
    assert table(3).in_time_order().notes == ()
