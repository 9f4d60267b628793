"""`ImageEncoder`: the protocol that every encoder implements, with torch or another backend."""

from collections.abc import Callable
from typing import Protocol

import torch

from mappable.arrays import Floats32, Pixels
from mappable.features.about import About
from mappable.features.embedding import Precision
from mappable.places.pixels import AnyImages


class ImageEncoder(Protocol):
    """Describes images. `Encoder` (torch), `OnnxEncoder` (onnxruntime) and the classes in `foreign` implement it.

    Maps, evaluation and the service need only these members. To add a kind of encoder, add a file with such a class,
    and one line in `opening.OPENERS`.
    """

    @property
    def about(self) -> About:
        """Description of the encoder: which images it takes, and what its distances mean."""

    @property
    def dimensions(self) -> int:
        """Length of a descriptor."""

    @property
    def fingerprint(self) -> str:
        """Identifies the encoder. Two encoders with the same fingerprint give the same descriptors."""

    @property
    def device(self) -> torch.device:
        """The device on which it computes."""

    def actual_precision(self, precision: Precision) -> str:
        """The precision in which `embed` computes for the option `precision`. Raises if it is not available."""

    def embed(
        self,
        images: AnyImages,
        *,
        batch_size: int | None = None,
        precision: Precision = "auto",
        progress: bool = True,
    ) -> Floats32:
        """Describe places (from their files) or uint8 images. Returns descriptors (n, dimensions) of length one."""

    def for_queries(self) -> Callable[[Pixels], Floats32]:
        """A function that describes a few decoded images (n, height, width, 3) with low latency."""
