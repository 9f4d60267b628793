"""The packed cache: images decoded once to one size, in a file that is mapped into memory.

A pack is a folder for one size and fit; `packing.py` fills it. `images.npy` never shrinks. An image belongs to the pack
once the index or the journal lists it, so an interrupted build never shows a partial image.
"""

import io
import json
from dataclasses import asdict, astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from mappable.arrays import Ints, Pixels
from mappable.checksums import UNSEALED, digest, seal
from mappable.containers import parse_json, read_parquet
from mappable.errors import BadInputError, shown
from mappable.files import write_atomically
from mappable.formats import KEY, Format
from mappable.places.decoding import RawDecoding
from mappable.places.images import Fit, Size, read_bytes
from mappable.places.pixels import ImageRows, blocks
from mappable.places.table import Places
from mappable.progress import track

FORMAT = Format("mappable pack", 2, "delete the folder and convert again", sealed_since=2, earliest=1)
ABOUT, IMAGES, INDEX, JOURNAL = "pack.json", "images.npy", "index.parquet", "journal.jsonl"


@dataclass(frozen=True)
class Entry:
    """One packed image file: its length in bytes, modification time and digest, and the row and checksum of its pixels.

    `file` is the full path, because files of two collections may have the same name, size and time.
    """

    file: str
    length: int
    modified_ns: int
    digest: str
    row: int
    checksum: str


class PackedImages:
    """Packed images, read-only: `pack.images` is (rows, height, width, 3) uint8; `pack.rows(places)` finds rows.

    `size` is (width, height). `load` and `view` compare each image with its checksum when it is first read; `images`
    itself does not.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        about = read_about(self.folder)
        self.size: Size = (about["width"], about["height"])
        self.fit: Fit = about["fit"]
        self.root: str = about["root"]
        self.row_of = _read_rows(self.folder)
        self.images: Pixels = np.empty((0, *self.size[::-1], 3), dtype=np.uint8)
        if self.row_of:
            self.images = self._map(1 + max(self.row_of.values()))
        self._unchecked = np.ones(len(self.images), dtype=bool)

    def __len__(self) -> int:
        return len(set(self.row_of.values()))

    def __reduce__(self) -> tuple[type["PackedImages"], tuple[Path]]:
        return PackedImages, (self.folder,)  # a process that unpickles it maps the file itself

    def __repr__(self) -> str:
        return f"<PackedImages: {len(self):,} images, {self.size[0]}x{self.size[1]}, fit {self.fit}>"

    def rows(self, places: Places) -> Ints:
        """The row in `images` of each place; raises if an image is not packed."""
        root = self._root_of(places)
        try:
            return np.array([self.row_of[full_path(root, path)] for path in places.path], dtype=np.int64)
        except KeyError as error:
            raise BadInputError(f"{self.folder}: {error.args[0]} is not packed; run the conversion again") from None

    def holds(self, places: Places) -> bool:
        """True if the images of all places are packed."""
        root = self._root_of(places)
        return all(full_path(root, path) in self.row_of for path in places.path)

    def load(self, places: Places) -> Pixels:
        """Pixels (n, height, width, 3) of the places in row order, copied into memory."""
        return self.view(places).read(np.arange(len(places)))

    def view(self, places: Places) -> ImageRows:
        """Like `load`, but pixels are read from disk one batch at a time."""
        return ImageRows(self.images, self.rows(places), self._check)

    def damaged(self) -> list[str]:
        """Files whose packed pixels do not match their checksum."""
        used = np.unique(np.fromiter(self.row_of.values(), dtype=np.int64))
        rows = track(used, "checking packed images", len(used))
        bad = {int(row) for row in rows if not self._matches(row, self.images[row])}
        return [file for file, row in self.row_of.items() if row in bad]

    def _check(self, rows: Ints, pixels: Pixels) -> None:
        """Compare pixels with the checksums of their rows, unless this was done before. Raise if one differs."""
        for number in np.flatnonzero(self._unchecked[rows]):
            row = int(rows[number])
            if not self._matches(row, pixels[number]):
                file = next(file for file, known in self.row_of.items() if known == row)
                what = f"the pixels of {file} are damaged; run the conversion again, which mends them"
                raise BadInputError(f"{self.folder / IMAGES}, row {row}: {what}")
        self._unchecked[rows] = False

    def _matches(self, row: int, pixels: Pixels) -> bool:
        return digest(pixels.data).encode() == bytes(self._checksums[row])

    @cached_property
    def _checksums(self) -> NDArray[np.bytes_]:
        """The checksum of each row, from the index."""
        checksums = np.zeros(len(self.images), dtype="S32")
        columns = _read_index(self.folder, ["row", "checksum"])
        checksums[np.array(columns["row"], dtype=np.int64)] = np.array(columns["checksum"], dtype="S32")
        for entry in _read_journal(self.folder):
            checksums[entry.row] = entry.checksum
        return checksums

    def _root_of(self, places: Places) -> str:
        """The root of the places when they were packed; the collection or the pack may have moved since then."""
        return self.root if self.root and not Path(self.root).exists() else str(places.root)

    def _map(self, rows: int) -> Pixels:
        if rows_on_disk(self.folder, self.size) < rows:
            raise BadInputError(f"{self.folder / IMAGES}: missing or truncated; run the conversion again")
        shape, start = (rows, self.size[1], self.size[0], 3), len(npy_header(0, self.size))
        return np.memmap(self.folder / IMAGES, np.uint8, "r", offset=start, shape=shape)


def full_path(root: str, path: str) -> str:
    """The full path of a file, which identifies it in the index."""
    return f"{root.rstrip('/')}/{path}"


def pack_folder(out: Path | str, size: Size, fit: Fit, decoding: RawDecoding | None = None) -> Path:
    """The folder of the pack with these settings, in a converted set; each raw decoding has its own."""
    name = f"{size[0]}x{size[1]}-{fit}"
    if decoding is not None:
        table = read_bytes(decoding.undistortion) if decoding.undistortion else b""
        name += f"-{decoding.bayer.lower()}-{digest(table)[:8]}"
    return Path(out) / "pixels" / name


def find_pack(out: Path | str, size: Size | None = None, fit: Fit | None = None) -> PackedImages:
    """Open the pack of a converted set with this size (width, height) and fit; by default, the largest pack."""
    wanted = None if size is None else tuple(size)
    names, found = [], []
    for file in sorted((Path(out) / "pixels").glob(f"*/{ABOUT}")):
        about = read_about(file.parent)
        if not (file.parent / INDEX).exists() and not (file.parent / JOURNAL).exists():
            continue  # the run packed nothing
        names.append(file.parent.name)
        if wanted in (None, (about["width"], about["height"])) and fit in (None, about["fit"]):
            found.append(file.parent)
    if not names:
        raise BadInputError(f"{out}: contains no packed images; run `mappable convert`, or call pack_images")
    if not found:
        size_and_fit = "-".join(text for text in (wanted and "x".join(map(str, wanted)), fit) if text)
        raise BadInputError(f"{out}: contains no pack of {size_and_fit}; its packs are {', '.join(names)}")
    return max(map(PackedImages, found), key=lambda pack: (pack.size[0] * pack.size[1], pack.fit == "crop"))


def find_packed(out: Path | str, places: Places, size: Size, fit: Fit) -> ImageRows | None:
    """The packed images of the places, from the folder of a converted set; None unless all are packed at this size.

    The raw decoding does not apply to images in color. So a pack without the decoding of the places is used if all its
    images are in color.
    """
    if not (Path(out) / "pixels").is_dir():
        return None
    found = _held(pack_folder(out, size, fit), places)
    if places.decoding is None or (found is not None and all(_in_color(block) for block in blocks(found))):
        return found
    return _held(pack_folder(out, size, fit, places.decoding), places)


def _held(folder: Path, places: Places) -> ImageRows | None:
    """The images of the places in this pack; None if there is no pack or if it lacks an image."""
    if not (folder / ABOUT).is_file():
        return None
    pack = PackedImages(folder)
    return pack.view(places) if pack.holds(places) else None


def _in_color(pixels: Pixels) -> bool:
    """True if every image (n, height, width, 3) has a pixel that is not gray."""
    return bool((pixels[..., 1:] != pixels[..., :1]).any(axis=(1, 2, 3)).all())


def npy_header(rows: int, size: Size) -> bytes:
    """The header of `images.npy`; its length does not depend on `rows`, so it can be rewritten in place."""
    header = io.BytesIO()
    about = {"descr": "|u1", "fortran_order": False, "shape": (rows, size[1], size[0], 3)}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def rows_on_disk(folder: Path, size: Size) -> int:
    """The number of complete rows in `images.npy`."""
    file, row_bytes = folder / IMAGES, size[0] * size[1] * 3
    return max(0, file.stat().st_size - len(npy_header(0, size))) // row_bytes if file.is_file() else 0


def start_pack(folder: Path, size: Size, fit: Fit, places: Places) -> None:
    """Write `pack.json`. Its `root` is the root of the collection that is fully packed, or "" while that changes."""
    if not (folder / ABOUT).is_file():
        decoding = asdict(places.decoding) if places.decoding else None
        about = {"width": size[0], "height": size[1], "fit": fit}
        FORMAT.write(folder / ABOUT, about | {"decoding": decoding, "root": str(places.root)})
    elif read_about(folder)["root"] != str(places.root):
        FORMAT.write(folder / ABOUT, read_about(folder) | {"root": ""})


def finish_pack(folder: Path, places: Places) -> None:
    """Store the root of `places` in `pack.json`, now that all their files are packed."""
    if read_about(folder)["root"] != str(places.root):
        FORMAT.write(folder / ABOUT, read_about(folder) | {"root": str(places.root)})


def read_about(folder: Path) -> dict[str, Any]:
    """The content of `pack.json`: width, height, fit, decoding, and the root of the packed files."""
    with FORMAT.reading(folder / ABOUT):
        about = {"root": ""} | FORMAT.read(folder / ABOUT)
        size = about["width"], about["height"]
        if not all(type(side) is int and side > 0 for side in size) or about["fit"] not in get_args(Fit):
            raise ValueError(f"images of {size[0]}x{size[1]}, fit {shown(about['fit'])}")
        return about


def read_entries(folder: Path) -> dict[str, Entry]:
    """All packed files by full path: the index, then the journal of an unfinished build."""
    names = [field.name for field in fields(Entry)]
    columns = _read_index(folder, names)
    entries = {row[0]: Entry(*row) for row in zip(*(columns[name] for name in names), strict=True)}
    return entries | {entry.file: entry for entry in _read_journal(folder)}


def _read_rows(folder: Path) -> dict[str, int]:
    """The row of each file. Readers need no other column, and reading only this one is fast for millions of images."""
    columns = _read_index(folder, ["file", "row"])
    rows = dict(zip(columns["file"], columns["row"], strict=True))
    return rows | {entry.file: entry.row for entry in _read_journal(folder)}


def _read_index(folder: Path, names: list[str]) -> dict[str, list[Any]]:
    if not (folder / INDEX).is_file():
        return {name: [] for name in names}
    with FORMAT.reading(folder / INDEX):
        table = read_parquet(folder / INDEX, columns=names)
        return {name: table[name].to_pylist() for name in names}


def _read_journal(folder: Path) -> list[Entry]:
    """The entries of all complete lines; an incomplete last line is ignored."""
    if not (folder / JOURNAL).is_file():
        return []
    *complete, _incomplete = (folder / JOURNAL).read_bytes().split(b"\n")
    entries = []
    for number, line in enumerate(complete, 1):
        earlier = line.startswith(b"[")  # an earlier version wrote no checksum
        checksum, _, text = (b"", b"", line) if earlier else line.partition(b" ")
        try:
            if not earlier and checksum.decode() != digest(text):
                raise ValueError
            entries += [Entry(*row) for row in parse_json(text)]
        except (ValueError, TypeError):
            raise BadInputError(
                f"{folder / JOURNAL}, row {number}: damaged journal; delete the folder and convert again"
            ) from None
    return entries


def write_index(folder: Path, entries: dict[str, Entry]) -> None:
    """Write all entries to the index and delete the journal."""
    columns = {field.name: [getattr(entry, field.name) for entry in entries.values()] for field in fields(Entry)}
    packed, table = io.BytesIO(), pyarrow.table(columns).replace_schema_metadata({KEY: UNSEALED})
    pyarrow.parquet.write_table(table, packed)
    content = seal(packed.getvalue())
    write_atomically(folder / INDEX, lambda stream: stream.write(content))
    (folder / JOURNAL).unlink(missing_ok=True)


def journal_line(entries: list[Entry]) -> bytes:
    """The entries as JSON on one line, after their checksum."""
    text = json.dumps([astuple(entry) for entry in entries]).encode()
    return digest(text).encode() + b" " + text + b"\n"
