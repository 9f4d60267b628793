"""Tables from users (CSV or Parquet), read by column name; errors name the file, the row and the value."""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow

from mappable.arrays import Bools, Floats, Ints
from mappable.containers import read_parquet
from mappable.errors import BadInputError, BadRowError, listed, shown
from mappable.files import reading
from mappable.times import TimeUnit, nanoseconds

Value = TypeVar("Value")


@dataclass(frozen=True)
class Table:
    """The columns of one file as text, and the number of each row in the file; a missing value is
    "".

    `row_name` is the word for a row in errors. `names_in_file` has the names in the file of renamed
    columns.
    """

    file: Path
    columns: dict[str, list[str]]
    row_numbers: list[int]
    row_name: str = "row"
    names_in_file: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row_numbers)

    def at(self, rows: Sequence[int]) -> "Table":
        """The table with only some data rows (counted from 0), which keep their numbers in the
        file.
        """
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, row_numbers=[self.row_numbers[row] for row in rows])

    def require(self, *names: str) -> None:
        """Raise if the file lacks one of the columns `names`."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise BadInputError(
                f"{self.file}: no column {', '.join(missing)}; it has {listed(self.columns)}"
            )

    def where(self, row: int) -> str:
        """The name of data row `row` (counted from 0) in errors."""
        return f"{self.file}, {self.row_name} {self.row_numbers[row]}"

    def bad(self, row: int, name: str, problem: str) -> BadInputError:
        """The error for the value of column `name` in data row `row` (counted from 0).

        `problem` says what was expected ("expected a number"), or what the value is or must be
        ("must differ from i").
        """
        link = ", " if problem.startswith("expected ") else ": it "
        written = self.names_in_file.get(name, name)
        return BadInputError(
            f"{self.where(row)}: column {written!r} is"
            f" {shown(self.columns[name][row])}{link}{problem}"
        )

    def refuse(self, wrong: Bools, name: str, problem: str) -> None:
        """Raise the error of `bad` for the first data row whose value in column `name` is `wrong`."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            raise self.bad(int(rows[0]), name, problem)

    def parse(self, name: str, convert: Callable[[str], Value], problem: str) -> list[Value]:
        """Convert the values of a column; a ValueError of `convert` becomes the error of `bad` with
        `problem`.
        """
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
        """Context in which the error for a bad place names this file and the row in it."""
        try:
            yield
        except BadRowError as error:
            raise BadInputError(f"{self.where(error.row)}: {error.problem}") from None

    def texts(self, name: str) -> list[str]:
        """A column as text."""
        self.require(name)
        return self.columns[name]

    def numbers(
        self,
        name: str,
        low: float = -math.inf,
        high: float = math.inf,
        missing_allowed: bool = False,
    ) -> Floats:
        """A column of finite numbers from `low` to `high`; a missing value becomes NaN if
        `missing_allowed`.
        """

        def convert(text: str) -> float:
            if "_" in text:  # Python accepts 1_000
                raise ValueError
            return math.nan if missing_allowed and not text else float(text)

        values = np.array(self.parse(name, convert, "expected a number"), dtype=np.float64)
        missing = np.array([not text for text in self.columns[name]], dtype=bool)
        given = ~(missing & missing_allowed)
        self.refuse(~np.isfinite(values) & given, name, "expected a finite number")
        outside = (
            f"expected {low:g} to {high:g}" if high < math.inf else f"expected {low:g} or more"
        )
        self.refuse(((values < low) | (values > high)) & given, name, outside)
        return values

    def times(self, name: str, unit: TimeUnit) -> Ints:
        """A column of times, in `unit` or in ISO 8601, as nanoseconds."""
        values = self.parse(
            name, lambda text: nanoseconds(text, unit), f"expected a time in {unit} or in ISO 8601"
        )
        return np.array(values, dtype=np.int64)


def read_table(file: Path) -> Table:
    """Read a .csv or .parquet file."""
    if not file.is_file():
        raise BadInputError(f"{file}: no such file")
    return _read_parquet(file) if file.suffix == ".parquet" else read_csv(file)


def read_csv(file: Path, delimiter: str | None = None, exact: bool = False) -> Table:
    """Read a delimited text file whose first line names the columns.

    The default `delimiter` is the comma, semicolon or tab that occurs most often in the first line.
    A row's number is the line on which it begins, counted from 1 as in an editor. Empty lines and
    rows of empty values are skipped. A row with too few or too many values is an error. White space
    around values is dropped unless `exact`.
    """
    next_row = 1  # line on which the next row begins
    try:
        with reading(file), file.open(newline="", encoding="utf-8-sig") as stream:
            if delimiter is None:
                first_line = next((line for line in stream if line.strip()), "")
                delimiter = max(",;\t", key=first_line.count)
                stream.seek(0)
            # Strict, because otherwise an unclosed quote swallows all rows after it.
            reader = csv.reader(
                stream, delimiter=delimiter, skipinitialspace=not exact, strict=True
            )
            names, rows, numbers = list[str](), [], []
            for row in reader:
                row_number, next_row = next_row, reader.line_num + 1
                if not any(row):
                    continue
                if not names:
                    names = [name.strip() for name in row]
                    continue
                if len(row) != len(names):
                    raise BadInputError(
                        f"{file}, row {row_number}: {len(row)} values, but there are {len(names)}"
                        " columns"
                    )
                rows.append(row)
                numbers.append(row_number)
    except csv.Error as error:
        raise BadInputError(
            f"{file}, row {next_row}: cannot be read as a row of a table ({error})"
        ) from None
    if not names:
        raise BadInputError(f"{file}: the file is empty")
    _refuse_repeated(file, names)
    values = zip(*rows, strict=True) if rows else ([] for _ in names)
    columns = {name: list(column) for name, column in zip(names, values, strict=True)}
    if not exact:
        columns = {name: [value.strip() for value in column] for name, column in columns.items()}
    return Table(file, columns, numbers)


def read_words(
    file: Path, names: Sequence[str], *, rest: bool = False, every: int = 1, most: int | None = None
) -> Table:
    """Read a text file whose rows are words separated by white space, one word per column of
    `names`.

    Empty lines and lines that begin with # are skipped. Rows are numbered as in an editor. With
    `rest`, the last column is the rest of the row. Of the lines, one in `every` is a row; after
    `most` lines, the file is not read on.
    """
    return _read_lines(file, names, None, rest=rest, every=every, most=most)


def read_values(
    file: Path,
    names: Sequence[str],
    *,
    rest: bool = False,
    header: bool = False,
    skip_short: bool = False,
) -> Table:
    """Read a text file whose rows are values separated by commas, in the order of `names`; further
    values are ignored.

    Empty lines and lines that begin with # are skipped, with `header` a first line that begins with
    a letter, and with `skip_short` rows of fewer values. With `rest`, the last column is the rest
    of the row.
    """
    table = _read_lines(file, names, ",", rest=rest, header=header, skip_short=skip_short)
    if not len(table):
        raise BadInputError(f"{file}: no rows")
    return table


def _read_lines(
    file: Path,
    names: Sequence[str],
    delimiter: str | None,
    *,
    rest: bool,
    header: bool = False,
    skip_short: bool = False,
    every: int = 1,
    most: int | None = None,
) -> Table:
    with reading(file), file.open(encoding="utf-8-sig") as stream:
        texts = (
            (number, line.strip()) for number, line in enumerate(islice(stream, most), start=1)
        )
        lines = [(number, text) for number, text in texts if not text.startswith("#")]
    rows: dict[int, list[str]] = {}
    for number, text in lines[::every]:
        if not text or (header and not rows and text[0].isalpha()):
            continue
        values = text.split(delimiter, len(names) - 1 if rest else -1)
        if skip_short and len(values) < len(names):
            continue
        if len(values) < len(names) or (delimiter is None and len(values) > len(names)):
            raise BadInputError(
                f"{file}, row {number}: {len(values)} values, expected {len(names)}"
            )
        rows[number] = values
    columns = {
        name: [values[place].strip() for values in rows.values()]
        for place, name in enumerate(names)
    }
    return Table(file, columns, list(rows))


def _read_parquet(file: Path) -> Table:
    table = read_parquet(file)
    _refuse_repeated(file, table.column_names)
    for position, column in enumerate(table.schema):
        # As ISO 8601 text, because datetime has no nanoseconds.
        if pyarrow.types.is_timestamp(column.type):
            utc = pyarrow.timestamp(column.type.unit)
            text = table[column.name].cast(utc).cast(pyarrow.string())
            table = table.set_column(position, column.name, text)
    try:
        columns = {
            name: [_text(value) for value in table[name].to_pylist()] for name in table.column_names
        }
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: contains text that is not UTF-8") from None
    return Table(file, columns, list(range(1, table.num_rows + 1)))


def _refuse_repeated(file: Path, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise BadInputError(f"{file}: column {listed(repeated)} appears more than once")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
