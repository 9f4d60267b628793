"""Fill the packed cache on all cores: decodes only missing images, and can be interrupted at any time.

The digest of its content identifies a file, so a file that was only moved or touched is not decoded
again. Threads are enough, because decoding and resizing release Python's lock.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from mappable.checksums import digest
from mappable.errors import BadImageError, BadInputError
from mappable.files import writing
from mappable.locks import take, wait_for
from mappable.places import cache
from mappable.places.cache import Entry, PackedImages
from mappable.places.images import Fit, Size, check_image, check_settings, decode_image, read_bytes
from mappable.places.table import Places
from mappable.progress import progress_bar
from mappable.threads import cores, in_order

OnBadImage = Literal["stop", "drop"]
# The index is written after this many times the seconds that writing it took; a kill loses these.
INDEX_INTERVAL = 20


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
    """Decode the images of all places into the pack with this size and fit below `out`; packed
    images are skipped.

    Packed images that do not match their checksum are decoded again.

    With `on_bad="stop"`, a bad image raises its BadImageError after all images decoded so far are
    saved. With `on_bad="drop"`, it is left out and returned in the list. `verify` reads and decodes
    every file strictly. If another process is filling this pack, an error is raised; with `wait`,
    the function waits for the other process.
    """
    check_settings(size, fit)
    folder = cache.pack_folder(out, size, fit, places.decoding)
    lock = wait_for(folder / "lock", "packs the same images") if wait else take(folder / "lock")
    if lock is None:
        raise BadInputError(
            f"{folder}: another process is packing images in this folder; wait for it to finish"
        )
    with lock:
        root = cache.read_about(folder)["root"] if (folder / cache.ABOUT).is_file() else None
        if root is None:
            cache.write_about(folder, size, fit, places.decoding, root="")
        bad = _Packing(folder, places, size, fit, verify).run(on_bad, workers or cores())
        if root != str(places.root):
            cache.write_about(folder, size, fit, places.decoding, root=str(places.root))
    return PackedImages(folder), bad


@dataclass(frozen=True)
class _Image:
    """An image file that was read; `pixels` is empty if the pack already has the same content."""

    file: str
    length: int
    modified_ns: int
    digest: str
    pixels: bytes


class _Packing:
    """One run over all places. Worker threads read and decode; only the calling thread writes."""

    def __init__(self, folder: Path, places: Places, size: Size, fit: Fit, verify: bool) -> None:
        self.folder, self.places, self.size, self.fit, self.verify = (
            folder,
            places,
            size,
            fit,
            verify,
        )
        self.entries = _sound_entries(folder, size)
        self.by_digest = {entry.digest: entry for entry in self.entries.values()}
        self.next_row = cache.rows_on_disk(folder, size)  # a row is never reused for another image
        self.unsaved = False
        self.saved_at = self.saving_took = 0.0  # seconds

    def run(self, on_bad: OnBadImage, workers: int) -> list[BadImageError]:
        paths: list[str] = [
            path for path in self.places.path if self.verify or not self._is_packed(path)
        ]
        bad: list[BadImageError] = []
        with (
            ThreadPoolExecutor(workers) as pool,
            _opened(self.folder / cache.IMAGES) as stream,
            progress_bar("packing images", len(paths)) as advance,
        ):
            stream.seek(
                len(cache.npy_header(0, self.size))
                + self.next_row * self.size[0] * self.size[1] * 3
            )
            try:
                for image in in_order(pool, self._read, paths, ahead=16 * workers):
                    if isinstance(image, _Image):
                        self._add(image, stream)
                    elif on_bad == "stop":
                        raise image
                    else:
                        bad.append(image)
                    advance(1)
            except BaseException:
                with suppress(BadInputError):  # such as on a full disk
                    self._save(stream)
                raise
            self._save(stream)
        return bad

    def _is_packed(self, path: str) -> bool:
        """True if the file is packed and its length and time have not changed since."""
        entry = self.entries.get(cache.full_path(str(self.places.root), path))
        if entry is None:
            return False
        with suppress(OSError):
            status = (self.places.root / path).stat()
            return (entry.length, entry.modified_ns) == (status.st_size, status.st_mtime_ns)
        return False

    def _read(self, path: str) -> _Image | BadImageError:
        """Read and decode an image, in a worker."""
        file = self.places.root / path
        try:
            modified_ns = file.stat().st_mtime_ns
            data = read_bytes(file)
            if self.verify:
                check_image(data, name=str(file))
            content, pixels = digest(data), b""
            if content not in self.by_digest:
                pixels = decode_image(
                    data, self.size, self.fit, self.places.decoding, name=str(file)
                ).tobytes()
            full_path = cache.full_path(str(self.places.root), path)
            return _Image(full_path, len(data), modified_ns, content, pixels)
        except OSError as error:
            return BadImageError(str(file), (error.strerror or str(error)).lower())
        except BadImageError as error:
            return error

    def _add(self, image: _Image, stream: IO[bytes]) -> None:
        """Append new pixels, and add the entry of the image. Now and then write the index."""
        twin = self.by_digest.get(image.digest)
        if twin is not None:
            row, checksum = twin.row, twin.checksum
        else:
            row, checksum = self.next_row, digest(image.pixels)
            with writing(self.folder / cache.IMAGES):
                stream.write(image.pixels)
            self.next_row += 1
        entry = Entry(image.file, image.length, image.modified_ns, image.digest, row, checksum)
        self.unsaved |= entry != self.entries.get(entry.file)
        self.entries[entry.file] = entry
        self.by_digest.setdefault(image.digest, entry)
        if time.monotonic() - self.saved_at > INDEX_INTERVAL * self.saving_took:
            self._save(stream)

    def _save(self, stream: IO[bytes]) -> None:
        """Write the header and the index, after the pixels that they list are on disk."""
        began = time.monotonic()
        with writing(self.folder / cache.IMAGES):
            end = stream.tell()
            stream.seek(0)
            stream.write(cache.npy_header(self.next_row, self.size))
            stream.flush()
            os.fsync(stream.fileno())
            stream.seek(end)
        if self.unsaved:
            cache.write_index(self.folder, self.entries.values())
        self.unsaved, self.saved_at = False, time.monotonic()
        self.saving_took = self.saved_at - began


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    """The file, open for changes."""
    with writing(file):
        file.touch()
        stream = file.open("r+b")
    try:
        yield stream
    finally:
        with suppress(OSError):  # what could not be written is not in the index
            stream.close()


def _sound_entries(folder: Path, size: Size) -> dict[str, Entry]:
    """The entries whose pixels are intact. The others leave the index on disk before anything else
    is written.
    """
    entries = cache.read_entries(folder)
    rows = cache.rows_on_disk(folder, size)
    sound = {file: entry for file, entry in entries.items() if entry.row < rows}
    if len(sound) < len(entries):
        cache.write_index(folder, sound.values())
    damaged = PackedImages(folder).damaged()
    if damaged:
        sound = {file: sound[file] for file in sound.keys() - set(damaged)}
        cache.write_index(folder, sound.values())
    return sound
