"""Images that need mending: find a border or images upside down; write undistorted, cropped or turned copies."""

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from mappable import progress
from mappable.arrays import Floats32, Pixels, evenly
from mappable.errors import BadImageError, BadInputError, shown
from mappable.files import write_atomically
from mappable.places.images import MAX_PIXELS_AT_FULL_SIZE, ORIENTATION, TURNED, naming, read_bytes
from mappable.places.lenses import Lens
from mappable.places.notes import Note, warn
from mappable.places.recordings import JPEG_QUALITY
from mappable.places.table import Places

Rotate = Literal["0", "90", "180", "270"]
SAMPLE = 48  # images that are looked at
FEWEST = 12  # images; smaller sets get no warning
STEADY = 2.0  # standard deviation over images, in gray levels, up to which a pixel counts as constant
THIN_BORDER = 0.02  # share of the width or height; a thinner border does no harm
DARK, BRIGHTER, DARK_SHARE = 50.0, 15.0, 0.95  # gray levels of dark images; difference that counts; share of images
SAME_SHAPE = 0.01  # largest relative difference between the aspect ratios of an image and its lens
LONGEST_SIDE = 1600  # pixels of an undistorted copy; packs are smaller
AGAIN = "mappable convert READER ROOT OUT --overwrite"  # as the images were converted, with an option more


@dataclass(frozen=True)
class Mending:
    """How to mend images: undistort them, cut off a border, turn them.

    `lenses` has lenses by path. `crop` is in percent: left, top, right, bottom. `degrees` turn clockwise.
    """

    degrees: int = 0
    crop: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    lenses: Mapping[str, Lens] = field(default_factory=dict)

    @classmethod
    def parse(cls, rotate: str, crop: str | None, lenses: Mapping[str, Lens]) -> "Mending":
        """The mending of the options `--rotate 180` and `--crop-border 0,0,0,12`."""
        try:
            parts = [float(part) for part in crop.split(",")] if crop else [0.0] * 4
        except ValueError:
            parts = []
        if len(parts) != 4 or not all(0 <= part < 100 for part in parts) or parts[0] + parts[2] > 90:
            raise BadInputError(f"crop_border is {shown(crop)}, expected percent to cut off: LEFT,TOP,RIGHT,BOTTOM")
        if parts[1] + parts[3] > 90:
            raise BadInputError(f"crop_border is {shown(crop)}, which leaves less than a tenth of the height")
        return cls(int(rotate), (parts[0], parts[1], parts[2], parts[3]), lenses)

    @property
    def name(self) -> str:
        """The name of the folder of mended copies."""
        name = f"images-rotate{self.degrees}-crop{'_'.join(f'{part:g}' for part in self.crop)}"
        if not self.lenses:
            return name
        return f"{name}-lens{hashlib.sha256(repr(sorted(self.lenses.items())).encode()).hexdigest()[:8]}"

    def __bool__(self) -> bool:
        return bool(self.degrees) or any(self.crop) or bool(self.lenses)

    def apply(self, image: Image.Image) -> Image.Image:
        """The image, cropped and turned."""
        left, top, right, bottom = (part / 100 for part in self.crop)
        box = (left * image.width, top * image.height, (1 - right) * image.width, (1 - bottom) * image.height)
        image = image.crop(tuple(round(edge) for edge in box)) if any(self.crop) else image  # type: ignore[arg-type]
        return image.rotate(-self.degrees, expand=True) if self.degrees else image


def mend_images(places: Places, out: Path, mending: Mending, on_bad: str) -> Places:
    """Write mended copies of all images below `out`, and return the places with these images.

    Copies that exist are kept. With `on_bad="drop"`, a bad image gets no copy.
    """
    if places.decoding is not None:
        raise BadInputError("rotate and crop_border are not for raw images, which the table decodes")
    folder = out / mending.name
    other = []
    for path in progress.track(places.path, "mending images", len(places)):
        file, copy, lens = places.root / path, folder / path, mending.lenses.get(path)
        try:
            if lens is not None and not _fits(file, lens):
                other.append(path)
                lens = None
            if not copy.exists():
                _write(file, copy, mending, lens)
        except BadImageError:
            if on_bad == "stop":
                raise
    notes = warn("images have another shape than their camera, so they stay distorted", other)
    straight = len(mending.lenses.keys() & set(places.path)) - len(other)
    if straight:
        notes += (Note(f"{straight:,} images were undistorted", warning=False),)
    return places.replace(root=folder).noting(*notes)


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    data = read_bytes(file)
    with naming(str(file)), Image.open(io.BytesIO(data)) as image:
        if image.width * image.height > MAX_PIXELS_AT_FULL_SIZE:
            raise BadImageError(str(file), f"{image.width}x{image.height} pixels are too many to mend")
        yield image


def _fits(file: Path, lens: Lens) -> bool:
    """True if the image has the shape of the images of its camera."""
    with _opened(file) as image:
        width, height = image.size[::-1] if image.getexif().get(ORIENTATION) in TURNED else image.size
    return abs(width * lens.size[1] - height * lens.size[0]) < SAME_SHAPE * height * lens.size[0]


def _write(file: Path, copy: Path, mending: Mending, lens: Lens | None) -> None:
    with _opened(file) as image:
        kind = image.format or "PNG"
        if lens is not None:  # JPEG files are decoded at a fraction of their size
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
        upright = ImageOps.exif_transpose(image)
        mended = mending.apply(_undistorted(upright, lens) if lens is not None else upright)
    options = {"quality": JPEG_QUALITY} if kind in ("JPEG", "WEBP") else {}
    write_atomically(copy, lambda stream: mended.save(stream, kind, **options))


def _undistorted(image: Image.Image, lens: Lens) -> Image.Image:
    """The image without lens distortion, of at most LONGEST_SIDE pixels."""
    image = image.convert("RGB")
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.BILINEAR)
    return Image.fromarray(lens.undistort(np.asarray(image)))


def sample_rows(count: int) -> list[int]:
    """Row numbers of the images to look at, of `count` images."""
    return [int(row) for row in evenly(count, SAMPLE)] if count >= FEWEST else []


def find_oddities(pixels: Pixels) -> tuple[Note, ...]:
    """Warnings about some images (n, height, width, 3) of a set: a constant border, or images upside down."""
    if len(pixels) < FEWEST:
        return ()
    gray = pixels.mean(axis=3, dtype=np.float32)
    return _border(gray) + _upside_down(gray)


def _border(gray: Floats32) -> tuple[Note, ...]:
    steady = gray.std(axis=0) <= STEADY
    if steady.mean() > 0.5:  # a camera that never moves
        return ()
    rows, columns = (steady.mean(axis=axis) > 0.99 for axis in (1, 0))
    ends = [int(np.argmin(line)) / len(line) for line in (columns, rows, columns[::-1], rows[::-1])]
    if max(ends) < THIN_BORDER:
        return ()
    cut = ",".join(f"{np.ceil(100 * end):g}" for end in ends)
    mend = f"{AGAIN} --crop-border {cut}"
    return (Note(f"all images have the same border; if it is no part of the scene, cut it off: {mend}"),)


def _upside_down(gray: Floats32) -> tuple[Note, ...]:
    bright = gray[gray.mean(axis=(1, 2)) > DARK]
    if len(bright) < FEWEST:
        return ()
    third = gray.shape[1] // 3
    lower = bright[:, -third:].mean(axis=(1, 2)) - bright[:, :third].mean(axis=(1, 2)) > BRIGHTER
    if lower.mean() < DARK_SHARE:
        return ()
    share = f"{lower.sum():,} of {len(lower):,} images are brighter below than above"
    return (Note(f"{share}; if they are upside down, turn them: {AGAIN} --rotate 180"),)
