"""Where sessions are kept: in memory, or as files in a folder that several servers share."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.locks import take
from mappable.service.limits import RefusedError

DIGITS = 32  # hexadecimal digits of an id
SUFFIX = ".safetensors"
PATIENCE = 5.0  # seconds that a request waits for another server that works on the same session


class Slot:
    """The content of a session; assign another one to replace it."""

    def __init__(self, content: bytes) -> None:
        self.content = content


class SessionStore(Protocol):
    """Sessions by id, each some bytes. A session that nobody updates expires.

    An unknown session raises a `RefusedError` with status 404.
    """

    def create(self, content: bytes) -> str:
        """Store a new session and return its id; raises if there are too many."""

    def hold(self, name: str) -> AbstractContextManager[Slot]:
        """A context in which nobody else holds the session. What it assigns is stored on exit, also after an error."""

    def stamp(self, name: str) -> float:
        """A number that changes with each update."""

    def read(self, name: str) -> bytes:
        """The content, as of the last update."""

    def remove(self, name: str) -> None:
        """Forget a session."""


class SessionsInMemory:
    """Sessions of one server; they end with it."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kept: dict[str, tuple[float, bytes]] = {}

    def create(self, content: bytes) -> str:
        self._expire()
        _check_number(len(self._kept), self._most)
        name = secrets.token_hex(DIGITS // 2)
        self._kept[name] = self._clock(), content
        return name

    @contextmanager
    def hold(self, name: str) -> Iterator[Slot]:
        slot = Slot(self.read(name))
        try:
            yield slot
        finally:
            self._kept[name] = self._clock(), slot.content

    def stamp(self, name: str) -> float:
        self._expire()
        if name not in self._kept:
            raise _unknown(name)
        return self._kept[name][0]

    def read(self, name: str) -> bytes:
        self.stamp(name)
        return self._kept[name][1]

    def remove(self, name: str) -> None:
        self.stamp(name)
        del self._kept[name]

    def _expire(self) -> None:
        oldest = self._clock() - self._seconds
        self._kept = {name: one for name, one in self._kept.items() if one[0] >= oldest}


class SessionsInFolder:
    """Sessions as files. Servers that share the folder share the sessions, and a server that is killed loses none."""

    def __init__(self, folder: Path, most: int, seconds: float) -> None:
        self._folder, self._most, self._seconds = folder, most, seconds
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise BadInputError(f"{folder}: cannot be a folder of sessions ({reason}); name another one") from None

    def create(self, content: bytes) -> str:
        now = time.time()
        files = [file for file in self._folder.glob(f"*{SUFFIX}") if not self._expire(file, now)]
        _check_number(len(files), self._most)
        name = secrets.token_hex(DIGITS // 2)
        self._write(name, content)
        return name

    @contextmanager
    def hold(self, name: str) -> Iterator[Slot]:
        with self._alone(name):
            slot = Slot(self.read(name))
            try:
                yield slot
            finally:
                self._write(name, slot.content)

    def stamp(self, name: str) -> float:
        file = self._file(name)
        try:
            if not self._expire(file, time.time()):
                return file.stat().st_mtime_ns
        except FileNotFoundError:
            pass
        raise _unknown(name)

    def read(self, name: str) -> bytes:
        self.stamp(name)
        try:
            return self._file(name).read_bytes()
        except FileNotFoundError:  # another server removed it in this moment
            raise _unknown(name) from None

    def remove(self, name: str) -> None:
        with self._alone(name):
            self._file(name).unlink(missing_ok=True)
            self._lock(name).unlink(missing_ok=True)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """A context in which no other server works on the session. The system frees the lock of a killed server."""
        self.stamp(name)
        try:
            lock = take(self._lock(name), within=PATIENCE)
        except OSError:
            raise _no_disk() from None
        if lock is None:
            raise RefusedError(503, "session", f"another server is busy with the session {name!r}; try again later")
        with lock:
            yield

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_atomically(self._file(name), lambda stream: stream.write(content))
        except BadInputError:
            raise _no_disk() from None

    def _expire(self, file: Path, now: float) -> bool:
        """Remove a session that expired, and return whether it did."""
        try:
            expired = file.stat().st_mtime < now - self._seconds
        except FileNotFoundError:
            return True
        if expired:
            file.unlink(missing_ok=True)
            self._lock(file.stem).unlink(missing_ok=True)
        return expired

    def _file(self, name: str) -> Path:
        if len(name) != DIGITS or set(name) - set("0123456789abcdef"):
            raise _unknown(name)
        return self._folder / f"{name}{SUFFIX}"

    def _lock(self, name: str) -> Path:
        return self._folder / f"{name}.lock"


def _check_number(count: int, most: int) -> None:
    if count >= most:
        raise RefusedError(503, "sessions", f"there are {count:,} sessions already; delete one, or try again later")


def _no_disk() -> RefusedError:
    return RefusedError(503, "disk", "the server cannot write to its folder of sessions; its disk may be full")


def _unknown(name: str) -> RefusedError:
    shown = name if len(name) <= DIGITS else f"{name[:DIGITS]}…"
    return RefusedError(404, "session", f"the session {shown!r} does not exist, or it expired; create a new one")
