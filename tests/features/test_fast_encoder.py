"""FastEncoder on a CPU, where it is as fast as the encoder; tests/gpu has the rest."""

import numpy as np
import pytest

from mappable.features.encoder import Encoder
from mappable.features.fast_encoder import FastEncoder

pytestmark = pytest.mark.medium

IMAGES = (
    np.random.default_rng(0)
    .integers(0, 256, (5, 3, 4, 3), dtype=np.uint8)
    .repeat(8, axis=1)
    .repeat(8, axis=2)
)


@pytest.fixture(scope="module", params=["vgg16", "resnet50"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    encoder = Encoder.create(weights="random", size=(32, 24), clusters=4, backbone=request.param)
    encoder.initialize(IMAGES, most=5, locations=2)
    return encoder


def test_it_describes_as_the_encoder_does(encoder: Encoder) -> None:
    described = FastEncoder(encoder, precision="float32").embed(IMAGES)
    np.testing.assert_array_equal(
        described, encoder.embed(IMAGES, precision="float32", progress=False)
    )


def test_nearest_landmarks_come_first_with_their_squared_distance(encoder: Encoder) -> None:
    landmarks = encoder.embed(IMAGES, precision="float32", progress=False)
    rows, distances = FastEncoder(encoder, landmarks, precision="float32").nearest(IMAGES[1:3], 5)
    expected = np.square(landmarks[1:3, None] - landmarks[None]).sum(-1)
    np.testing.assert_array_equal(rows, expected.argsort(1))
    np.testing.assert_allclose(distances, np.sort(expected, axis=1), atol=1e-5)


def test_near_duplicates_have_the_distances_of_their_differences(encoder: Encoder) -> None:
    """A product of descriptors of length one errs by 1e-6, so by 0.001 in the distance."""
    described = encoder.embed(IMAGES, precision="float32", progress=False)
    off = np.random.default_rng(1).normal(size=described.shape).astype(np.float32)
    off *= np.float32(1e-4) / np.linalg.norm(off, axis=1, keepdims=True)
    fast = FastEncoder(
        encoder,
        np.concatenate([described + 2 * off, described + off, described]),
        precision="float32",
    )
    rows, squared = fast.nearest(IMAGES, 3)
    assert rows.tolist() == [[10 + row, 5 + row, row] for row in range(5)]
    np.testing.assert_allclose(np.sqrt(squared), np.tile([0, 1e-4, 2e-4], (5, 1)), atol=1e-6)
