"""Edited copies of images: undistorted, cropped or turned."""

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
from mappable.places.images import JPEG_QUALITY, Size, check_pixel_count, naming, read_bytes
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.table import Places

Rotate = Literal["0", "90", "180", "270"]
SAME_SHAPE = 0.01  # largest relative difference between the aspect ratios of an image and its lens
LONGEST_SIDE = 1600  # pixels of an undistorted copy; packs are smaller


@dataclass(frozen=True)
class Edit:
    """How to edit images: undistort them with their lenses (by path), cut off a border, turn them
    clockwise.

    `crop` is in percent: left, top, right, bottom.
    """

    degrees: int = 0
    crop: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    lenses: Mapping[str, Lens] = field(default_factory=dict)

    @classmethod
    def parse(cls, rotate: str, crop: str | None, lenses: Mapping[str, Lens]) -> "Edit":
        """The edit of the options `--rotate 180` and `--crop-border 0,0,0,12`."""
        try:
            left, top, right, bottom = (float(part) for part in (crop or "0,0,0,0").split(","))
            kept = min(100 - left - right, 100 - top - bottom)
        except ValueError:
            left = top = right = bottom = kept = -1.0
        if min(left, top, right, bottom) < 0 or not kept >= 10:
            expected = (
                "percent to cut off, LEFT,TOP,RIGHT,BOTTOM, at most 90 in total per direction"
            )
            raise BadInputError(f"crop_border is {shown(crop)}, expected {expected}")
        return cls(int(rotate), (left, top, right, bottom), lenses)

    @property
    def name(self) -> str:
        """The name of the folder of copies."""
        settings = repr((self.degrees, self.crop, sorted(self.lenses.items())))
        return f"images-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"

    def __bool__(self) -> bool:
        return bool(self.degrees) or any(self.crop) or bool(self.lenses)

    def apply(self, image: Image.Image) -> Image.Image:
        """The image, cropped and turned."""
        left, top, right, bottom = (part / 100 for part in self.crop)
        width, height = image.size
        box = (
            round(left * width),
            round(top * height),
            round((1 - right) * width),
            round((1 - bottom) * height),
        )
        return image.crop(box).rotate(-self.degrees, expand=True)


def edit_images(places: Places, out: Path, edit: Edit, on_bad: str, findings: Findings) -> Places:
    """Write edited copies of all images below `out`, and return the places with these images.

    Copies that exist are kept. With `on_bad="drop"`, a bad image gets no copy.
    """
    if places.decoding is not None:
        raise BadInputError(
            "rotate and crop_border are not for raw images, which the table decodes"
        )
    folder = out / edit.name
    undistorted = 0
    for path in progress.track(places.path, "editing images", len(places)):
        lens = edit.lenses.get(path)
        try:
            fits = _write_copy(places.root / path, folder / path, edit, lens)
        except BadImageError:
            if on_bad == "stop":
                raise
            continue
        undistorted += fits and lens is not None
        if not fits:
            findings.note(
                "images have another shape than their camera, so they stay distorted", [path]
            )
    if undistorted:
        findings.say(f"{undistorted:,} images were undistorted", warning=False)
    return places.replace(root=folder)


def _write_copy(file: Path, copy: Path, edit: Edit, lens: Lens | None) -> bool:
    """Write an edited copy unless it exists. False if the image has another shape than the images
    of its camera.
    """
    if lens is None and copy.exists():
        return True
    with naming(str(file)), Image.open(io.BytesIO(read_bytes(file))) as image:
        check_pixel_count(image.size, str(file), "PNG")
        kind = image.format or "PNG"
        if lens is not None:  # JPEG files are decoded at a fraction of their size
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
        upright = ImageOps.exif_transpose(image)
        fits = lens is None or _fits(upright.size, lens.size)
        if not copy.exists():
            edited = edit.apply(
                _undistorted(upright, lens) if lens is not None and fits else upright
            )
            options = {"quality": JPEG_QUALITY} if kind in ("JPEG", "WEBP") else {}
            write_atomically(copy, lambda stream: edited.save(stream, kind, **options))
    return fits


def _fits(size: Size, lens_size: Size) -> bool:
    """True if two sizes have about one aspect ratio, or one is unknown."""
    across, down = size[0] * lens_size[1], size[1] * lens_size[0]
    return abs(across - down) <= SAME_SHAPE * down


def _undistorted(image: Image.Image, lens: Lens) -> Image.Image:
    """The image without lens distortion, of at most LONGEST_SIDE pixels."""
    image = image.convert("RGB")
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.BILINEAR)
    return Image.fromarray(lens.undistort(np.asarray(image)))
