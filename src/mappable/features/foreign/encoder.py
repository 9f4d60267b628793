"""`ForeignEncoder`: our preprocessing and checks around a network of others."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mappable.errors import BadInputError
from mappable.features.embedding import backbone_precision
from mappable.features.foreign.description import Description
from mappable.features.image_encoder import ImageEncoder
from mappable.places.images import resize_image
from mappable.progress import speaks

# Largest length of the difference of two descriptors of one image, both of length one.
TOLERANCE = 1e-3
PROBES = 3  # images of the check in `ForeignEncoder`


class ForeignEncoder(ImageEncoder):
    """Describes images with a network of others: a torch.hub model, or an ONNX file with a
    description.

    `network` gets normalized float32 images (n, 3, height, width), or (n, height, width, 3) for the
    layout NHWC. It returns (n, D). `weights` is a hash. `inputs` is the device of its images.
    `copy` gives suffix and content of the file that a map keeps. Errors begin with `name`; the
    description of the encoder has its `title`.

    The constructor describes three generated images. It raises if the network fails, or if it
    describes an image differently when asked again, or together with others.
    """

    def __init__(
        self,
        name: str,
        description: Description,
        network: Callable[[Tensor], Any],
        *,
        title: str,
        entry: str,
        code: str,
        weights: str,
        weight_bytes: int,
        copy: Callable[[], tuple[str, bytes]],
        device: torch.device,
        inputs: torch.device,
        precisions: tuple[str, ...] = ("float32",),
    ) -> None:
        self.name, self.description, self._copy, self.weight_bytes = (
            name,
            description,
            copy,
            weight_bytes,
        )
        self.about = description.about(title, code)
        self.fingerprint = description.fingerprint(entry, code, weights)
        self.device, self.inputs, self._network, self.precisions = (
            device,
            inputs,
            network,
            precisions,
        )
        shape = (3, 1, 1) if description.layout == "NCHW" else (3,)
        self._mean, self._std = (
            torch.tensor(values, device=inputs).mul(255 / description.range).view(shape)
            for values in (description.mean, description.std)
        )
        self.dimensions = self._probe()

    def copy(self) -> tuple[str, bytes]:
        """The suffix and the content of the file that a map keeps."""
        return self._copy()

    def describe(self, images: Tensor) -> Tensor:
        """Descriptors (n, D) of length one, for uint8 images (n, height, width, 3)."""
        if not len(images):
            return torch.empty((0, self.dimensions), device=images.device)
        return _unit(self._raw(images))

    def _raw(self, images: Tensor) -> Tensor:
        """The network's output (n, D) in float32, after checks."""
        if self.description.colors == "BGR":
            images = images.flip(3)
        if self.description.layout == "NCHW":
            images = images.permute(0, 3, 1, 2)
        output = self._network((images - self._mean).div_(self._std).contiguous())
        return self._checked(output, len(images))

    def _checked(self, output: Any, count: int) -> Tensor:
        if not isinstance(output, Tensor):
            remedy = "name one with the key `output` of a description"
            raise BadInputError(
                f"{self.name}: returns {type(output).__name__}, expected a tensor (n, D); {remedy}"
            )
        if output.layout != torch.strided or output.is_complex() or output.is_meta:
            kind = f"{output.layout} {output.dtype} on {output.device}".replace("torch.", "")
            raise BadInputError(
                f"{self.name}: returns a tensor ({kind}), expected a dense one of real numbers"
            )
        shape = tuple(output.shape)
        if all(length == 1 for length in shape[2:]):
            output = output.flatten(1) if len(shape) > 1 else output
        if output.ndim != 2 or len(output) != count or not output.shape[1]:
            raise BadInputError(
                f"{self.name}: returns an array of shape {shape}, expected ({count}, D)"
            )
        numbers: Tensor = output.float()
        sizes = _lengths(numbers)
        if not bool((sizes.isfinite() & (sizes > 0)).all()):
            problem = "is zero" if bool(sizes.isfinite().all()) else "has NaN or infinite numbers"
            raise BadInputError(f"{self.name}: the descriptor of an image {problem}")
        return numbers

    @torch.no_grad()
    def _probe(self) -> int:
        """The length of a descriptor, after checks on generated images."""
        random = np.random.default_rng(0)
        coarse = random.integers(0, 256, (PROBES, 8, 8, 3), dtype=np.uint8)
        pixels = np.stack([resize_image(one, self.about.size, "stretch") for one in coarse])
        images = torch.from_numpy(pixels).to(self.inputs)
        with backbone_precision(self.inputs, "float32"):
            outputs = [self._raw(image[None]) for image in (*images, images[0])]
            together = _unit(self._raw(images))
        if len({output.shape[1] for output in (*outputs, together)}) > 1:
            raise BadInputError(
                f"{self.name}: the length of a descriptor changes with the images or their number"
            )
        *alone, again = (_unit(output) for output in outputs)
        if not _apart(alone[0], again) <= TOLERANCE:
            raise BadInputError(
                f"{self.name}: gives different descriptors for the same image; an encoder must be"
                " deterministic"
            )
        length = float(torch.linalg.vector_norm(outputs[0]))
        if abs(length - 1) > TOLERANCE and not self.description.normalize:
            self._note(
                f"descriptors have length {length:.3g}, not 1; they are scaled to length one"
            )
        if not _apart(torch.cat(alone), together) <= TOLERANCE:
            raise BadInputError(
                f"{self.name}: gives an image other descriptors among other images; an encoder must"
                " be deterministic"
            )
        return int(together.shape[1])

    def _note(self, text: str) -> None:
        if speaks():
            print(f"warning: {self.name}: {text}", file=sys.stderr)


def _lengths(vectors: Tensor) -> Tensor:
    """Lengths (n,) of rows in float64, in which squares of very large and very small numbers fit."""
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    return lengths


def _unit(vectors: Tensor) -> Tensor:
    """Rows scaled to length one, however long they are; `vectors.unit` leaves short ones short, for
    gradients.
    """
    return (vectors / _lengths(vectors)[:, None]).float()


def _apart(first: Tensor, second: Tensor) -> float:
    """The largest length of a difference of rows."""
    return float(torch.linalg.vector_norm(first - second, dim=1).max())
