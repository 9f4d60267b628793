"""Pixels: geometry and resampling against a slow reference on the full image, kinds of files, and kinds of damage."""

import io
import itertools
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from mappable.errors import BadImageError
from mappable.places.images import (
    check_image,
    decode_image,
)

FITS = ["crop", "pad", "stretch"]
ORIENTATION = 0x0112
FIT: Any = st.sampled_from(FITS)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    )


def waves(width: int, height: int, period: float = 90.0) -> Image.Image:
    """A smooth image without symmetry, whose channels differ."""
    x, y = np.meshgrid(
        np.arange(width) * 2 * np.pi / period, np.arange(height) * 2 * np.pi / period
    )
    channels = [np.sin(x + 0.3 * y), np.cos(0.7 * y), np.sin(0.5 * x - y + 1)]
    return Image.fromarray((127.5 + 110 * np.stack(channels, axis=-1)).astype(np.uint8))


def turned(image: Image.Image, orientation: int, kind: str, **options: Any) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return encoded(image, kind, exif=exif, **options)


def triangle_weights(full: int, start: float, stop: float, count: int) -> np.ndarray:
    """How much each of `full` pixels gives to each of `count` pixels spread over [start, stop]: a
    triangle as wide as two of the larger pixels, which is linear interpolation when enlarging and
    an antialiased mean when shrinking.
    """
    scale = (stop - start) / count
    centers = start + (np.arange(count) + 0.5) * scale
    distance = np.abs(np.arange(full)[None] + 0.5 - centers[:, None]) / max(scale, 1.0)
    weights = np.clip(1 - distance, 0, None)
    return weights / weights.sum(axis=1, keepdims=True)


def reference(data: bytes, size: tuple[int, int], fit: str) -> np.ndarray:
    """The whole image, upright, cropped, padded or stretched, in floats."""
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB"), dtype=np.float64)
    height, width = pixels.shape[:2]
    inner, left, top, right, bottom = size, 0.0, 0.0, float(width), float(height)
    if fit == "crop" and width * size[1] > height * size[0]:  # wider than wanted
        kept = height * size[0] / size[1]
        left, right = (width - kept) / 2, (width + kept) / 2
    elif fit == "crop":
        kept = width * size[1] / size[0]
        top, bottom = (height - kept) / 2, (height + kept) / 2
    elif fit == "pad":
        scale = min(size[0] / width, size[1] / height)
        inner = max(1, round(width * scale)), max(1, round(height * scale))
    across = triangle_weights(width, left, right, inner[0])
    down = triangle_weights(height, top, bottom, inner[1])
    resized = np.einsum("ij,kl,jlc->ikc", down, across, pixels, optimize=True)
    canvas = np.zeros((size[1], size[0], 3))
    x, y = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    canvas[y : y + inner[1], x : x + inner[0]] = resized
    return canvas


# Pillow rounds to whole gray levels after each of its two passes, so it may be half a level off
# twice.
ROUNDING = 1.1


@pytest.mark.medium
@given(
    full=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    fit=FIT,
    orientation=st.integers(1, 8),
)
@settings(max_examples=100)
def test_any_image_comes_out_as_the_slow_reference_has_it(
    full: tuple[int, int], size: tuple[int, int], fit: Any, orientation: int
) -> None:
    data = turned(noise(*full), orientation, "PNG")
    found = decode_image(data, size, fit)
    assert (found.shape, found.dtype) == ((size[1], size[0], 3), np.uint8)
    assert np.abs(found - reference(data, size, fit)).max() < ROUNDING


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_orientation_comes_back_upright(orientation: int, kind: str) -> None:
    data = turned(waves(61, 43), orientation, kind)
    for fit, size in itertools.product(FITS, [(61, 43), (43, 61), (50, 40), (41, 52)]):
        found = decode_image(data, size, fit)  # type: ignore[arg-type]
        assert np.abs(found - reference(data, size, fit)).max() < ROUNDING


@pytest.mark.parametrize("full", [(1280, 960), (1285, 963), (647, 1001), (1601, 400)])
@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("fit", FITS)
def test_a_jpeg_decoded_at_a_fraction_of_its_size_agrees_with_the_full_one(
    full: tuple[int, int], orientation: int, fit: Any
) -> None:
    """Scaling in the frequency domain is not a triangle filter, so smooth images agree to a gray
    level in the mean.
    """
    data = turned(waves(*full, period=200), orientation, "JPEG", quality=95)
    difference = np.abs(decode_image(data, (80, 60), fit) - reference(data, (80, 60), fit))
    assert difference.mean() < 1.0
    for edge in (difference[:2], difference[-2:], difference[:, :2], difference[:, -2:]):
        # No drift towards the far edges where the size is no multiple of 8.
        assert edge.mean() < 2.5


RAMP = np.tile(np.linspace(0, 255, 32).astype(np.uint8), (24, 1))
GRAY, COLORS, PALETTE = Image.fromarray(RAMP), waves(32, 24, 20), waves(32, 24, 20).quantize(16)
SIXTEEN_BITS = Image.fromarray(RAMP.astype(np.uint16) * 257)
TRANSLUCENT = Image.merge("RGBA", [*COLORS.split(), GRAY])
KINDS: dict[str, tuple[bytes, Image.Image, float]] = {
    # name: the file, the image that it stands for, tolerance in gray levels
    "gray JPEG": (encoded(GRAY, "JPEG", quality=95), GRAY, 4),
    "JPEG with bytes behind": (
        encoded(COLORS, "JPEG", quality=98, subsampling=0) + b"\0phone",
        COLORS,
        8,
    ),
    "progressive JPEG": (
        encoded(COLORS, "JPEG", quality=98, progressive=True, subsampling=0),
        COLORS,
        8,
    ),
    "CMYK JPEG": (encoded(COLORS.convert("CMYK"), "JPEG", quality=98), COLORS, 12),
    "CMYK TIFF": (encoded(COLORS.convert("CMYK"), "TIFF"), COLORS, 2),
    "deflated TIFF": (encoded(COLORS, "TIFF", compression="tiff_deflate"), COLORS, 0),
    "16-bit PNG": (encoded(SIXTEEN_BITS, "PNG"), GRAY, 0),
    "16-bit TIFF": (encoded(SIXTEEN_BITS, "TIFF"), GRAY, 0),
    "16-bit PGM": (b"P5 32 24 65535\n" + (RAMP.astype(">u2") * 257).tobytes(), GRAY, 0),
    "32-bit TIFF": (encoded(Image.fromarray(RAMP.astype(np.int32) * 257), "TIFF"), GRAY, 0),
    "too bright 32-bit TIFF": (
        encoded(Image.new("I", (32, 24), 2**20), "TIFF"),
        Image.new("L", (32, 24), 255),
        0,
    ),
    "1-bit PNG": (encoded(Image.fromarray(RAMP > 99), "PNG"), Image.fromarray(RAMP > 99), 0),
    "palette PNG": (encoded(PALETTE, "PNG", transparency=bytes(range(0, 160, 10))), PALETTE, 0),
    "gray PNG with transparency": (encoded(GRAY, "PNG", transparency=0), GRAY, 0),
    "color PNG with transparency": (encoded(COLORS, "PNG", transparency=(0, 0, 0)), COLORS, 0),
    "RGBA PNG": (encoded(TRANSLUCENT, "PNG"), COLORS, 0),
    "LA PNG": (encoded(Image.merge("LA", [GRAY, GRAY]), "PNG"), GRAY, 0),
    "RGBA WebP": (encoded(TRANSLUCENT, "WEBP", lossless=True, exact=True), COLORS, 0),
    "BMP": (encoded(COLORS, "BMP"), COLORS, 0),
    "PPM": (encoded(COLORS, "PPM"), COLORS, 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_becomes_rgb(kind: str) -> None:
    data, image, tolerance = KINDS[kind]
    pixels = decode_image(data, (32, 24))
    assert pixels.flags.writeable
    assert np.abs(pixels - np.asarray(image.convert("RGB"), dtype=np.float64)).max() <= tolerance
    check_image(data)


def png(width: int, height: int) -> bytes:
    """A gray PNG with a false header."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"tiny")), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def jpeg_of_claimed_size(width: int, height: int) -> bytes:
    data = bytearray(encoded(GRAY, "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


NOISE = {kind: encoded(noise(200, 150), kind) for kind in ("JPEG", "PNG", "WEBP", "BMP")}


# As the module does, which pytest undoes.
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png(30_000, 30_000), "178,956,970"),  # Pillow's own limit comes first
        (png(13_000, 13_000), "100,000,000"),
        (png(9_900, 9_900), "damaged"),
        (jpeg_of_claimed_size(30_000, 30_000), "178,956,970"),
        (b"I am no image\n" * 100, "not an image in a known format"),
        *(
            (data[: int(share * len(data))], "")
            for data in NOISE.values()
            for share in (0.02, 0.3, 0.7, 0.95)
        ),
    ],
)
def test_bombs_and_truncated_files_are_refused(data: bytes, reason: str) -> None:
    for function in (
        lambda: decode_image(data, (24, 18), name="x.png"),
        lambda: check_image(data, "x.png"),
    ):
        with pytest.raises(BadImageError, match=rf"^x\.png: .*{reason}") as caught:
            function()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "length"), [("JPEG", 400), ("PNG", 1)])
def test_damage_within_the_pixels_is_found_by_the_strict_check(kind: str, length: int) -> None:
    data = bytearray(encoded(noise(320, 240), kind, compress_level=0))
    check_image(bytes(data))
    middle = len(data) // 2
    data[middle : middle + length] = bytes(byte ^ 255 for byte in data[middle : middle + length])
    data[middle : middle + length] = (
        bytes(length) if kind == "JPEG" else data[middle : middle + length]
    )
    with pytest.raises(BadImageError, match="damaged"):
        check_image(bytes(data))


@contextmanager
def error_names(name: str) -> Iterator[None]:
    try:
        yield
    except BadImageError as error:
        if not str(error).startswith(f"{name}: ") or "\n" in str(error):
            pytest.fail(str(error))
        raise


SAMPLES = {kind: turned(waves(40, 30, 25), 6, kind) for kind in ("JPEG", "PNG", "WEBP")}
SAMPLES["TIFF"] = turned(waves(40, 30, 25), 6, "TIFF", compression="tiff_lzw")


@pytest.mark.medium
@pytest.mark.parametrize("filters", ["error", "ignore"])
@pytest.mark.parametrize("kind", SAMPLES)
@given(data=st.data())
def test_a_damaged_file_is_an_image_or_an_error_with_its_name(
    kind: str, filters: Any, data: st.DataObject
) -> None:
    content = bytearray(SAMPLES[kind])
    places = st.integers(0, min(len(content), 700) - 1) | st.integers(0, len(content) - 1)
    for place, value in data.draw(
        st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=8)
    ):
        content[place] = value
    damaged = bytes(content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))])
    with warnings.catch_warnings():
        warnings.simplefilter(filters)
        for function in (
            lambda: decode_image(damaged, (8, 6), name="x.jpg"),
            lambda: check_image(damaged, "x.jpg"),
        ):
            with suppress(BadImageError), error_names("x.jpg"):
                function()
