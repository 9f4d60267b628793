"""The packed cache: images decoded once to one size, in a file that is mapped into memory.

A pack is a folder for one size and fit; `packing.py` fills it. `images.npy` never shrinks. An image
belongs to the pack once the index lists it, so an interrupted build never shows a partial image.
"""

import io
from collections.abc import Collection, Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow
from numpy.typing import NDArray

from mappable.arrays import Ints, Pixels
from mappable.checksums import digest
from mappable.containers import read_parquet
from mappable.errors import BadInputError, shown
from mappable.formats import Format
from mappable.places.decoding import RawDecoding
from mappable.places.images import Fit, Size, read_bytes
from mappable.places.pixels import ImageRows
from mappable.places.table import Places
from mappable.progress import track

FORMAT = Format(
    "mappable pack", 2, "delete the folder and convert again", sealed_since=2, earliest=1
)
ABOUT, IMAGES, INDEX = "pack.json", "images.npy", "index.parquet"


class Entry(NamedTuple):
    """One packed image file: its length in bytes, modification time and digest, and the row and
    checksum of its pixels.

    `file` is the full path, because files of two collections may have the same name, size and time.
    """

    file: str
    length: int
    modified_ns: int
    digest: str
    row: int
    checksum: str


class PackedImages:
    """Packed images, read-only: `pack.images` is (rows, height, width, 3) uint8;
    `pack.rows(places)` finds rows.

    `size` is (width, height). `load` and `view` compare each image with its checksum when it is
    first read; `images` itself does not.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        about = read_about(self.folder)
        self.size: Size = (about["width"], about["height"])
        self.fit: Fit = about["fit"]
        self.root: str = about["root"]
        files, rows = _index_columns(self.folder, "file", "row")
        self.row_of: dict[str, int] = dict(zip(files, rows, strict=True))
        self.images = _mapped(self.folder / IMAGES, self.size, 1 + max(rows, default=-1))
        self._unchecked = np.ones(len(self.images), dtype=bool)

    def __len__(self) -> int:
        return len(set(self.row_of.values()))

    def __reduce__(self) -> tuple[type["PackedImages"], tuple[Path]]:
        return PackedImages, (self.folder,)  # a process that unpickles it maps the file itself

    def __repr__(self) -> str:
        return (
            f"<PackedImages: {len(self):,} images, {self.size[0]}x{self.size[1]}, fit {self.fit}>"
        )

    def rows(self, places: Places) -> Ints:
        """The row in `images` of each place; raises if an image is not packed."""
        try:
            return np.array([self.row_of[file] for file in self._files(places)], dtype=np.int64)
        except KeyError as error:
            raise BadInputError(
                f"{self.folder}: {error.args[0]} is not packed; run the conversion again"
            ) from None

    def holds(self, places: Places) -> bool:
        """True if the images of all places are packed."""
        return all(file in self.row_of for file in self._files(places))

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
        """Compare pixels with the checksums of their rows, unless this was done before. Raise if
        one differs.
        """
        for number in np.flatnonzero(self._unchecked[rows]):
            row = int(rows[number])
            if not self._matches(row, pixels[number]):
                file = next(file for file, known in self.row_of.items() if known == row)
                problem = (
                    f"the pixels of {file} are damaged; run the conversion again, which decodes"
                    " them anew"
                )
                raise BadInputError(f"{self.folder / IMAGES}, row {row}: {problem}")
        self._unchecked[rows] = False

    def _matches(self, row: int, pixels: Pixels) -> bool:
        return digest(pixels.data).encode() == bytes(self._checksums[row])

    @cached_property
    def _checksums(self) -> NDArray[np.bytes_]:
        """The checksum of each row."""
        checksums = np.zeros(len(self.images), dtype="S32")
        rows, texts = _index_columns(self.folder, "row", "checksum")
        checksums[np.array(rows, dtype=np.int64)] = np.array(texts, dtype="S32")
        return checksums

    def _files(self, places: Places) -> Iterator[str]:
        """The full path that each image had when it was packed; the collection or the pack may have
        moved since.
        """
        moved = self.root and not Path(self.root).exists()
        root = self.root if moved else str(places.root)
        return (full_path(root, path) for path in places.path)


def full_path(root: str, path: str) -> str:
    """The full path of a file, which identifies it in the index."""
    return f"{root.rstrip('/')}/{path}"


def pack_folder(out: Path | str, size: Size, fit: Fit, decoding: RawDecoding | None = None) -> Path:
    """The folder of the pack with these settings, in a converted set; each raw decoding has its
    own.
    """
    name = f"{size[0]}x{size[1]}-{fit}"
    if decoding is not None:
        table = read_bytes(decoding.undistortion) if decoding.undistortion else b""
        name += f"-{decoding.bayer.lower()}-{digest(table)[:8]}"
    return Path(out) / "pixels" / name


def find_pack(out: Path | str, size: Size | None = None, fit: Fit | None = None) -> PackedImages:
    """Open the pack of a converted set with this size (width, height) and fit; by default, the
    largest pack.
    """
    packs = [
        PackedImages(index.parent) for index in sorted((Path(out) / "pixels").glob(f"*/{INDEX}"))
    ]
    if not packs:
        raise BadInputError(
            f"{out}: contains no packed images; run `mappable convert`, or call pack_images"
        )
    fitting = [pack for pack in packs if size in (None, pack.size) and fit in (None, pack.fit)]
    if not fitting:
        wanted = "-".join(filter(None, (size and f"{size[0]}x{size[1]}", fit)))
        known = ", ".join(pack.folder.name for pack in packs)
        raise BadInputError(f"{out}: contains no pack of {wanted}; its packs are {known}")
    return max(fitting, key=lambda pack: (pack.size[0] * pack.size[1], pack.fit == "crop"))


def find_packed(out: Path | str, places: Places, size: Size, fit: Fit) -> ImageRows | None:
    """The packed images of the places, from the folder of a converted set; None unless all are
    packed at this size.
    """
    if not (Path(out) / "pixels").is_dir():
        return None
    folder = pack_folder(out, size, fit, places.decoding)
    if not (folder / ABOUT).is_file():
        return None
    pack = PackedImages(folder)
    return pack.view(places) if pack.holds(places) else None


# The files of a pack


def npy_header(rows: int, size: Size) -> bytes:
    """The header of `images.npy`; its length does not depend on `rows`, so it can be rewritten in
    place.
    """
    header = io.BytesIO()
    about = {"descr": "|u1", "fortran_order": False, "shape": (rows, size[1], size[0], 3)}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def rows_on_disk(folder: Path, size: Size) -> int:
    """The number of complete rows in `images.npy`."""
    file, row_bytes = folder / IMAGES, size[0] * size[1] * 3
    return (
        max(0, file.stat().st_size - len(npy_header(0, size))) // row_bytes if file.is_file() else 0
    )


def _mapped(file: Path, size: Size, rows: int) -> Pixels:
    """The first `rows` images of `images.npy`."""
    shape = (rows, size[1], size[0], 3)
    if rows == 0:
        return np.empty(shape, dtype=np.uint8)
    if rows_on_disk(file.parent, size) < rows:
        raise BadInputError(f"{file}: missing or truncated; run the conversion again")
    return np.memmap(file, np.uint8, "r", offset=len(npy_header(0, size)), shape=shape)


def write_about(
    folder: Path, size: Size, fit: Fit, decoding: RawDecoding | None, root: str
) -> None:
    """Write `pack.json`. Its `root` is that of the collection that is fully packed, or "" while
    there is none.
    """
    about = {"width": size[0], "height": size[1], "fit": fit, "root": root}
    FORMAT.write(folder / ABOUT, about | {"decoding": asdict(decoding) if decoding else None})


def read_about(folder: Path) -> dict[str, Any]:
    """The content of `pack.json`: width, height, fit, decoding, and the root of the packed files."""
    with FORMAT.reading(folder / ABOUT):
        about = {"root": ""} | FORMAT.read(folder / ABOUT)
        size = about["width"], about["height"]
        if not all(type(side) is int and side > 0 for side in size) or about["fit"] not in get_args(
            Fit
        ):
            raise ValueError(f"images of {size[0]}x{size[1]}, fit {shown(about['fit'])}")
        return about


def read_entries(folder: Path) -> dict[str, Entry]:
    """All packed files by full path."""
    return {
        row[0]: Entry(*row) for row in zip(*_index_columns(folder, *Entry._fields), strict=True)
    }


def _index_columns(folder: Path, *names: str) -> list[list[Any]]:
    """Columns of the index. Reading only two of them is fast for millions of images."""
    file = folder / INDEX
    if not file.is_file():
        return [[] for _ in names]
    with FORMAT.reading(file):
        table = read_parquet(file, columns=[*names])
        return [table[name].to_pylist() for name in names]


def write_index(folder: Path, entries: Collection[Entry]) -> None:
    columns = {name: [getattr(entry, name) for entry in entries] for name in Entry._fields}
    FORMAT.write_parquet(folder / INDEX, pyarrow.table(columns))
