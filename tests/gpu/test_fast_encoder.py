"""Recorded queries answer as the encoder does."""

import numpy as np
import pytest
import torch

from mappable.features.encoder import Encoder
from mappable.features.fast_encoder import FastEncoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.mark.parametrize("backbone", ["vgg16", "resnet50_keras"])
def test_queries_of_any_number_find_what_the_encoder_finds(backbone: str) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 6, 8, 3), dtype=np.uint8).repeat(8, axis=1).repeat(8, axis=2)
    encoder = Encoder.create(weights="random", size=(64, 48), clusters=8, backbone=backbone).to(
        "cuda"
    )
    encoder.initialize(images, most=40, locations=12)
    described = encoder.embed(images, progress=False)
    fast = FastEncoder(encoder, described)
    for count in (1, 3, 1, 40):  # 40 are more than go at a time
        rows, distances = fast.nearest(images[:count], 2)
        assert rows[:, 0].tolist() == list(range(count))
        assert (distances[:, 0] < 1e-3).all()
        np.testing.assert_allclose(fast.embed(images[:count]), described[:count], atol=5e-3)
    for parameter in encoder.parameters():
        torch.nn.init.zeros_(parameter)
    # What the encoder learns later is not seen.
    np.testing.assert_allclose(fast.embed(images), described, atol=5e-3)
