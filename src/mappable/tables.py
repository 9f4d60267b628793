"""Foreign tables (CSV or Parquet) read by column name, with errors that name the file, the row and the value."""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow
import pyarrow.parquet

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, BadRowError
from mappable.files import reading
from mappable.times import TimeUnit, nanoseconds

Value = TypeVar("Value")
LONGEST = 2**31 - 1  # bytes of metadata that a Parquet file may have; notes about millions of images are long


@dataclass(frozen=True)
class Table:
    """Columns of one file as text, with each row's number in the file; a missing value is "".

    `row_name` is what errors call a row.
    """

    file: Path
    columns: dict[str, list[str]]
    row_numbers: list[int]
    row_name: str = "row"

    def __len__(self) -> int:
        return len(self.row_numbers)

    def require(self, *names: str) -> None:
        """Refuse the file if it lacks any of these columns."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise BadInputError(f"{self.file}: no column {', '.join(missing)}; it has {', '.join(self.columns)}")

    def bad(self, row: int, name: str, problem: str) -> BadInputError:
        """The error for the value of column `name` in data row `row` (counted from 0)."""
        value = self.columns[name][row]
        return BadInputError(f"{self.file}, {self.row_name} {self.row_numbers[row]}: {name} {value!r} {problem}")

    def refuse(self, wrong: Bools, name: str, problem: str) -> None:
        """Raise the error for the first data row in which the value of column `name` is `wrong`."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            raise self.bad(int(rows[0]), name, problem)

    def parse(self, name: str, convert: Callable[[str], Value], problem: str) -> list[Value]:
        """A column through `convert`, whose ValueError becomes an error naming file, row, value and `problem`."""
        self.require(name)
        values = []
        for row, text in enumerate(self.columns[name]):
            try:
                values.append(convert(text))
            except ValueError:
                raise self.bad(row, name, problem) from None
        return values

    @contextmanager
    def naming_rows(self) -> Iterator[None]:
        """Within this, a place that is refused is named by this file and its row there."""
        try:
            yield
        except BadRowError as error:
            raise BadInputError(f"{self.file}, row {self.row_numbers[error.row]}: {error.problem}") from None

    def texts(self, name: str) -> list[str]:
        self.require(name)
        return self.columns[name]

    def numbers(
        self, name: str, low: float = -math.inf, high: float = math.inf, missing_allowed: bool = False
    ) -> Floats:
        """A column of finite numbers within [low, high]; a missing value becomes NaN where that is allowed."""

        def convert(text: str) -> float:
            if "_" in text:  # which Python itself takes for a part of a number
                raise ValueError
            return math.nan if missing_allowed and not text else float(text)

        values = np.array(self.parse(name, convert, "is not a number"), dtype=np.float64)
        missing = np.array([not text for text in self.columns[name]], dtype=bool)
        given = ~(missing & missing_allowed)
        self.refuse(~np.isfinite(values) & given, name, "is not a finite number")
        outside = f"is not between {low:g} and {high:g}" if high < math.inf else f"must be at least {low:g}"
        self.refuse(((values < low) | (values > high)) & given, name, outside)
        return values

    def times(self, name: str, unit: TimeUnit) -> Ints:
        """A column of times, numbers of `unit` or ISO 8601, as nanoseconds."""
        values = self.parse(name, lambda text: nanoseconds(text, unit), f"is not a time in {unit} nor ISO 8601")
        return np.array(values, dtype=np.int64)


def read_table(file: Path) -> Table:
    """Read a .csv or .parquet file whole."""
    if not file.is_file():
        raise BadInputError(f"{file}: no such file")
    return _read_parquet(file) if file.suffix == ".parquet" else read_csv(file)


def read_csv(file: Path, delimiter: str | None = None, exact: bool = False) -> Table:
    """Read a delimited text file whose first line names the columns.

    Without a `delimiter` it is the comma, semicolon or tab that the first line holds most often. Rows are numbered by
    the line they begin on, as an editor shows it, from 1. Empty lines and rows of empty values are passed over; a row
    with too few or too many values is an error. White space round values is dropped unless they are wanted `exact`.
    """
    begins = 1
    try:
        with reading(file), file.open(newline="", encoding="utf-8-sig") as stream:
            if delimiter is None:
                first_line = next((line for line in stream if line.strip()), "")
                delimiter = max(",;\t", key=first_line.count)
                stream.seek(0)
            # Strict, because a quote that is never closed would swallow all the rows that follow.
            reader = csv.reader(stream, delimiter=delimiter, skipinitialspace=not exact, strict=True)
            names, rows, numbers = list[str](), [], []
            for row in reader:
                begun, begins = begins, reader.line_num + 1
                if not any(row):
                    continue
                if not names:
                    names = [name.strip() for name in row]
                    continue
                if len(row) != len(names):
                    raise BadInputError(f"{file}, row {begun}: {len(row)} values, but there are {len(names)} columns")
                rows.append(row)
                numbers.append(begun)
    except csv.Error as error:
        raise BadInputError(f"{file}, row {begins}: cannot be read as a row of a table ({error})") from None
    if not names:
        raise BadInputError(f"{file}: the file is empty")
    _refuse_repeated(file, names)
    values = zip(*rows, strict=True) if rows else ([] for _ in names)
    columns = {name: list(column) for name, column in zip(names, values, strict=True)}
    if not exact:
        columns = {name: [value.strip() for value in column] for name, column in columns.items()}
    return Table(file, columns, numbers)


def read_words(file: Path, names: Sequence[str]) -> Table:
    """A text file of rows of words between white space, one for each of the `names`, as a table.

    Empty lines and lines that begin with # are passed over; rows keep the numbers that an editor shows.
    """
    with reading(file):
        lines = file.read_text("utf-8-sig").splitlines()
    split = ((number, line.split()) for number, line in enumerate(lines, start=1))
    rows = {number: words for number, words in split if words and not words[0].startswith("#")}
    for number, words in rows.items():
        if len(words) != len(names):
            raise BadInputError(f"{file}, row {number}: {len(words)} values, but there must be {len(names)}")
    columns = {name: [words[position] for words in rows.values()] for position, name in enumerate(names)}
    return Table(file, columns, list(rows))


def read_arrow(file: Path) -> pyarrow.Table:
    """A Parquet file whole: this file alone, whatever its folder is called."""
    try:
        with pyarrow.parquet.ParquetFile(file, thrift_string_size_limit=LONGEST) as parquet:
            return parquet.read()
    except (OSError, pyarrow.ArrowException) as error:
        raise BadInputError(f"{file}: not a Parquet file ({str(error).splitlines()[0]})") from None


def _read_parquet(file: Path) -> Table:
    table = read_arrow(file)
    _refuse_repeated(file, table.column_names)
    for position, field in enumerate(table.schema):
        if pyarrow.types.is_timestamp(field.type):  # as ISO 8601 text, because Python's own type stops at microseconds
            utc = pyarrow.timestamp(field.type.unit)
            text = table[field.name].cast(utc).cast(pyarrow.string())
            table = table.set_column(position, field.name, text)
    try:
        columns = {name: [_text(value) for value in table[name].to_pylist()] for name in table.column_names}
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: holds text that is not UTF-8") from None
    return Table(file, columns, list(range(1, table.num_rows + 1)))


def _refuse_repeated(file: Path, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise BadInputError(f"{file}: column {', '.join(repeated)} appears more than once")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
