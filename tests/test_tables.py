"""Foreign tables: found by column name, and whatever is wrong is named by file, row and value."""

import csv
import io
import math
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError, BadRowError
from mappable.tables import Table, read_csv, read_table, read_words


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


def table_of(file: Path, text: str, **options: Any) -> Table:
    file.write_bytes(text.encode())
    return read_csv(file, **options)


def test_columns_are_found_by_name_and_rows_are_numbered_as_in_an_editor(file: Path) -> None:
    table = table_of(file, "path,x\na.jpg,1\n\nb.jpg,2\n")
    assert table.columns == {"path": ["a.jpg", "b.jpg"], "x": ["1", "2"]}
    assert table.row_numbers == [2, 4]
    assert len(table) == 2


def test_a_row_that_spans_lines_is_numbered_by_its_first(file: Path) -> None:
    table = table_of(file, 'path,note\na.jpg,"one\ntwo\n\nthree"\nb.jpg,"x\r\ny"\r\nc.jpg,z\n')
    assert table.row_numbers == [2, 6, 8]
    assert table.columns["note"] == ["one\ntwo\n\nthree", "x\r\ny", "z"]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_system_s_line_ends_will_do(file: Path, ending: str) -> None:
    table = table_of(file, ending.join(["path,x", "a.jpg,1", "", "b.jpg,2"]))
    assert table.columns == {"path": ["a.jpg", "b.jpg"], "x": ["1", "2"]}
    assert table.row_numbers == [2, 4]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_delimiter_is_guessed_and_a_byte_order_mark_is_no_part_of_a_name(
    file: Path, delimiter: str, mark: str
) -> None:
    text = f"{mark}path|x|y\n'a,b;c'|1|2\n".replace("|", delimiter).replace("'", '"')
    table = table_of(file, text)
    assert table.columns == {"path": ["a,b;c"], "x": ["1"], "y": ["2"]}


def test_a_given_delimiter_is_not_guessed(file: Path) -> None:
    assert table_of(file, "a,b c\n1,2 3\n", delimiter=" ").columns == {"a,b": ["1,2"], "c": ["3"]}


def test_empty_lines_and_rows_of_empty_values_are_passed_over_even_at_the_start(file: Path) -> None:
    table = table_of(file, "\n  \npath;x\n;\n \na.jpg;1\n , \n"[:-4])
    assert table.columns == {"path": ["a.jpg"], "x": ["1"]}
    assert table.row_numbers == [6]


def test_white_space_round_values_is_dropped_unless_they_are_wanted_exact(file: Path) -> None:
    text = ' path , x\n a b ,\t1 \n"  c",2\n'
    assert table_of(file, text).columns == {"path": ["a b", "c"], "x": ["1", "2"]}
    assert table_of(file, text, exact=True).columns == {"path": [" a b ", "  c"], "x": ["\t1 ", "2"]}


FIELD = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@pytest.mark.medium
@given(rows=st.lists(st.tuples(FIELD, FIELD).filter(any), max_size=6), delimiter=st.sampled_from(",;\t"))
def test_whatever_a_writer_of_csv_quotes_comes_back(
    rows: list[tuple[str, str]], delimiter: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("one", "two"), *rows])
    table = table_of(tmp_path_factory.getbasetemp() / "quoted.csv", text.getvalue(), delimiter=delimiter, exact=True)
    assert list(zip(table.columns["one"], table.columns["two"], strict=True)) == rows


@pytest.mark.parametrize(("row", "count"), [("a.jpg", 1), ("a.jpg,1,2", 3), ("a.jpg,1,", 3)])
def test_a_ragged_row_is_named(file: Path, row: str, count: int) -> None:
    with pytest.raises(BadInputError, match=rf"t\.csv.*row 4.*{count}.*2"):
        table_of(file, f"path,x\nb.jpg,5\n\n{row}\n")


def test_a_quote_that_is_never_closed_swallows_no_rows(file: Path) -> None:
    with pytest.raises(BadInputError, match=r"t\.csv.*row 3.*unexpected end"):
        table_of(file, 'path,x\na.jpg,1\nb.jpg,"2\nc.jpg,3\nd.jpg,4\n')


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b"\n\n  \n", "the file is empty"),
        (b"path,x\n\xff\xfe,1\n", "not a text file in UTF-8"),
        ("path,x\na.jpg,1\n".encode("utf-16"), "not a text file in UTF-8"),
        (b"path,x,path,x,y\n", "column path, x appears more than once"),
    ],
)
def test_a_file_that_is_no_table_is_one_sentence(file: Path, content: bytes, problem: str) -> None:
    file.write_bytes(content)
    with pytest.raises(BadInputError) as caught:
        read_table(file)
    assert str(caught.value) == f"{file}: {problem}"


def test_a_missing_file_or_a_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"t\.csv.*file"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(BadInputError, match=r"t\.csv.*directory"):
        read_csv(tmp_path / "t.csv")
    with pytest.raises(BadInputError, match="directory"):
        read_csv(tmp_path)


def test_a_missing_column_lists_those_there_are(file: Path) -> None:
    table = table_of(file, "path,east\na.jpg,1\n")
    for ask in (lambda: table.require("path", "x", "y"), lambda: table.require("x", "y")):
        with pytest.raises(BadInputError, match=r"t\.csv.*x, y.*path, east"):
            ask()
    for method in (table.texts, table.numbers):
        with pytest.raises(BadInputError, match=r"x.*path, east"):
            method("x")


@pytest.mark.parametrize("value", ["nan", "inf", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_named(file: Path, value: str) -> None:
    table = table_of(file, f"x\n1\n{value}\n")
    for missing_allowed in (False, True):
        with pytest.raises(BadInputError, match=rf"t\.csv.*row 3.*x.*'{value}'"):
            table.numbers("x", missing_allowed=missing_allowed)


def test_what_is_no_number_is_named(file: Path) -> None:
    with pytest.raises(BadInputError, match=r"t\.csv.*row 3.*x.*'12,5'"):
        table_of(file, "path;x\na;1\nb;12,5\n").numbers("x")


def test_a_missing_number_is_unknown_only_where_that_is_allowed(file: Path) -> None:
    table = table_of(file, "path,z\na,1.5\nb,\n")
    found = table.numbers("z", missing_allowed=True)
    assert found[0] == 1.5
    assert math.isnan(found[1])
    with pytest.raises(BadInputError, match=r"t\.csv.*row 3.*z.*''"):
        table.numbers("z")


def test_a_range_includes_its_ends(file: Path) -> None:
    table = table_of(file, "lat\n-90\n90\n90.0001\n")
    assert table_of(file, "lat\n-90\n90\n").numbers("lat", -90, 90).tolist() == [-90, 90]
    with pytest.raises(BadInputError, match=r"t\.csv.*row 4.*lat.*'90.0001'.*-90.*90"):
        table.numbers("lat", -90, 90)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_to_the_last_digit(value: float) -> None:
    assert Table(Path("t"), {"x": [repr(value)]}, [1]).numbers("x")[0].hex() == value.hex()


def test_times_are_exact_and_a_bad_one_is_named(file: Path) -> None:
    table = table_of(file, "t\n1418132416737115\n1970-01-01T00:00:01Z\n0.0001\n")
    assert table.times("t", "us").tolist() == [1_418_132_416_737_115_000, 10**9, 0]
    for bad in ("noon", "", "9" * 40):
        with pytest.raises(BadInputError, match=rf"t\.csv.*row 3.*t.*'{bad}'.*time"):
            table_of(file, f"p,t\na,1\nb,{bad}\n").times("t", "ms")


def test_a_place_that_is_refused_is_named_by_its_row_in_the_file(file: Path) -> None:
    table = table_of(file, "path,x\na,1\n\nb,2\n")
    with pytest.raises(BadInputError, match=r"t\.csv.*row 4.*x is too far$"), table.naming_rows():
        raise BadRowError(1, "b", "x is too far")


def test_parquet_rows_count_from_one_and_nulls_are_missing(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    columns = {
        "path": ["a", None],
        "x": [0.1, None],
        "n": [2**62 + 1, None],
        "flag": [True, False],
        "raw": [b"bytes", None],
        "day": [date(2014, 12, 9), None],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    table = read_table(file)
    assert table.row_numbers == [1, 2]
    assert {name: values[0] for name, values in table.columns.items()} == {
        "path": "a",
        "x": "0.1",
        "n": "4611686018427387905",
        "flag": "True",
        "raw": "bytes",
        "day": "2014-12-09",
    }
    assert [values[1] for name, values in table.columns.items() if name != "flag"] == [""] * 5
    with pytest.raises(BadInputError, match=r"t\.parquet.*row 2.*x.*''"):
        table.numbers("x")


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Ljubljana"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_parquet_timestamps_are_exact_to_their_unit(tmp_path: Path, unit: str, zone: str | None) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    counts = [int(datetime(2014, 12, 9, 13, 40, 16, tzinfo=UTC).timestamp()) * per_second + per_second // 7, -1, None]
    stamps = pyarrow.array(counts, pyarrow.timestamp(unit, zone))
    pyarrow.parquet.write_table(pyarrow.table({"p": ["a", "b", "c"], "t": stamps}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.columns["t"][2] == ""
    known = Table(table.file, {"t": table.columns["t"][:2]}, [1, 2])
    assert known.times("t", "s").tolist() == [
        count * (10**9 // per_second) for count in counts[:2] if count is not None
    ]


def test_a_folder_s_name_adds_no_column(tmp_path: Path) -> None:
    file = tmp_path / "path=x" / "run=3" / "t.parquet"
    file.parent.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table({"path": ["a"]}), file)
    assert read_table(file).columns == {"path": ["a"]}


def test_a_damaged_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(BadInputError, match=r"t\.parquet.*Parquet"):
        read_table(file)
    pyarrow.parquet.write_table(pyarrow.table([pyarrow.array([1])] * 2, names=["x", "x"]), file)
    with pytest.raises(BadInputError, match=r"t\.parquet.*x.*once"):
        read_table(file)
    pyarrow.parquet.write_table(pyarrow.table({"path": [b"\xff"]}), file)
    with pytest.raises(BadInputError, match=r"t\.parquet.*UTF-8"):
        read_table(file)


def test_words_keep_the_row_numbers_of_the_editor(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes("\ufeff# t name\n\n1 one\r\n  2\t two  \n#3 three\n\n4 four".encode())
    table = read_words(file, ["t", "name"])
    assert table.columns == {"t": ["1", "2", "4"], "name": ["one", "two", "four"]}
    assert table.row_numbers == [3, 4, 7]


def test_a_row_with_other_than_the_wanted_words_is_named(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("# t name\n1 one\n\n2 two 3\n")
    with pytest.raises(BadInputError, match=r"words\.txt.*row 4.*3.*2"):
        read_words(file, ["t", "name"])


def test_files_that_are_missing_or_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"none\.txt.*directory"):
        read_words(tmp_path / "none.txt", ["t"])
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInputError, match=r"binary\.txt.*UTF-8"):
        read_words(tmp_path / "binary.txt", ["t"])
