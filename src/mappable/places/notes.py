"""Notes: messages of a reader to the user, with the items that they are about. They are saved with the table."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Note:
    """One message. `items` lists every file, row or value that it is about; `warning` is False for information."""

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


def warn(text: str, items: Iterable[str]) -> tuple[Note, ...]:
    """One warning about `items`, or no warning if there are no items: `notes = warn("images without GPS", missing)`."""
    listed = tuple(items)
    return (Note(text, listed),) if listed else ()


class Findings(defaultdict[str, list[str]]):
    """Problems that a reader collects: `findings["images without GPS"].append(path)`."""

    def __init__(self) -> None:
        super().__init__(list)

    def notes(self) -> tuple[Note, ...]:
        """One warning for each text with at least one item."""
        return tuple(note for text, items in self.items() for note in warn(text, items))


def merged(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes, with the items of notes of the same text merged."""
    items: dict[tuple[str, bool], list[str]] = {}
    for note in notes:
        items.setdefault((note.text, note.warning), []).extend(note.items)
    return tuple(Note(text, tuple(listed), warning) for (text, warning), listed in items.items())


def count_beside_paper(counts: Sequence[tuple[str, int, int]]) -> Note:
    """A note that compares numbers of images with the paper; `counts` has (split, our number, number in the paper)."""
    parts = [f"{split} {ours:,} images (paper: {paper:,})" for split, ours, paper in counts]
    return Note("; ".join(parts), warning=False)
