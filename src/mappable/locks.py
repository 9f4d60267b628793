"""Locks between processes that work in the same folder.

A lock file that cannot be written raises OSError.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from mappable.errors import BadInputError

PATIENCE = 1.0  # seconds of waiting before a note is printed
Lock = AbstractContextManager[Any]


def take(file: Path, *, within: float = 0.0) -> Lock | None:
    """Take the lock `file`; return None if another process still holds it after `within` seconds."""
    from filelock import FileLock, Timeout  # imported here, so that machines that write no files do not need it

    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(file).acquire(timeout=within)
    except Timeout:
        return None


def wait_for(file: Path, what: str) -> Lock:
    """Wait until no other process holds the lock `file`, then take it.

    `what` says what that process does, such as "fetches the weights"; a note prints it if waiting takes long.
    """
    lock = take(file, within=PATIENCE)
    if lock is None:
        print(f"note: waiting for another process that {what}", file=sys.stderr)
    while lock is None:
        lock = take(file, within=-1)  # without a timeout
    return lock


@contextmanager
def alone_in(folder: Path, doing: str) -> Iterator[None]:
    """Context in which no other process can do the same in `folder`; `doing` says what, and the folder is created."""
    try:
        lock = take(folder / ".lock")
    except (FileExistsError, NotADirectoryError):
        raise BadInputError(f"{folder}: expected a folder, but it is a file or lies below a file") from None
    except OSError as error:
        raise BadInputError(f"{folder}: cannot be written ({error.strerror or error})") from None
    if lock is None:
        raise BadInputError(f"{folder}: another process is {doing} there right now; try again when it has finished")
    with lock:
        yield
