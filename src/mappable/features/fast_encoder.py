"""An encoder for queries: descriptors or nearest landmarks of a few images, with low latency."""

from copy import deepcopy
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mappable.arrays import Floats32, Ints, Pixels
from mappable.errors import BadInputError
from mappable.features.embedding import Precision, actual_precision, backbone_precision
from mappable.features.encoder import Encoder
from mappable.features.recording import Recording, record
from mappable.places.pixels import images_of

MAX_BATCH = 32  # images per recorded computation; more images are split


class FastEncoder:
    """A copy of an encoder, and optional landmarks, prepared for queries on the encoder's device.

    On a GPU, transfers, network and search are recorded once for each number of images, and then
    started by one call. On a CPU it computes like the encoder. Later changes to the encoder have no
    effect.

    `landmarks` (m, dimensions) are the descriptors that `nearest` searches; they stay on the
    device. Several threads may query at once; on a GPU their queries run one after the other.
    """

    def __init__(
        self, encoder: Encoder, landmarks: ArrayLike | None = None, *, precision: Precision = "auto"
    ) -> None:
        encoder.check_ready()
        with backbone_precision(encoder.device, precision):
            pass  # raises for an unknown precision
        self.encoder, self.device, self.precision = (
            deepcopy(encoder).requires_grad_(False),
            encoder.device,
            precision,
        )
        if actual_precision(self.device, precision) == "bfloat16":
            self.encoder.backbone.to(torch.bfloat16)  # once, not in every query
        self.landmarks: Tensor | None = None
        if landmarks is not None:
            self.landmarks = _checked(
                np.asarray(landmarks, dtype=np.float32), encoder.dimensions
            ).to(self.device)
            self._squared_norms = torch.linalg.vector_norm(self.landmarks, dim=1).square()
        self._ready: dict[tuple[int, int], _Ready] = {}
        self._lock = Lock()
        self._pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None

    def embed(self, images: Pixels) -> Floats32:
        """Descriptors (n, dimensions) of uint8 images (n, height, width, 3)."""
        parts = [self._answer(part, 0)[0] for part in self._portions(images)]
        return np.concatenate([part.numpy() for part in parts])

    def nearest(self, images: Pixels, count: int = 1) -> tuple[Ints, Floats32]:
        """Rows (n, count) of each image's nearest landmarks, nearest first, and their squared
        feature distances.
        """
        if self.landmarks is None:
            raise BadInputError("no landmarks to search; give landmarks to FastEncoder")
        if not 1 <= count <= len(self.landmarks):
            raise BadInputError(
                f"count is {count}, expected 1 to {len(self.landmarks)}, the number of landmarks"
            )
        answers = [self._answer(part, count) for part in self._portions(images)]
        rows, distances = (
            np.concatenate([answer[part].numpy() for answer in answers]) for part in (0, 1)
        )
        return rows, distances

    def _portions(self, images: Pixels) -> list[Pixels]:
        if not isinstance(images, np.ndarray):
            raise BadInputError(
                f"FastEncoder needs an array of pixels, got a {type(images).__name__}"
            )
        images_of(images, self.encoder.about.size, self.encoder.about.fit)
        return [
            images[start : start + MAX_BATCH] for start in range(0, max(1, len(images)), MAX_BATCH)
        ]

    def _answer(self, images: Pixels, count: int) -> tuple[Tensor, ...]:
        """Rows and distances of the `count` nearest landmarks, or the descriptors if `count` is 0,
        on the host.
        """
        if self.device.type != "cuda" or not self.encoder.backbone.recordable or not len(images):
            results = self._compute(torch.tensor(images.copy(), device=self.device), count)
            return tuple(tensor.cpu() for tensor in results)
        key = (len(images), count)
        with self._lock:
            if key not in self._ready:
                self._ready[key] = self._prepare(*key)
            ready = self._ready[key]
            ready.images[:] = images
            ready.recording()
            torch.cuda.current_stream(self.device).synchronize()
            return tuple(tensor.clone() for tensor in ready.answer)

    def _prepare(self, images: int, count: int) -> "_Ready":
        shape = (images, *self.encoder.about.size[::-1], 3)
        pixels = torch.zeros(shape, dtype=torch.uint8).pin_memory()
        on_device = torch.zeros(shape, dtype=torch.uint8, device=self.device)
        answer = tuple(tensor.cpu().pin_memory() for tensor in self._compute(on_device, count))

        def work() -> None:
            on_device.copy_(pixels, non_blocking=True)
            for host, tensor in zip(answer, self._compute(on_device, count), strict=True):
                host.copy_(tensor, non_blocking=True)

        return _Ready(pixels.numpy(), answer, record(work, self.device, self._pool))

    @torch.no_grad()
    def _compute(self, pixels: Tensor, count: int) -> tuple[Tensor, ...]:
        with backbone_precision(self.device, self.precision):
            descriptors = self.encoder(pixels)
        if not count or self.landmarks is None:
            return (descriptors,)
        squared_norms = torch.linalg.vector_norm(descriptors, dim=1, keepdim=True).square()
        distances = (
            squared_norms + self._squared_norms - 2 * descriptors @ self.landmarks.T
        ).clamp_(min=0)
        rows = distances.topk(count, largest=False).indices
        # A product errs by about 1e-6, so near duplicates are ordered by the sums of their squared
        # differences.
        nearest, order = (
            (descriptors[:, None] - self.landmarks[rows])
            .square()
            .sum(dim=-1)
            .sort(dim=1, stable=True)
        )
        return rows.gather(1, order), nearest


@dataclass(frozen=True)
class _Ready:
    """The recorded computation for a number of images."""

    images: Pixels  # input buffer in pinned memory
    answer: tuple[Tensor, ...]  # output buffers in pinned memory
    recording: Recording[None]


def _checked(landmarks: Floats32, dimensions: int) -> Tensor:
    if landmarks.ndim != 2 or landmarks.shape[1] != dimensions or not len(landmarks):
        shape = " x ".join(str(length) for length in landmarks.shape)
        raise BadInputError(
            f"the landmarks' descriptors have shape {shape}, expected m x {dimensions}"
        )
    if not np.isfinite(landmarks).all():
        row = int(np.flatnonzero(~np.isfinite(landmarks).all(axis=1))[0])
        raise BadInputError(f"the descriptor of landmark {row} has NaN or infinite numbers")
    return torch.tensor(landmarks)  # a copy
