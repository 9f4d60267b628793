"""Tables of the report: columns of numbers or words, as text for the page and as data for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from mappable.evaluation.bootstrap import Interval
from mappable.evaluation.metrics import MeanStd

Cell = str | int | float | MeanStd | Interval | None
NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """One cell per row: numbers with `digits` decimals, or words. Columns of one `group` share a
    heading.
    """

    title: str
    cells: Sequence[Cell]
    digits: int = 1
    group: str = ""

    @property
    def words(self) -> bool:
        """True if any cell is text. Text is left-aligned, numbers are right-aligned."""
        return any(isinstance(cell, str) for cell in self.cells)

    @property
    def texts(self) -> list[str]:
        """The cells as they are shown."""
        return [cell_text(cell, self.digits) for cell in self.cells]


@dataclass(frozen=True)
class Table:
    """Columns of equal length with a caption. The last `references` rows are not models, but
    numbers to compare with.

    Row number `best` is highlighted. A `folded` table is closed until the reader opens it.
    """

    name: str
    columns: Sequence[Column]
    caption: str = ""
    best: int | None = None
    references: int = 0
    folded: bool = False

    @property
    def shown(self) -> bool:
        """False for a table that has nothing but names."""
        return len(self.columns) > 1

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The group headings and the number of columns under each; empty if no column has a group."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found if any(group for group, _ in found) else []

    @property
    def rows(self) -> list[tuple[Literal["", "best", "reference"], tuple[str, ...]]]:
        """The kind and the texts of each row."""
        texts = list(zip(*(column.texts for column in self.columns), strict=True))
        last = len(texts) - self.references
        return [
            ("reference" if row >= last else "best" if row == self.best else "", text)
            for row, text in enumerate(texts)
        ]

    def to_json(self) -> dict[str, Any]:
        """Titles, and the cells in full precision, one list per row."""
        titles = [
            f"{column.group}: {column.title}" if column.group else column.title
            for column in self.columns
        ]
        rows = zip(
            *([cell_json(cell) for cell in column.cells] for column in self.columns), strict=True
        )
        return {"caption": self.caption, "columns": titles, "rows": [list(row) for row in rows]}


def table(
    name: str,
    *columns: Column,
    caption: str = "",
    best: Sequence[Cell] = (),
    references: int = 0,
    folded: bool = False,
) -> Table:
    """A table of the columns, without columns that are empty in all rows except references.

    The last cells of a column may be left out if they are empty.
    `best` has one number per row. If there are several rows, the row with the highest number is
    highlighted.
    """
    rows = max(len(column.cells) for column in columns)
    models = rows - references
    kept = [
        replace(column, cells=[*column.cells, *[None] * (rows - len(column.cells))])
        for column in columns
        if any(cell is not None for cell in column.cells[:models])
    ]
    highest = None
    if models > 1 and best:
        highest = max(range(models), key=lambda row: _number(best[row]))
    return Table(name, kept, caption, highest, references, folded)


def cell_text(cell: Cell, digits: int = 1) -> str:
    """A cell as it is shown.

    >>> cell_text(MeanStd(79.444, 0.31)), cell_text(12329), cell_text(-0.25, 2), cell_text(None)
    ('79.4 ± 0.3', '12,329', '−0.25', '–')
    """
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, MeanStd):
        return cell_text(cell.mean, digits) + (
            f" ± {cell.std:,.{digits}f}" if cell.std is not None else ""
        )
    if isinstance(cell, Interval):
        return f"[{cell_text(cell.low, digits)}, {cell_text(cell.high, digits)}]"
    return (f"{cell:,}" if isinstance(cell, int) else f"{cell:,.{digits}f}").replace("-", "−")


def cell_json(cell: Cell) -> Any:
    """A cell as JSON can hold it."""
    if isinstance(cell, MeanStd | Interval):
        return asdict(cell)
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _number(cell: Cell) -> float:
    number = cell.mean if isinstance(cell, MeanStd | Interval) else cell
    return number if isinstance(number, int | float) and not math.isnan(number) else -math.inf
