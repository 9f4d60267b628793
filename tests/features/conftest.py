"""Fixtures that the tests of features share."""

import numpy as np
import pytest
from PIL import Image
from torch import Tensor

from mappable.arrays import Pixels
from mappable.features.encoder import Encoder
from mappable.features.weights import load_weights


@pytest.fixture(scope="session")
def vgg16_v1() -> dict[str, Tensor]:
    """The real default weights, from the user's own cache: downloaded once per machine."""
    return load_weights("vgg16-v1")


@pytest.fixture(scope="session")
def pictures() -> Pixels:
    """Ten different images (10, 48, 64, 3)."""
    random = np.random.default_rng(0)
    coarse = [
        Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8)) for _ in range(10)
    ]
    return np.stack(
        [np.asarray(image.resize((64, 48), Image.Resampling.BICUBIC)) for image in coarse]
    )


@pytest.fixture
def encoder(small_backbone: str, pictures: Pixels) -> Encoder:
    """A small encoder for images of 64x48, with 4 clusters: descriptors of 24 numbers."""
    small = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone=small_backbone)
    small.initialize(pictures)
    return small
