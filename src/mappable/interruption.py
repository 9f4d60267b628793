"""Ctrl-C during work that must not be cut in two: finish and save the current step first."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from mappable.progress import speaks

_held = False


@contextmanager
def held_back(active: bool = True, *, say: str = "") -> Iterator[Callable[[], bool]]:
    """Within this, the first Ctrl-C (or SIGTERM) only makes the yielded function say True; it takes effect at the end.

    A second one takes effect at once. The user is told `say`. Not `active`, or within another such block, it does
    nothing.
    """
    global _held
    in_main_thread = threading.current_thread() is threading.main_thread()  # which alone may handle signals
    if not active or _held or not in_main_thread:
        yield lambda: False
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        restore()
        if say and speaks():  # Ctrl-C reaches every process of a group
            os.write(2, f"\n{say}\n".encode())  # safe in a handler

    _held = True
    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        restore()
        _held = False
    if came:
        signal.raise_signal(came[0])
