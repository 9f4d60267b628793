"""The table of places: what it accepts, refuses, returns and keeps."""

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
from mappable.places.table import NO_TIME, NUMBER_COLUMNS, TEXT_COLUMNS, Places

NAN, INF = math.nan, math.inf
TWO_FRAMES = [Frame("a"), Frame("b", "frames")]


def table(count: int = 3, **changes: Any) -> Places:
    """A valid table of `count` places on a line, with some columns changed."""
    columns: dict[str, Any] = {
        "path": [f"images/{row}.jpg" for row in range(count)],
        "x": np.arange(count, dtype=float),
        "y": np.zeros(count),
        "frames": Frame("town"),
    }
    return Places(**(columns | changes))


@pytest.mark.parametrize(
    ("row", "part", "changes"),
    [
        *(
            (1, f"{name} is {value}", {name: [0.0, value]})
            for name in "xy"
            for value in (NAN, INF, -INF, 1e38)
        ),
        *(
            (1, f"{name} is {value}", {name: [NAN, value]})
            for name in ("z", "yaw")
            for value in (INF, -INF)
        ),
        (1, "z is -1.7e+308", {"z": [1e9, -1.7e308]}),
        (1, "z is nan", {"z": [0.0, NAN], "dimensions": 3}),
        (1, "path is 'same'", {"path": ["same", "same"]}),
        (1, "place_id is 'same'", {"place_id": ["same", "same"]}),
        (1, "path is ''", {"path": ["a", ""]}),
        (0, "place_id is ''", {"place_id": ["", "a"]}),
        (0, "frame is 'c', expected one of: a, b", {"frames": TWO_FRAMES, "frame": ["c", "a"]}),
        (0, "frame is ''", {"frames": TWO_FRAMES}),
        (1, "frame is 'b'", {"frames": TWO_FRAMES, "frame": ["a", "b"]}),  # in one sequence
        (1, "split is 'val'", {"split": ["train", "val"]}),
        (1, r"split is 'train\x00'", {"split": ["train", "train\0"]}),
        (0, "role is 'db'", {"role": "db"}),
        (
            1,
            "path is not valid UTF-8",
            {"path": ["a", b"caf\xe9".decode("utf-8", "surrogateescape")]},
        ),
        *(
            (1, f"path is {path!r}", {"path": ["in.jpg", path]})
            for path in (
                "/etc/passwd",
                "../up",
                "a/../../up",
                "a/..",
                "..",
                "\\win\\up",
                "//server/up",
                "C:\\up",
                "c:up",
            )
        ),
        (1, "path is 'a\\\\..\\\\..\\\\up'", {"path": ["in.jpg", "a\\..\\..\\up"]}),
        (1, r"path is 'in.jpg\x00.png'", {"path": ["in.jpg", "in.jpg\0.png"]}),
    ],
)
def test_a_bad_row_is_refused_by_its_number(row: int, part: str, changes: dict[str, Any]) -> None:
    with pytest.raises(BadRowError) as caught:
        table(2, **changes)
    assert part in str(caught.value)
    assert caught.value.row == row


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("column x", {"x": ["far", "near"]}),
        ("column y", {"y": [[0.0], [1.0]]}),
        ("column sequence, place 1", {"sequence": ["a", None]}),
        *((f"column {name}", {name: [0]}) for name in (*NUMBER_COLUMNS, "time")),
        *((f"column {name}", {name: ["a"]}) for name in TEXT_COLUMNS if name != "path"),
        ("column time", {"time": [1.5, 2.5]}),
        ("column time", {"time": [2**63, 0]}),
        ("column time", {"time": [2**70, 0]}),
        ("column time", {"time": np.array([2**63, 1], dtype=np.uint64)}),
        ("column time", {"time": [None, 1]}),
        ("dimensions is 4", {"dimensions": 4}),
        ("town, town", {"frames": [Frame("town"), Frame("town", origin=(1.0, 0.0, 0.0))]}),
    ],
)
def test_a_column_of_the_wrong_type_or_length_is_refused(
    part: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(BadInputError, match=part):
        table(2, **changes)


def test_defaults_are_unknown() -> None:
    places = table(2)
    assert np.isnan([places.z, places.yaw]).all()
    assert (places.time == NO_TIME).all()
    assert places.place_id.tolist() == places.path.tolist()
    assert places.frame.tolist() == ["town", "town"]
    assert {*places.sequence, *places.condition, *places.split, *places.role} == {""}
    assert (places.dimensions, places.decoding, places.notes) == (2, None, ())
    assert places.table["z"].null_count == places.table["time"].null_count == 2


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, -1), [4, 3, 2, 1, 0]),
        (np.array([True, False, False, False, True]), [0, 4]),
        ([True, False, False, True, False], [0, 3]),
        ([3, 0, -1], [3, 0, 4]),
        (2, [2]),
        ([], []),
        (slice(5, None), []),
    ],
)
def test_rows_are_taken_by_slice_mask_or_number(rows: Any, expected: list[int]) -> None:
    assert table(5)[rows].x.tolist() == expected


def test_taking_rows_keeps_everything_else() -> None:
    notes = (Note("seen"),)
    places = table(
        3, root="/data", dimensions=3, z=np.zeros(3), decoding=RawDecoding("GBRG"), notes=notes
    )
    part = places[1:].noting(Note("b"))
    assert (part.root, part.dimensions, part.decoding) == (Path("/data"), 3, RawDecoding("GBRG"))
    assert (part.notes, part.frames) == ((*notes, Note("b")), places.frames)
    assert part.files == [Path("/data/images/1.jpg"), Path("/data/images/2.jpg")]
    assert part.positions.tolist() == [[1, 0, 0], [2, 0, 0]]
    assert table(2).positions.tolist() == [[0, 0], [1, 0]]


def test_where_filters_by_text_columns() -> None:
    places = table(6, split=["train", "test"] * 3, role=["query"] * 3 + ["reference"] * 3)
    assert places.where(split="test").x.tolist() == [1, 3, 5]
    assert places.where(split="test", role="query").x.tolist() == [1]
    assert places.where(path={"images/4.jpg", "images/0.jpg"}).x.tolist() == [0, 4]
    assert len(places.where(split=[])) == len(places.where(condition="tes")) == 0
    assert len(table(2, sequence=["a", "a\0"]).where(sequence="a")) == 1
    assert places.where() == places
    with pytest.raises(BadInputError, match=r"'yaw'.*place_id"):
        places.where(yaw="north")


def test_equality_ignores_root_and_notes() -> None:
    columns = {"z": [1.0, NAN], "yaw": [NAN, 0.5], "time": [NO_TIME, 5]}
    places = table(2, **columns)
    assert places == table(2, **columns, root="/x", notes=[Note("n")])
    for name, value in (
        ("z", [1.0, 2.0]),
        ("time", [4, 5]),
        ("place_id", ["p", "q"]),
        ("frames", Frame("town", origin=(1.0, 0.0, 0.0))),
        ("decoding", RawDecoding("RGGB")),
    ):
        assert places != places.replace(**{name: value}), name
    assert places != places[:1]
    assert places != "places"
    with pytest.raises(BadRowError, match=r"x.*nan"):
        places.replace(x=[NAN, 0.0])


@given(st.lists(st.sampled_from(["", "b", "a", "é", "B"]), max_size=30))
def test_sequences_are_their_rows_in_order_of_first_appearance(names: list[str]) -> None:
    expected: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        expected.setdefault(name, []).append(row)
    sequences = table(len(names), sequence=names).sequences()
    assert [(name, rows.tolist()) for name, rows in sequences.items()] == list(expected.items())


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 3) | st.none()), max_size=20))
def test_time_order_is_a_stable_sort_within_each_sequence(
    rows: list[tuple[str, int | None]],
) -> None:
    times = [NO_TIME if time is None else time for _, time in rows]
    places = table(len(rows), sequence=[name for name, _ in rows], time=times)
    expected: list[int] = []
    for name in dict.fromkeys(name for name, _ in rows):
        visit = [row for row, (other, _) in enumerate(rows) if other == name]
        partial = any(rows[row][1] is None for row in visit)
        expected += visit if partial else sorted(visit, key=lambda row: times[row])
    assert places.in_time_order().x.tolist() == expected


@pytest.mark.parametrize(
    ("times", "items"),
    [
        ([1, 9, 2, 3, 10], [("images/2.jpg", "images/3.jpg")]),
        ([5, 4, 5, 5], [("images/1.jpg",), ("images/2.jpg", "images/3.jpg")]),
        ([9, NO_TIME, 1], [("walk: 1 of 3 places",)]),
        ([1, 2], []),
        ([NO_TIME, NO_TIME], []),
    ],
    ids=["late", "repeated", "partly unknown", "sorted", "unknown"],
)
def test_notes_list_late_repeated_and_unknown_times(
    times: list[int], items: list[tuple[str, ...]]
) -> None:
    notes = table(len(times), sequence="walk", time=times).in_time_order().notes
    assert [note.items for note in notes] == items


def test_the_unit_is_that_of_all_frames() -> None:
    assert (table(1).unit, table(1, frames=Frame("ride", unit="frames")).unit) == ("m", "frames")
    mixed = table(2, frames=TWO_FRAMES, frame=["a", "b"], sequence=["1", "2"])
    with pytest.raises(BadInputError, match=r"a, b.*units"):
        _ = mixed.unit
    assert repr(mixed) == "<Places: 2 places, 2 sequences, frames a (m), b (frames)>"
