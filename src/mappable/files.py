"""Atomic file writing, and system errors that name the file."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from mappable.errors import BadInputError


def write_atomically(file: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let `write` fill a temporary file, then replace `file` by it once it is complete and on disk."""
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


@contextmanager
def written_together(*files: Path) -> Iterator[list[Path]]:
    """Temporary file names. Each replaces one of `files` after all of them are complete and on
    disk.
    """
    temporary = [file.with_name(f".{uuid4().hex}{file.suffix}") for file in files]
    try:
        with writing(files[0].parent):
            files[0].parent.mkdir(parents=True, exist_ok=True)
            yield temporary
        for written, file in zip(temporary, files, strict=True):
            with writing(file), written.open("r+b") as stream:
                os.fsync(stream.fileno())
        for written, file in zip(temporary, files, strict=True):
            with writing(file):
                written.replace(file)
        sync_folder(files[0].parent)
    except BadInputError as error:
        text = str(error)
        for written, file in zip(temporary, files, strict=True):
            text = text.replace(str(written), str(file))
        raise BadInputError(text) from error
    finally:
        for written in temporary:
            written.unlink(missing_ok=True)


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 text file atomically: after a crash it is complete or absent."""
    write_atomically(file, lambda stream: stream.write(text.encode()))


def sync_folder(folder: Path) -> None:
    """Flush a folder's file names to disk; without this, a power cut can lose a new file."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_writable(file: Path | str) -> None:
    """Raise if `file` cannot be written; call this before long work. Missing folders are fine."""
    path = Path(file).absolute()
    existing = next(folder for folder in path.parents if folder.exists())
    if path.is_dir() or not existing.is_dir() or not os.access(existing, os.W_OK):
        reason = "it is a folder" if path.is_dir() else f"{existing} is not a writable folder"
        raise BadInputError(f"{file}: cannot be written ({reason})")


@contextmanager
def reading(file: Path | str) -> Iterator[None]:
    """Context in which a system error, or text that is not UTF-8, becomes an error that names the
    file.
    """
    try:
        yield
    except OSError as error:
        raise BadInputError(
            f"{file}: cannot be read ({(error.strerror or str(error)).lower()})"
        ) from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: not a text file in UTF-8") from None


@contextmanager
def writing(file: Path | str) -> Iterator[None]:
    """Context in which a system error becomes an error that names the file."""
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{file}: cannot be written ({error.strerror or error})") from error
