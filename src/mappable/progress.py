"""Progress on standard error: a bar on a terminal, one line per minute otherwise.

Only `advance` prints lines, so a single step that takes longer than a minute prints nothing until
it ends.
"""

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

Item = TypeVar("Item")


MINUTE = 60.0


class Advance(Protocol):
    """Advances a bar by `count`, and shows a note below it."""

    def __call__(self, count: float, note: str = "") -> None: ...


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
    """Show the progress of work titled `what`; `advance(n, note)` counts n more of `total` and
    shows a note.
    """
    if not speaks():
        yield lambda count, note="": None
    elif _commands:
        yield _commands[-1].bar(what, total)
    elif not sys.stderr.isatty() or not _terminal.acquire(blocking=False):
        yield from _lines(what, total)
    else:
        try:
            yield from _bar(what, total)
        finally:
            _terminal.release()


@contextmanager
def one_bar(what: str, stages: Sequence[tuple[str, float]]) -> Iterator[None]:
    """Show one bar titled `what` for all bars inside, with the time left for all of them.

    `stages` are beginnings of the titles of these bars, in order, and the seconds that each usually
    takes.
    """
    total = round(sum(seconds for _, seconds in stages))
    with progress_bar(what, total) as advance:
        command = _Command(stages, advance)
        _commands.append(command)
        try:
            yield
        finally:
            _commands.remove(command)
        advance(total - command.reached)


class _Command:
    """Counts usual seconds of work. A stage that was skipped counts when a later one advances."""

    def __init__(self, stages: Sequence[tuple[str, float]], advance: Advance) -> None:
        self.stages = stages
        self.advance = advance
        self.stage = 0  # the current stage
        self.reached = 0.0  # seconds

    def bar(self, what: str, total: int) -> Advance:
        """The part of the bar that belongs to the next stage of that title; a bar of no stage shows
        its title.
        """
        later = range(self.stage, len(self.stages))
        stage = next((stage for stage in later if what.startswith(self.stages[stage][0])), None)
        if stage is None:
            return lambda count, note="": self.advance(0, note or what)
        self.stage = stage
        before = sum(seconds for _, seconds in self.stages[:stage])
        per_item = self.stages[stage][1] / max(total, 1)
        done = 0.0

        def advance(count: float, note: str = "") -> None:
            nonlocal done
            done += count
            reached = max(before + per_item * min(done, total), self.reached)
            self.advance(reached - self.reached, note or what)
            self.reached = reached

        return advance


_commands: list[_Command] = []  # the bar of the whole command, if there is one
_terminal = threading.Lock()  # held by the only bar on the terminal; others print lines


def _bar(what: str, total: int) -> Iterator[Advance]:
    from rich.console import Console, RenderableType
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class NotedProgress(Progress):
        """Shows the note below the bar, because most terminals have no room beside the bar."""

        note = ""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield from super().get_renderables()
            if self.note:
                yield Text(self.note, no_wrap=True, overflow="ellipsis")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with NotedProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)

        def advance(count: float, note: str = "") -> None:
            bar.note = note
            bar.advance(task, count)

        yield advance


def _lines(what: str, total: int) -> Iterator[Advance]:
    """Print a line per minute, and a last one when work that printed lines ends."""
    start = printed = time.monotonic()
    done = before = 0.0

    def advance(count: float, note: str = "") -> None:
        nonlocal done, before, printed
        done += count
        now = time.monotonic()
        if now - start < 1:  # resumed work counts at once what an earlier process did
            before = done
        if now - printed < MINUTE or done >= total:
            return
        printed = now
        left = (
            f", about {_duration((now - start) * (total - done) / (done - before))} left"
            if done > before
            else ""
        )
        _print(
            f"{what}: {done:,.0f} of {total:,} ({100 * done // total:.0f}"
            f" %){left}{', ' * bool(note)}{note}"
        )

    yield advance
    if printed > start:
        _print(f"{what}: {done:,.0f} of {total:,} in {_duration(time.monotonic() - start)}")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes = round(seconds / MINUTE)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
