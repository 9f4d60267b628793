"""Image messages of ROS to pixels: raw in many encodings, Bayer mosaics, and compressed files."""

import io
import re
from typing import Any, cast, get_args

import numpy as np
from PIL import Image

from mappable.arrays import Pixels
from mappable.errors import BadInputError, shown
from mappable.places.decoding import Bayer, demosaic
from mappable.places.images import MAX_PIXELS_AT_FULL_SIZE

PLAIN = re.compile(r"(rgba?|bgra?|mono|bayer_....)(8|16)")
ALIASES = {"8UC1": "mono8", "8UC3": "bgr8", "8UC4": "bgra8"}
# Where Y, U and V begin.
YUV = {"yuv422": (1, 0, 2), "uyvy": (1, 0, 2), "yuv422_yuy2": (0, 1, 3), "yuyv": (0, 1, 3)}
MAGIC = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png"}


def raw_pixels(message: Any) -> Pixels:
    """The color image (height, width, 3) of a sensor_msgs/Image; errors name the field."""
    width, height, step = int(message.width), int(message.height), int(message.step)
    encoding = str(message.encoding)
    plain = PLAIN.fullmatch(ALIASES.get(encoding, encoding))
    if plain is None and encoding not in YUV:
        known = "rgb8, bgr8, rgba8, bgra8, mono8, mono16, bayer_*, yuv422"
        raise BadInputError(f"encoding is {shown(encoding)}, expected one of: {known}")
    _check_size(width, height)
    colors, depth = (plain[1], int(plain[2]) // 8) if plain else ("uy", 1)
    gray = colors.startswith(("mono", "bayer"))
    channels = 1 if gray else len(colors)
    row = width * channels * depth
    if step < row or len(message.data) < step * (height - 1) + row:
        expected = f"at least {row} and {row * height:,} for {width}x{height} pixels of {encoding}"
        raise BadInputError(
            f"step is {step} and data has {len(message.data):,} bytes, expected {expected}"
        )
    data = np.frombuffer(message.data, dtype=np.uint8)
    lines = np.lib.stride_tricks.as_strided(data, (height, row), (step, 1), writeable=False)
    if depth == 2:  # the high byte of each number
        lines = lines[:, 0 if message.is_bigendian else 1 :: 2]
    if plain is None:
        return _from_yuv(lines, encoding)
    if colors.startswith("bayer_"):
        return _demosaic(lines, colors)
    order = [0, 0, 0] if gray else [colors.index(color) for color in "rgb"]
    return np.ascontiguousarray(lines.reshape(height, width, channels)[:, :, order])


def compressed_suffix(message: Any) -> str | None:
    """The suffix of a file with the bytes of a sensor_msgs/CompressedImage; None if they must be
    decoded first.
    """
    data = bytes(message.data[:4])
    is_mosaic = str(message.format).startswith("bayer_")
    return None if is_mosaic else next((MAGIC[key] for key in MAGIC if data.startswith(key)), None)


def compressed_pixels(message: Any) -> Pixels:
    """The color image of a sensor_msgs/CompressedImage."""
    name = str(message.format)
    if "compressedDepth" in name:
        raise BadInputError(
            f"format is {shown(name)}, which is a depth image; choose a topic with color images"
        )
    try:
        with Image.open(io.BytesIO(bytes(message.data))) as image:
            _check_size(*image.size)
            if name.startswith("bayer_") and image.mode == "L":
                return _demosaic(np.asarray(image), name)
            return np.asarray(image.convert("RGB"))
    except BadInputError:
        raise
    except Exception as error:  # Pillow can raise almost any exception on damaged data
        raise BadInputError(
            f"the compressed image is damaged ({' '.join(str(error).split())[:80]})"
        ) from None


def _check_size(width: int, height: int) -> None:
    if not 0 < width * height <= MAX_PIXELS_AT_FULL_SIZE:
        raise BadInputError(
            f"the image has {width}x{height} pixels, expected 1 to {MAX_PIXELS_AT_FULL_SIZE:,}"
        )


def _demosaic(mosaic: Pixels, encoding: str) -> Pixels:
    """The color image of a mosaic such as bayer_rggb8."""
    pattern = encoding.removeprefix("bayer_")[:4].upper()
    if pattern not in get_args(Bayer):
        raise BadInputError(f"encoding is {shown(encoding)}, expected a pattern of r, g and b")
    if min(mosaic.shape) < 2:
        raise BadInputError(
            f"a Bayer mosaic of {mosaic.shape[1]}x{mosaic.shape[0]} pixels has not all colors"
        )
    return demosaic(np.ascontiguousarray(mosaic), cast(Bayer, pattern))


def _from_yuv(lines: Pixels, encoding: str) -> Pixels:
    """Two pixels share U and V: their four bytes are U Y V Y, or Y U Y V."""
    height, width = lines.shape[0], lines.shape[1] // 2
    y, u, v = YUV[encoding]
    planes = [Image.fromarray(np.ascontiguousarray(lines[:, y::2]))]
    for start in (u, v):
        shared = np.repeat(lines[:, start::4], 2, axis=1)
        planes.append(
            Image.fromarray(
                np.ascontiguousarray(np.pad(shared, ((0, 0), (0, 1)), mode="edge")[:, :width])
            )
        )
    return np.asarray(Image.merge("YCbCr", planes).convert("RGB")).reshape(height, width, 3)
