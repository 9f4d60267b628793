"""GPU kernels in Triton for the operations between convolutions.

Only `convolutions.py` imports this module, and only if Triton is installed. PyTorch's builds for
CUDA include it.

Maps are channels last, treated as a matrix (pixels, channels). Sums over pixels have the same order
each time.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 1056  # Triton programs that share the work: eight per multiprocessor of a large GPU
ELEMENTS = 4096  # elements that one program processes together


@triton.jit
def _relu_backward_kernel(
    gradient, output, result, partial, pixels, channels: tl.constexpr, chunk: tl.constexpr
):
    across = tl.arange(0, channels)[None]
    total = tl.zeros((chunk, channels), dtype=tl.float32)
    for start in range(tl.program_id(0) * chunk, pixels, tl.num_programs(0) * chunk):
        rows = (start + tl.arange(0, chunk))[:, None]
        at, inside = rows.to(tl.int64) * channels + across, rows < pixels
        active = tl.load(output + at, mask=inside, other=0.0) > 0
        passed = tl.where(active, tl.load(gradient + at, mask=inside, other=0.0), 0.0)
        tl.store(result + at, passed, mask=inside)
        total += passed.to(tl.float32)
    tl.store(partial + tl.program_id(0) * channels + tl.arange(0, channels), tl.sum(total, axis=0))


@triton.jit
def _pool_kernel(maps, pooled, windows, height, width, channels: tl.constexpr, chunk: tl.constexpr):
    across = tl.arange(0, channels)[None]
    half_height, half_width = height // 2, width // 2
    for start in range(tl.program_id(0) * chunk, windows, tl.num_programs(0) * chunk):
        window = (start + tl.arange(0, chunk))[:, None]
        inside = window < windows
        row, column = window // half_width, window % half_width
        image, row = row // half_height, row % half_height
        first = ((image.to(tl.int64) * height + 2 * row) * width + 2 * column) * channels + across
        below = first + width * channels
        top = tl.maximum(
            tl.load(maps + first, mask=inside), tl.load(maps + first + channels, mask=inside)
        )
        bottom = tl.maximum(
            tl.load(maps + below, mask=inside), tl.load(maps + below + channels, mask=inside)
        )
        tl.store(
            pooled + window.to(tl.int64) * channels + across, tl.maximum(top, bottom), mask=inside
        )


@triton.jit
def _pool_backward_kernel(
    gradient,
    maps,
    result,
    partial,
    windows,
    height,
    width,
    channels: tl.constexpr,
    chunk: tl.constexpr,
):
    across = tl.arange(0, channels)[None]
    half_height, half_width = height // 2, width // 2
    # The last window may be cut by the edge.
    rows_of_windows, columns_of_windows = (height + 1) // 2, (width + 1) // 2
    total = tl.zeros((chunk, channels), dtype=tl.float32)
    for start in range(tl.program_id(0) * chunk, windows, tl.num_programs(0) * chunk):
        window = (start + tl.arange(0, chunk))[:, None]
        row, column = window // columns_of_windows, window % columns_of_windows
        image, row = row // rows_of_windows, row % rows_of_windows
        inside = window < windows
        whole = inside & (row < half_height) & (column < half_width)
        first = ((image.to(tl.int64) * height + 2 * row) * width + 2 * column) * channels + across
        below = first + width * channels
        a = tl.load(maps + first, mask=whole, other=0.0)
        b = tl.load(maps + first + channels, mask=whole, other=0.0)
        c = tl.load(maps + below, mask=whole, other=0.0)
        d = tl.load(maps + below + channels, mask=whole, other=0.0)
        largest = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
        source = (
            (image.to(tl.int64) * half_height + row) * half_width + column
        ) * channels + across
        passed = tl.load(gradient + source, mask=whole, other=0.0)
        passed = tl.where(largest > 0, passed, 0.0)
        total += passed.to(tl.float32)
        to_a = a == largest
        to_b = (b == largest) & ~to_a
        to_c = (c == largest) & ~(to_a | to_b)
        to_d = ~(to_a | to_b | to_c)
        right, low = 2 * column + 1 < width, 2 * row + 1 < height
        tl.store(result + first, tl.where(to_a, passed, 0.0), mask=inside)
        tl.store(result + first + channels, tl.where(to_b, passed, 0.0), mask=inside & right)
        tl.store(result + below, tl.where(to_c, passed, 0.0), mask=inside & low)
        tl.store(result + below + channels, tl.where(to_d, passed, 0.0), mask=inside & right & low)
    tl.store(partial + tl.program_id(0) * channels + tl.arange(0, channels), tl.sum(total, axis=0))


def relu_backward(gradient: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient before a ReLU with `output` (n, channels, height, width), and its sum (channels,)
    float32.

    It equals `gradient` where the output is above 0, else 0.
    """
    images, channels, height, width = output.shape
    result, pixels, rows = (
        torch.empty_like(output),
        images * height * width,
        max(1, ELEMENTS // channels),
    )
    programs = min(PROGRAMS, triton.cdiv(pixels, rows))
    partial = torch.empty(programs, channels, dtype=torch.float32, device=output.device)
    _relu_backward_kernel[(programs,)](gradient, output, result, partial, pixels, channels, rows)
    return result, partial.sum(0)


def pool(maps: Tensor) -> Tensor:
    """2 x 2 max-pooling. An odd last row or column is ignored."""
    images, channels, height, width = maps.shape
    half = (images, channels, height // 2, width // 2)
    pooled = torch.empty(
        half, dtype=maps.dtype, device=maps.device, memory_format=torch.channels_last
    )
    windows, rows = images * (height // 2) * (width // 2), max(1, ELEMENTS // 4 // channels)
    _pool_kernel[(min(4 * PROGRAMS, triton.cdiv(windows, rows)),)](
        maps, pooled, windows, height, width, channels, rows
    )
    return pooled


def pool_backward(gradient: Tensor, maps: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient before the ReLU, from the `gradient` of pooled ReLU outputs `maps`, and its sum
    (channels,) float32.
    """
    images, channels, height, width = maps.shape
    result, rows = torch.empty_like(maps), max(1, ELEMENTS // 4 // channels)
    windows = images * ((height + 1) // 2) * ((width + 1) // 2)
    programs = min(PROGRAMS, triton.cdiv(windows, rows))
    partial = torch.empty(programs, channels, dtype=torch.float32, device=maps.device)
    _pool_backward_kernel[(programs,)](
        gradient, maps, result, partial, windows, height, width, channels, rows
    )
    return result, partial.sum(0)
