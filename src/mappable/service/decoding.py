"""Decode the image bytes of a request; raise if they are not an image."""

import io
import re

from PIL import Image, UnidentifiedImageError

from mappable.arrays import Pixels
from mappable.errors import BadImageError
from mappable.places.decoding import RawDecoding
from mappable.places.images import Fit, Size, decode_image
from mappable.service.limits import RefusedError

FORMATS = ("JPEG", "PNG", "WEBP")
FIRST_BYTES = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|RIFF....WEBP", re.DOTALL)  # of files in FORMATS


def decode(data: bytes, name: str, *, size: Size, fit: Fit, decoding: RawDecoding | None, most_pixels: int) -> Pixels:
    """The image (height, width, 3), as by `decode_image`; the header decides whether it has too many pixels."""
    _check_header(data, name, most_pixels)
    try:
        return decode_image(data, size, fit, decoding, name)
    except BadImageError as error:
        raise RefusedError(422, "damaged_image", str(error)) from None


def _check_header(data: bytes, name: str, most_pixels: int) -> None:
    if not data:
        raise RefusedError(422, "empty_image", f"{name}: empty (0 bytes)")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            single = image.format in ("JPEG", "MPO")  # MPO is a JPEG with a second picture, which is not a frame
            frames = 1 if single else getattr(image, "n_frames", 1)
    except Image.DecompressionBombError:
        raise RefusedError(413, "too_many_pixels", f"{name}: more than {most_pixels:,} pixels") from None
    except UnidentifiedImageError:
        if FIRST_BYTES.match(data):
            raise RefusedError(422, "damaged_image", f"{name}: truncated or damaged after its first bytes") from None
        raise RefusedError(422, "not_an_image", f"{name}: not a JPEG, PNG or WebP image") from None
    except Exception:  # decoders promise no closed set of errors
        raise RefusedError(422, "damaged_image", f"{name}: its header is truncated or damaged") from None
    if width * height > most_pixels:
        sentence = f"{name}: {width}x{height} pixels, more than the limit of {most_pixels:,}"
        raise RefusedError(413, "too_many_pixels", sentence)
    if frames > 1:
        raise RefusedError(
            422, "animated_image", f"{name}: animated, with {frames} frames; send each frame as its own image"
        )
