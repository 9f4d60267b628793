"""Fill the packed cache on all cores: decodes only missing images, and can be interrupted at any time.

The digest of its content identifies a file, so a file that was only moved or touched is not decoded again. Threads are
enough, because decoding and resizing release Python's lock.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from mappable.checksums import digest
from mappable.errors import BadImageError, BadInputError
from mappable.files import sync_folder, writing
from mappable.locks import take, wait_for
from mappable.places import cache
from mappable.places.cache import Entry, PackedImages
from mappable.places.images import Fit, Size, check_image, check_settings, decode_image, read_bytes
from mappable.places.table import Places
from mappable.progress import progress_bar
from mappable.threads import cores, in_order

OnBadImage = Literal["stop", "drop"]
IMAGES_PER_TASK = 4  # images that a worker takes at a time
IMAGES_PER_JOURNAL_LINE = 64


def pack_images(
    places: Places,
    out: Path | str,
    *,
    size: Size,
    fit: Fit = "crop",
    on_bad: OnBadImage = "stop",
    verify: bool = False,
    workers: int | None = None,
    wait: bool = False,
) -> tuple[PackedImages, list[BadImageError]]:
    """Decode the images of all places into the pack with this size and fit below `out`; packed images are skipped.

    Packed images that do not match their checksum are decoded again.

    With `on_bad="stop"`, a bad image raises its BadImageError after all images decoded so far are saved. With
    `on_bad="drop"`, it is left out and returned in the list. `verify` reads and
    decodes every file strictly. If another process is filling this pack, an error is raised; with `wait`, the function
    waits for the other process.
    """
    check_settings(size, fit)
    folder = cache.pack_folder(out, size, fit, places.decoding)
    lock = wait_for(folder / "lock", "packs the same images") if wait else take(folder / "lock")
    if lock is None:
        raise BadInputError(f"{folder}: another process is packing images in this folder; wait for it to finish")
    with lock:
        cache.start_pack(folder, size, fit, places)
        bad = _Packing(folder, places, size, fit, verify).run(on_bad, workers or cores())
        cache.finish_pack(folder, places)
    return PackedImages(folder), bad


@dataclass(frozen=True)
class _Read:
    """An image file that was read; `pixels` is None if the pack already has the same content."""

    file: str
    length: int
    modified_ns: int
    digest: str
    pixels: bytes | None


class _Packing:
    """One run over all places. Worker threads read and decode; only the calling thread writes."""

    def __init__(self, folder: Path, places: Places, size: Size, fit: Fit, verify: bool) -> None:
        self.folder, self.places, self.size, self.fit, self.verify = folder, places, size, fit, verify
        self.entries = _valid_entries(folder, size)
        self.by_digest = {entry.digest: entry for entry in self.entries.values()}
        self.next_row = cache.rows_on_disk(folder, size)  # a row is never reused for another image

    def run(self, on_bad: OnBadImage, workers: int) -> list[BadImageError]:
        paths: list[str] = self.places.path.tolist()
        tasks = [paths[start : start + IMAGES_PER_TASK] for start in range(0, len(paths), IMAGES_PER_TASK)]
        bad: list[BadImageError] = []
        read: list[_Read] = []
        with (
            ThreadPoolExecutor(workers) as pool,
            _Appender(self.folder, self.size) as appender,
            progress_bar("packing images", len(paths)) as advance,
        ):
            for results in in_order(pool, self._read_some, tasks, ahead=4 * workers):
                read += [result for result in results if isinstance(result, _Read)]
                bad += [result for result in results if isinstance(result, BadImageError)]
                stopping = bool(bad) and on_bad == "stop"
                if len(read) >= IMAGES_PER_JOURNAL_LINE or stopping:
                    self._store(read, appender)
                    read = []
                if stopping:
                    raise bad[0]
                advance(len(results))
            self._store(read, appender)
        if appender.used:
            cache.write_index(self.folder, self.entries)
        return bad

    def _read_some(self, paths: Sequence[str]) -> list[_Read | BadImageError | None]:
        return [self._read(path) for path in paths]

    def _read(self, path: str) -> _Read | BadImageError | None:
        """Runs in a worker. Returns None if the file is packed and has not changed since."""
        file, full_path = self.places.root / path, cache.full_path(str(self.places.root), path)
        known = self.entries.get(full_path)
        try:
            status = file.stat()
            if known and not self.verify and (known.length, known.modified_ns) == (status.st_size, status.st_mtime_ns):
                return None
            data = read_bytes(file)
            if self.verify:
                check_image(data, name=str(file))
            found = digest(data)
            pixels = None
            if found not in self.by_digest:
                pixels = decode_image(data, self.size, self.fit, self.places.decoding, name=str(file)).tobytes()
            return _Read(full_path, len(data), status.st_mtime_ns, found, pixels)
        except OSError as error:
            return BadImageError(str(file), (error.strerror or str(error)).lower())
        except ValueError as error:  # a zero byte in the path
            return BadImageError(str(file), str(error))
        except BadImageError as error:
            return error

    def _store(self, files: list[_Read], appender: "_Appender") -> None:
        """Append new pixels, and add entries for all files that are new or changed."""
        first_row, new_pixels, new_entries = self.next_row, [], []
        for file in files:
            twin = self.by_digest.get(file.digest)
            if twin is not None:
                row, checksum = twin.row, twin.checksum
            elif file.pixels is not None:
                row, checksum = self.next_row, digest(file.pixels)
                self.next_row += 1
                new_pixels.append(file.pixels)
            entry = Entry(file.file, file.length, file.modified_ns, file.digest, row, checksum)
            self.by_digest.setdefault(file.digest, entry)
            if entry != self.entries.get(entry.file):
                new_entries.append(entry)
        if new_entries:
            appender.append(first_row, new_pixels, new_entries)
            self.entries |= {entry.file: entry for entry in new_entries}


class _Appender:
    """Appends to the image file and the journal. Pixels are on disk before the journal line that lists them."""

    def __init__(self, folder: Path, size: Size) -> None:
        self.folder, self.size, self.used = folder, size, False
        self.streams: list[IO[bytes]] = []

    def __enter__(self) -> "_Appender":
        try:
            with writing(self.folder / cache.IMAGES):
                self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self) -> None:
        self.images = (self.folder / cache.IMAGES).open("r+b" if (self.folder / cache.IMAGES).exists() else "w+b")
        self.streams.append(self.images)
        self.journal = (self.folder / cache.JOURNAL).open("ab")
        self.streams.append(self.journal)
        self.images.write(cache.npy_header(cache.rows_on_disk(self.folder, self.size), self.size))
        self.images.flush()
        sync_folder(self.folder)

    def append(self, first_row: int, pixels: Sequence[bytes], entries: list[Entry]) -> None:
        self.used = True
        try:
            self._write(first_row, pixels, entries)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            what = f"cannot be written ({reason}); images packed so far are kept"
            raise BadInputError(f"{self.folder / cache.IMAGES}: {what}") from None

    def _write(self, first_row: int, pixels: Sequence[bytes], entries: list[Entry]) -> None:
        if pixels:
            header, row_bytes = cache.npy_header(first_row + len(pixels), self.size), len(pixels[0])
            self.images.seek(len(header) + first_row * row_bytes)
            self.images.writelines(pixels)
            self.images.seek(0)
            self.images.write(header)
            self.images.flush()
            os.fsync(self.images.fileno())
        self.journal.write(cache.journal_line(entries))
        self.journal.flush()
        os.fsync(self.journal.fileno())

    def __exit__(self, *error: object) -> None:
        for stream in self.streams:
            with suppress(OSError):  # what was not written before is in no journal line
                stream.close()
        journal = self.folder / cache.JOURNAL
        if journal.is_file() and journal.stat().st_size == 0:
            journal.unlink()


def _valid_entries(folder: Path, size: Size) -> dict[str, Entry]:
    """The valid entries of the pack. Invalid entries are removed from the index on disk before anything is written."""
    entries = cache.read_entries(folder)
    rows = cache.rows_on_disk(folder, size)
    kept = {file: entry for file, entry in entries.items() if entry.row < rows}
    if len(kept) < len(entries) or (folder / cache.JOURNAL).exists():
        cache.write_index(folder, kept)
    damaged = set(PackedImages(folder).damaged()) if kept else set()
    if damaged:
        kept = {file: entry for file, entry in kept.items() if file not in damaged}
        cache.write_index(folder, kept)
    return kept
