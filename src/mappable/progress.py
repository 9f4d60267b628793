"""Progress bars on standard error; silent when nobody is watching."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Advance(Protocol):
    """Moves a bar on, and says how things stand below it."""

    def __call__(self, count: int, note: str = "") -> None: ...


def track(items: Iterable[Item], what: str, total: int) -> Iterator[Item]:
    """Yield `items` while a bar titled `what` counts them up to `total`."""
    with progress_bar(what, total) as advance:
        for item in items:
            yield item
            advance(1)


def speaks() -> bool:
    """True in the one process that speaks to the user, be it that its group is joined, not yet, or no more."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Advance]:
    """A bar titled `what` that moves on by n of `total` with each `advance(n)`; `advance(n, note)` shows a text too."""
    if not (sys.stderr.isatty() and speaks()):
        yield lambda count, note="": None
        return
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class NotedProgress(Progress):
        """The note is below the bar, for beside it a usual terminal has no room."""

        note = ""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield from super().get_renderables()
            if self.note:
                yield Text(self.note, no_wrap=True, overflow="ellipsis")

    columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    with NotedProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)

        def advance(count: int, note: str = "") -> None:
            bar.note = note
            bar.advance(task, count)

        yield advance
