"""The packed cache: images decoded once to one size, in a file that is mapped into memory.

A pack is a folder for one size and fit; `packing.py` fills it. `images.npy` only ever grows, and an image belongs to
the pack once the index or the journal says so, so that a build that was killed never shows half an image.
"""

import io
import json
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from mappable.arrays import Ints, Pixels
from mappable.errors import BadInputError
from mappable.places.decoding import RawDecoding
from mappable.places.files import write_atomically
from mappable.places.images import Fit, Size, read_bytes
from mappable.places.table import Places

VERSION = 1
ABOUT, IMAGES, INDEX, JOURNAL = "pack.json", "images.npy", "index.parquet", "journal.jsonl"


@dataclass(frozen=True)
class Entry:
    """One packed image file: what it was (bytes, time of change, digest) and the row and checksum of its pixels."""

    path: str
    length: int
    modified_ns: int
    digest: str
    row: int
    checksum: str


class PackedImages:
    """Packed images, read-only: `pack.images` is (rows, height, width, 3) uint8; `pack.rows(places)` finds rows."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.size, self.fit = _read_about(self.folder)
        self.entries = read_entries(self.folder)
        self.images: Pixels = np.empty((0, *self.size[::-1], 3), dtype=np.uint8)
        if self.entries:
            self.images = self._map()

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<PackedImages: {len(self):,} images, {self.size[0]}x{self.size[1]}, fit {self.fit}>"

    def rows(self, places: Places) -> Ints:
        """The row of each place's image in `images`; a place that was never packed is an error."""
        try:
            return np.array([self.entries[path].row for path in places.path], dtype=np.int64)
        except KeyError as error:
            raise BadInputError(f"{self.folder}: {error.args[0]} is not packed; run the conversion again") from None

    def load(self, places: Places) -> Pixels:
        """Pixels (n, height, width, 3) of the places, in their order, copied into memory."""
        return self.images[self.rows(places)]

    def damaged(self) -> list[str]:
        """Paths whose pixels no longer have the checksum that they were written with."""
        return [path for path, entry in self.entries.items() if digest(self.images[entry.row].data) != entry.checksum]

    def _map(self) -> Pixels:
        file, needed = self.folder / IMAGES, 1 + max(entry.row for entry in self.entries.values())
        start, row_bytes = len(npy_header(0, self.size)), int(np.prod(self.size)) * 3
        if not file.is_file() or file.stat().st_size < start + needed * row_bytes:
            raise BadInputError(f"{file}: missing or shorter than its index says; run the conversion again")
        return np.memmap(file, np.uint8, "r", offset=start, shape=(needed, self.size[1], self.size[0], 3))


def digest(data: bytes | memoryview) -> str:
    """What content is known by: 128 bits that are quick to compute and differ wherever the content does."""
    import xxhash  # here, so that machines that only read packs need not have it

    return xxhash.xxh3_128_hexdigest(data)


def pack_folder(out: Path | str, size: Size, fit: Fit, decoding: RawDecoding | None = None) -> Path:
    """Where the pack of these settings lies below the folder of a converted set; raw decodings are told apart."""
    name = f"{size[0]}x{size[1]}-{fit}"
    if decoding is not None:
        table = read_bytes(decoding.undistortion) if decoding.undistortion else b""
        name += f"-{decoding.bayer.lower()}-{digest(table)[:8]}"
    return Path(out) / "pixels" / name


def find_pack(out: Path | str, size: Size | None = None, fit: Fit | None = None) -> PackedImages:
    """The one pack below the folder of a converted set, or the one of that size and fit."""
    packs = [PackedImages(file.parent) for file in sorted((Path(out) / "pixels").glob(f"*/{ABOUT}"))]
    found = [pack for pack in packs if size in (None, pack.size) and fit in (None, pack.fit)]
    if len(found) != 1:
        names = ", ".join(pack.folder.name for pack in packs) or "none"
        raise BadInputError(f"{out}: expected one pack of images of that size and fit; the packs here are: {names}")
    return found[0]


def npy_header(rows: int, size: Size) -> bytes:
    """The header of `images.npy`; its length does not depend on `rows`, so that it can be rewritten in place."""
    header = io.BytesIO()
    about = {"descr": "|u1", "fortran_order": False, "shape": (rows, size[1], size[0], 3)}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def write_about(folder: Path, size: Size, fit: Fit, decoding: RawDecoding | None) -> None:
    """Describe the pack, once, for people and for other programs."""
    if (folder / ABOUT).is_file():
        _read_about(folder)
        return
    about = {
        "format": "mappable pack",
        "version": VERSION,
        "width": size[0],
        "height": size[1],
        "fit": fit,
        "decoding": decoding.to_json() if decoding else None,
        "resampling": "antialiased bilinear",
        "checksum": "xxh3-128 of a row's pixels",
        "digest": "xxh3-128 of the image file",
    }
    write_atomically(folder / ABOUT, lambda stream: stream.write(json.dumps(about, indent=2).encode()))


def _read_about(folder: Path) -> tuple[Size, Fit]:
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        if about["version"] > VERSION:
            raise BadInputError(f"{folder}: written by a later version of mappable (format {about['version']})")
        return (int(about["width"]), int(about["height"])), about["fit"]
    except FileNotFoundError:
        raise BadInputError(f"{folder}: no packed images here (there is no {ABOUT})") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{folder / ABOUT}: not the description of a pack ({error})") from None


def read_entries(folder: Path) -> dict[str, Entry]:
    """All packed files by path: the index, then the journal of a build that has not ended, less a torn last line."""
    entries: dict[str, Entry] = {}
    if (folder / INDEX).is_file():
        try:
            columns = pyarrow.parquet.read_table(folder / INDEX).to_pydict()
            rows = zip(*(columns[field.name] for field in fields(Entry)), strict=True)
        except (OSError, KeyError, pyarrow.ArrowException) as error:
            raise BadInputError(f"{folder / INDEX}: damaged index; delete the folder and convert again") from error
        entries = {row[0]: Entry(*row) for row in rows}
    if (folder / JOURNAL).is_file():
        *whole, _torn = (folder / JOURNAL).read_bytes().split(b"\n")
        for number, line in enumerate(whole, 1):
            try:
                entries |= {row[0]: Entry(*row) for row in json.loads(line)}
            except (ValueError, TypeError):
                raise BadInputError(f"{folder / JOURNAL}, row {number}: damaged journal") from None
    return entries


def write_index(folder: Path, entries: dict[str, Entry]) -> None:
    """Put all entries into the index, which makes the journal superfluous."""
    columns = {field.name: [getattr(entry, field.name) for entry in entries.values()] for field in fields(Entry)}
    table = pyarrow.table(columns)
    write_atomically(folder / INDEX, lambda stream: pyarrow.parquet.write_table(table, stream))
    (folder / JOURNAL).unlink(missing_ok=True)


def journal_line(entries: list[Entry]) -> bytes:
    return json.dumps([astuple(entry) for entry in entries]).encode() + b"\n"
