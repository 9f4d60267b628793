"""Run images through a network in batches, and read ahead while the network computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, get_args

import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.features.inputs import Inputs
from mappable.progress import progress_bar

Precision = Literal["auto", "float32", "bfloat16"]


def describe(
    network: Callable[[Tensor], Tensor],
    inputs: Inputs,
    rows: Ints,
    *,
    device: torch.device | str,
    batch_size: int | None = None,
    precision: Precision = "auto",
    title: str | None = None,
    gather: torch.device | str | None = None,
) -> Tensor:
    """Compute `network` for some rows of its `inputs`, in batches and without gradients.

    The results stay on `device`, unless `gather` names another device for them. Batches are read
    while the network computes earlier ones. `title` shows a progress bar with this title.
    """
    device = torch.device(device)
    batch_size = default_batch_size(device) if batch_size is None else batch_size
    if batch_size < 1:
        raise BadInputError(f"batch_size must be 1 or more, got {batch_size}")
    advice = (
        f"not enough memory on {device} for {batch_size} images at a time and the results of"
        f" {len(rows):,} images; lower batch_size, or use fewer images"
    )
    # There is at least one portion, even if it has no rows.
    portions = [
        rows[start : start + batch_size] for start in range(0, max(1, len(rows)), batch_size)
    ]
    bar = nullcontext(lambda count: None) if title is None else progress_bar(title, len(rows))
    result: Tensor | None = None
    done = 0
    with out_of_memory_means(advice), bar as advance:
        for part in _results(network, inputs.batches(portions, device), device, precision):
            if result is None:
                result = torch.empty(
                    (len(rows), *part.shape[1:]), dtype=part.dtype, device=gather or device
                )
            result[done : done + len(part)] = part
            done += len(part)
            advance(len(part))
    assert result is not None  # noqa: S101 - there is at least one portion
    return result


def default_batch_size(device: torch.device) -> int:
    """Default number of images per pass without gradients."""
    return 256 if device.type == "cuda" else 32


@contextmanager
def backbone_precision(device: torch.device | str, precision: Precision) -> Iterator[None]:
    """Context in which convolutions compute in bfloat16, or in full float32 instead of the TF32 of
    some GPUs.

    Convolutions add in the same order each time, so that the same images give the same numbers.
    "auto" is bfloat16 if the device has it. The aggregator and everything after it stay in float32:
    they turn bfloat16 off for themselves. Gradients of float32 convolutions must be computed in
    this context too.
    """
    device = torch.device(device)
    if precision not in get_args(Precision):
        raise BadInputError(
            f"precision is {precision!r}, expected one of {', '.join(get_args(Precision))}"
        )
    fast = actual_precision(device, precision) == "bfloat16"
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    with exact, torch.autocast(device.type, torch.bfloat16, enabled=fast):
        yield


def actual_precision(device: torch.device, precision: Precision) -> Literal["float32", "bfloat16"]:
    """The precision in which the device computes: "auto" is bfloat16 if the device has it."""
    if precision == "auto":
        return "bfloat16" if has_bfloat16(device) else "float32"
    return precision


def has_bfloat16(device: torch.device) -> bool:
    """True if the device multiplies bfloat16 numbers in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # torch has no public functions for this yet.
    return device.type == "cpu" and bool(
        torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    )


@contextmanager
def out_of_memory_means(advice: str) -> Iterator[None]:
    """Context that turns an out-of-memory error into a BadInputError with the text `advice`."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise BadInputError(advice) from error
    except RuntimeError as error:
        if "DefaultCPUAllocator" not in str(error):
            raise
        raise BadInputError(advice) from error


def _results(
    network: Callable[[Tensor], Tensor],
    batches: Iterator[Tensor],
    device: torch.device,
    precision: Precision,
) -> Iterator[Tensor]:
    """Output of the network for each batch. A result is yielded after the next batch has started: a
    GPU never waits.
    """
    before = None
    for batch in batches:
        with torch.no_grad(), backbone_precision(device, precision):
            latest = network(batch)
        if before is not None:
            yield before
        before = latest
    if before is not None:
        yield before
