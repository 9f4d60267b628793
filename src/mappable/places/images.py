"""Pixels: the one path from an image file to a uint8 RGB array of a wanted size, and a strict check for damage."""

import io
import warnings
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from PIL import Image, UnidentifiedImageError

from mappable.arrays import Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.places.decoding import RawDecoding

Fit = Literal["crop", "pad", "stretch"]
Size = tuple[int, int]  # width, height
MAX_PIXELS = 178_956_970  # where Pillow itself refuses an image as a decompression bomb (a quarter GiB of RGB, twice)
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"})
UPRIGHT = {  # what makes an image of each EXIF orientation upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
TURNED = frozenset({5, 6, 7, 8})  # the orientations that swap width and height
ORIENTATION = 0x0112  # the EXIF tag
DAMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, MemoryError, Image.DecompressionBombError)

# Pillow warns from half of MAX_PIXELS on; MAX_PIXELS decides here.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def parse_size(text: str) -> Size:
    """Width and height of a text such as "240x180"."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise BadInputError(f"image size {text!r} is not WIDTHxHEIGHT, such as 240x180")
    return int(parts[0]), int(parts[1])


def load_image(file: Path | str, size: Size, fit: Fit = "crop", decoding: RawDecoding | None = None) -> Pixels:
    """The image (height, width, 3), uint8 RGB, upright by its EXIF orientation and resized with antialiasing."""
    return decode_image(read_bytes(file), size, fit, decoding, name=str(file))


def read_bytes(file: Path | str) -> bytes:
    """The bytes of an image file; a missing, unreadable or empty one is a BadImageError."""
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise BadImageError(str(file), (error.strerror or str(error)).lower()) from None
    if not data:
        raise BadImageError(str(file), "empty file (0 bytes)")
    return data


def decode_image(
    data: bytes, size: Size, fit: Fit = "crop", decoding: RawDecoding | None = None, name: str = "image"
) -> Pixels:
    """As `load_image`, from the file's bytes.

    JPEGs are decoded at the smallest of the 1/1, 1/2, 1/4, 1/8 scales that is no smaller than needed ("draft").
    `crop` keeps the centre, `pad` adds black bars, `stretch` ignores the aspect ratio.
    """
    if fit not in get_args(Fit):
        raise BadInputError(f"fit {fit!r} is not one of {', '.join(get_args(Fit))}")
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise BadImageError(name, f"{image.width}x{image.height} pixels is beyond the limit of {MAX_PIXELS:,}")
            orientation = image.getexif().get(ORIENTATION, 1)
            target = size[::-1] if orientation in TURNED else size
            box, inner = _fitting(image.size, target, fit)
            if decoding is not None:
                return _finished(Image.fromarray(_decode_raw(image, decoding, name)), box, inner, target, orientation)
            full = image.size
            image.draft("RGB", _needed(full, box, inner))
            box = _scaled(box, image.width / full[0], image.height / full[1])
            return _finished(_to_rgb(image), box, inner, target, orientation)
    except UnidentifiedImageError:
        raise BadImageError(name, "not an image in a known format") from None
    except DAMAGE as error:
        raise BadImageError(name, _reason(error)) from None


def check_image(data: bytes, name: str = "image") -> None:
    """Decode at full size and strictly, so that damage which an ordinary decoder paints over is found too."""
    try:
        if data[:2] == b"\xff\xd8":
            _check_jpeg(data, name)
        else:
            with Image.open(io.BytesIO(data)) as image:
                image.load()
    except UnidentifiedImageError:
        raise BadImageError(name, "not an image in a known format") from None
    except DAMAGE as error:
        raise BadImageError(name, _reason(error)) from None


def _check_jpeg(data: bytes, name: str) -> None:
    import simplejpeg

    height, width, colorspace, _ = simplejpeg.decode_jpeg_header(data)
    if width * height > MAX_PIXELS:
        raise BadImageError(name, f"{width}x{height} pixels is beyond the limit of {MAX_PIXELS:,}")
    simplejpeg.decode_jpeg(data, colorspace="GRAY" if colorspace == "Gray" else "RGB", strict=True)


def _fitting(full: Size, target: Size, fit: Fit) -> tuple[tuple[float, float, float, float], Size]:
    """The part of the source (left, top, right, bottom) that is kept, and the size that it gets inside `target`."""
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


def _needed(full: Size, box: tuple[float, float, float, float], inner: Size) -> Size:
    """The smallest size of the whole image at which the kept box is still no smaller than `inner`."""
    return (
        max(1, int(np.ceil(full[0] * inner[0] / (box[2] - box[0]) - 1e-6))),
        max(1, int(np.ceil(full[1] * inner[1] / (box[3] - box[1]) - 1e-6))),
    )


def _scaled(box: tuple[float, float, float, float], x: float, y: float) -> tuple[float, float, float, float]:
    return box[0] * x, box[1] * y, box[2] * x, box[3] * y


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode == "I":  # Pillow clips 16-bit grey at 255 instead of scaling it
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("P", "LA", "PA"):  # a palette may hold transparency, which RGB drops without a warning this way
        image = image.convert("RGBA")
    return image.convert("RGB")


def _decode_raw(image: Image.Image, decoding: RawDecoding, name: str) -> Pixels:
    if image.mode != "L":
        raise BadImageError(name, f"a raw {decoding.bayer} image has one 8-bit channel, but this one is {image.mode}")
    return decoding.decode(np.asarray(image))


def _finished(
    image: Image.Image, box: tuple[float, float, float, float], inner: Size, target: Size, orientation: int
) -> Pixels:
    image = image.resize(inner, Image.Resampling.BILINEAR, box=box)
    if inner != target:
        canvas = Image.new("RGB", target)
        canvas.paste(image, ((target[0] - inner[0]) // 2, (target[1] - inner[1]) // 2))
        image = canvas
    if orientation in UPRIGHT:
        image = image.transpose(UPRIGHT[orientation])
    return np.asarray(image)


def _reason(error: BaseException) -> str:
    text = str(error).strip().rstrip(".")
    return f"damaged or unreadable ({text or type(error).__name__})"
