"""Images of a drive, one by one as they come: files, a folder that grows, a table, or a video."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mappable.arrays import Pixels
from mappable.errors import BadInputError
from mappable.places.files import load_places
from mappable.places.table import NO_TIME
from mappable.readers.formats.video import SUFFIXES as VIDEOS
from mappable.readers.toolkit import image_files
from mappable.readers.unposed import is_table
from mappable.readers.video_files import play
from mappable.times import guess_unit, nanoseconds

# Time between two looks at a folder; a file that did not change meanwhile is complete.
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class FeedImage:
    """An image: its name, its time in seconds, and its file or its pixels (height, width, 3)."""

    name: str
    time: float
    image: Path | Pixels


def feed(
    sources: Sequence[Path], wait: float = 0.0, stopped: Callable[[], bool] = lambda: False
) -> Iterator[FeedImage]:
    """The images of one drive: a video, a camera, a table of places, a folder, or files in the
    order given.

    A folder is read in the order of names. With `wait`, the feed ends only if no new image comes
    for this many seconds. If the name of the first file is a number, names are times: seconds up to
    11 digits, else ms, us or ns. Otherwise, the time of a file is the number of the image. Images
    of a camera have the time of the clock, so that times go on after a reboot. `stopped` ends the
    feed early.
    """
    if len(sources) == 1 and (sources[0].suffix.lower() in VIDEOS or sources[0].is_char_device()):
        for seconds, pixels in play(sources[0]):
            if stopped():
                return
            taken = time.time() if sources[0].is_char_device() else seconds
            yield FeedImage(f"{taken:.3f} s", taken, pixels)
        return
    if len(sources) == 1 and is_table(sources[0]):
        yield from _of_table(sources[0])
        return
    if len(sources) == 1 and sources[0].is_dir():
        yield from _stamped(_growing(sources[0], wait, stopped))
        return
    for file in sources:
        if file.is_dir() or is_table(file):
            raise BadInputError(
                f"{file}: one of several sources is a folder; give image files, or one folder alone"
            )
    yield from _stamped(sources)


def _of_table(path: Path) -> Iterator[FeedImage]:
    places = load_places(path)
    if len(set(places.sequence)) > 1:
        some = ", ".join(sorted(set(places.sequence))[:3])
        raise BadInputError(
            f"{path}: has several sequences, such as {some}; give the folder of one drive"
        )
    known = bool((places.time != NO_TIME).all())
    for row, (name, file) in enumerate(zip(places.place_id, places.files, strict=True)):
        yield FeedImage(str(name), float(places.time[row]) / 1e9 if known else float(row), file)


def _growing(folder: Path, wait: float, stopped: Callable[[], bool]) -> Iterator[Path]:
    """The files of a folder by name, each when it is complete; files that come late, by name, are
    taken too.
    """
    taken: set[Path] = set()
    before: dict[Path, tuple[int, int]] = {}
    last = time.monotonic()
    while not stopped():
        found = {file: _state(file) for file in image_files(folder) if file not in taken}
        ready = [file for file, state in found.items() if not wait or before.get(file) == state]
        for file in ready:
            if stopped():
                return
            taken.add(file)
            yield file
            last = time.monotonic()
        before = found
        if time.monotonic() - last >= wait and len(ready) == len(found):
            if not taken:
                raise BadInputError(f"{folder}: the folder has no images")
            return
        time.sleep(POLL_SECONDS)


def _state(file: Path) -> tuple[int, int]:
    try:
        known = file.stat()
    except OSError:
        return 0, 0
    return known.st_size, known.st_mtime_ns


def _stamped(files: Iterable[Path]) -> Iterator[FeedImage]:
    """Files with their times: by name if the first name is a number, else the number of the image."""
    by_name = False
    for number, file in enumerate(files):
        seconds = _seconds(file.stem)
        if number == 0:
            by_name = seconds is not None
        if by_name and seconds is None:
            raise BadInputError(
                f"{file}: its name is not a number, but the names before it are; rename it"
            )
        yield FeedImage(
            str(file), seconds if by_name and seconds is not None else float(number), file
        )


def _seconds(name: str) -> float | None:
    try:
        return nanoseconds(name, guess_unit(name)) / 1e9
    except ValueError:
        return None
