"""Repeatable randomness for textures: the same number for the same cell, on every device."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

SIZE = 512  # texels per side of the noise that `cloudy` repeats
# Moves regular positions off the edges of texels, where rounding would decide.
HALF_TEXEL = 4 / SIZE


def _wrapped(value: int) -> int:
    """Return a 32-bit constant as the signed number with the same bits."""
    return value - 2**32 if value >= 2**31 else value


_A, _B, _C, _D = (_wrapped(value) for value in (0x165667B1, 0x27D4EB2F, 0x85EBCA6B, 0x4BF19F71))


def cell_noise(seed: Tensor, *cells: Tensor | int) -> Tensor:
    """Return numbers in [0, 1), independent per cell; `seed` and `cells` are int32 with shapes that
    broadcast.
    """
    mixed = seed * _C
    for factor, cell in zip((_A, _B, _D), cells, strict=False):
        mixed = mixed + cell * factor
    mixed = mixed ^ ((mixed >> 15) & 0x1FFFF)
    mixed = mixed * _B
    mixed = mixed ^ ((mixed >> 13) & 0x7FFFF)
    mixed = mixed * _D
    mixed = mixed ^ ((mixed >> 16) & 0xFFFF)
    return (mixed & 0xFFFFFF).to(torch.float32) * (1.0 / 2**24)


def cell(position: Tensor) -> Tensor:
    """Return the number of the unit cell of a position."""
    return torch.floor(position).to(torch.int32)


@cache
def _texture(device: torch.device) -> Tensor:
    """Return smooth periodic noise of several octaves, uniformly distributed in 0..1."""
    generator = np.random.default_rng(20200320)
    total = np.zeros((SIZE, SIZE))
    for octave in range(3, 9):
        coarse = generator.standard_normal((2**octave, 2**octave))
        across = np.arange(SIZE) / SIZE * 2**octave
        low = np.floor(across).astype(int)
        share = across - low
        share = share * share * (3 - 2 * share)
        high = (low + 1) % 2**octave
        rows = coarse[low] * (1 - share[:, None]) + coarse[high] * share[:, None]
        total += (rows[:, low] * (1 - share) + rows[:, high] * share) * 0.55 ** (octave - 3)
    ranks = np.argsort(np.argsort(total, axis=None)).reshape(SIZE, SIZE) / SIZE**2
    return torch.tensor(ranks, dtype=torch.float32, device=device).reshape(-1)


def cloudy(u: Tensor, v: Tensor) -> Tensor:
    """Return smooth noise in 0..1 over the plane. It repeats every 8 units; its largest spots are
    about 1 unit wide.
    """
    column = torch.floor(u * (SIZE / 8)).to(torch.int32) & (SIZE - 1)
    row = torch.floor(v * (SIZE / 8)).to(torch.int32) & (SIZE - 1)
    texel = row * SIZE + column
    return _texture(u.device).index_select(0, texel.reshape(-1)).reshape(texel.shape)
