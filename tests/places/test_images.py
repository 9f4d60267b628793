"""Pixels: geometry and resampling against a slow reference on the full image, kinds of files, and kinds of damage."""

import io
import itertools
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from mappable.errors import BadImageError, BadInputError
from mappable.places.decoding import RawDecoding
from mappable.places.images import (
    MAX_PIXELS,
    MAX_PIXELS_AT_FULL_SIZE,
    check_image,
    decode_image,
    load_image,
    parse_size,
    read_bytes,
)

FITS = ["crop", "pad", "stretch"]
ORIENTATION = 0x0112
FIT: Any = st.sampled_from(FITS)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def waves(width: int, height: int, period: float = 90.0) -> Image.Image:
    """A smooth image without symmetry, whose channels differ."""
    x, y = np.meshgrid(np.arange(width) * 2 * np.pi / period, np.arange(height) * 2 * np.pi / period)
    channels = [np.sin(x + 0.3 * y), np.cos(0.7 * y), np.sin(0.5 * x - y + 1)]
    return Image.fromarray((127.5 + 110 * np.stack(channels, axis=-1)).astype(np.uint8))


def turned(image: Image.Image, orientation: int, kind: str, **options: Any) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return encoded(image, kind, exif=exif, **options)


def triangle_weights(full: int, start: float, stop: float, count: int) -> np.ndarray:
    """How much each of `full` pixels gives to each of `count` pixels spread over [start, stop]: a triangle as wide as
    two of the larger pixels, which is linear interpolation when enlarging and an antialiased mean when shrinking."""
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


# Pillow rounds to whole gray levels after each of its two passes, so it may be half a level off twice.
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


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_an_orientation_that_means_nothing_changes_nothing(orientation: int) -> None:
    image = noise(20, 10)
    assert np.array_equal(decode_image(turned(image, orientation, "PNG"), (20, 10)), np.asarray(image))


@pytest.mark.parametrize("full", [(1280, 960), (1285, 963), (647, 1001), (1601, 400)])
@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("fit", FITS)
def test_a_jpeg_decoded_at_a_fraction_of_its_size_agrees_with_the_full_one(
    full: tuple[int, int], orientation: int, fit: Any
) -> None:
    """Scaling in the frequency domain is not a triangle filter, so smooth images agree to a gray level in the mean."""
    data = turned(waves(*full, period=200), orientation, "JPEG", quality=95)
    difference = np.abs(decode_image(data, (80, 60), fit) - reference(data, (80, 60), fit))
    assert difference.mean() < 1.0
    for edge in (difference[:2], difference[-2:], difference[:, :2], difference[:, -2:]):
        assert edge.mean() < 2.5  # no drift towards the far edges where the size is no multiple of 8


@pytest.mark.parametrize("turn", [False, True])
def test_a_jpeg_is_never_decoded_smaller_than_needed_along_either_side(turn: bool) -> None:
    stripes = np.tile((127.5 + 110 * np.sin(np.arange(400) * 2 * np.pi / 16)).astype(np.uint8), (1600, 1))
    image, size = Image.fromarray(stripes), (100, 60)  # 4 and 27 times smaller: a quarter must be the limit
    if turn:
        image, size = image.transpose(Image.Transpose.ROTATE_90), size[::-1]
    data = encoded(image, "JPEG", quality=95)
    found = decode_image(data, size, "stretch")
    assert np.ptp(found) > 120  # an eighth would leave two pixels a stripe, and next to no contrast
    assert np.abs(found - reference(data, size, "stretch")).mean() < 10


def test_the_center_is_kept_by_default() -> None:
    stripes = np.repeat(np.array([[(255, 0, 0), (0, 255, 0), (0, 0, 255)]], dtype=np.uint8), 100, axis=1)
    wide = Image.fromarray(np.repeat(stripes, 100, axis=0))  # 300x100: red, green, blue
    middle = decode_image(encoded(wide, "PNG"), (50, 50))
    assert (middle[:, 2:-2] == (0, 255, 0)).all()
    tall = wide.transpose(Image.Transpose.ROTATE_270)
    assert (decode_image(encoded(tall, "PNG"), (50, 50))[2:-2] == (0, 255, 0)).all()


def test_padding_adds_black_bars_of_equal_height_and_stretching_none() -> None:
    white = encoded(Image.new("RGB", (300, 100), "white"), "PNG")
    padded = decode_image(white, (60, 60), "pad")
    assert (padded[20:40] == 255).all()
    assert (padded[:20] == 0).all()
    assert (padded[40:] == 0).all()
    assert (decode_image(white, (60, 60), "stretch") == 255).all()


def test_pixels_can_be_written_to() -> None:
    assert decode_image(encoded(noise(8, 8), "PNG"), (8, 8)).flags.writeable


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    "full", [(1, 1), (1, 2), (2, 1), (3000, 1), (1, 3000), (65_000, 3), (16, 5000), (7, 7)], ids=str
)
def test_tiny_and_narrow_images_come_out_at_the_wanted_size(fit: Any, full: tuple[int, int]) -> None:
    image = Image.new("RGB", full, (10, 200, 30))
    for kind, tolerance in (("PNG", 0), ("JPEG", 3)):
        found = decode_image(encoded(image, kind), (24, 18), fit)
        assert found.shape == (18, 24, 3)
        middle = found[9, 12] if fit != "pad" else found.max(axis=(0, 1))
        assert np.abs(middle - np.array((10.0, 200.0, 30.0))).max() <= tolerance


def gray_ramp(width: int = 32, height: int = 24) -> np.ndarray:
    return np.tile(np.linspace(0, 255, width).astype(np.uint8), (height, 1))


RAMP = Image.fromarray(gray_ramp())
COLORS = waves(32, 24, period=20)
SIXTEEN_BITS = Image.fromarray(gray_ramp().astype(np.uint16) * 257)


def with_alpha(image: Image.Image) -> Image.Image:
    image = image.copy()
    image.putalpha(Image.fromarray(gray_ramp()[:, ::-1].copy()))
    return image


def transparent_palette() -> bytes:
    return encoded(COLORS.quantize(16), "PNG", transparency=bytes(range(0, 160, 10)))


KINDS: dict[str, tuple[Callable[[], bytes], Callable[[], Any], float]] = {
    # name: (the file, the gray or color values that it stands for, tolerance)
    "gray JPEG": (lambda: encoded(RAMP, "JPEG", quality=95), lambda: RAMP, 4),
    "gray PNG": (lambda: encoded(RAMP, "PNG"), lambda: RAMP, 0),
    "16-bit gray PNG": (lambda: encoded(SIXTEEN_BITS, "PNG"), lambda: RAMP, 0),
    "16-bit gray TIFF": (lambda: encoded(SIXTEEN_BITS, "TIFF"), lambda: RAMP, 0),
    "32-bit gray TIFF": (lambda: encoded(Image.fromarray(gray_ramp().astype(np.int32) * 257), "TIFF"), lambda: RAMP, 0),
    "too bright 32-bit TIFF": (
        lambda: encoded(Image.new("I", (32, 24), 2**20), "TIFF"),
        lambda: Image.new("L", (32, 24), 255),
        0,
    ),
    "16-bit PGM": (lambda: b"P5 32 24 65535\n" + (gray_ramp().astype(">u2") * 257).tobytes(), lambda: RAMP, 0),
    "1-bit PNG": (
        lambda: encoded(RAMP.point(lambda v: 255 * (v > 99), "1"), "PNG"),
        lambda: RAMP.point(lambda v: 255 * (v > 99)),
        0,
    ),
    "palette PNG": (lambda: encoded(COLORS.quantize(16), "PNG"), lambda: COLORS.quantize(16), 0),
    "palette PNG with transparency": (transparent_palette, lambda: COLORS.quantize(16), 0),
    "gray PNG with a transparent value": (lambda: encoded(RAMP, "PNG", transparency=0), lambda: RAMP, 0),
    "color PNG with a transparent value": (
        lambda: encoded(COLORS, "PNG", transparency=(0, 0, 0)),
        lambda: COLORS,
        0,
    ),
    "RGBA PNG": (lambda: encoded(with_alpha(COLORS), "PNG"), lambda: COLORS, 0),
    "LA PNG": (lambda: encoded(with_alpha(RAMP), "PNG"), lambda: RAMP, 0),
    "RGBA WebP": (lambda: encoded(with_alpha(COLORS), "WEBP", lossless=True, exact=True), lambda: COLORS, 0),
    "CMYK JPEG": (lambda: encoded(COLORS.convert("CMYK"), "JPEG", quality=98), lambda: COLORS, 12),
    "CMYK TIFF": (lambda: encoded(COLORS.convert("CMYK"), "TIFF"), lambda: COLORS, 2),
    "progressive JPEG": (
        lambda: encoded(COLORS, "JPEG", quality=98, progressive=True, subsampling=0),
        lambda: COLORS,
        8,
    ),
    "color JPEG": (lambda: encoded(COLORS, "JPEG", quality=98, subsampling=0), lambda: COLORS, 8),
    "BMP": (lambda: encoded(COLORS, "BMP"), lambda: COLORS, 0),
    "PPM": (lambda: encoded(COLORS, "PPM"), lambda: COLORS, 0),
    "deflated TIFF": (lambda: encoded(COLORS, "TIFF", compression="tiff_deflate"), lambda: COLORS, 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_becomes_rgb(kind: str) -> None:
    make, stands_for, tolerance = KINDS[kind]
    found = decode_image(make(), (32, 24))
    assert (found.shape, found.dtype) == ((24, 32, 3), np.uint8)
    wanted = np.asarray(stands_for().convert("RGB"), dtype=np.float64)
    assert np.abs(found - wanted).max() <= tolerance
    check_image(make())
    assert decode_image(make(), (240, 180)).shape == (180, 240, 3)


def test_of_sixteen_bits_the_upper_eight_are_kept() -> None:
    values = np.array([[0, 255, 256, 4608, 65_279, 65_280, 65_535]], dtype=np.uint16)
    found = decode_image(encoded(Image.fromarray(values), "PNG"), (7, 1))
    assert found[0, :, 0].tolist() == [0, 0, 1, 18, 254, 255, 255]


def test_bytes_after_the_end_of_a_jpeg_are_no_damage() -> None:
    check_image(encoded(COLORS, "JPEG") + b"\0\0appended by a phone")


def png(width: int, height: int, pixels: bytes = b"tiny") -> bytes:
    """A gray PNG by hand, whose header need not be true."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def jpeg_of_claimed_size(width: int, height: int) -> bytes:
    data = bytearray(encoded(RAMP, "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # as the module does, which pytest undoes
@pytest.mark.parametrize(
    "function", [lambda data: decode_image(data, (24, 18), name="x.png"), lambda data: check_image(data, "x.png")]
)
@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (png(30_000, 30_000), "178,956,970"),  # Pillow's own limit comes first
        (png(13_000, 13_000), "100,000,000"),
        (jpeg_of_claimed_size(30_000, 30_000), "178,956,970"),
        (png(2**31 - 1, 2**31 - 1), "178,956,970"),
    ],
)
def test_a_bomb_is_refused_by_its_header(function: Callable[[bytes], Any], data: bytes, limit: str) -> None:
    with pytest.raises(BadImageError, match=rf"x\.png.*{limit}"):
        function(data)


@pytest.mark.parametrize("silence", ["error", "ignore"])
def test_a_bomb_below_the_limit_is_refused_for_its_missing_pixels(silence: Any) -> None:
    data = png(9_900, 9_900)
    assert MAX_PIXELS / 2 < 9_900**2 < MAX_PIXELS_AT_FULL_SIZE  # where Pillow merely warns
    with warnings.catch_warnings():
        warnings.simplefilter(silence)
        for function in (lambda: decode_image(data, (24, 18), name="x.png"), lambda: check_image(data, "x.png")):
            with pytest.raises(BadImageError, match=r"^x\.png: ") as caught:
                function()
            assert "\n" not in str(caught.value)


@pytest.mark.medium
def test_a_large_image_below_the_limit_is_decoded_without_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "large.jpg"
    Image.new("L", (9600, 9400), 77).save(file)
    command = "import sys; from mappable.places.images import load_image; print(load_image(sys.argv[1], (8, 6)).mean())"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", command, file], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("77.0\n", "")


def test_a_missing_empty_or_unreadable_file_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "text.jpg").write_text("I am no image\n" * 100)
    for name, reason in (
        ("missing.jpg", "no such file or directory"),
        ("empty.jpg", "empty file (0 bytes)"),
        ("folder.jpg", "is a directory"),
        ("text.jpg", "not an image in a known format"),
    ):
        with pytest.raises(BadImageError) as caught:
            load_image(tmp_path / name, (24, 18))
        assert str(caught.value) == f"{tmp_path / name}: {reason}"
        assert (caught.value.path, caught.value.reason) == (str(tmp_path / name), reason)
    with pytest.raises(BadImageError, match="embedded null byte"):
        read_bytes("zero\0byte.jpg")
    with pytest.raises(BadImageError, match=r"x.*format"):
        check_image(b"", "x")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
@pytest.mark.parametrize("part", [0.02, 0.3, 0.7, 0.95])
def test_a_truncated_file_is_refused(tmp_path: Path, kind: str, part: float) -> None:
    data = encoded(noise(200, 150), kind)
    file = tmp_path / "cut.img"
    file.write_bytes(data[: int(part * len(data))])
    with pytest.raises(BadImageError, match=rf"^{file}: ") as caught:
        load_image(file, (24, 18))
    assert "\n" not in str(caught.value)
    with pytest.raises(BadImageError, match=r"^cut: "):
        check_image(file.read_bytes(), "cut")


def test_zeroed_bytes_in_a_jpeg_are_found_by_the_strict_check_alone(tmp_path: Path) -> None:
    data = bytearray(encoded(noise(320, 240), "JPEG"))
    check_image(bytes(data))
    data[len(data) // 2 : len(data) // 2 + 400] = bytes(400)
    file = tmp_path / "zeroed.jpg"
    file.write_bytes(data)
    assert load_image(file, (24, 18)).shape == (18, 24, 3)
    with pytest.raises(BadImageError, match=rf"{file}.*unreadable"):
        check_image(bytes(data), str(file))


def test_a_flipped_bit_in_the_pixels_of_a_png_is_found_by_the_strict_check() -> None:
    data = bytearray(encoded(noise(64, 48), "PNG", compress_level=0))
    data[len(data) // 2] ^= 1
    with pytest.raises(BadImageError, match="damaged"):
        check_image(bytes(data))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data:UserWarning")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("damage", [b"garbage", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\0\x05\x01\x12"])
def test_damaged_exif_data_leave_the_pixels_alone(damage: bytes, kind: str) -> None:
    plain, damaged = encoded(COLORS, kind), encoded(COLORS, kind, exif=b"Exif\0\0" + damage)
    assert np.array_equal(decode_image(damaged, (32, 24)), decode_image(plain, (32, 24)))


@cache
def sample(kind: str) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    options = {"TIFF": {"compression": "tiff_lzw"}}.get(kind, {})
    return encoded(waves(40, 30, 25), kind, exif=exif, **options)


@pytest.mark.medium
@pytest.mark.parametrize("filters", ["error", "ignore"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@given(data=st.data())
def test_a_damaged_file_is_an_image_or_a_sentence_and_nothing_else(
    kind: str, filters: Any, data: st.DataObject
) -> None:
    whole = bytearray(sample(kind))
    places = st.integers(0, min(len(whole), 700) - 1) | st.integers(0, len(whole) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=8)):
        whole[place] = value
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole)))]
    assert_image_or_sentence(bytes(whole), filters)


def assert_image_or_sentence(data: bytes, filters: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(filters)
        try:
            assert decode_image(data, (8, 6), name="folder/x.jpg").shape == (6, 8, 3)
        except BadImageError as error:
            assert_sentence(error)
        try:
            check_image(data, name="folder/x.jpg")
        except BadImageError as error:
            assert_sentence(error)


def assert_sentence(error: BadImageError) -> None:
    assert str(error).startswith("folder/x.jpg: ")
    assert len(error.reason) > 5
    assert "\n" not in str(error)


def test_four_threads_decode_the_same_bytes_as_one() -> None:
    files = [
        turned(waves(300 + 7 * n, 200 + n, 40), 1 + n % 8, kind) for n in range(8) for kind in ("JPEG", "PNG", "TIFF")
    ]

    def decode(data: bytes) -> bytes:
        return decode_image(data, (80, 60)).tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(decode, files * 4)) == [decode(data) for data in files] * 4


def test_a_raw_image_becomes_color_before_it_is_resized() -> None:
    mosaic = np.zeros((8, 12), dtype=np.uint8)
    mosaic[1::2, 0::2] = 200  # the red pixels of GBRG
    found = decode_image(encoded(Image.fromarray(mosaic), "PNG"), (12, 8), decoding=RawDecoding("GBRG"))
    assert (found == (200, 0, 0)).all()


def test_a_wrong_fit_or_size_is_the_caller_s_mistake_and_not_the_image_s() -> None:
    data = encoded(RAMP, "PNG")
    with pytest.raises(BadInputError, match=r"fit.*'zoom'"):
        decode_image(data, (8, 8), "zoom")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match=r"8x0.*178,956,970"):
        decode_image(data, (8, 0))


def test_a_size_is_width_by_height() -> None:
    assert parse_size("240x180") == (240, 180)
    assert parse_size("320X240") == (320, 240)


@pytest.mark.parametrize(
    "text", ["", "240", "240x", "x180", "0x180", "-2x3", "1x2x3", "2.5x3", "axb", "²x3", "240×180"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"WIDTHxHEIGHT.*240x180"):
        parse_size(text)
