"""Writing files so that a reader never sees half of one, and errors of the system that name the file."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from mappable.errors import BadInputError


def write_atomically(file: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let `write` fill a new file that replaces `file` only when it is complete and on disk."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{uuid4().hex}")
        try:
            with temporary.open("xb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(file)
            sync_folder(file.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_text(file: Path, text: str) -> None:
    """Write a text file in UTF-8 that is complete or not there."""
    write_atomically(file, lambda stream: stream.write(text.encode()))


def sync_folder(folder: Path) -> None:
    """Write a folder's file names to disk: a new file survives a power cut only then."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_writable(file: Path | str) -> None:
    """Raise if a file cannot be written, before the work whose result it will hold; folders may be missing."""
    path = Path(file).absolute()
    above = next(folder for folder in path.parents if folder.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK):
        reason = "it is a folder" if path.is_dir() else f"{above} is no folder that can be written to"
        raise BadInputError(f"{file}: cannot be written ({reason})")


@contextmanager
def reading(file: Path | str) -> Iterator[None]:
    """Within this, an error of the system, or text that is not UTF-8, becomes one that names the file."""
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read ({(error.strerror or str(error)).lower()})") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: not a text file in UTF-8") from None


@contextmanager
def writing(file: Path | str) -> Iterator[None]:
    """Within this, an error of the system becomes one that names the file."""
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{file}: cannot be written ({error.strerror or error})") from error
