"""Descriptors of a GPU against those of a CPU."""

import numpy as np
import pytest
import torch

from mappable.features.encoder import Encoder
from mappable.features.fast_encoder import FastEncoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

# Largest length of the difference from the CPU in float32; docs/exchange.md states them.
FLOAT32, AUTO = 1e-3, 0.3


def images() -> np.ndarray:
    """Smooth pictures, and images that stress rounding: black, white, stripes, and noise at full
    contrast.
    """
    rng = np.random.default_rng(0)
    smooth = (
        rng.integers(0, 256, (20, 9, 12, 3), dtype=np.uint8).repeat(12, axis=1).repeat(12, axis=2)
    )
    black = np.zeros((1, 108, 144, 3), dtype=np.uint8)
    stripes = black.copy()
    stripes[:, ::2] = 255
    noise = rng.choice(np.array([0, 255], dtype=np.uint8), (1, 108, 144, 3))
    return np.concatenate([smooth, black, 255 - black, stripes, noise])


def test_a_gpu_describes_images_as_a_cpu_does() -> None:
    shown = images()
    encoder = Encoder.create(weights="random", size=(144, 108), clusters=16)
    encoder.initialize(shown[:20], most=20, locations=30)
    ours = encoder.embed(shown, precision="float32", progress=False)
    encoder.to("cuda")
    for size in (1, 7, 24):
        theirs = encoder.embed(shown, precision="float32", progress=False, batch_size=size)
        assert np.linalg.norm(theirs - ours, axis=1).max() <= FLOAT32
    ways = [encoder.embed(shown, progress=False), FastEncoder(encoder).embed(shown)]
    ways.append(FastEncoder(encoder, precision="float32").embed(shown))
    for theirs, bound in zip(ways, (AUTO, AUTO, FLOAT32), strict=True):
        apart = np.linalg.norm(theirs - ours, axis=1).max()
        print(f"largest difference {apart:.2g}, bound {bound}")
        assert apart <= bound
        assert ((theirs[:20] @ ours[:20].T).argmax(1) == np.arange(20)).all()


@pytest.mark.parametrize("device", ["cuda"])
def test_near_duplicates_among_landmarks_have_the_order_of_their_differences(device: str) -> None:
    """Products alone err by 1e-6, which is more than the squared distances here."""
    shown = images()[:8]
    encoder = Encoder.create(weights="random", size=(144, 108), clusters=8).to(device)
    encoder.initialize(shown, most=8, locations=30)
    described = encoder.embed(shown, precision="float32", progress=False)
    noise = np.random.default_rng(1).normal(size=described.shape).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    near = [described + np.float32(step) * noise for step in (3e-4, 2e-4, 1e-4)]
    landmarks = np.concatenate([*near, described])
    rows, squared = FastEncoder(encoder, landmarks, precision="float32").nearest(shown, 4)
    assert rows.tolist() == [[24 + row, 16 + row, 8 + row, row] for row in range(8)]
    np.testing.assert_allclose(np.sqrt(squared), np.tile([0, 1e-4, 2e-4, 3e-4], (8, 1)), atol=1e-5)
