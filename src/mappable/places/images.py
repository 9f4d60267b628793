"""Image files: decode a file to a uint8 RGB array of a given size, and check files for damage."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from PIL import Image, UnidentifiedImageError

from mappable.arrays import Pixels
from mappable.errors import BadImageError, BadInputError, MappableError
from mappable.places.decoding import RawDecoding

Fit = Literal["crop", "pad", "stretch"]
Size = tuple[int, int]  # width, height
Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels
# Pillow rejects larger images as decompression bombs (twice a quarter GiB of RGB)
MAX_PIXELS = 178_956_970
# Limit of formats that cannot be decoded at a fraction; 1.2 GB and 1 s at most.
MAX_PIXELS_AT_FULL_SIZE = 100_000_000
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"})
UPRIGHT = {  # the operation that makes an image upright, by EXIF orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
TURNED = frozenset({5, 6, 7, 8})  # EXIF orientations that swap width and height
ORIENTATION = 0x0112  # EXIF tag
JPEG_QUALITY = 95  # of images that are written: frames of recordings, edited copies
# Pillow's names of the formats that can be decoded at a fraction of their size.
SCALABLE = frozenset({"JPEG", "MPO"})

# Pillow warns above half of MAX_PIXELS. Here only MAX_PIXELS is a limit.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def parse_size(text: str) -> Size:
    """Parse width and height from a text such as "240x180"."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise BadInputError(f"image size is {text!r}, expected WIDTHxHEIGHT, such as 240x180")
    return int(parts[0]), int(parts[1])


def check_settings(size: Size, fit: Fit) -> None:
    """Raise if the size or the fit is invalid."""
    if fit not in get_args(Fit):
        raise BadInputError(f"fit is {fit!r}, expected one of: {', '.join(get_args(Fit))}")
    if min(size) < 1 or size[0] * size[1] > MAX_PIXELS:
        raise BadInputError(
            f"image size is {size[0]}x{size[1]}, expected 1 to {MAX_PIXELS:,} pixels"
        )


def load_image(
    file: Path | str, size: Size, fit: Fit = "crop", decoding: RawDecoding | None = None
) -> Pixels:
    """Load an image (height, width, 3), uint8 RGB, made upright by its EXIF orientation, resized
    with antialiasing.

    With a `decoding`, an image with one channel is decoded as a raw image; an image in color is
    not.
    """
    return decode_image(read_bytes(file), size, fit, decoding, name=str(file))


def read_bytes(file: Path | str) -> bytes:
    """The bytes of an image file; raises a BadImageError if it is missing, unreadable or empty."""
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise BadImageError(str(file), (error.strerror or str(error)).lower()) from None
    except ValueError as error:  # a zero byte in the name
        raise BadImageError(str(file), str(error)) from None
    if not data:
        raise BadImageError(str(file), "empty file (0 bytes)")
    return data


def decode_image(
    data: bytes,
    size: Size,
    fit: Fit = "crop",
    decoding: RawDecoding | None = None,
    name: str = "image",
) -> Pixels:
    """Like `load_image`, from the bytes of the file.

    JPEG files are decoded at the smallest scale of 1/1, 1/2, 1/4 and 1/8 that is large enough
    (Pillow's "draft"). `crop` keeps the center, `pad` adds black bars, `stretch` ignores the aspect
    ratio.
    """
    check_settings(size, fit)
    with naming(name), Image.open(io.BytesIO(data)) as image:
        check_pixel_count(image.size, name, image.format)
        # PNG may store EXIF data after the pixels; TIFF is made upright by Pillow.
        if image.format not in SCALABLE:
            image.load()
        orientation = _orientation(image)
        target = size[::-1] if orientation in TURNED else size
        full = image.size
        box, inner = _fitting(full, target, fit)
        if decoding is not None and Image.getmodebase(image.mode) == "L":
            return _finished(
                Image.fromarray(_decode_raw(image, decoding, name)), box, inner, size, orientation
            )
        drafted = image.draft("RGB", _needed(full, box, inner))
        if drafted is not None:
            # Not the size but the box has the exact scale: the last pixels may lie half outside of
            # the image.
            across, down = drafted[1][2] / full[0], drafted[1][3] / full[1]
            box = box[0] * across, box[1] * down, box[2] * across, box[3] * down
        return _finished(_to_rgb(image), box, inner, size, orientation)


def upright_size(file: Path) -> Size | None:
    """Width and height of an image as it is looked at, from its header; None if it cannot be read."""
    try:
        with Image.open(file) as image:
            return image.size[::-1] if _orientation(image) in TURNED else image.size
    except Exception:  # as in `naming`; decoding reports it
        return None


def resize_image(pixels: Pixels, size: Size, fit: Fit = "crop") -> Pixels:
    """Resize pixels (height, width, 3), uint8 RGB, in the same way as `load_image`."""
    check_settings(size, fit)
    box, inner = _fitting((pixels.shape[1], pixels.shape[0]), size, fit)
    return _finished(Image.fromarray(pixels), box, inner, size, orientation=1)


def check_image(data: bytes, name: str = "image") -> None:
    """Decode strictly at full size, to find damage that an ordinary decoder hides."""
    with naming(name):
        if data[:2] == b"\xff\xd8":
            _check_jpeg(data, name)
            return
        with Image.open(io.BytesIO(data)) as image:
            check_pixel_count(image.size, name, image.format)
            image.load()


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Convert every exception of an image decoder to a BadImageError with the name of the image.

    Decoders can raise almost any exception (struct.error, zlib.error, KeyError, OverflowError,
    ...). One bad file among thousands must be listed, not stop the run with a traceback.
    """
    try:
        yield
    except (MappableError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise BadImageError(name, "not an image in a known format") from None
    except Image.DecompressionBombError:
        raise BadImageError(name, f"more pixels than the limit of {MAX_PIXELS:,}") from None
    except Exception as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise BadImageError(
            name, f"damaged or unreadable ({text or type(error).__name__})"
        ) from error


def check_pixel_count(size: Size, name: str, kind: str | None) -> None:
    """Raise if an image of a format (Pillow's name) is too large to be decoded."""
    limit = MAX_PIXELS if kind in SCALABLE else MAX_PIXELS_AT_FULL_SIZE
    if size[0] * size[1] > limit:
        raise BadImageError(
            name, f"{size[0]}x{size[1]} pixels, more than the limit of {limit:,} of {kind} files"
        )


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation; 1 (upright) if the EXIF data are damaged, because the pixels may still
    be intact.
    """
    try:
        orientation: int = image.getexif().get(ORIENTATION, 1)
    except Exception:  # as in `naming`, the parser can raise almost any exception
        return 1
    return orientation


def _check_jpeg(data: bytes, name: str) -> None:
    import simplejpeg

    height, width, colorspace, _ = simplejpeg.decode_jpeg_header(data)
    check_pixel_count((width, height), name, "JPEG")
    simplejpeg.decode_jpeg(data, colorspace="GRAY" if colorspace == "Gray" else "RGB", strict=True)


def _fitting(full: Size, target: Size, fit: Fit) -> tuple[Box, Size]:
    """The box of the source (left, top, right, bottom) that is kept, and its size inside `target`."""
    width, height = full
    if fit == "crop":
        scale = max(target[0] / width, target[1] / height)
        kept = min(width, target[0] / scale), min(height, target[1] / scale)
        left, top = (width - kept[0]) / 2, (height - kept[1]) / 2
        return (left, top, left + kept[0], top + kept[1]), target
    if fit == "pad":
        scale = min(target[0] / width, target[1] / height)
        target = max(1, round(width * scale)), max(1, round(height * scale))
    return (0.0, 0.0, float(width), float(height)), target


def _needed(full: Size, box: Box, inner: Size) -> Size:
    """The smallest size of the whole image at which the kept box is at least as large as `inner`."""
    return (
        max(1, int(np.ceil(full[0] * inner[0] / (box[2] - box[0]) - 1e-6))),
        max(1, int(np.ceil(full[1] * inner[1] / (box[3] - box[1]) - 1e-6))),
    )


def _to_rgb(image: Image.Image) -> Image.Image:
    # Pillow clips 16-bit gray at 255 instead of scaling it.
    if image.mode.startswith("I;16") or image.mode == "I":
        return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)).convert(
            "RGB"
        )
    # A palette may have transparency; through RGBA it is dropped without a warning.
    if image.mode in ("P", "LA", "PA"):
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")


def _decode_raw(image: Image.Image, decoding: RawDecoding, name: str) -> Pixels:
    if image.mode != "L":
        raise BadImageError(
            name,
            f"mode is {image.mode}, expected one 8-bit channel for a raw {decoding.bayer} image",
        )
    try:
        return decoding.decode(np.asarray(image))
    except BadInputError as error:
        raise BadImageError(
            name, f"one channel, so it is a raw {decoding.bayer} image, but {error}"
        ) from None


def _finished(image: Image.Image, box: Box, inner: Size, size: Size, orientation: int) -> Pixels:
    """The box of the image resized to `inner`, made upright, with black bars if it is smaller than
    `size`.
    """
    image = image.resize(inner, Image.Resampling.BILINEAR, box=box)
    if orientation in UPRIGHT:
        image = image.transpose(UPRIGHT[orientation])
    if image.size != size:
        canvas = Image.new("RGB", size)
        canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
        image = canvas
    return np.array(image)  # a copy, because the array of Pillow is read-only
