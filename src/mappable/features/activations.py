"""Activations of the frozen layers, computed once and stored, so that training on a CPU takes minutes."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.checksums import digest
from mappable.features.embedding import Precision, backbone_precision
from mappable.features.encoder import Encoder
from mappable.features.inputs import HostInputs, Inputs, TensorRows, tensor_inputs
from mappable.files import writing
from mappable.locks import wait_for
from mappable.places.pixels import Images, blocks
from mappable.progress import progress_bar, track

FOLDER = "activations"  # name of the folder inside a converted set
BATCH_SIZE = 16  # images; always the same, because the batch size may change how sums are rounded
# SHA-256 and XXH3; zeros if damaged.
ENTRY = np.dtype([("image", np.uint8, 32), ("checksum", np.uint8, 16)])


def frozen_activations(
    encoder: Encoder,
    images: Images,
    *,
    device: torch.device,
    precision: Precision,
    folder: Path | None,
) -> Inputs:
    """`encoder.lower` of all images, in their order, (n, ...) in the precision of the computation.

    With a `folder`, a file in it stores the activations, and is mapped into memory. The file keeps
    all images that were ever requested with the same weights and precision. Only missing
    activations are computed, and a stopped run resumes.
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
    """Activations of at most one batch of images. The batch is padded, so that all batches have the
    same size.
    """
    filled = np.concatenate([pixels, np.repeat(pixels[-1:], BATCH_SIZE - len(pixels), axis=0)])
    with torch.no_grad(), backbone_precision(device, precision):
        return encoder.lower(torch.from_numpy(filled).to(device))[: len(pixels)]


def _batches(rows: Ints) -> Iterator[Ints]:
    return (rows[start : start + BATCH_SIZE] for start in range(0, len(rows), BATCH_SIZE))


class _Store:
    """A growing file of activations, and an index in the same order: digests of their images, and
    their checksums.

    Activations reach the disk before their entries in the index, so that every entry has complete
    activations.
    """

    def __init__(
        self, folder: Path, encoder: Encoder, device: torch.device, precision: Precision
    ) -> None:
        self.encoder, self.device, self.precision = encoder, device, precision
        width, height = encoder.about.size
        probe = (
            (np.arange(height * width * 3) * 7919 % 256)
            .astype(np.uint8)
            .reshape(1, height, width, 3)
        )
        # Represents weights and the machine's arithmetic.
        self.example = _lower(encoder, probe, device, precision)
        about = {
            "shape": list(self.example.shape),
            "dtype": str(self.example.dtype),
            "weights": encoder.about.weights,
        }
        key = hashlib.sha256(
            json.dumps(about).encode() + self.example.float().cpu().numpy().tobytes()
        ).hexdigest()[:16]
        self.file, self.index = folder / f"{key}.bin", folder / f"{key}.index"

    def of(self, images: Images) -> Inputs:
        """Activations of the images, mapped into memory."""
        wanted = _digests_of(images)
        with writing(self.file):
            if damaged := self._damaged(wanted):
                print(
                    f"note: {self.file}: {len(damaged):,} activations are damaged; computing again",
                    file=sys.stderr,
                )
                with self.index.open("r+b") as stream:
                    for row in damaged:
                        stream.seek(row * ENTRY.itemsize)
                        stream.write(bytes(ENTRY.itemsize))
            if not self._known().keys() >= set(wanted):
                self._add(images, wanted)
            known = self._known()
            mapped = self._map(len(self._entries()))
        rows = np.array([known[image] for image in wanted], dtype=np.int64)
        return HostInputs(TensorRows(mapped, torch.from_numpy(rows)))

    def _entries(self) -> NDArray[np.void]:
        """The index of all complete rows."""
        if not self.file.is_file() or not self.index.is_file():
            return np.empty(0, ENTRY)
        entries = np.fromfile(self.index, ENTRY)
        return entries[: self.file.stat().st_size // self.example.nbytes]

    def _known(self) -> dict[bytes, int]:
        """The row of each stored image, by its digest."""
        return {
            entry["image"].tobytes(): row
            for row, entry in enumerate(self._entries())
            if entry["image"].any()
        }

    def _damaged(self, wanted: list[bytes]) -> list[int]:
        """The rows of wanted images that do not match their checksum."""
        known, entries = self._known(), self._entries()
        rows = [known[image] for image in dict.fromkeys(wanted) if image in known]
        if not rows:
            return []
        stored = np.memmap(self.file, np.uint8, "r", shape=(len(entries), self.example.nbytes))
        checked = track(rows, "checking frozen layers", len(rows))
        return [
            row
            for row in checked
            if bytes.fromhex(digest(stored[row])) != entries[row]["checksum"].tobytes()
        ]

    def _add(self, images: Images, wanted: list[bytes]) -> None:
        """Compute missing activations. If another process is computing them, wait for it."""
        with wait_for(self.file.with_suffix(".lock"), "computes the same layers"):
            known, count = self._known(), len(self._entries())
            first = {
                image: row for row, image in reversed(list(enumerate(wanted))) if image not in known
            }
            missing = np.array(sorted(first.values()), dtype=np.int64)
            with (
                self.file.open("ab") as stream,
                self.index.open("ab") as index,
                progress_bar("frozen layers", len(missing)) as advance,
            ):
                stream.truncate(count * self.example.nbytes)
                index.truncate(count * ENTRY.itemsize)
                for rows in _batches(missing):
                    part = _lower(self.encoder, images.read(rows), self.device, self.precision)
                    content = (
                        part.contiguous().view(torch.uint8).cpu().numpy().reshape(len(rows), -1)
                    )
                    stream.write(content.tobytes())
                    stream.flush()
                    os.fsync(stream.fileno())
                    for row, numbers in zip(rows, content, strict=True):
                        index.write(wanted[row] + bytes.fromhex(digest(numbers)))
                    index.flush()
                    advance(len(rows))

    def _map(self, rows: int) -> Tensor:
        # A shared mapping, although nothing writes to it: only a shared one may be larger than the
        # memory.
        shared = os.access(self.file, os.W_OK)
        size = rows * self.example.numel()
        return torch.from_file(
            str(self.file), shared=shared, size=size, dtype=self.example.dtype
        ).view(rows, *self.example.shape[1:])


def _digests_of(images: Images) -> list[bytes]:
    return [
        hashlib.sha256(image.tobytes()).digest() for pixels in blocks(images) for image in pixels
    ]
