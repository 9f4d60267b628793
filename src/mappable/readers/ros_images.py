"""Image messages of ROS to pixels: raw in many encodings, Bayer mosaics, and compressed files."""

import io
from typing import Any, cast

import numpy as np
from PIL import Image

from mappable.arrays import Pixels
from mappable.errors import BadInputError, shown
from mappable.places.decoding import Bayer, demosaic
from mappable.places.images import MAX_PIXELS_AT_FULL_SIZE

CHANNELS = {  # encoding: channels in the message, and their order as red, green, blue
    "rgb8": (3, (0, 1, 2)),
    "bgr8": (3, (2, 1, 0)),
    "8UC3": (3, (2, 1, 0)),
    "rgba8": (4, (0, 1, 2)),
    "bgra8": (4, (2, 1, 0)),
    "8UC4": (4, (2, 1, 0)),
    "mono8": (1, (0, 0, 0)),
    "8UC1": (1, (0, 0, 0)),
    "rgb16": (3, (0, 1, 2)),
    "bgr16": (3, (2, 1, 0)),
    "mono16": (1, (0, 0, 0)),
}
YUV = {"yuv422": (1, 0, 2), "uyvy": (1, 0, 2), "yuv422_yuy2": (0, 1, 3), "yuyv": (0, 1, 3)}  # where Y, U and V begin
MAGIC = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png"}


def raw_pixels(message: Any) -> Pixels:
    """The color image (height, width, 3) of a sensor_msgs/Image; errors name the field."""
    width, height, step = int(message.width), int(message.height), int(message.step)
    encoding = str(message.encoding)
    bayer = encoding.removeprefix("bayer_")[:4].upper() if encoding.startswith("bayer_") else None
    if bayer is None and encoding not in CHANNELS and encoding not in YUV:
        known = "rgb8, bgr8, rgba8, bgra8, mono8, mono16, bayer_*, yuv422"
        raise BadInputError(f"encoding is {shown(encoding)}, expected one of: {known}")
    if not 0 < width * height <= MAX_PIXELS_AT_FULL_SIZE:
        raise BadInputError(f"the image has {width}x{height} pixels, expected 1 to {MAX_PIXELS_AT_FULL_SIZE:,}")
    depth = 2 if encoding.endswith("16") else 1
    channels = 2 if encoding in YUV else 1 if bayer else CHANNELS[encoding][0]
    row = width * channels * depth
    if step < row or len(message.data) < step * (height - 1) + row:
        raise BadInputError(
            f"step is {step} and data has {len(message.data):,} bytes, expected at least {row} and {row * height:,} "
            f"for {width}x{height} pixels of {encoding}"
        )
    data = np.frombuffer(message.data, dtype=np.uint8)
    lines = np.lib.stride_tricks.as_strided(data, (height, row), (step, 1), writeable=False)
    if depth == 2:  # the high byte of each number
        lines = lines[:, 0 if message.is_bigendian else 1 :: 2]
    if bayer:
        return _demosaic(lines, bayer)
    if encoding in YUV:
        return _from_yuv(lines, encoding)
    order = CHANNELS[encoding][1]
    return np.ascontiguousarray(lines.reshape(height, width, channels)[:, :, list(order)])


def compressed_suffix(message: Any) -> str | None:
    """The suffix of a file with the bytes of a sensor_msgs/CompressedImage; None if they must be decoded first."""
    data = bytes(message.data[:4])
    return None if _bayer_of(message) else next((MAGIC[key] for key in MAGIC if data.startswith(key)), None)


def compressed_pixels(message: Any) -> Pixels:
    """The color image of a sensor_msgs/CompressedImage."""
    name = str(message.format)
    if "compressedDepth" in name:
        raise BadInputError(f"format is {shown(name)}, which is a depth image; choose a topic with color images")
    try:
        with Image.open(io.BytesIO(bytes(message.data))) as image:
            if image.width * image.height > MAX_PIXELS_AT_FULL_SIZE:
                raise BadInputError(f"the image has {image.width}x{image.height} pixels, too many")
            if (bayer := _bayer_of(message)) and image.mode == "L":
                return _demosaic(np.asarray(image), bayer)
            return np.asarray(image.convert("RGB"))
    except BadInputError:
        raise
    except Exception as error:  # Pillow can raise almost any exception on damaged data
        raise BadInputError(f"the compressed image is damaged ({' '.join(str(error).split())[:80]})") from None


def _bayer_of(message: Any) -> str | None:
    name = str(message.format)
    return name.removeprefix("bayer_")[:4].upper() if name.startswith("bayer_") else None


def _demosaic(mosaic: Pixels, bayer: str) -> Pixels:
    if bayer not in ("GBRG", "RGGB", "BGGR", "GRBG"):
        raise BadInputError(f"encoding is bayer_{shown(bayer.lower())}, expected a pattern of r, g and b")
    if min(mosaic.shape) < 2:
        raise BadInputError(f"a Bayer mosaic of {mosaic.shape[1]}x{mosaic.shape[0]} pixels has not all colors")
    return demosaic(np.ascontiguousarray(mosaic), cast(Bayer, bayer))


def _from_yuv(lines: Pixels, encoding: str) -> Pixels:
    """Two pixels share U and V: their four bytes are U Y V Y, or Y U Y V."""
    height, width = lines.shape[0], lines.shape[1] // 2
    y, u, v = YUV[encoding]
    planes = [Image.fromarray(np.ascontiguousarray(lines[:, y::2]))]
    for start in (u, v):
        shared = np.repeat(lines[:, start::4], 2, axis=1)
        planes.append(Image.fromarray(np.ascontiguousarray(np.pad(shared, ((0, 0), (0, 1)), mode="edge")[:, :width])))
    return np.asarray(Image.merge("YCbCr", planes).convert("RGB")).reshape(height, width, 3)
