"""Activations of the frozen layers, computed once and stored, so that training on a CPU takes minutes."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
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
DIGEST_BYTES = 32  # length of an image's SHA-256
CHECKSUM_BYTES = 16  # length of the checksum of its activations
FORGOTTEN = bytes(DIGEST_BYTES)  # replaces the digest of an image whose activations are damaged


def frozen_activations(
    encoder: Encoder, images: Images, *, device: torch.device, precision: Precision, folder: Path | None
) -> Inputs:
    """`encoder.lower` of all images, in their order, (n, ...) in the precision of the computation.

    With a `folder`, a file in it stores the activations, and is mapped into memory. The file keeps all images that were
    ever requested with the same weights and precision. Only missing activations are computed, and a stopped run
    resumes.
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
    """Activations of at most one batch of images. The batch is padded, so that all batches have the same size."""
    filled = np.concatenate([pixels, np.repeat(pixels[-1:], BATCH_SIZE - len(pixels), axis=0)])
    with torch.no_grad(), backbone_precision(device, precision):
        return encoder.lower(torch.from_numpy(filled).to(device))[: len(pixels)]


def _batches(rows: Ints) -> Iterator[Ints]:
    return (rows[start : start + BATCH_SIZE] for start in range(0, len(rows), BATCH_SIZE))


class _Store:
    """A growing file of activations, and two more, in the same order: digests of their images, and their checksums.

    Activations reach the disk before their digests, so that every activation with a digest is complete.
    """

    def __init__(self, folder: Path, encoder: Encoder, device: torch.device, precision: Precision) -> None:
        self.encoder, self.device, self.precision = encoder, device, precision
        width, height = encoder.about.size
        probe = (np.arange(height * width * 3) * 7919 % 256).astype(np.uint8).reshape(1, height, width, 3)
        self.example = _lower(encoder, probe, device, precision)  # represents weights and the machine's arithmetic
        about = {"shape": list(self.example.shape), "dtype": str(self.example.dtype), "weights": encoder.about.weights}
        key = hashlib.sha256(json.dumps(about).encode() + self.example.float().cpu().numpy().tobytes()).hexdigest()[:16]
        self.file, self.digests = folder / f"{key}.bin", folder / f"{key}.sha256"
        self.checksums = folder / f"{key}.xxh3"

    def of(self, images: Images) -> Inputs:
        """Activations of the images, mapped into memory."""
        wanted = _digests_of(images)
        with writing(self.file):
            known = self._known()
            damaged = self._damaged([known[image] for image in wanted if image in known])
            if damaged:
                print(f"note: {self.file}: {len(damaged):,} activations are damaged; computing again", file=sys.stderr)
                self._forget(damaged)
                known = self._known()
            if not known.keys() >= set(wanted):
                self._add(images, wanted)
                known = self._known()
            mapped = self._map(self._rows())
        rows = np.array([known[image] for image in wanted], dtype=np.int64)
        return HostInputs(TensorRows(mapped, torch.from_numpy(rows)))

    def _rows(self) -> int:
        """The number of complete rows."""
        if not self.file.is_file() or not self.digests.is_file():
            return 0
        return min(self.digests.stat().st_size // DIGEST_BYTES, self.file.stat().st_size // self.example.nbytes)

    def _known(self) -> dict[bytes, int]:
        """The row of each stored image, by its digest."""
        rows = self._rows()
        content = self.digests.read_bytes() if rows else b""
        found = {content[DIGEST_BYTES * row : DIGEST_BYTES * (row + 1)]: row for row in range(rows)}
        found.pop(FORGOTTEN, None)
        return found

    def _checksums_of(self, rows: Iterable[int]) -> list[bytes]:
        """Checksums of stored activations."""
        nbytes = self.example.nbytes
        stored = np.memmap(self.file, np.uint8, "r", shape=(self._rows(), nbytes))
        return [bytes.fromhex(digest(stored[row])) for row in rows]

    def _damaged(self, rows: list[int]) -> list[int]:
        """The rows that do not match their checksum. Earlier versions wrote no checksums."""
        content = self.checksums.read_bytes() if rows and self.checksums.is_file() else b""
        rows = [row for row in rows if row < len(content) // CHECKSUM_BYTES]
        if not rows:
            return []
        expected = (content[CHECKSUM_BYTES * row : CHECKSUM_BYTES * (row + 1)] for row in rows)
        found = self._checksums_of(track(rows, "checking frozen layers", len(rows)))
        return [row for row, ours, stored in zip(rows, found, expected, strict=True) if ours != stored]

    def _forget(self, rows: list[int]) -> None:
        with self.digests.open("r+b") as stream:
            for row in rows:
                stream.seek(row * DIGEST_BYTES)
                stream.write(FORGOTTEN)

    def _add(self, images: Images, wanted: list[bytes]) -> None:
        """Compute missing activations. If another process is computing them, wait for it."""
        with wait_for(self.file.with_suffix(".lock"), "computes the same layers"):
            known, count = self._known(), self._rows()
            first = {image: row for row, image in reversed(list(enumerate(wanted))) if image not in known}
            missing = np.array(sorted(first.values()), dtype=np.int64)
            with (
                self.file.open("ab") as stream,
                self.checksums.open("ab") as checksums,
                self.digests.open("ab") as names,
                progress_bar("frozen layers", len(missing)) as advance,
            ):
                stream.truncate(count * self.example.nbytes)
                names.truncate(count * DIGEST_BYTES)
                checked = min(count, checksums.tell() // CHECKSUM_BYTES)
                checksums.truncate(checked * CHECKSUM_BYTES)
                if checked < count:
                    checksums.writelines(self._checksums_of(range(checked, count)))
                for rows in _batches(missing):
                    part = _lower(self.encoder, images.read(rows), self.device, self.precision)
                    content = part.contiguous().view(torch.uint8).cpu().numpy().reshape(len(rows), -1)
                    stream.write(content.tobytes())
                    stream.flush()
                    os.fsync(stream.fileno())
                    checksums.writelines(bytes.fromhex(digest(row)) for row in content)
                    checksums.flush()
                    names.write(b"".join(wanted[row] for row in rows))
                    names.flush()
                    advance(len(rows))

    def _map(self, rows: int) -> Tensor:
        # A shared mapping, although nothing writes to it: only a shared one may be larger than the memory.
        shared = os.access(self.file, os.W_OK)
        size = rows * self.example.numel()
        return torch.from_file(str(self.file), shared=shared, size=size, dtype=self.example.dtype).view(
            rows, *self.example.shape[1:]
        )


def _digests_of(images: Images) -> list[bytes]:
    return [hashlib.sha256(image.tobytes()).digest() for pixels in blocks(images) for image in pixels]
