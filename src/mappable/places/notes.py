"""Notes: what a reader or a check tells the user, with the items that it is about. They are saved with the table."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Note:
    """One message. `items` lists every file, row or value that it is about; `warning` is False for
    information.
    """

    text: str
    items: tuple[str, ...] = ()
    warning: bool = True

    def __post_init__(self) -> None:
        if not all(item.isascii() for item in self.items):  # file names may be invalid Unicode
            safe = tuple(item.encode("utf-8", "backslashreplace").decode() for item in self.items)
            object.__setattr__(self, "items", safe)

    def __str__(self) -> str:
        return f"{len(self.items):,} {self.text}" if self.items else self.text

    def lines(self, most: int = 5) -> list[str]:
        """The note and its first items, one line each."""
        shown = [f"  {item}" for item in self.items[:most]]
        hidden = len(self.items) - most
        return [str(self), *shown, *([f"  and {hidden:,} more"] if hidden > 0 else [])]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Note":
        return cls(fields["text"], tuple(fields["items"]), fields["warning"])


class Findings:
    """Notes while they are collected: `found.note("images have no pose", names)`. Notes of one text
    become one.
    """

    def __init__(self, notes: Iterable[Note] = ()) -> None:
        self._items: dict[tuple[str, bool], list[str]] = {}
        self.add(*notes)

    def add(self, *notes: Note) -> None:
        for note in notes:
            self._items.setdefault((note.text, note.warning), []).extend(note.items)

    def note(self, text: str, items: Iterable[str], *, warning: bool = True) -> None:
        """Note the items of a problem; without items there is no note."""
        listed = tuple(items)
        if listed:
            self.add(Note(text, listed, warning))

    def say(self, text: str, *, warning: bool = True) -> None:
        """Note a fact without items."""
        self.add(Note(text, warning=warning))

    def count(self, text: str, name: str, number: int, of: int) -> None:
        """Note that `number` of the things of `name` have a problem, unless that is 0."""
        self.note(text, [f"{name}: {number:,} of {of:,}"] if number else [])

    def __iter__(self) -> Iterator[Note]:
        return iter(
            Note(text, (*items,), warning) for (text, warning), items in self._items.items()
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        return (*self,)


def warn(text: str, items: Iterable[str]) -> tuple[Note, ...]:
    """One warning about `items`, or no warning if there are no items."""
    listed = tuple(items)
    return (Note(text, listed),) if listed else ()
