"""Changes of training images: whole tuples mirrored, other light for each image, and both from the seed alone."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.learning.changes import Changes, draw_changes
from mappable.learning.settings import Settings

NewSettings = Callable[..., Settings]
TUPLES, IMAGES = 40, 6  # as many images as tuples of the toy world have


def drawn(
    settings: Settings, period: int = 0, tuples: int = TUPLES, images: int = IMAGES
) -> Changes:
    changes = draw_changes(settings, period, tuples, images, device=torch.device("cpu"))
    assert changes is not None
    return changes


@pytest.fixture
def pixels() -> Tensor:
    return torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (TUPLES, IMAGES, 4, 5, 3), dtype=np.uint8)
    )


def test_all_images_of_a_tuple_are_mirrored_or_none(settings: NewSettings, pixels: Tensor) -> None:
    changes = drawn(settings(mirrored=0.25))
    assert 4 <= int(changes.mirrored.sum()) <= 18
    found = changes(pixels)
    assert found.dtype == torch.uint8
    for is_mirrored, before, after in zip(
        changes.mirrored, pixels.numpy(), found.numpy(), strict=True
    ):
        np.testing.assert_array_equal(after, before[:, :, ::-1] if is_mirrored else before)


def test_each_image_has_its_own_contrast_and_brightness_of_colors(
    settings: NewSettings, pixels: Tensor
) -> None:
    changes = drawn(settings(light=0.2))
    light = changes.light.numpy().astype(float)
    assert light.shape == (TUPLES, IMAGES, 4)
    assert len(np.unique(light)) == light.size
    assert math.exp(-0.2) <= light.min() < 0.83
    assert 1.2 < light.max() <= math.exp(0.2)
    contrast, brightness = light[:, :, None, None, :1], light[:, :, None, None, 1:]
    expected = np.clip((128 + contrast * (pixels.numpy() - 128.0)) * brightness, 0, 255)
    assert (expected == 255).any()
    np.testing.assert_allclose(changes(pixels).numpy(), expected, atol=1.0)
