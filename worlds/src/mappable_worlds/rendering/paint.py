"""Colors, masks and patterns that several materials share."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mappable_worlds.rendering.noise import cell, cell_noise
from mappable_worlds.scene import Color


@dataclass(frozen=True)
class Paint:
    """The paint of n points: the share of light that each reflects, and the light that it emits,
    both (3, n).
    """

    albedo: Tensor
    glow: Tensor


def color(values: Color, like: Tensor) -> Tensor:
    """Return a color as (3, 1) on the device of `like`."""
    return torch.tensor(values, dtype=torch.float32, device=like.device)[:, None]


def mix(below: Tensor, above: Tensor, share: Tensor) -> Tensor:
    """Blend `above` over `below`: only `above` where `share` is 1 or True, only `below` where it is
    0.
    """
    return below + (above - below) * share


def between(values: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    return (values >= low) & (values < high)


PALETTE: Sequence[Color] = (  # colors of signs, goods, clothes, books and pictures
    (0.55, 0.06, 0.05), (0.04, 0.09, 0.30), (0.03, 0.20, 0.09), (0.75, 0.48, 0.06), (0.78, 0.74, 0.62),
    (0.03, 0.03, 0.04), (0.32, 0.32, 0.34), (0.24, 0.12, 0.06), (0.04, 0.30, 0.34), (0.72, 0.22, 0.04),
    (0.16, 0.32, 0.62), (0.30, 0.04, 0.14), (0.84, 0.84, 0.82), (0.42, 0.50, 0.22), (0.62, 0.36, 0.34),
    (0.22, 0.14, 0.34),
)  # fmt: skip


def palette(number: Tensor) -> Tensor:
    """Return a color (3, n) of the palette for each number in [0, 1)."""
    table = torch.tensor(PALETTE, dtype=torch.float32, device=number.device).T.contiguous()
    return table.index_select(1, (number * len(PALETTE)).int() % len(PALETTE))


def letters(u: Tensor, v: Tensor, size: Tensor | float, seed: Tensor) -> Tensor:
    """Return True on the ink of a line of fake letters, `size` high, with their foot at v = 0."""
    across, up = u / (size * 0.8), v / size * 5
    letter = torch.floor(across)
    column = torch.floor((across - letter) * 4)
    ink = cell_noise(seed, (letter * 4 + column).to(torch.int32), cell(up)) > 0.42
    blank = cell_noise(seed, letter.to(torch.int32), 77) < 0.12
    return ink & (column < 3) & between(up, 0.0, 5.0) & ~blank
