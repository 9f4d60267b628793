"""Foreign tables: found by column name, and whatever is wrong is named by file, row and value."""

import csv
import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
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


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_delimiter_is_guessed_and_a_byte_order_mark_is_no_part_of_a_name(
    file: Path, delimiter: str, mark: str
) -> None:
    text = f"{mark}path|x|y\n'a,b;c'|1|2\n".replace("|", delimiter).replace("'", '"')
    table = table_of(file, text)
    assert table.columns == {"path": ["a,b;c"], "x": ["1"], "y": ["2"]}


FIELD = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@pytest.mark.medium
@given(
    rows=st.lists(st.tuples(FIELD, FIELD).filter(any), max_size=6),
    delimiter=st.sampled_from(",;\t"),
)
def test_whatever_a_writer_of_csv_quotes_comes_back(
    rows: list[tuple[str, str]], delimiter: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("one", "two"), *rows])
    table = table_of(
        tmp_path_factory.getbasetemp() / "quoted.csv",
        text.getvalue(),
        delimiter=delimiter,
        exact=True,
    )
    assert list(zip(table.columns["one"], table.columns["two"], strict=True)) == rows


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
def test_parquet_timestamps_are_exact_to_their_unit(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    counts = [
        int(datetime(2014, 12, 9, 13, 40, 16, tzinfo=UTC).timestamp()) * per_second
        + per_second // 7,
        -1,
        None,
    ]
    stamps = pyarrow.array(counts, pyarrow.timestamp(unit, zone))
    pyarrow.parquet.write_table(
        pyarrow.table({"p": ["a", "b", "c"], "t": stamps}), tmp_path / "t.parquet"
    )
    table = read_table(tmp_path / "t.parquet")
    assert table.columns["t"][2] == ""
    known = Table(table.file, {"t": table.columns["t"][:2]}, [1, 2])
    assert known.times("t", "s").tolist() == [
        count * (10**9 // per_second) for count in counts[:2] if count is not None
    ]


X = "path,x\na.jpg,1\n"


@pytest.mark.parametrize(
    ("content", "read", "where"),
    [
        ("", read_csv, ": "),
        ("\n\n  \n", read_csv, ": "),
        (b"path,x\n\xff\xfe,1\n", read_csv, ": .*UTF-8"),
        (X.encode("utf-16"), read_csv, ": .*UTF-8"),
        ("path,x,path,x,y\n", read_csv, ": .*path, x"),
        (f"{X}\nb.jpg\n", read_csv, ", row 4: 1 .*2"),
        (f"{X}\nb.jpg,1,\n", read_csv, ", row 4: 3 .*2"),
        (f'{X}b.jpg,"2\nc.jpg,3\nd.jpg,4\n', read_csv, ", row 3: "),  # a quote that is never closed
        (
            "# t name\n1 one\n\n2 two 3\n",
            lambda file: read_words(file, ["t", "name"]),
            ", row 4: 3 .*2",
        ),
        (b"\xff\xfe\x00", lambda file: read_words(file, ["t"]), ": .*UTF-8"),
        (X, lambda file: read_csv(file).require("path", "y", "z"), ": .*y, z.*path, x"),
        (X, lambda file: read_csv(file).texts("y"), ": .*y.*path, x"),
        (f"{X}b.jpg,inf\n", lambda file: read_csv(file).numbers("x"), ", row 3: .*'x' is 'inf'"),
        (f"{X}b.jpg,1_0\n", lambda file: read_csv(file).numbers("x"), ", row 3: .*'x' is '1_0'"),
        (f"{X}b.jpg,\n", lambda file: read_csv(file).numbers("x"), ", row 3: .*'x' is ''"),
        (
            f"{X}b.jpg,nan\n",
            lambda file: read_csv(file).numbers("x", missing_allowed=True),
            ", row 3: .*'x' is 'nan'",
        ),
        (
            f"{X}b.jpg,1.01\n",
            lambda file: read_csv(file).numbers("x", -1, 1),
            ", row 3: .*'x' is '1.01'.*-1 to 1",
        ),
        (
            f"{X}b.jpg,noon\n",
            lambda file: read_csv(file).times("x", "ms"),
            ", row 3: .*'x' is 'noon'",
        ),
        (
            f"{X}b.jpg,{'9' * 40}\n",
            lambda file: read_csv(file).times("x", "ms"),
            ", row 3: .*'x' is '999",
        ),
    ],
)
def test_damage_is_named_by_file_row_and_value(
    file: Path, content: str | bytes, read: Callable[[Path], object], where: str
) -> None:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInputError, match=rf"t\.csv{where}") as caught:
        read(file)
    assert "\n" not in str(caught.value)


def test_numbers_and_times_are_exact(file: Path) -> None:
    table = table_of(file, "t;z\r1418132416737115;-90\r1970-01-01T00:00:01Z;\r0.0001;90\r")
    assert table.times("t", "us").tolist() == [1_418_132_416_737_115_000, 10**9, 0]
    np.testing.assert_array_equal(
        table.numbers("z", -90, 90, missing_allowed=True), [-90, np.nan, 90]
    )
