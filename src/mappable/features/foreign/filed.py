"""Descriptors in a file, in place of an encoder: the descriptor of an image is looked up by its id."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadInputError, shown
from mappable.features.about import About
from mappable.features.descriptors import Described
from mappable.features.embedding import Precision
from mappable.features.foreign.description import IMAGENET_MEAN, IMAGENET_STD
from mappable.features.image_encoder import ImageEncoder
from mappable.places.pixels import AnyImages, ImageFiles
from mappable.places.table import Places

PICTURE_SIZE = (240, 180)  # of images in reports, if the file does not say what its encoder takes


class FiledDescriptors(ImageEncoder):
    """Finished descriptors with the interface of an encoder; `source` is their file.

    `encoder` names the encoder if the file does not record one; without either, the constructor
    raises.
    """

    def __init__(self, source: Path, described: Described, encoder: str | None = None) -> None:
        if encoder is None and described.encoder is None:
            raise BadInputError(
                f"{source}: records no encoder; name the encoder that made it (--fingerprint)"
            )
        if None not in (encoder, described.encoder) and encoder != described.encoder:
            raise BadInputError(
                f"{source}: encoder {described.encoder} made the descriptors, not {shown(encoder)}"
            )
        self.source, self.fingerprint = source, str(described.encoder or encoder)
        self.about = described.about or About(
            backbone="file",
            clusters=0,
            weights=self.fingerprint,
            size=PICTURE_SIZE,
            fit="crop",
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            foreign={"name": source.name, "code": "", "license": ""},
        )
        self.device = torch.device("cpu")
        self.dimensions = int(described.descriptors.shape[1])
        self._descriptors = described.descriptors
        self._rows = {place_id: row for row, place_id in enumerate(described.places.place_id)}

    def describe(self, images: Tensor) -> Tensor:
        """Raises, because pixels have no id."""
        raise self._no_encoder()

    def for_queries(self) -> Callable[[Pixels], Floats32]:
        """Raises, because pixels have no id."""
        raise self._no_encoder()

    def embed(
        self,
        images: AnyImages,
        *,
        batch_size: int | None = None,
        precision: Precision = "auto",
        progress: bool = True,
    ) -> Floats32:
        """The descriptors (n, dimensions) of places in the file; their images are not read."""
        places = images.places if isinstance(images, ImageFiles) else images
        if not isinstance(places, Places):
            raise self._no_encoder()
        missing = next(
            (place_id for place_id in places.place_id if place_id not in self._rows), None
        )
        if missing is not None:
            raise BadInputError(f"{self.source}: has no descriptor of {shown(missing)}")
        descriptors: Floats32 = self._descriptors[
            [self._rows[place_id] for place_id in places.place_id]
        ]
        return descriptors

    def _no_encoder(self) -> BadInputError:
        return BadInputError(
            f"{self.source}: has descriptors, but no encoder that could describe other images"
        )
