"""Locks between processes that work in one folder.

OSError means that the lock cannot be written.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from mappable.errors import BadInputError

PATIENCE = 1.0  # seconds before it is said what is waited for
Lock = AbstractContextManager[Any]


def take(file: Path, *, within: float = 0.0) -> Lock | None:
    """The lock of that name; None where another process holds it for so many seconds."""
    from filelock import FileLock, Timeout  # here, so that machines that keep no files need not have it

    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(file).acquire(timeout=within)
    except Timeout:
        return None


def wait_for(file: Path, what: str) -> Lock:
    """The lock of that name, as soon as no other process holds it; if that takes long, it is said what it does."""
    lock = take(file, within=PATIENCE)
    if lock is None:
        print(f"note: waiting for another process that {what}", file=sys.stderr)
    while lock is None:
        lock = take(file, within=-1)  # however long it takes
    return lock


@contextmanager
def alone_in(folder: Path, doing: str) -> Iterator[None]:
    """Within this, no other process can do the same in the folder, which is made; `doing` says what."""
    try:
        lock = take(folder / ".lock")
    except (FileExistsError, NotADirectoryError):
        raise BadInputError(f"{folder}: is a file, or lies below one, but must be a folder") from None
    except OSError as error:
        raise BadInputError(f"{folder}: cannot be written ({error.strerror or error})") from None
    if lock is None:
        raise BadInputError(f"{folder}: another process is {doing} there right now")
    with lock:
        yield
