"""An encoder for queries: descriptors or nearest landmarks of one image or a few, with little delay."""

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

MOST = 32  # images at a time; more are taken in several goes


class FastEncoder:
    """An encoder as it is now, and landmarks if there are any, made ready for queries on the encoder's device.

    On a GPU the work for each number of images is recorded when it is first asked for, and then started by one call:
    transfers, network and search. On a CPU it computes as the encoder does. What the encoder learns later is not seen.

    `landmarks` (m, dimensions) are descriptors among which `nearest` looks; they stay on the device. Several threads
    may ask at once; they are answered one after the other.
    """

    def __init__(self, encoder: Encoder, landmarks: ArrayLike | None = None, *, precision: Precision = "auto") -> None:
        encoder.check_ready()
        with backbone_precision(encoder.device, precision):
            pass  # or it is refused
        self.encoder, self.device, self.precision = deepcopy(encoder).requires_grad_(False), encoder.device, precision
        if actual_precision(self.device, precision) == "bfloat16":
            self.encoder.backbone.to(torch.bfloat16)  # once, not in every query
        self.landmarks: Tensor | None = None
        if landmarks is not None:
            self.landmarks = _checked(np.asarray(landmarks, dtype=np.float32), encoder.dimensions).to(self.device)
            self._squared_norms = torch.linalg.vector_norm(self.landmarks, dim=1).square()
        self._ready: dict[tuple[int, int], _Ready] = {}
        self._lock = Lock()
        self._pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None

    def embed(self, images: Pixels) -> Floats32:
        """Descriptors (n, dimensions) of uint8 images (n, height, width, 3)."""
        parts = [self._answer(part, 0)[0] for part in self._portions(images)]
        return np.concatenate([part.numpy() for part in parts])

    def nearest(self, images: Pixels, count: int = 1) -> tuple[Ints, Floats32]:
        """The rows (n, count) of each image's nearest landmarks, the nearest first, and squared feature distances."""
        if self.landmarks is None:
            raise BadInputError("there are no landmarks to look among: give them to FastEncoder")
        if not 1 <= count <= len(self.landmarks):
            raise BadInputError(f"{count} nearest of {len(self.landmarks)} landmarks cannot be found")
        answers = [self._answer(part, count) for part in self._portions(images)]
        rows, distances = (np.concatenate([answer[one].numpy() for answer in answers]) for one in (0, 1))
        return rows, distances

    def _portions(self, images: Pixels) -> list[Pixels]:
        if not isinstance(images, np.ndarray):
            raise BadInputError(f"FastEncoder takes arrays of pixels, not a {type(images).__name__}")
        images_of(images, self.encoder.about.size, self.encoder.about.fit)
        return [images[start : start + MOST] for start in range(0, max(1, len(images)), MOST)]

    def _answer(self, images: Pixels, count: int) -> tuple[Tensor, ...]:
        """The rows of `count` landmarks and their distances, or for 0 the descriptors; on the host."""
        if self.device.type != "cuda" or not len(images):
            return tuple(one.cpu() for one in self._compute(torch.tensor(images.copy(), device=self.device), count))
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
        own = torch.linalg.vector_norm(descriptors, dim=1, keepdim=True).square()
        distances = (own + self._squared_norms - 2 * descriptors @ self.landmarks.T).clamp_(min=0)
        nearest, rows = distances.topk(count, largest=False)
        return rows, nearest


@dataclass(frozen=True)
class _Ready:
    """The recorded work for a number of images."""

    images: Pixels  # the place for them, in pinned memory
    answer: tuple[Tensor, ...]  # the place for it, in pinned memory too
    recording: Recording[None]


def _checked(landmarks: Floats32, dimensions: int) -> Tensor:
    if landmarks.ndim != 2 or landmarks.shape[1] != dimensions or not len(landmarks):
        shape = " x ".join(str(length) for length in landmarks.shape)
        raise BadInputError(f"the landmarks' descriptors should be m x {dimensions} numbers, not {shape}")
    if not np.isfinite(landmarks).all():
        row = int(np.flatnonzero(~np.isfinite(landmarks).all(axis=1))[0])
        raise BadInputError(f"the descriptor of landmark {row} holds something that is not a number")
    return torch.tensor(landmarks)  # a copy
