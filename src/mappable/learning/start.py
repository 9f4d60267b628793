"""Start a run: build the off-the-shelf encoder and its inputs, or restore a checkpoint."""

import hashlib
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from mappable.arrays import Ints
from mappable.checksums import UNSEALED, seal
from mappable.containers import read_safetensors
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.activations import frozen_activations
from mappable.features.embedding import backbone_precision, describe
from mappable.features.encoder import Encoder
from mappable.features.inputs import DeviceInputs, HostInputs, Inputs
from mappable.files import write_atomically
from mappable.formats import KEY
from mappable.learning.checkpoint import Checkpoint
from mappable.learning.data import TrainingData
from mappable.learning.distributed import Group
from mappable.learning.feature_scale import measure_feature_scale
from mappable.learning.learner import Learner
from mappable.learning.settings import Settings, locations_per_image
from mappable.places.files import load_places
from mappable.places.neighbors import find_neighbors
from mappable.places.pixels import Images, images_of
from mappable.places.table import Places

RESIDENT = 0.5  # inputs stay on the GPU if they take at most this fraction of its free memory


def new_encoder(settings: Settings) -> Encoder:
    """The network of the settings with the weights of their set, without clusters and without a
    reduction.
    """
    return Encoder.create(
        weights=settings.weights,
        weights_file=Path(settings.weights_file) if settings.weights_file else None,
        size=settings.size,
        fit=settings.fit,
        clusters=settings.clusters,
        backbone=settings.backbone,
        seed=settings.seed,
    )


def start_learner(
    data: TrainingData,
    settings: Settings,
    device: torch.device,
    group: Group,
    fingerprint: str,
    checkpoint: Checkpoint | None,
    activations: Path | None,
) -> Learner:
    """Return a learner that is ready for its first step, or for the step after the checkpoint."""
    encoder = new_encoder(settings).to(device)
    inputs = _inputs(encoder, data.images, settings, device, group, activations)
    learner = Learner(encoder, inputs, settings, device, group)
    if checkpoint is not None:
        learner.restore(checkpoint.learner)
        encoder.about = About.from_json(checkpoint.about["encoder"])
        learner.remember_start(len(data.train))
        return learner
    _find_clusters(learner, len(data.train), fingerprint, activations)
    learner.remember_start(len(data.train))
    scale: float | None = None
    if settings.feature_scale_squared != "measure":
        scale = settings.feature_scale_squared
    elif settings.iterations != 0 or has_positives(data.train, settings):
        scale = measure_feature_scale(
            data.train,
            partial(learner.describe, title="measuring the feature scale"),
            positive_radius=settings.positive_radius,
            yaw_limit=settings.yaw_limit,
            seed=settings.seed,
        )
        if group.first:
            print(
                f"feature_scale_squared (F²), measured on the training images: {scale:.3f}",
                file=sys.stderr,
            )
    encoder.about = replace(
        encoder.about,
        init_source=settings.init_source,
        unit=data.train.unit,
        positive_radius=settings.positive_radius,
        negative_radius=settings.negative_radius,
        feature_scale_squared=scale,
        settings=settings.model_dump(mode="json"),
        seed=settings.seed,
        data=fingerprint,
        sequences=tuple(data.train.sequences()),
    )
    return learner


def has_positives(places: Places, settings: Settings) -> bool:
    """True if any two places are positives of each other."""
    return bool(
        find_neighbors(places, settings.positive_radius, max_yaw=settings.yaw_limit).counts.any()
    )


def _inputs(
    encoder: Encoder,
    images: Images,
    settings: Settings,
    device: torch.device,
    group: Group,
    activations: Path | None,
) -> Inputs:
    """Inputs of the network: activations of the frozen layers, or pixels, which stay on the GPU if
    they fit.
    """
    if settings.trainable == "all":
        return _resident(HostInputs(images), device)
    if activations is not None and not group.first:
        group.wait()  # the first process writes the file; the others only read it
    result = frozen_activations(
        encoder, images, device=device, precision=settings.precision, folder=activations
    )
    if activations is not None and group.first:
        group.wait()
    return _resident(result, device)


def _resident(inputs: Inputs, device: torch.device) -> Inputs:
    """The inputs, copied to a GPU if they fit there."""
    if device.type != "cuda" or isinstance(inputs, DeviceInputs):
        return inputs
    size = len(inputs) * inputs.fetch(np.arange(1), "cpu").nbytes
    if size > RESIDENT * torch.cuda.mem_get_info(device)[0]:
        return inputs
    return DeviceInputs(_copy(inputs, device))


def _copy(inputs: Inputs, device: torch.device) -> Tensor:
    """Copy all inputs to the device, in batches, because they may not all fit into the host's
    memory.
    """
    rows = np.arange(len(inputs))
    return describe(lambda batch: batch, inputs, rows, device=device, title="copying to the GPU")


def _find_clusters(learner: Learner, training_images: int, data: str, folder: Path | None) -> None:
    """Initialize the aggregator's clusters from images of the training set or of another set,
    equally in all processes.

    Clusters of the training set are saved in the folder. Other runs with the same seed reuse them.
    """
    encoder, settings, device = learner.encoder, learner.settings, learner.device
    inputs, available, from_pixels = learner.inputs, training_images, settings.trainable == "all"
    if settings.init_source != "train":
        inputs = HostInputs(
            images_of(load_places(settings.init_source), settings.size, settings.fit)
        )
        available, from_pixels = len(inputs), True

    def local_of(rows: Ints) -> Tensor:
        with torch.no_grad(), backbone_precision(device, settings.precision):
            fetched = inputs.fetch(rows, device)
            return encoder.local(encoder.lower(fetched) if from_pixels else fetched)

    aggregator = encoder.aggregator
    if learner.group.first:
        cached = None
        if folder is not None and settings.init_source == "train":
            cached = folder / f"clusters-{_key(settings, data, local_of(np.arange(1)))}.safetensors"
        if cached is None or not _load(aggregator, cached):
            source = "the training set" if settings.init_source == "train" else settings.init_source
            print(f"clusters: k-means on images of {source}", file=sys.stderr)
            encoder.initialize_by(
                local_of,
                available,
                source=settings.init_source,
                most=settings.init_images,
                locations=locations_per_image(settings.init_images),
                seed=settings.seed,
            )
            if cached is not None:
                tensors = {
                    name: value.cpu().contiguous()
                    for name, value in aggregator.state_dict().items()
                }
                content = seal(save(tensors, {KEY: UNSEALED}))
                write_atomically(cached, lambda stream: stream.write(content))
    for parameter in aggregator.parameters():
        learner.group.from_first(parameter.data)


def _key(settings: Settings, data: str, example: Tensor) -> str:
    """Hash of everything that clusters depend on.

    The local descriptors of one `example` image represent the weights and the machine's arithmetic.
    """
    names = ("clusters", "init_images", "seed")
    values = json.dumps([data, *(getattr(settings, name) for name in names)]).encode()
    return hashlib.sha256(values + example.float().cpu().numpy().tobytes()).hexdigest()[:16]


def _load(aggregator: nn.Module, file: Path) -> bool:
    """Load the clusters of a file. Return False if the file is missing or damaged."""
    try:
        aggregator.load_state_dict(read_safetensors(file, "pt")[1])
    except (BadInputError, RuntimeError):
        return False
    return True
