"""Notes: messages of a reader to its user, counted; they travel with the table."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Note:
    """One finding. `items` lists every file, row or value it is about; `warning` is False for plain information."""

    text: str
    items: tuple[str, ...] = ()
    warning: bool = True

    def __post_init__(self) -> None:
        if not all(item.isascii() for item in self.items):  # names of files need not be valid text
            safe = tuple(item.encode("utf-8", "backslashreplace").decode() for item in self.items)
            object.__setattr__(self, "items", safe)

    def __str__(self) -> str:
        return f"{len(self.items):,} {self.text}" if self.items else self.text

    def lines(self, most: int = 5) -> list[str]:
        """The note and its first few items, one line each."""
        shown = [f"  {item}" for item in self.items[:most]]
        hidden = len(self.items) - most
        return [str(self), *shown, *([f"  and {hidden:,} more"] if hidden > 0 else [])]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Note":
        return cls(fields["text"], tuple(fields["items"]), fields["warning"])


def warn(text: str, items: Iterable[str]) -> tuple[Note, ...]:
    """One warning about `items`, or none at all if there are none: `notes = warn("images without GPS", missing)`."""
    listed = tuple(items)
    return (Note(text, listed),) if listed else ()


class Findings(defaultdict[str, list[str]]):
    """What a reader finds wrong, gathered as it goes: `findings["images without GPS"].append(path)`."""

    def __init__(self) -> None:
        super().__init__(list)

    def notes(self) -> tuple[Note, ...]:
        """A warning for each text that has any items."""
        return tuple(note for text, items in self.items() for note in warn(text, items))


def merged(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The same notes, with the items of those that say the same put together."""
    items: dict[tuple[str, bool], list[str]] = {}
    for note in notes:
        items.setdefault((note.text, note.warning), []).extend(note.items)
    return tuple(Note(text, tuple(listed), warning) for (text, warning), listed in items.items())


def count_beside_paper(counts: Sequence[tuple[str, int, int]]) -> Note:
    """Our numbers of images beside the paper's, as (split, ours, the paper's)."""
    parts = [f"{split} {ours:,} images (the paper: {paper:,})" for split, ours, paper in counts]
    return Note("; ".join(parts), warning=False)
