"""Activations of the layers that stay frozen, computed once: so a laptop fine-tunes the others in a minute."""

import hashlib
import json
import math
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mappable.errors import BadInputError
from mappable.features.embedding import Precision, backbone_precision, describe, fetch
from mappable.features.encoder import Encoder
from mappable.places.cache import ImageRows
from mappable.progress import progress_bar, track

FOLDER = "activations"  # below the folder of a converted set
BATCH = 16  # images at once; the same always, for the size of a batch may change how sums are rounded
HASHED_AT_ONCE = 256  # images


def frozen_activations(
    encoder: Encoder, images: ImageRows, *, device: torch.device, precision: Precision, folder: Path | None
) -> Tensor:
    """`encoder.lower` of all images, in their order, as one tensor (n, ...) in the precision it was computed in.

    With a `folder` the tensor lies in a file there, mapped into memory. The same images, weights and precision find it
    again, a run that was stopped goes on where it was.
    """
    example = _lower(encoder, images, 0, min(BATCH, len(images)), device, precision)[:1]
    shape = (len(images), *example.shape[1:])
    if folder is None:
        rows, title = np.arange(len(images)), "frozen layers"
        return describe(
            encoder.lower, images, rows, device=device, batch_size=BATCH, precision=precision, title=title
        ).contiguous()
    file = folder / f"{_key(encoder, images, shape, example)}.bin"
    if not file.is_file():
        _write(file, encoder, images, device, precision, row_bytes=example.nbytes)
    numbers = math.prod(shape)
    if file.stat().st_size != numbers * example.element_size():
        raise BadInputError(f"{file}: damaged; delete it, and it is computed again")
    # Shared, though nobody writes to it: only so may it be larger than the memory.
    shared = os.access(file, os.W_OK)
    return torch.from_file(str(file), shared=shared, size=numbers, dtype=example.dtype).view(shape)


def _lower(
    encoder: Encoder, images: ImageRows, start: int, stop: int, device: torch.device, precision: Precision
) -> Tensor:
    with torch.no_grad(), backbone_precision(device, precision):
        return encoder.lower(fetch(images, np.arange(start, stop), device))


def _key(encoder: Encoder, images: ImageRows, shape: tuple[int, ...], example: Tensor) -> str:
    """What the activations depend on; the first image's own stand for the weights and the machine's arithmetic."""
    about = {"shape": shape, "dtype": str(example.dtype), "weights": encoder.about.weights}
    digest = hashlib.sha256(json.dumps(about).encode())
    digest.update(example.float().cpu().numpy().tobytes())
    starts = range(0, len(images), HASHED_AT_ONCE)
    for start in track(starts, "reading images", len(starts)):
        digest.update(images[slice(start, start + HASHED_AT_ONCE)].tobytes())
    return digest.hexdigest()[:16]


def _write(
    file: Path, encoder: Encoder, images: ImageRows, device: torch.device, precision: Precision, row_bytes: int
) -> None:
    """Append batch after batch to a file that gets its name when it is whole; those of a stopped run are kept.

    If another process is doing so, wait: then it is done.
    """
    from filelock import FileLock  # here, so that machines that keep no files need not have it

    partial = file.with_suffix(".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock")):
            if not file.is_file():
                _append(partial, encoder, images, device, precision, BATCH * row_bytes)
                partial.replace(file)
    except OSError as error:
        raise BadInputError(f"{partial}: cannot be written ({error.strerror or error})") from None


def _append(
    partial: Path, encoder: Encoder, images: ImageRows, device: torch.device, precision: Precision, batch_bytes: int
) -> None:
    with partial.open("ab") as stream, progress_bar("frozen layers", len(images)) as advance:
        done = stream.tell() // batch_bytes
        stream.truncate(done * batch_bytes)
        advance(done * BATCH)
        for start in range(done * BATCH, len(images), BATCH):
            part = _lower(encoder, images, start, min(start + BATCH, len(images)), device, precision)
            stream.write(part.contiguous().view(torch.uint8).cpu().numpy().tobytes())
            advance(len(part))
        stream.flush()
        os.fsync(stream.fileno())
