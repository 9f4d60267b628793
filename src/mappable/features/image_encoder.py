"""`ImageEncoder`: the base of everything that makes descriptors, with torch, another library, or from a file."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.embedding import Precision, describe
from mappable.features.inputs import HostInputs
from mappable.places.pixels import AnyImages, images_of


class ImageEncoder(ABC):
    """Describes images. Maps, evaluation and the service need only these members.

    To add a kind of encoder, add a file with a subclass, and one line in `opening.OPENERS`. A
    subclass sets:

    - `about`: which images it takes, and what its distances mean.
    - `dimensions`: the length of a descriptor.
    - `fingerprint`: two encoders with the same one give the same descriptors.
    - `device`: on which it computes. `inputs` is the device of the images that `describe` takes.
    - `precisions`: in which it can compute; "auto" is the first one.
    """

    about: About
    dimensions: int
    fingerprint: str
    device: torch.device
    inputs: torch.device
    precisions: tuple[str, ...] = ("float32",)

    @abstractmethod
    def describe(self, images: Tensor) -> Tensor:
        """Descriptors (n, dimensions) of length one, for uint8 images (n, height, width, 3) on the
        device `inputs`.
        """

    def copy(self) -> tuple[str, bytes] | None:
        """The suffix and the content of a file that opens this encoder again; None if it has no
        such file.
        """
        return None

    def actual_precision(self, precision: Precision) -> str:
        """The precision in which `embed` computes for the option `precision`. Raises if it is not
        available.
        """
        chosen = self.precisions[0] if precision == "auto" else precision
        if chosen not in self.precisions:
            raise BadInputError(
                f"precision is {precision!r}, but this encoder computes in {self.precisions[0]};"
                " use auto"
            )
        return chosen

    def embed(
        self,
        images: AnyImages,
        *,
        batch_size: int | None = None,
        precision: Precision = "auto",
        progress: bool = True,
    ) -> Floats32:
        """Describe images: places, whose files are decoded, or uint8 images (n, height, width, 3).

        Returns descriptors (n, dimensions) of length one. `batch_size` is the number of images at a
        time (default: 256 on a GPU, 32 on a CPU).
        """
        pixels = images_of(images, self.about.size, self.about.fit)
        described = describe(
            self.describe,
            HostInputs(pixels),
            np.arange(len(pixels)),
            device=self.inputs,
            batch_size=batch_size,
            precision="bfloat16" if self.actual_precision(precision) == "bfloat16" else "float32",
            title="describing images" if progress else None,
            gather="cpu",
        )
        descriptors: Floats32 = described.numpy()
        return descriptors

    def for_queries(self) -> Callable[[Pixels], Floats32]:
        """A function that describes a few decoded images (n, height, width, 3) with low latency."""
        return partial(self.embed, progress=False)
