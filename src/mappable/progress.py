"""Progress bars on standard error; silent when nobody is watching."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


def track(items: Iterable[Item], what: str, total: int) -> Iterator[Item]:
    """Yield `items` while a bar titled `what` counts them up to `total`."""
    with progress_bar(what, total) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar titled `what` that moves on by n of `total` with each `advance(n)`."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
