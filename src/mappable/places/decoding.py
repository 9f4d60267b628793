"""Raw camera files to color images: Bayer mosaic and lens distortion, as Oxford RobotCar needs.

One rule holds for tables, maps and queries. If a table has a `RawDecoding`, an image with one
channel is a raw image and is decoded; an image in color is read unchanged. Query images without a
table, or with a table without a decoding, use the decoding of the map (`Places.decoded_as`).
"""

import filecmp
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Pixels
from mappable.errors import BadInputError, shown

Bayer = Literal["GBRG", "RGGB", "BGGR", "GRBG"]


@dataclass(frozen=True)
class RawDecoding:
    """How to decode a raw image with one channel.

    `bayer` has the colors of its top-left 2x2 pixels, row by row. `undistortion` is optional: the
    file of a look-up table (float64, all source columns, then all source rows) that undistorts the
    image.
    """

    bayer: Bayer
    undistortion: str | None = None

    def __post_init__(self) -> None:
        if self.bayer not in get_args(Bayer):
            raise BadInputError(
                f"Bayer pattern is {shown(self.bayer)}, expected one of:"
                f" {', '.join(get_args(Bayer))}"
            )

    def decode(self, raw: Pixels) -> Pixels:
        """The color image (h, w, 3) of a raw image (h, w)."""
        color = demosaic(raw, self.bayer)
        return undistort(color, Path(self.undistortion)) if self.undistortion else color

    def agrees_with(self, other: "RawDecoding | None") -> bool:
        """True if both give the same result: same pattern, and undistortion tables with the same
        content.
        """
        if self == other or other is None or self.bayer != other.bayer:
            return self == other
        tables = self.undistortion, other.undistortion
        try:
            return None not in tables and filecmp.cmp(str(tables[0]), str(tables[1]), shallow=False)
        except OSError:  # an unreadable table cannot be compared
            return False


def demosaic(raw: Pixels, bayer: Bayer) -> Pixels:
    """Bilinear demosaicing: a missing color is the mean of the nearest two or four samples.

    At the border the image is mirrored at its outermost pixels, which keeps the phase of the
    mosaic.
    """
    height, width = raw.shape
    if min(height, width) < 2:
        raise ValueError(f"a Bayer mosaic of {width}x{height} pixels does not contain all colors")
    padded = np.pad(raw, 1, mode="reflect").astype(np.uint16)
    color = np.empty((height, width, 3), dtype=np.uint8)
    for number, name in enumerate("RGB"):
        samples = np.zeros_like(padded)  # 0 where the sensor sees another color
        for place in range(4):
            if bayer[place] == name:
                # The padding moves the mosaic.
                cells = slice(1 - place // 2, None, 2), slice(1 - place % 2, None, 2)
                samples[cells] = padded[cells]
        across = samples[:, :-2] + samples[:, 2:]
        if name == "G":  # weights 4 in the middle, 1 at the sides
            mixed = 4 * samples[1:-1, 1:-1] + across[1:-1] + samples[:-2, 1:-1] + samples[2:, 1:-1]
        else:  # weights 4 in the middle, 2 at the sides, 1 in the corners
            across += 2 * samples[:, 1:-1]
            mixed = across[:-2] + 2 * across[1:-1] + across[2:]
        color[..., number] = (mixed + 2) // 4
    return color


def undistort(image: Pixels, table: Path) -> Pixels:
    """The image, resampled bilinearly at the source pixels of the look-up table; black outside the
    source image.
    """
    return _sampling(table, *image.shape[:2]).resample(image)


@dataclass(frozen=True)
class Sampling:
    """The four source pixels around each output pixel: flat indices and weights."""

    corners: list[NDArray[np.intp]]
    weights: list[NDArray[np.float32]]

    @classmethod
    def at(cls, u: Floats, v: Floats, height: int, width: int) -> "Sampling":
        """Bilinear sampling at source column `u` and row `v` of each output pixel; weight 0 outside
        the source.
        """
        left, top = np.floor(u), np.floor(v)
        corners, weights = [], []
        for down in (0, 1):
            for right in (0, 1):
                column, row = left + right, top + down
                weight = (1 - np.abs(u - column)) * (1 - np.abs(v - row))
                inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
                weights.append(np.where(inside, weight, 0).astype(np.float32))
                corners.append(np.where(inside, row * width + column, 0).astype(np.intp))
        return cls(corners, weights)

    def resample(self, image: Pixels) -> Pixels:
        """An image (height, width, channels) of the size of the source."""
        height, width, channels = image.shape
        straight = np.empty_like(image)
        # Plane by plane is several times faster than pixel by pixel.
        for channel in range(channels):
            plane = image[..., channel].astype(np.float32).ravel()
            # 0.5, so that truncation to whole numbers rounds.
            mixed = np.full(height * width, 0.5, dtype=np.float32)
            for corner, weight in zip(self.corners, self.weights, strict=True):
                mixed += plane.take(corner) * weight
            straight[..., channel] = mixed.reshape(height, width)
        return straight


@lru_cache(maxsize=4)
def _sampling(table: Path, height: int, width: int) -> Sampling:
    try:
        values = np.fromfile(table, dtype="<f8")
    except OSError as error:
        reason = f"its undistortion table {table.name} cannot be read ({error.strerror})"
        raise BadInputError(f"{reason}; restore the table, or use an image in color") from None
    if values.size != 2 * height * width or not np.isfinite(values).all():
        expected = (
            f"expected {2 * height * width:,} finite numbers for an image of {width}x{height}"
        )
        raise BadInputError(
            f"its undistortion table {table.name} has {values.size:,} numbers, {expected}"
        )
    u, v = values.reshape(2, -1)
    return Sampling.at(u, v, height, width)
