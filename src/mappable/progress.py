"""Progress on standard error: a bar on a terminal, one line per minute otherwise.

Only `advance` prints lines, so a single step that takes longer than a minute prints nothing until it ends.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

Item = TypeVar("Item")


MINUTE = 60.0


class Advance(Protocol):
    """Advances a bar by `count`, and shows a note below it."""

    def __call__(self, count: int, note: str = "") -> None: ...


def track(items: Iterable[Item], what: str, total: int) -> Iterator[Item]:
    """Yield `items` while a bar titled `what` counts them up to `total`."""
    with progress_bar(what, total) as advance:
        for item in items:
            yield item
            advance(1)


def speaks() -> bool:
    """True in the only process of a group that prints: rank 0."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Advance]:
    """Show the progress of work titled `what`; `advance(n, note)` counts n more of `total` and shows a note."""
    if not speaks():
        yield lambda count, note="": None
        return
    if not sys.stderr.isatty():
        yield from _lines(what, total)
        return
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class NotedProgress(Progress):
        """Shows the note below the bar, because most terminals have no room beside the bar."""

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


def _lines(what: str, total: int) -> Iterator[Advance]:
    """Print a line per minute, and a last one when work that printed lines ends."""
    start = printed = time.monotonic()
    done = before = 0

    def advance(count: int, note: str = "") -> None:
        nonlocal done, before, printed
        done += count
        now = time.monotonic()
        if now - start < 1:  # resumed work counts at once what an earlier process did
            before = done
        if now - printed < MINUTE or done >= total:
            return
        printed = now
        left = f", about {_duration((now - start) * (total - done) / (done - before))} left" if done > before else ""
        _print(f"{what}: {done:,} of {total:,} ({100 * done // total} %){left}{', ' * bool(note)}{note}")

    yield advance
    if printed > start:
        _print(f"{what}: {done:,} of {total:,} in {_duration(time.monotonic() - start)}")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes = round(seconds / MINUTE)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
