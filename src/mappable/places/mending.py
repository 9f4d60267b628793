"""Mended copies of images: undistorted, cropped or turned."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from mappable import progress
from mappable.errors import BadImageError, BadInputError, shown
from mappable.files import write_atomically
from mappable.places.images import JPEG_QUALITY, MAX_PIXELS_AT_FULL_SIZE, naming, read_bytes
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.table import Places

Rotate = Literal["0", "90", "180", "270"]
SAME_SHAPE = 0.01  # largest relative difference between the aspect ratios of an image and its lens
LONGEST_SIDE = 1600  # pixels of an undistorted copy; packs are smaller


@dataclass(frozen=True)
class Mending:
    """How to mend images: undistort them, cut off a border, turn them.

    `lenses` has lenses by path. `crop` is in percent: left, top, right, bottom. `degrees` turn clockwise.
    """

    degrees: int = 0
    crop: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    lenses: Mapping[str, Lens] = field(default_factory=dict)

    @classmethod
    def parse(cls, rotate: str, crop: str | None, lenses: Mapping[str, Lens]) -> "Mending":
        """The mending of the options `--rotate 180` and `--crop-border 0,0,0,12`."""
        try:
            parts = tuple(float(part) for part in crop.split(",")) if crop else (0.0,) * 4
        except ValueError:
            parts = ()
        if len(parts) != 4 or not all(0 <= part < 100 for part in parts):
            raise BadInputError(f"crop_border is {shown(crop)}, expected percent to cut off: LEFT,TOP,RIGHT,BOTTOM")
        if max(parts[0] + parts[2], parts[1] + parts[3]) > 90:
            raise BadInputError(f"crop_border is {shown(crop)}, which leaves less than a tenth of the width or height")
        return cls(int(rotate), parts, lenses)

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


def mend_images(places: Places, out: Path, mending: Mending, on_bad: str, found: Findings) -> Places:
    """Write mended copies of all images below `out`, and return the places with these images.

    Copies that exist are kept. With `on_bad="drop"`, a bad image gets no copy.
    """
    if places.decoding is not None:
        raise BadInputError("rotate and crop_border are not for raw images, which the table decodes")
    folder, straight = out / mending.name, 0
    for path in progress.track(places.path, "mending images", len(places)):
        lens = mending.lenses.get(path)
        try:
            fits = _mend(places.root / path, folder / path, mending, lens)
            straight += fits and lens is not None
            found.note("images have another shape than their camera, so they stay distorted", [] if fits else [path])
        except BadImageError:
            if on_bad == "stop":
                raise
    if straight:
        found.say(f"{straight:,} images were undistorted", warning=False)
    return places.replace(root=folder)


def _mend(file: Path, copy: Path, mending: Mending, lens: Lens | None) -> bool:
    """Write a mended copy unless it exists. False if the image has another shape than the images of its camera."""
    if lens is None and copy.exists():
        return True
    with naming(str(file)), Image.open(io.BytesIO(read_bytes(file))) as image:
        if image.width * image.height > MAX_PIXELS_AT_FULL_SIZE:
            raise BadImageError(str(file), f"{image.width}x{image.height} pixels are too many to mend")
        kind = image.format or "PNG"
        if lens is not None:  # JPEG files are decoded at a fraction of their size
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
        upright = ImageOps.exif_transpose(image)
        fits = lens is None or _fits(upright.size, lens)
        if not copy.exists():
            mended = mending.apply(_undistorted(upright, lens) if lens is not None and fits else upright)
            options = {"quality": JPEG_QUALITY} if kind in ("JPEG", "WEBP") else {}
            write_atomically(copy, lambda stream: mended.save(stream, kind, **options))
    return fits


def _fits(size: tuple[int, int], lens: Lens) -> bool:
    return abs(size[0] * lens.size[1] - size[1] * lens.size[0]) < SAME_SHAPE * size[1] * lens.size[0]


def _undistorted(image: Image.Image, lens: Lens) -> Image.Image:
    """The image without lens distortion, of at most LONGEST_SIDE pixels."""
    image = image.convert("RGB")
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.BILINEAR)
    return Image.fromarray(lens.undistort(np.asarray(image)))
