"""Locks between processes that work in the same folder.

A lock is a file that exists while a process holds it; only a process that is killed leaves it
behind, where it does no harm. A lock file that cannot be written raises OSError.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mappable.errors import BadInputError

if TYPE_CHECKING:
    from filelock import BaseFileLock

PATIENCE = 1.0  # seconds of waiting before a note is printed
Lock = AbstractContextManager[Any]


def take(file: Path, *, within: float = 0.0) -> Lock | None:
    """Take the lock `file`; return None if another process still holds it after `within` seconds."""
    # Imported here, so that machines that write no files do not need it.
    from filelock import FileLock, Timeout

    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(timeout=within)
    except Timeout:
        return None
    return _held(lock)


@contextmanager
def _held(lock: "BaseFileLock") -> Iterator[None]:
    """Context of a lock that is taken already; its file vanishes at the end."""
    try:
        yield
    finally:
        with suppress(OSError):
            # Before the release; a process that waits for this file opens a new one.
            Path(lock.lock_file).unlink()
        lock.release()


def wait_for(file: Path, what: str) -> Lock:
    """Wait until no other process holds the lock `file`, then take it.

    `what` says what that process does, such as "fetches the weights"; a note prints it if waiting
    takes long.
    """
    lock = take(file, within=PATIENCE)
    if lock is None:
        print(f"note: waiting for another process that {what}", file=sys.stderr)
    while lock is None:
        lock = take(file, within=-1)  # without a timeout
    return lock


@contextmanager
def alone_in(folder: Path, doing: str) -> Iterator[None]:
    """Create `folder` if needed, and hold an exclusive lock on it. Errors quote `doing`."""
    with _alone(folder / ".lock", folder, f"is {doing} there right now"):
        yield


@contextmanager
def alone_with(file: Path) -> Iterator[None]:
    """Hold an exclusive lock on `file`."""
    with _alone(file.with_name(f".{file.name}.lock"), file, "uses this file"):
        yield


@contextmanager
def _alone(lock_file: Path, what: Path, why: str) -> Iterator[None]:
    try:
        lock = take(lock_file)
    except (FileExistsError, NotADirectoryError):
        raise BadInputError(
            f"{lock_file.parent}: expected a folder, but it is a file or lies below a file"
        ) from None
    except OSError as error:
        raise BadInputError(
            f"{lock_file.parent}: cannot be written ({error.strerror or error})"
        ) from None
    if lock is None:
        raise BadInputError(f"{what}: another process {why}; try again when it has finished")
    with lock:
        yield
