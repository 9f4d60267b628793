"""Places on disk: nothing is lost, nothing is half written, and what is not ours is refused in one sentence."""

import json
import math
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.checksums import UNSEALED, seal
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.places.decoding import RawDecoding
from mappable.places.files import FORMAT, is_own_table, load_places, save_places
from mappable.places.frames import Frame
from mappable.places.notes import Note
from mappable.places.table import COLUMNS, NO_TIME, NUMBER_COLUMNS, Places
from mappable.tables import read_table

SUFFIXES = ["csv", "parquet"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
AWKWARD = st.sampled_from([" a ", 'say "hi"', "a,b;c\td", "a\nb", "\r", "a\r\nb", "\ufeff", "nan", "1e5", "\0", "'"])
ANY_TEXT = TEXT | AWKWARD
EXTREME = st.sampled_from([5e-324, 1e9, -1e9, -0.0, 0.1, 2.0**29 + 2.0**-23])
NUMBER = st.floats(-1e9, 1e9) | EXTREME
ANGLE = st.floats(-math.pi, math.pi, exclude_min=True) | st.just(math.nan) | st.just(-0.0)
TIME = st.integers(-(2**63) + 1, 2**63 - 1) | st.just(NO_TIME)


@st.composite
def tables(draw: st.DrawFn) -> Places:
    ids = draw(st.lists(ANY_TEXT.filter(bool), unique=True, max_size=6))
    count = len(ids)
    folders = ["".join("-" if letter in ":\\/.\0" else letter for letter in name) for name in ids]

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    frame = Frame(
        draw(ANY_TEXT.filter(bool)), draw(st.sampled_from(["m", "frames"])), origin=(draw(NUMBER), draw(NUMBER), 0.1)
    )
    return Places(
        place_id=ids,
        path=[f"p{folder}/{row}.jpg" for row, folder in enumerate(folders)],
        x=column(NUMBER),
        y=column(NUMBER),
        z=column(NUMBER | st.just(math.nan)),
        yaw=column(ANGLE),
        time=column(TIME),
        sequence=column(ANY_TEXT),
        condition=column(ANY_TEXT),
        split=column(st.sampled_from(["", "train", "calibration", "test"])),
        role=column(st.sampled_from(["", "reference", "query"])),
        frames=frame,
        root="/data",
        decoding=draw(st.sampled_from([None, RawDecoding("GBRG"), RawDecoding("RGGB", "lut.bin")])),
        notes=draw(st.lists(st.builds(Note, ANY_TEXT, st.lists(ANY_TEXT).map(tuple), st.booleans()), max_size=2)),
    )


def assert_same_to_the_bit(found: Places, wanted: Places) -> None:
    for name in COLUMNS:
        if name in (*NUMBER_COLUMNS, "time"):
            nan = np.isnan(getattr(wanted, name))
            assert np.isnan(getattr(found, name)).tolist() == nan.tolist(), name
            assert getattr(found, name)[~nan].tobytes() == getattr(wanted, name)[~nan].tobytes(), name
        else:
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name
    assert found == wanted
    for name in ("frames", "root", "dimensions", "decoding", "notes"):
        assert getattr(found, name) == getattr(wanted, name), name


def small(root: Path | str = "/data", **changes: Any) -> Places:
    columns: dict[str, Any] = {"path": ["a.jpg", "b.jpg"], "x": [1.0, 2.0], "y": [0.0, 0.0], "frames": Frame("town")}
    return Places(**(columns | {"root": root} | changes))


@pytest.mark.medium
@pytest.mark.parametrize("suffix", SUFFIXES)
@given(places=tables())
def test_nothing_is_lost_on_the_way_to_disk_and_back(
    suffix: str, places: Places, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / f"round-trip.{suffix}"
    save_places(places, file)
    assert_same_to_the_bit(load_places(file), places)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_three_dimensions_and_several_frames_come_back(tmp_path: Path, suffix: str) -> None:
    axes = ((0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0))
    frames = [Frame("b", crs="EPSG:32632", origin=(619_500.25, 5_735_000.0, -3.0)), Frame("a", axes=axes)]
    places = small(frames=frames, frame=["a", "b"], sequence=["1", "2"], z=[0.5, -0.5], dimensions=3)
    save_places(places, tmp_path / f"t.{suffix}")
    assert_same_to_the_bit(load_places(tmp_path / f"t.{suffix}"), places)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_table_comes_back(tmp_path: Path, suffix: str) -> None:
    save_places(small()[[]], tmp_path / f"t.{suffix}")
    assert_same_to_the_bit(load_places(tmp_path / f"t.{suffix}"), small()[[]])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_that_are_not_utf8_survive_in_the_root_and_in_notes(tmp_path: Path, suffix: str) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    places = small(f"/data/{name}", notes=[Note("names dropped", (f"{name}.jpg", "für.jpg"))])
    save_places(places, tmp_path / f"t.{suffix}")
    assert_same_to_the_bit(load_places(tmp_path / f"t.{suffix}"), places)


def test_a_csv_is_readable_by_others(tmp_path: Path) -> None:
    save_places(small(z=[math.nan, 0.1], time=[NO_TIME, 7], condition="sun, rain"), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes().decode().splitlines() == [
        "place_id,path,frame,x,y,z,yaw,time,sequence,condition,split,role",
        'a.jpg,a.jpg,town,1.0,0.0,,,,,"sun, rain",,',
        'b.jpg,b.jpg,town,2.0,0.0,0.1,,7,,"sun, rain",,',
    ]
    assert read_table(tmp_path / "t.csv").columns["z"] == ["", "0.1"]
    assert json.loads((tmp_path / "t.csv.json").read_text())["format"] == "mappable places"


def test_a_parquet_file_is_readable_by_others(tmp_path: Path) -> None:
    save_places(small(z=[math.nan, 0.1]), tmp_path / "t.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert [(row["path"], row["x"], row["z"], row["time"]) for row in rows] == [
        ("a.jpg", 1.0, None, None),
        ("b.jpg", 2.0, 0.1, None),
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_root_inside_the_table_s_folder_moves_with_it(tmp_path: Path, suffix: str) -> None:
    for root in ("set", "set/images/deep"):
        save_places(small(tmp_path / root), tmp_path / "set" / f"t.{suffix}")
        shutil.rmtree(tmp_path / "moved", ignore_errors=True)
        shutil.copytree(tmp_path / "set", tmp_path / "moved")
        assert load_places(tmp_path / "moved" / f"t.{suffix}").root == tmp_path / root.replace("set", "moved")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_root_elsewhere_stays_where_it_is(tmp_path: Path, suffix: str) -> None:
    save_places(small(tmp_path / "images"), tmp_path / "set" / f"t.{suffix}")
    (tmp_path / "set").rename(tmp_path / "moved")
    assert load_places(tmp_path / "moved" / f"t.{suffix}").root == tmp_path / "images"


def test_a_relative_root_means_the_same_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_places(small("images"), "t.parquet")
    monkeypatch.chdir("/")
    assert load_places(tmp_path / "t.parquet").root == tmp_path / "images"


def test_a_folder_s_name_is_no_column(tmp_path: Path) -> None:
    save_places(small(), tmp_path / "frame=lab" / "t.parquet")
    assert load_places(tmp_path / "frame=lab" / "t.parquet") == small()


def test_a_folder_stands_for_the_table_in_it(tmp_path: Path) -> None:
    save_places(small(), tmp_path / "places.parquet")
    assert load_places(tmp_path) == small()


def test_only_known_suffixes_are_saved(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"t.xlsx.*'.xlsx'.*.parquet.*.csv"):
        save_places(small(), tmp_path / "t.xlsx")
    with pytest.raises(BadInputError, match="suffix"):
        save_places(small(), tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_writer_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    file = tmp_path / "t.bin"
    file.write_bytes(b"old")

    def fail(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_atomically(file, fail)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupted_writer_leaves_no_litter_either(tmp_path: Path) -> None:
    def interrupt(stream: IO[bytes]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "t.bin", interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole_makes_its_folders_and_can_be_read_by_all(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "t.bin"
    write_atomically(file, lambda stream: stream.write(b"first, and long"))
    old = file.open("rb")
    write_atomically(file, lambda stream: stream.write(b"second"))
    with old:
        assert old.read() == b"first, and long"  # who had opened it still reads the old one whole
    assert file.read_bytes() == b"second"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadInputError, match=r"cannot be written \(Not a directory|File exists\)") as caught:
        save_places(small(), tmp_path / "file" / f"t.{suffix}")
    assert str(caught.value).startswith(str(tmp_path / "file" / "t."))
    (tmp_path / f"folder.{suffix}").mkdir()
    with pytest.raises(BadInputError, match="directory"):
        save_places(small(), tmp_path / f"folder.{suffix}")
    assert list(tmp_path.glob(".*")) == []


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Within the test, root (who may write everywhere) becomes nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.usefixtures("tmp_path", "ordinary_user")
def test_a_read_only_folder_is_one_sentence(tmp_path: Path, suffix: str) -> None:
    if os.access(tmp_path, os.W_OK, effective_ids=True):
        tmp_path.chmod(0o555)
    with pytest.raises(BadInputError, match=rf"{suffix}.*Permission"):
        save_places(small(), tmp_path / f"t.{suffix}")


def change_about(file: Path, **changes: Any) -> None:
    """Change our JSON in or beside a saved table, as a forger would: with a correct checksum."""
    changes |= {"checksum": UNSEALED}
    if file.suffix == ".csv":
        side = file.with_name(f"{file.name}.json")
        side.write_bytes(seal(json.dumps(json.loads(side.read_text()) | changes).encode()))
        return
    table = pyarrow.parquet.read_table(file)
    about = json.loads(table.schema.metadata[b"mappable"]) | changes
    pyarrow.parquet.write_table(table.replace_schema_metadata({b"mappable": json.dumps(about).encode()}), file)
    file.write_bytes(seal(file.read_bytes()))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "changes",
    [
        {"frames": None},
        {"frames": [{"name": "town"}]},
        {"frames": [{"name": "town", "unit": "m", "crs": None, "origin": ["x", 0, 0], "axes": [[1, 0, 0]]}]},
        {"frames": ["town"]},
        {"root": 5},
        {"notes": [{"text": "no items"}]},
        {"decoding": {"bayer": "XYZW"}},
        {"decoding": {"unknown": 1}},
        {"dimensions": "2"},
        {"frames": []},
    ],
)
def test_meddled_metadata_is_one_sentence_with_the_file_s_name(
    tmp_path: Path, suffix: str, changes: dict[str, Any]
) -> None:
    file = tmp_path / f"t.{suffix}"
    save_places(small(), file)
    change_about(file, **changes)
    with pytest.raises(BadInputError) as caught:
        load_places(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_missing_tables_are_one_sentence(tmp_path: Path) -> None:
    for missing in (tmp_path, tmp_path / "t.csv", tmp_path / "t.parquet"):
        with pytest.raises(BadInputError, match="places"):
            load_places(missing)


@pytest.mark.parametrize("size", [0, 3, 100, -100, -8, -1])
def test_a_truncated_parquet_file_is_one_sentence(tmp_path: Path, size: int) -> None:
    file = tmp_path / "t.parquet"
    save_places(small(), file)
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(BadInputError, match=r"t.parquet: ") as caught:
        load_places(file)
    assert "\n" not in str(caught.value)
    assert not is_own_table(file)


def test_a_truncated_csv_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    save_places(small(condition="sun, rain"), file)
    whole = file.read_bytes()
    for size, problem in (
        (0, "t.csv: the file is empty"),
        (20, "t.csv: no column x, y"),
        (whole.index(b"2.0,0.0") + 1, "t.csv, row 3: 4 values, but there are 12 columns"),
        (len(whole) - 6, "t.csv, row 3: cannot be read as a row of a table"),  # within the quotes
    ):
        file.write_bytes(whole[:size])
        with pytest.raises(BadInputError, match=problem):
            load_places(file)


def test_foreign_tables_are_sent_to_the_reader_of_foreign_tables(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"path": ["a.jpg"]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("path,x,y\na.jpg,0,0\n")
    for name, why in (("t.parquet", "no mappable header"), ("t.csv", "t.csv.json is missing")):
        with pytest.raises(BadInputError, match=f"{name}: .*{why}.* reader 'manifest'"):
            load_places(tmp_path / name)
        assert not is_own_table(tmp_path / name)
    (tmp_path / "t.csv.json").write_text('{"labels": []}')
    assert not is_own_table(tmp_path / "t.csv")
    FORMAT.write(tmp_path / "t.csv.json", {})
    with pytest.raises(BadInputError, match=r"t\.csv.*place_id.*frame"):
        load_places(tmp_path / "t.csv")


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"version": 1}'])
def test_damaged_metadata_beside_a_csv_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    save_places(small(), tmp_path / "t.csv")
    (tmp_path / "t.csv.json").write_bytes(content)
    with pytest.raises(BadInputError, match=r"t.csv.json.*damaged"):
        load_places(tmp_path / "t.csv")


def test_own_tables_are_known_as_such(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        save_places(small(), tmp_path / f"t.{suffix}")
        assert is_own_table(tmp_path / f"t.{suffix}")
    assert not is_own_table(tmp_path / "missing.parquet")


def test_a_parquet_file_with_changed_columns_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    save_places(small(), file)
    table = pyarrow.parquet.read_table(file)
    words, nulls = pyarrow.array(["a", "b"]), pyarrow.nulls(2, pyarrow.string())
    for changed in (
        table.drop_columns(["yaw"]),
        table.set_column(COLUMNS.index("x"), "x", words),
        table.set_column(COLUMNS.index("time"), "time", words),
        table.set_column(COLUMNS.index("sequence"), "sequence", nulls),
        table.set_column(COLUMNS.index("x"), "x", pyarrow.array([[1.0], [2.0]])),
    ):
        pyarrow.parquet.write_table(changed, file)
        with pytest.raises(BadInputError) as caught:
            load_places(file)
        assert str(caught.value).startswith(f"{file}: ")


def test_bad_values_in_an_own_csv_name_file_row_and_value(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    save_places(small(time=[5, 7]), file)
    good = file.read_text()
    for old, new, problem in (
        ("2.0", "nan", r"t.csv, row 3: column 'x' is 'nan', expected a finite number"),
        ("2.0", "", r"t.csv, row 3: column 'x' is '', expected a number"),
        (",7,", ",7.5,", r"t.csv, row 3: column 'time' is '7.5', expected a whole number"),
        ("b.jpg,b.jpg", "b.jpg,a.jpg", r"t.csv: place 1 \('b.jpg'\): duplicate path 'a.jpg'"),
        ("b.jpg,b.jpg", "b.jpg,../b.jpg", r"t.csv: place 1 \('b.jpg'\): path '../b.jpg' leads outside the root folder"),
    ):
        file.write_text(good.replace(old, new))
        with pytest.raises(BadInputError, match=problem):
            load_places(file)
