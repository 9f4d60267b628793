"""Images for a network: all of one size, read in batches from memory, from a pack or from image files."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from mappable.arrays import Ints, Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.places.images import Fit, Size, load_image
from mappable.places.table import Places
from mappable.threads import cores, in_order


@runtime_checkable
class Images(Protocol):
    """Uint8 images (n, height, width, 3) that need not be in memory."""

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, height, width, 3)."""

    def take(self, rows: Ints) -> "Images":
        """The images in `rows`, in this order, without reading them."""

    def read(self, rows: Ints) -> Pixels:
        """The pixels of the images in `rows`, copied into memory."""


IMAGES_PER_BLOCK = 256  # number of images that `blocks` reads at a time
AnyImages = Places | Images | Pixels  # what public functions accept, see `images_of`


@dataclass(frozen=True)
class ImageRows:
    """Rows of an array of images. The array may be mapped from the file of a pack.

    `check` is called with the rows and pixels that were read. It raises if the pixels are damaged.
    """

    images: Pixels
    rows: Ints
    check: Callable[[Ints, Pixels], None] = lambda rows, pixels: None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), *self.images.shape[1:]

    def take(self, rows: Ints) -> "ImageRows":
        return replace(self, rows=self.rows[rows])

    def read(self, rows: Ints) -> Pixels:
        pixels = np.asarray(self.images[self.rows[rows]])
        self.check(self.rows[rows], pixels)
        return pixels


@dataclass(frozen=True)
class ImageFiles:
    """The images of places, decoded from their files on all cores when they are read.

    If `bad` is a dictionary, a file that cannot be decoded gives a black image and its error is
    stored in `bad`.
    """

    places: Places
    size: Size
    fit: Fit
    bad: dict[Path, BadImageError] | None = None

    def __len__(self) -> int:
        return len(self.places)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.places), self.size[1], self.size[0], 3

    def take(self, rows: Ints) -> "ImageFiles":
        return replace(self, places=self.places[rows])

    def read(self, rows: Ints) -> Pixels:
        pixels = np.zeros((len(rows), *self.shape[1:]), dtype=np.uint8)
        files = [self.places.root / self.places.path[row] for row in rows]
        with ThreadPoolExecutor(cores()) as pool:
            for number, image in enumerate(in_order(pool, self._load, files, ahead=len(files))):
                if image is not None:
                    pixels[number] = image
        return pixels

    def _load(self, file: Path) -> Pixels | None:
        try:
            return load_image(file, self.size, self.fit, self.places.decoding)
        except BadImageError as error:
            if self.bad is None:
                raise
            self.bad[file] = error
            return None


@dataclass(frozen=True)
class ImageParts:
    """Images of several sets in one order, read from where each lies: packs may be on different
    disks.

    Row i is row `rows[i]` of the part number `parts[i]` of `sets`.
    """

    sets: Sequence[Images]
    parts: Ints
    rows: Ints

    @staticmethod
    def of(sets: Sequence[Images]) -> "ImageParts":
        """All images of the sets, which have one size."""
        parts = np.repeat(np.arange(len(sets)), [len(images) for images in sets])
        return ImageParts(sets, parts, np.concatenate([np.arange(len(images)) for images in sets]))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), *self.sets[0].shape[1:]

    def take(self, rows: Ints) -> "ImageParts":
        return replace(self, parts=self.parts[rows], rows=self.rows[rows])

    def read(self, rows: Ints) -> Pixels:
        pixels = np.empty((len(rows), *self.shape[1:]), dtype=np.uint8)
        for number in np.unique(self.parts[rows]):
            here = self.parts[rows] == number
            pixels[here] = self.sets[number].read(self.rows[rows][here])
        return pixels


def images_of(images: AnyImages, size: Size, fit: Fit) -> Images:
    """Return an `Images` object; raise if `images` are not uint8 images of `size` (width, height).

    The images of places are decoded from their files to this size and `fit`.
    """
    if isinstance(images, Places):
        return ImageFiles(images, size, fit)
    if isinstance(images, np.ndarray) and images.ndim == 4 and images.dtype == np.uint8:
        images = ImageRows(images, np.arange(len(images)))
    wanted = (size[1], size[0], 3)
    if not isinstance(images, Images) or images.shape[1:] != wanted:
        kind = getattr(images, "dtype", type(images).__name__)
        shape = f" of shape {images.shape}" if hasattr(images, "shape") else ""
        expected = (
            f"Places, or uint8 pixels of shape (n, {wanted[0]}, {wanted[1]}, 3) for this encoder"
        )
        raise BadInputError(f"images are {kind}{shape}, expected {expected}")
    return images


def blocks(images: Images) -> Iterator[Pixels]:
    """Yield the pixels of all images in order, `IMAGES_PER_BLOCK` images at a time."""
    for start in range(0, len(images), IMAGES_PER_BLOCK):
        yield images.read(np.arange(start, min(start + IMAGES_PER_BLOCK, len(images))))
