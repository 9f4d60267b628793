"""Video files, opened with PyAV; every exception of PyAV becomes a sentence."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Pixels
from mappable.errors import BadInputError, MappableError, install_extra


def require_pyav() -> None:
    """Raise if PyAV is not installed."""
    try:
        import av  # noqa: F401
    except ImportError:
        raise MappableError(f"videos need PyAV; {install_extra('video')}") from None


@contextmanager
def opened(file: Path) -> Iterator[tuple[Any, Any]]:
    """The PyAV container and video stream of a file; every exception of PyAV becomes a
    BadInputError.
    """
    import av

    # A camera, such as /dev/video0; never run with a real one.
    kind = "v4l2" if file.is_char_device() else None
    try:
        try:
            opened = av.open(str(file), format=kind, metadata_errors="replace")
        except TypeError:  # PyAV 19 removed this argument, and does not need it
            opened = av.open(str(file), format=kind)
        with opened as container:
            if not container.streams.video:
                raise BadInputError(f"{file}: no video stream; the file may be truncated")
            yield container, container.streams.video[0]
    except MappableError:
        raise
    except Exception as error:  # a damaged file can make PyAV raise almost any exception
        raise BadInputError(
            f"{file}: damaged, truncated or not a video ({reason(error)})"
        ) from None


def reason(error: Exception) -> str:
    """What went wrong, in the words of PyAV."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def play(file: Path) -> Iterator[tuple[float, Pixels]]:
    """All frames of a video, in order: seconds since the first frame, and pixels (height, width,
    3).
    """
    require_pyav()
    first, before = None, -math.inf
    with opened(file) as (container, stream):
        stream.thread_type = "AUTO"
        frames = container.decode(stream)
        while True:
            try:
                frame = next(frames, None)
            except Exception as error:
                raise BadInputError(
                    f"{file}: damaged or truncated after {max(before, 0.0):.1f} s ({reason(error)})"
                ) from None
            if frame is None:
                return
            if frame.time is None or frame.is_corrupt:
                continue
            first = frame.time if first is None else first
            if frame.time - first > before:
                before = frame.time - first
                yield before, np.asarray(frame.to_image().rotate(frame.rotation, expand=True))
