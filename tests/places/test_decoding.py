"""Raw images: the Bayer mosaic and the undistortion table, against slow independent computations."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import map_coordinates

from mappable.errors import BadImageError
from mappable.places.decoding import RawDecoding, undistort
from mappable.places.images import decode_image, load_image


def mosaic(color: NDArray[np.uint8], bayer: str) -> NDArray[np.uint8]:
    """What a sensor behind that filter sees of a color image."""
    height, width = color.shape[:2]
    raw = np.empty((height, width), dtype=np.uint8)
    for row in range(height):
        for column in range(width):
            raw[row, column] = color[row, column, "RGB".index(bayer[2 * (row % 2) + column % 2])]
    return raw


def mirrored(index: int, count: int) -> int:
    """-1 is 1 and count is count - 2: the mirror stands on the outermost pixel."""
    return -index if index < 0 else 2 * (count - 1) - index if index >= count else index


def slow_demosaic(raw: NDArray[np.uint8], bayer: str) -> NDArray[np.uint8]:
    """Each color of each pixel as the mean of the nearest samples of that color in its 3x3 window."""
    height, width = raw.shape
    color = np.empty((height, width, 3), dtype=np.uint8)
    for row, column, channel in np.ndindex(height, width, 3):
        samples: dict[int, list[int]] = {}
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                y, x = row + down, column + right
                if bayer[2 * (y % 2) + x % 2] == "RGB"[channel]:
                    value = int(raw[mirrored(y, height), mirrored(x, width)])
                    samples.setdefault(abs(down) + abs(right), []).append(value)
        nearest = samples[min(samples)]
        color[row, column, channel] = int(Fraction(sum(nearest), len(nearest)) + Fraction(1, 2))
    return color


def identity_table(height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    return columns, rows


def write_table(file: Path, columns: NDArray[np.float64], rows: NDArray[np.float64]) -> Path:
    file.write_bytes(columns.astype("<f8").tobytes() + rows.astype("<f8").tobytes())
    return file


def random_image(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_decodings_agree_if_their_tables_have_the_same_content(tmp_path: Path) -> None:
    first, copy, other = (tmp_path / name for name in ("first.bin", "copy.bin", "other.bin"))
    for file, content in ((first, b"12345678"), (copy, b"12345678"), (other, b"12345679")):
        file.write_bytes(content)
    own = RawDecoding("GBRG", str(first))
    assert own.agrees_with(own)
    assert own.agrees_with(RawDecoding("GBRG", str(copy)))
    assert RawDecoding("GBRG").agrees_with(RawDecoding("GBRG"))
    for differing in (
        RawDecoding("RGGB", str(copy)),
        RawDecoding("GBRG", str(other)),
        RawDecoding("GBRG"),
        None,
    ):
        assert not own.agrees_with(differing)
    assert not own.agrees_with(RawDecoding("GBRG", str(tmp_path / "gone.bin")))


@pytest.mark.parametrize("seed", range(5))
def test_undistortion_agrees_with_scipy_inside_and_beyond_the_border(
    tmp_path: Path, seed: int
) -> None:
    height, width = 11, 17
    random = np.random.default_rng(seed)
    image = random_image(height, width, seed)
    columns, rows = (
        random.uniform(-3, width + 2, (height, width)),
        random.uniform(-3, height + 2, (height, width)),
    )
    result = undistort(image, write_table(tmp_path / "table.bin", columns, rows)).astype(np.float64)
    for channel in range(3):
        exact = map_coordinates(
            image[..., channel].astype(np.float64), [rows, columns], order=1, mode="grid-constant"
        )
        assert np.abs(result[..., channel] - exact).max() <= 0.5 + 1e-4  # the nearest whole number


def test_raw_files_are_demosaiced_and_then_undistorted(tmp_path: Path) -> None:
    image = random_image(6, 8)
    columns, rows = identity_table(6, 8)
    table = write_table(tmp_path / "table.bin", columns + 1, rows)
    Image.fromarray(mosaic(image, "GBRG")).save(tmp_path / "raw.png")
    decoded = load_image(tmp_path / "raw.png", (8, 6), decoding=RawDecoding("GBRG", str(table)))
    straight = slow_demosaic(mosaic(image, "GBRG"), "GBRG")
    assert np.array_equal(decoded[:, :-1], straight[:, 1:])
    assert (decoded[:, -1] == 0).all()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (np.zeros(2 * 6 * 8 - 1), r"table\.bin has 95 numbers, expected 96.*8x6"),
        (np.zeros(2 * 6 * 8 + 1), r"table\.bin has 97 numbers, expected 96.*8x6"),
        (np.full(2 * 6 * 8, np.nan), r"table\.bin has 96 numbers, expected 96 finite.*8x6"),
        (None, r"undistortion table table\.bin cannot be read \(No such file"),
    ],
)
def test_a_table_that_does_not_fit_the_image_is_an_error_that_names_both(
    content: Any, problem: str, tmp_path: Path
) -> None:
    table = tmp_path / "table.bin"
    if content is not None:
        content.tofile(table)
    Image.fromarray(random_image(6, 8)[..., 0]).save(tmp_path / "raw.png")
    with pytest.raises(BadImageError, match=problem) as error:
        decode_image(
            (tmp_path / "raw.png").read_bytes(),
            (8, 6),
            decoding=RawDecoding("GBRG", str(table)),
            name="raw",
        )
    assert str(error.value).startswith("raw: one channel, so it is a raw GBRG image, but ")
