"""Images through a network in batches: decoding ahead of it, the precision of the backbone, and too little memory."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.errors import BadInputError
from mappable.places.cache import ImageRows
from mappable.places.images import Fit, Size, load_image
from mappable.places.table import Places
from mappable.progress import progress_bar
from mappable.threads import cores, in_order

Precision = Literal["auto", "float32", "bfloat16"]
AHEAD = 3  # batches that are read, or being read, while the network works


class ImageFiles:
    """The images of places, decoded from their files on all cores when asked for: `images[[4, 7]]` are two of them.

    It has what of an array of pixels (n, height, width, 3) is needed to go through it in batches.
    """

    def __init__(self, places: Places, size: Size, fit: Fit) -> None:
        self.places, self.size, self.fit = places, size, fit

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: Ints) -> Pixels:
        pixels = np.empty((len(rows), *self.shape[1:]), dtype=np.uint8)
        with ThreadPoolExecutor(cores()) as pool:
            files = [self.places.root / self.places.path[row] for row in rows]
            for number, image in enumerate(in_order(pool, self._load, files, ahead=len(files))):
                pixels[number] = image
        return pixels

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.places), self.size[1], self.size[0], 3

    def _load(self, file: Path) -> Pixels:
        return load_image(file, self.size, self.fit, self.places.decoding)


@dataclass(frozen=True)
class TensorRows:
    """Some rows of a tensor in an order of their own, which are copied when they are asked for."""

    tensor: Tensor
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Ints) -> Tensor:
        return self.tensor[self.rows[torch.as_tensor(index)]]

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), *self.tensor.shape[1:]


Source = Pixels | ImageRows | ImageFiles | Tensor | TensorRows  # whatever gives a batch for row numbers


def images_of(images: Places | Source, size: Size, fit: Fit) -> Source:
    """`images` as something to take batches (n, height, width, 3) of uint8 from; another size or kind is refused."""
    if isinstance(images, Places):
        return ImageFiles(images, size, fit)
    if not hasattr(images, "shape"):
        raise BadInputError(f"the encoder takes Places, or an array of pixels, not a {type(images).__name__}")
    wanted = (size[1], size[0], 3)
    if len(images.shape) != 4 or images.shape[1:] != wanted:
        shape = " x ".join(str(length) for length in images.shape)
        raise BadInputError(f"the encoder takes images of n x {wanted[0]} x {wanted[1]} x 3 numbers, not of {shape}")
    kind = getattr(images, "dtype", np.uint8)
    if kind not in (np.uint8, torch.uint8):
        raise BadInputError(f"the encoder takes images of uint8 numbers, not of {kind}")
    return images


def fetch(source: Source, rows: Ints, device: torch.device | str) -> Tensor:
    """The images, or activations, `source[rows]` on the device."""
    if isinstance(source, Tensor):
        return source[torch.as_tensor(rows, device=source.device)].to(device)
    if isinstance(source, TensorRows):
        return source[rows].to(device)
    return torch.from_numpy(source[rows]).to(device)


def batches(source: Source, portions: Sequence[Ints], device: torch.device) -> Generator[Tensor, None, None]:
    """`source[rows]` on the device for the rows of each portion, in order; a thread reads ahead until it is closed.

    On their way to a GPU they pass through pinned memory, so that the copy makes nobody wait. Of a source that is on a
    GPU already, the rows of all portions are brought there at once.
    """
    if isinstance(source, Tensor) and source.device.type != "cpu":
        rows = torch.from_numpy(np.concatenate([np.empty(0, dtype=np.int64), *portions])).to(source.device)
        for portion in torch.split(rows, [len(portion) for portion in portions]):
            yield source[portion].to(device)
        return
    to_gpu = device.type == "cuda"

    def read(portion: Ints) -> Tensor:
        batch = fetch(source, portion, "cpu")
        return batch.pin_memory() if to_gpu else batch  # used again only when the copy from it is done

    with ThreadPoolExecutor(1) as pool:
        for batch in in_order(pool, read, portions, ahead=AHEAD):
            yield batch.to(device, non_blocking=to_gpu)


def describe(
    network: Callable[[Tensor], Tensor],
    source: Source,
    rows: Ints,
    *,
    device: torch.device | str,
    batch_size: int | None = None,
    precision: Precision = "auto",
    title: str | None = None,
    gather: torch.device | str | None = None,
) -> Tensor:
    """What `network` makes of the images `source[rows]`, batch by batch and without gradients.

    `network` is given uint8 (batch, height, width, 3) on `device`. The results stay there, unless `gather` names
    another place for them. Batches are read while the network works on those before. `title` is that of a progress bar.
    """
    device = torch.device(device)
    batch_size = default_batch_size(device) if batch_size is None else batch_size
    if batch_size < 1:
        raise BadInputError(f"batch_size is {batch_size}, but must be at least 1")
    advice = (
        f"there is too little memory on {device} for {batch_size} images at a time and what comes of {len(rows):,}: "
        "lower batch_size, or take fewer images"
    )
    # There is always a portion, if of no rows.
    portions = [rows[start : start + batch_size] for start in range(0, max(1, len(rows)), batch_size)]
    bar = nullcontext(lambda count: None) if title is None else progress_bar(title, len(rows))
    result: Tensor | None = None
    done = 0
    with out_of_memory_means(advice), bar as advance:
        for part in _results(network, batches(source, portions, device), device, precision):
            if result is None:
                result = torch.empty((len(rows), *part.shape[1:]), dtype=part.dtype, device=gather or device)
            result[done : done + len(part)] = part
            done += len(part)
            advance(len(part))
    assert result is not None  # noqa: S101 - as there is always a portion
    return result


def default_batch_size(device: torch.device) -> int:
    """Images a pass without gradients, where the user does not say."""
    return 256 if device.type == "cuda" else 32


@contextmanager
def backbone_precision(device: torch.device | str, precision: Precision) -> Iterator[None]:
    """Within this, convolutions compute in bfloat16, or in full float32 and not in the TF32 that a GPU might take.

    And they add in the same order each time: the same images give the same numbers.

    "auto" is bfloat16 where the device has it. What must stay float32 (the aggregator and all behind it) switches it
    off for itself. Gradients of float32 convolutions must be computed within this too.
    """
    device = torch.device(device)
    if precision not in get_args(Precision):
        raise BadInputError(f"precision {precision!r} is not one of {', '.join(get_args(Precision))}")
    fast = actual_precision(device, precision) == "bfloat16"
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    with exact, torch.autocast(device.type, torch.bfloat16, enabled=fast):
        yield


def actual_precision(device: torch.device, precision: Precision) -> Literal["float32", "bfloat16"]:
    """What the device computes in: "auto" is bfloat16 where it has it."""
    if precision == "auto":
        return "bfloat16" if has_bfloat16(device) else "float32"
    return precision


def has_bfloat16(device: torch.device) -> bool:
    """True if the device multiplies bfloat16 numbers by itself."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # There is no public name for these yet.
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@contextmanager
def out_of_memory_means(advice: str) -> Iterator[None]:
    """Within this, too little memory is a BadInputError with the text `advice`."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise BadInputError(advice) from error
    except RuntimeError as error:
        if "DefaultCPUAllocator" not in str(error):
            raise
        raise BadInputError(advice) from error


def _results(
    network: Callable[[Tensor], Tensor], batches: Iterator[Tensor], device: torch.device, precision: Precision
) -> Iterator[Tensor]:
    """What the network makes of each batch; handed out when the next one is under way, so that a GPU never waits."""
    before = None
    for batch in batches:
        with torch.no_grad(), backbone_precision(device, precision):
            latest = network(batch)
        if before is not None:
            yield before
        before = latest
    if before is not None:
        yield before
