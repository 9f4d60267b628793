"""The encoder: preprocessing and network in one object that turns an image into a descriptor of length one."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mappable.arrays import Floats32, Ints, Pixels
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.backbones import Backbone, find_backbone
from mappable.features.clusters import sample_local
from mappable.features.embedding import Precision, actual_precision, describe
from mappable.features.files import copy_tensors, encoder_bytes, read_encoder
from mappable.features.image_encoder import ImageEncoder
from mappable.features.inputs import HostInputs
from mappable.features.netvlad import NetVLAD
from mappable.features.reduction import MOST_IMAGES, SIGNS, Reduction, fit_reduction
from mappable.features.vectors import unit
from mappable.features.vision_models import PREFIX, PRETRAINED, VisionModel, fetch_model
from mappable.features.weights import check_backbone, find_weights, load_weights
from mappable.files import write_atomically
from mappable.places.images import Fit, Size, check_settings
from mappable.places.pixels import AnyImages, images_of
from mappable.randomness import Purpose, generator

DEFAULT_WEIGHTS = "vgg16-v1"
RANDOM_WEIGHTS = "random"  # instead of a weight set; images are normalized as for the default one
# This name is in ONNX files, so it counts in their fingerprints.
NORMALIZATION = "normalisation"  # codespell:ignore


class Encoder(nn.Module, ImageEncoder):
    """Turns uint8 images (n, height, width, 3) into descriptors (n, dimensions), float32 and of
    length one.

    `Encoder.create` makes a new encoder, whose aggregator must then be initialized with images.
    `Encoder.load` reads a saved encoder.
    """

    backbone: Backbone
    aggregator: NetVLAD
    reduction: Reduction | None

    def __init__(self, about: About) -> None:
        """Make the layers. There is a reduction only after a fit."""
        super().__init__()
        check_settings(about.size, about.fit)
        self.about = about
        if about.model is None:
            self.backbone = find_backbone(about.backbone)()
        else:
            self.backbone = VisionModel(about.model, about.backbone)
        self.aggregator = NetVLAD(self.backbone.channels, about.clusters)
        self.reduction = None
        if min(about.size) < self.backbone.stride:
            size, smallest = f"{about.size[0]}x{about.size[1]}", self.backbone.stride
            raise BadInputError(
                f"size is {size}, expected at least {smallest}x{smallest} for {about.backbone}"
            )
        # Not on the meta device, where a multiplication loads PyTorch's compiler, which takes a
        # second.
        normalization = 255 * torch.tensor((about.mean, about.std), device="cpu")
        self.register_buffer(NORMALIZATION, normalization, persistent=False)
        for parameter in self.parameters():
            if parameter.ndim == 4:  # convolutions are faster with this layout
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)

    @classmethod
    def create(
        cls,
        *,
        weights: str | None = None,
        weights_file: Path | None = None,
        size: Size = (240, 180),
        fit: Fit = "crop",
        clusters: int = 64,
        backbone: str | None = None,
        dimensions: int | None = None,
        seed: int = 0,
    ) -> "Encoder":
        """Make a new encoder for images of `size` (width, height), with a named weight set, or
        "random" ones by `seed`.

        `weights_file` is a file with the weight set, to use instead of a download. `backbone` is by
        default that of the weight set; random weights are by default those of VGG-16. The weights
        of a backbone "transformers:NAME" are by default its own, "pretrained". `dimensions` is the
        largest length of a descriptor (default: all numbers that the aggregator gives).
        """
        if backbone is not None and backbone.startswith(PREFIX):
            about = About(weights=weights or PRETRAINED, size=size, fit=fit, backbone=backbone)
            return cls._with_model(
                replace(about, clusters=clusters, dimensions=dimensions), weights_file, seed
            )
        weights = weights or DEFAULT_WEIGHTS
        if weights == RANDOM_WEIGHTS and weights_file is not None:
            raise BadInputError(
                f"{weights_file}: random weights need no file; set weights to the name of its set"
            )
        chosen = find_weights(DEFAULT_WEIGHTS if weights == RANDOM_WEIGHTS else weights)
        backbone = backbone or chosen.backbone
        check_backbone(weights, backbone)
        about = About(
            weights=weights, size=size, fit=fit, clusters=clusters, mean=chosen.mean, std=chosen.std
        )
        encoder = cls(replace(about, backbone=backbone, dimensions=dimensions))
        if weights == RANDOM_WEIGHTS:
            _draw_weights(encoder.backbone, seed)
        else:
            tensors = load_weights(weights, weights_file)
            copy_tensors(
                encoder.backbone.state_dict(),
                tensors,
                f"weights {weights!r} for backbone {backbone!r}",
            )
        return encoder

    @classmethod
    def _with_model(cls, about: About, weights_file: Path | None, seed: int) -> "Encoder":
        """Make a new encoder with a model of transformers, which brings its weights and its
        normalization.
        """
        if about.weights not in (PRETRAINED, RANDOM_WEIGHTS) or weights_file is not None:
            given = weights_file or about.weights
            raise BadInputError(
                f"weights of {about.backbone} must be {PRETRAINED} or {RANDOM_WEIGHTS}, got {given}"
            )
        found = fetch_model(about.backbone.removeprefix(PREFIX))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # of random weights
            encoder = cls(replace(about, model=found.configuration, mean=found.mean, std=found.std))
        if isinstance(encoder.backbone, VisionModel):
            encoder.backbone.check(about.size, about.backbone)
        if about.weights == PRETRAINED:
            copy_tensors(encoder.backbone.state_dict(), found.tensors, about.backbone)
        return encoder

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device on which it computes; `encoder.to("cuda")` moves it."""
        return self.get_buffer(NORMALIZATION).device

    inputs = device

    @property
    def precisions(self) -> tuple[str, ...]:  # type: ignore[override]
        """The device's own precision first."""
        best = actual_precision(self.device, "auto")
        return best, "float32", "bfloat16"

    @property
    def dimensions(self) -> int:  # type: ignore[override]
        """The length of a descriptor."""
        return self.aggregator.dimensions if self.reduction is None else self.reduction.dimensions

    def lower(self, pixels: Tensor) -> Tensor:
        """Activations of the backbone's general layers for uint8 images (n, height, width, 3)."""
        mean, std = self.get_buffer(NORMALIZATION)
        images = (pixels - mean).div_(std).permute(0, 3, 1, 2)  # already channels last in memory
        return self.backbone.lower(images)

    def local(self, activations: Tensor) -> Tensor:
        """Local descriptors (n, locations, channels) of `lower`'s output, float32 and of length
        one.
        """
        return unit(self._maps(activations).float().permute(0, 2, 3, 1).flatten(1, 2))

    def upper(self, activations: Tensor) -> Tensor:
        """Descriptors (n, dimensions) of `lower`'s output, float32 and of length one."""
        descriptors = self.aggregate(activations)
        return descriptors if self.reduction is None else self.reduction.forward(descriptors)

    def aggregate(self, activations: Tensor) -> Tensor:
        """Descriptors of `lower`'s output before the reduction, float32 and of length one."""
        return self.aggregator.forward(self._maps(activations))

    def forward(self, pixels: Tensor) -> Tensor:
        """Descriptors (n, dimensions) for uint8 images (n, height, width, 3) on the encoder's
        device.
        """
        return self.upper(self.lower(pixels))

    def _maps(self, activations: Tensor) -> Tensor:
        if not torch.is_autocast_enabled(activations.device.type):
            activations = activations.float()  # stored activations may be bfloat16
        return self.backbone.upper(activations)

    def for_queries(self) -> Callable[[Pixels], Floats32]:
        """A function that describes a few decoded images with low latency: `embed` of a
        `FastEncoder`.
        """
        # Here, because it imports this module.
        from mappable.features.fast_encoder import FastEncoder

        return FastEncoder(self).embed

    def describe(self, images: Tensor) -> Tensor:
        """Descriptors of images on the encoder's device."""
        self.check_ready()
        return self.forward(images)

    def check_ready(self) -> None:
        """Raise if the aggregator has not been initialized."""
        if not self.about.init_source:
            raise BadInputError(
                "this encoder has no clusters yet; call initialize with images, or load a trained"
                " encoder"
            )

    def initialize(
        self,
        images: AnyImages,
        *,
        source: str = "train",
        most: int = 500,
        locations: int = 100,
        seed: int = 0,
        batch_size: int | None = None,
        precision: Precision = "auto",
    ) -> None:
        """Set the aggregator's parameters from at most `most` random images, with `locations` local
        descriptors each.

        Then fit the reduction, if there is one, to at most 4,096 random images.
        `source` records where the images come from: "train", or a folder.
        """
        local_of, available = self._reader(self.local, images, batch_size, precision)
        self.initialize_by(
            local_of, available, source=source, most=most, locations=locations, seed=seed
        )
        if self.about.dimensions is not None:
            self.reduce(
                images, self.about.dimensions, seed=seed, batch_size=batch_size, precision=precision
            )

    def initialize_by(
        self,
        local_of: Callable[[Ints], Tensor],
        available: int,
        *,
        source: str,
        most: int,
        locations: int,
        seed: int,
    ) -> None:
        """Like `initialize`, with a function that returns the local descriptors of some of the
        `available` images.
        """
        sample = sample_local(local_of, available, images=most, locations=locations, seed=seed)
        self.aggregator.initialize(sample, seed)
        self.about = replace(self.about, init_source=source)

    def reduce(
        self,
        images: AnyImages,
        dimensions: int,
        *,
        seed: int = 0,
        batch_size: int | None = None,
        precision: Precision = "auto",
    ) -> None:
        """Fit a reduction to at most 2,048 random images, such as the images of a map; see
        `fit_reduction`.

        It replaces an earlier reduction. An aggregator that gives no more than `dimensions` numbers
        keeps them.
        """
        aggregate_of, available = self._reader(self.aggregate, images, batch_size, precision)
        self.reduce_by(aggregate_of, available, dimensions=dimensions, seed=seed)

    def reduce_by(
        self,
        aggregate_of: Callable[[Ints], Tensor],
        available: int,
        *,
        dimensions: int,
        seed: int,
    ) -> None:
        """Like `reduce`, with a function that returns descriptors of some `available` images before
        the reduction.
        """
        if dimensions >= self.aggregator.dimensions:
            self.about = replace(self.about, dimensions=None)
            return
        rows = np.sort(
            generator(seed, Purpose.REDUCTION_IMAGES).permutation(available)[:MOST_IMAGES]
        )
        self.reduction = fit_reduction(aggregate_of(rows), dimensions, parts=self.about.clusters)
        self.about = replace(self.about, dimensions=self.reduction.dimensions)

    def _reader(
        self,
        upper: Callable[[Tensor], Tensor],
        images: AnyImages,
        batch_size: int | None,
        precision: Precision,
    ) -> tuple[Callable[[Ints], Tensor], int]:
        """A function that computes `upper` of `lower` for some rows of the images, and the number
        of images.
        """
        inputs = HostInputs(images_of(images, self.about.size, self.about.fit))

        def network(batch: Tensor) -> Tensor:
            return upper(self.lower(batch))

        found = partial(
            describe,
            network,
            inputs,
            device=self.device,
            batch_size=batch_size,
            precision=precision,
        )
        return found, len(inputs)

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """16 hexadecimal digits that change with everything on which descriptors depend."""
        digest = hashlib.sha256(json.dumps(self.about.architecture(), sort_keys=True).encode())
        for name, tensor in sorted(self._tensors().items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def save(self, file: Path | str) -> None:
        """Write the encoder atomically to one file, usually encoder.safetensors."""
        content = self.copy()[1]
        write_atomically(Path(file), lambda stream: stream.write(content))

    def copy(self) -> tuple[str, bytes]:
        """The suffix and the content of the file that `save` writes."""
        return ".safetensors", encoder_bytes(self.about, self._tensors())

    @classmethod
    def load(cls, file: Path | str, device: torch.device | str = "cpu") -> "Encoder":
        """Load an encoder that `save` wrote. On the same machine, its descriptors are
        bit-identical.
        """
        about, tensors = read_encoder(Path(file))
        try:
            encoder = cls(about)
            if SIGNS in tensors:
                encoder.reduction = Reduction.load(tensors, encoder.aggregator.dimensions)
            learned = {
                name: tensor
                for name, tensor in tensors.items()
                if not name.startswith("reduction.")
            }
            copy_tensors(encoder._learned(), learned, str(file))
        except BadInputError as error:
            raise BadInputError(f"{file}: {str(error).removeprefix(f'{file}: ')}") from None
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise BadInputError(
                f"{file}: the encoder's description is damaged ({error}); train or export it again"
            ) from None
        return encoder.to(device)

    def _learned(self) -> dict[str, Tensor]:
        """All learned tensors by their names in the file. The backbone's names are those of
        torchvision's files.
        """
        tensors = self.state_dict().items()
        return {
            name.removeprefix("backbone."): value
            for name, value in tensors
            if not name.startswith("reduction.")
        }

    def _tensors(self) -> dict[str, Tensor]:
        """All tensors on which descriptors depend, as the file has them."""
        return self._learned() | ({} if self.reduction is None else self.reduction.stored())


@torch.no_grad()
def _draw_weights(network: nn.Module, seed: int) -> None:
    """He initialization: activations neither grow nor vanish from layer to layer of a ReLU network."""
    random = generator(seed, Purpose.WEIGHTS)
    for parameter in network.parameters():
        if parameter.ndim == 1:
            parameter.zero_()
            continue
        values = random.standard_normal(parameter.shape, dtype=np.float32)
        parameter.copy_(torch.from_numpy(values * np.float32(math.sqrt(2 / parameter[0].numel()))))
