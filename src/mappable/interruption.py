"""Delayed Ctrl-C: work that must not be cut in two finishes and saves its current step first."""

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
    """Context that delays the first Ctrl-C (or SIGTERM) to its end; the yielded function then
    returns True.

    A second Ctrl-C takes effect at once. The first one prints `say`. The context does nothing if it
    is not `active`, outside the main thread, or within another such context.
    """
    global _held
    # Only this thread may handle signals.
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not active or _held or not in_main_thread:
        yield lambda: False
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        restore()
        if say and speaks():  # Ctrl-C reaches every process of a group
            os.write(2, f"\n{say}\n".encode())  # print is not safe in a signal handler

    _held = True
    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(received)
    finally:
        restore()
        _held = False
    if received:
        signal.raise_signal(received[0])
