"""Places on disk: nothing is lost, nothing is half written, and other files are refused."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.places.decoding import RawDecoding
from mappable.places.files import FORMAT, is_own_table, load_places, save_places
from mappable.places.frames import Frame
from mappable.places.notes import Note
from mappable.places.table import COLUMNS, NO_TIME, NUMBER_COLUMNS, Places

both_kinds = pytest.mark.parametrize("suffix", ["csv", "parquet"])
AWKWARD = st.sampled_from(
    [" a ", 'say "hi"', "a,b;c\td", "a\nb", "\r", "a\r\nb", "\ufeff", "nan", "1e5", "\0", "'"]
)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | AWKWARD
NUMBER = st.floats(-1e9, 1e9) | st.sampled_from([5e-324, 1e9, -1e9, -0.0, 0.1, 2.0**29 + 2.0**-23])
ANGLE = st.floats(-math.pi, math.pi, exclude_min=True) | st.just(math.nan) | st.just(-0.0)
TIME = st.integers(-(2**63) + 1, 2**63 - 1) | st.just(NO_TIME)


@st.composite
def tables(draw: st.DrawFn) -> Places:
    ids = draw(st.lists(ANY_TEXT.filter(bool), unique=True, max_size=6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=len(ids), max_size=len(ids)))

    unit = draw(st.sampled_from(["m", "frames"]))
    return Places(
        place_id=ids,
        path=[f"p/{row}.jpg" for row in range(len(ids))],
        x=column(NUMBER),
        y=column(NUMBER),
        z=column(NUMBER | st.just(math.nan)),
        yaw=column(ANGLE),
        time=column(TIME),
        sequence=column(ANY_TEXT),
        condition=column(ANY_TEXT),
        split=column(st.sampled_from(["", "train", "calibration", "test"])),
        role=column(st.sampled_from(["", "reference", "query"])),
        frames=Frame(draw(ANY_TEXT.filter(bool)), unit, origin=(draw(NUMBER), draw(NUMBER), 0.1)),
        root="/data",
        decoding=draw(st.sampled_from([None, RawDecoding("GBRG"), RawDecoding("RGGB", "lut.bin")])),
        notes=draw(
            st.lists(
                st.builds(Note, ANY_TEXT, st.lists(ANY_TEXT).map(tuple), st.booleans()), max_size=2
            )
        ),
    )


def assert_same_to_the_bit(places: Places, expected: Places) -> None:
    assert places == expected
    for name in (*NUMBER_COLUMNS, "time"):
        known = ~np.isnan(getattr(expected, name))
        assert getattr(places, name)[known].tobytes() == getattr(expected, name)[known].tobytes(), (
            name
        )
    for name in ("root", "notes"):
        assert getattr(places, name) == getattr(expected, name), name


def small(root: Path | str = "/data", **changes: Any) -> Places:
    columns: dict[str, Any] = {
        "path": ["a.jpg", "b.jpg"],
        "x": [1.0, 2.0],
        "y": [0.0, 0.0],
        "frames": Frame("town"),
    }
    return Places(**(columns | {"root": root} | changes))


@pytest.mark.medium
@both_kinds
@given(places=tables())
def test_nothing_is_lost_on_the_way_to_disk_and_back(
    suffix: str, places: Places, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / f"round-trip.{suffix}"
    save_places(places, file)
    assert_same_to_the_bit(load_places(file), places)


INVALID = b"caf\xe9".decode("utf-8", "surrogateescape")
AXES = ((0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0))
FRAMES = [
    Frame("b", crs="EPSG:32632", origin=(619_500.25, 5_735_000.0, -3.0)),
    Frame("a", axes=AXES),
]


@both_kinds
@pytest.mark.parametrize(
    "places",
    [
        small(frames=FRAMES, frame=["a", "b"], sequence=["1", "2"], z=[0.5, -0.5], dimensions=3),
        small()[[]],
        small(f"/data/{INVALID}", notes=[Note("names dropped", (f"{INVALID}.jpg", "für.jpg"))]),
    ],
    ids=["two frames", "empty", "names that are not UTF-8"],
)
def test_special_tables_come_back(tmp_path: Path, suffix: str, places: Places) -> None:
    file = tmp_path / "frame=lab" / f"t.{suffix}"  # the name of a folder is no column
    save_places(places, file)
    assert_same_to_the_bit(load_places(file), places)
    assert is_own_table(file)


def test_other_programs_read_the_columns(tmp_path: Path) -> None:
    places = small(z=[math.nan, 0.1], time=[NO_TIME, 7], condition="sun, rain")
    save_places(places, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes().decode().splitlines() == [
        "place_id,path,frame,x,y,z,yaw,time,sequence,condition,split,role",
        'a.jpg,a.jpg,town,1.0,0.0,,,,,"sun, rain",,',
        'b.jpg,b.jpg,town,2.0,0.0,0.1,,7,,"sun, rain",,',
    ]
    save_places(places, tmp_path / "t.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert [(row["path"], row["z"], row["time"]) for row in rows] == [
        ("a.jpg", None, None),
        ("b.jpg", 0.1, 7),
    ]


@both_kinds
def test_a_root_inside_the_folder_of_the_table_moves_with_it(tmp_path: Path, suffix: str) -> None:
    for root, expected in (("set", "moved"), ("set/deep", "moved/deep"), ("images", "images")):
        save_places(small(tmp_path / root), tmp_path / "set" / f"t.{suffix}")
        shutil.copytree(tmp_path / "set", tmp_path / "moved", dirs_exist_ok=True)
        assert load_places(tmp_path / "moved" / f"t.{suffix}").root == tmp_path / expected


def with_column(name: str, values: Any) -> Callable[[Path], object]:
    def damage(file: Path) -> None:
        table = pyarrow.parquet.read_table(file)
        changed = table.drop_columns([name])
        if values is not None:
            changed = table.set_column(COLUMNS.index(name), name, values)
        pyarrow.parquet.write_table(changed, file)

    return damage


def replacing(old: str, new: str) -> Callable[[Path], object]:
    return lambda file: file.write_text(file.read_text().replace(old, new))


def truncated(size: int) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(file.read_bytes()[:size])


@pytest.mark.parametrize(
    ("name", "damage", "where"),
    [
        *((f"t.{suffix}", Path.unlink, "t.") for suffix in ("csv", "parquet")),
        *(("t.parquet", truncated(size), r"t\.parquet: ") for size in (0, 3, 100, -100, -8, -1)),
        ("t.parquet", with_column("yaw", None), r"t\.parquet: "),
        ("t.parquet", with_column("x", pyarrow.array(["a", "b"])), r"t\.parquet: "),
        ("t.parquet", with_column("x", pyarrow.array([[1.0], [2.0]])), r"t\.parquet: "),
        ("t.parquet", with_column("time", pyarrow.array(["a", "b"])), r"t\.parquet: "),
        ("t.parquet", with_column("sequence", pyarrow.nulls(2, pyarrow.string())), r"t\.parquet: "),
        ("t.csv", truncated(0), r"t\.csv: "),
        ("t.csv", truncated(20), r"t\.csv: .*x, y"),
        ("t.csv", truncated(-35), r"t\.csv, row 3: "),
        ("t.csv", truncated(-6), r"t\.csv, row 3: "),  # within quotes
        ("t.csv", replacing("2.0", "nan"), r"t\.csv, row 3: .*'x' is 'nan'"),
        ("t.csv", replacing("2.0", ""), r"t\.csv, row 3: .*'x' is ''"),
        ("t.csv", replacing(",7,", ",7.5,"), r"t\.csv, row 3: .*'time' is '7.5'"),
        ("t.csv", replacing("b.jpg,b.jpg", "b.jpg,a.jpg"), r"t\.csv: place 1.*'a.jpg'"),
        ("t.csv", replacing("b.jpg,b.jpg", "b.jpg,../b.jpg"), r"t\.csv: place 1.*'../b.jpg'"),
        ("t.csv", lambda file: file.with_name("t.csv.json").unlink(), r"t\.csv: .*manifest"),
        *(
            (
                "t.csv",
                lambda file, text=text: file.with_name("t.csv.json").write_bytes(text),
                r"t\.csv\.json: damaged",
            )
            for text in (b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"version": 1}')
        ),
        ("t.csv", lambda file: FORMAT.write(file.with_name("t.csv.json"), {}), r"t\.csv"),
    ],
)
def test_damage_is_named_by_file_and_row(
    tmp_path: Path, name: str, damage: Callable[[Path], object], where: str
) -> None:
    save_places(small(time=[5, 7], condition="sun, rain"), tmp_path / name)
    damage(tmp_path / name)
    with pytest.raises(BadInputError, match=where) as caught:
        load_places(tmp_path / name)
    assert "\n" not in str(caught.value)
