"""Video files, opened with PyAV; every exception of PyAV becomes a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mappable.errors import BadInputError, MappableError, install_extra


def require_pyav() -> None:
    """Raise if PyAV is not installed."""
    try:
        import av  # noqa: F401
    except ImportError:
        raise MappableError(f"videos need PyAV; {install_extra('video')}") from None


@contextmanager
def opened(file: Path) -> Iterator[tuple[Any, Any]]:
    """The PyAV container and video stream of a file; every exception of PyAV becomes a BadInputError."""
    import av

    try:
        try:
            opened = av.open(str(file), metadata_errors="replace")
        except TypeError:  # PyAV 19 removed this argument, and does not need it
            opened = av.open(str(file))
        with opened as container:
            if not container.streams.video:
                raise BadInputError(f"{file}: no video stream; the file may be truncated")
            yield container, container.streams.video[0]
    except MappableError:
        raise
    except Exception as error:  # a damaged file can make PyAV raise almost any exception
        raise BadInputError(f"{file}: damaged, truncated or not a video ({reason(error)})") from None


def reason(error: Exception) -> str:
    """What went wrong, in the words of PyAV."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
