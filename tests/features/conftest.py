"""Fixtures that the tests of features share."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from torch import Tensor

from mappable.arrays import Pixels
from mappable.features import backbones
from mappable.features.encoder import Encoder
from mappable.features.weights import load_weights

SMALL_BACKBONE = '''"""Two convolutions."""

from torch import nn

from mappable.features.backbones import Backbone


class Small(Backbone):
    channels, stride = 6, 8

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 5, 4, stride=4), nn.Conv2d(5, 6, 2, stride=2)

    def lower(self, images):
        return self.first(images).relu()

    def upper(self, activations):
        return self.second(activations)


build = Small
'''


@pytest.fixture(scope="session")
def vgg16_v1() -> dict[str, Tensor]:
    """The real default weights, from the user's own cache: fetched once a machine, whoever asks first."""
    return load_weights("vgg16-v1")


@pytest.fixture(scope="session")
def small_backbone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a backbone that exists because a file of that name does, in a folder where the package looks too."""
    folder = tmp_path_factory.mktemp("backbones")
    (folder / "small.py").write_text(SMALL_BACKBONE)
    backbones.__path__.append(str(folder))
    yield "small"
    backbones.__path__.remove(str(folder))
    sys.modules.pop("mappable.features.backbones.small", None)


@pytest.fixture(scope="session")
def pictures() -> Pixels:
    """Ten different images (10, 48, 64, 3)."""
    random = np.random.default_rng(0)
    coarse = [Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8)) for _ in range(10)]
    return np.stack([np.asarray(image.resize((64, 48), Image.Resampling.BICUBIC)) for image in coarse])


@pytest.fixture
def encoder(small_backbone: str, pictures: Pixels) -> Encoder:
    """A small encoder for images of 64x48, with 4 clusters: descriptors of 24 numbers."""
    small = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone=small_backbone)
    small.initialise(pictures)
    return small
