"""Activations of the frozen layers, computed once and kept, so that training on a CPU takes minutes."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.features.embedding import Precision, backbone_precision
from mappable.features.encoder import Encoder
from mappable.features.inputs import HostInputs, Inputs, TensorRows, tensor_inputs
from mappable.files import writing
from mappable.locks import wait_for
from mappable.places.pixels import Images, blocks
from mappable.progress import progress_bar

FOLDER = "activations"  # below the folder of a converted set
BATCH = 16  # images at once; the same always, for the size of a batch may change how sums are rounded
DIGEST = 32  # bytes of an image's SHA-256


def frozen_activations(
    encoder: Encoder, images: Images, *, device: torch.device, precision: Precision, folder: Path | None
) -> Inputs:
    """`encoder.lower` of all images, in their order, (n, ...) in the precision it was computed in.

    With a `folder` they lie in a file there, mapped into memory, which holds those of all images that were ever asked
    for with the same weights and precision; only what it lacks is computed, and a stopped run goes on where it was.
    """
    if folder is None:
        with progress_bar("frozen layers", len(images)) as advance:
            parts = []
            for rows in _batches(np.arange(len(images))):
                parts.append(_lower(encoder, images.read(rows), device, precision))
                advance(len(rows))
            return tensor_inputs(torch.cat(parts))
    return _Store(folder, encoder, device, precision).of(images)


def _lower(encoder: Encoder, pixels: Pixels, device: torch.device, precision: Precision) -> Tensor:
    """Of at most a batch of images, which is filled up, so that all batches have the same size."""
    filled = np.concatenate([pixels, np.repeat(pixels[-1:], BATCH - len(pixels), axis=0)])
    with torch.no_grad(), backbone_precision(device, precision):
        return encoder.lower(torch.from_numpy(filled).to(device))[: len(pixels)]


def _batches(rows: Ints) -> Iterator[Ints]:
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


class _Store:
    """A file of activations that grows, and beside it the digests of the images they are of, in the same order.

    Activations reach the disk before their digests, so that those that have one are whole.
    """

    def __init__(self, folder: Path, encoder: Encoder, device: torch.device, precision: Precision) -> None:
        self.encoder, self.device, self.precision = encoder, device, precision
        width, height = encoder.about.size
        probe = (np.arange(height * width * 3) * 7919 % 256).astype(np.uint8).reshape(1, height, width, 3)
        self.example = _lower(encoder, probe, device, precision)  # stands for the weights and the machine's arithmetic
        about = {"shape": list(self.example.shape), "dtype": str(self.example.dtype), "weights": encoder.about.weights}
        key = hashlib.sha256(json.dumps(about).encode() + self.example.float().cpu().numpy().tobytes()).hexdigest()[:16]
        self.file, self.digests = folder / f"{key}.bin", folder / f"{key}.sha256"

    def of(self, images: Images) -> Inputs:
        """Those of the images, mapped into memory."""
        wanted = _digests_of(images)
        with writing(self.file):
            known = self._known()
            if not known.keys() >= set(wanted):
                self._add(images, wanted)
                known = self._known()
            mapped = self._map(len(known))
        rows = np.array([known[digest] for digest in wanted], dtype=np.int64)
        return HostInputs(TensorRows(mapped, torch.from_numpy(rows)))

    def _known(self) -> dict[bytes, int]:
        """The row of each image whose activations are there."""
        if not self.file.is_file() or not self.digests.is_file():
            return {}
        kept = self.digests.read_bytes()
        whole = min(len(kept) // DIGEST, self.file.stat().st_size // self.example.nbytes)
        return {kept[DIGEST * row : DIGEST * (row + 1)]: row for row in range(whole)}

    def _add(self, images: Images, wanted: list[bytes]) -> None:
        """Compute what is missing; if another process is doing so, wait until it is done."""
        with wait_for(self.file.with_suffix(".lock"), "computes the same layers"):
            known = self._known()
            first = {digest: row for row, digest in reversed(list(enumerate(wanted))) if digest not in known}
            missing = np.array(sorted(first.values()), dtype=np.int64)
            with (
                self.file.open("ab") as stream,
                self.digests.open("ab") as names,
                progress_bar("frozen layers", len(missing)) as advance,
            ):
                stream.truncate(len(known) * self.example.nbytes)
                names.truncate(len(known) * DIGEST)
                for rows in _batches(missing):
                    part = _lower(self.encoder, images.read(rows), self.device, self.precision)
                    stream.write(part.contiguous().view(torch.uint8).cpu().numpy().tobytes())
                    stream.flush()
                    os.fsync(stream.fileno())
                    names.write(b"".join(wanted[row] for row in rows))
                    names.flush()
                    advance(len(rows))

    def _map(self, rows: int) -> Tensor:
        # Shared, though nobody writes to it: only so may it be larger than the memory.
        shared = os.access(self.file, os.W_OK)
        size = rows * self.example.numel()
        return torch.from_file(str(self.file), shared=shared, size=size, dtype=self.example.dtype).view(
            rows, *self.example.shape[1:]
        )


def _digests_of(images: Images) -> list[bytes]:
    return [hashlib.sha256(image.tobytes()).digest() for pixels in blocks(images) for image in pixels]
