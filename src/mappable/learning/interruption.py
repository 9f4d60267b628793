"""Ctrl-C while an encoder learns: the step under way is finished and saved first."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from mappable.learning.distributed import speaks


@contextmanager
def held_back(active: bool = True) -> Iterator[Callable[[], bool]]:
    """Within this, the first Ctrl-C (or SIGTERM) only makes the yielded function say True; it takes effect at the end.

    A second one takes effect at once. Not `active`, it does nothing.
    """
    if not active or threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield lambda: False
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        restore()
        if speaks():  # Ctrl-C reaches every process of a group
            os.write(2, b"\nfinishing this step and saving; once more, and it stops at once\n")  # safe in a handler

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        restore()
    if came:
        signal.raise_signal(came[0])
