"""`ImageEncoder`: what every encoder can do, whatever computes it."""

from collections.abc import Callable
from typing import Protocol

import torch

from mappable.arrays import Floats32, Pixels
from mappable.features.about import About
from mappable.features.embedding import Precision
from mappable.places.pixels import AnyImages


class ImageEncoder(Protocol):
    """Describes images: `Encoder` (torch) and `OnnxEncoder` (onnxruntime) are two.

    Maps, evaluation and the service need no more than this. A new kind is one file with such a class, and one line in
    `opening.OPENERS`.
    """

    @property
    def about(self) -> About:
        """The images that it takes, and what its distances mean."""

    @property
    def dimensions(self) -> int:
        """The length of a descriptor."""

    @property
    def fingerprint(self) -> str:
        """Names the encoder; two encoders with the same fingerprint give the same descriptors."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    def actual_precision(self, precision: Precision) -> str:
        """The precision in which `embed` computes if asked for `precision`; raises if it has no such precision."""

    def embed(
        self,
        images: AnyImages,
        *,
        batch_size: int | None = None,
        precision: Precision = "auto",
        progress: bool = True,
    ) -> Floats32:
        """Descriptors (n, dimensions) of length one, of places (from their files) or of uint8 images."""

    def for_queries(self) -> Callable[[Pixels], Floats32]:
        """A function that describes a few decoded images (n, height, width, 3) with little delay."""
