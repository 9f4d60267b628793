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


def drawn(settings: Settings, period: int = 0, tuples: int = TUPLES, images: int = IMAGES) -> Changes:
    changes = draw_changes(settings, period, tuples, images, device=torch.device("cpu"))
    assert changes is not None
    return changes


@pytest.fixture
def pixels() -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (TUPLES, IMAGES, 4, 5, 3), dtype=np.uint8))


def test_nothing_is_changed_unasked(settings: NewSettings) -> None:
    assert draw_changes(settings(), 0, TUPLES, IMAGES, device=torch.device("cpu")) is None


def test_all_images_of_a_tuple_are_mirrored_or_none(settings: NewSettings, pixels: Tensor) -> None:
    changes = drawn(settings(mirrored=0.25))
    assert 4 <= int(changes.mirrored.sum()) <= 18
    found = changes(pixels)
    assert found.dtype == torch.uint8
    for is_mirrored, before, after in zip(changes.mirrored, pixels.numpy(), found.numpy(), strict=True):
        np.testing.assert_array_equal(after, before[:, :, ::-1] if is_mirrored else before)


def test_each_image_has_its_own_contrast_and_brightness_of_colors(settings: NewSettings, pixels: Tensor) -> None:
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


def test_every_loss_has_the_same_changes(settings: NewSettings) -> None:
    """Also those whose tuples hold fewer images; and a shorter period has the beginning of a longer one."""
    chosen = settings(mirrored=0.5, light=0.2)
    whole, geometric = drawn(chosen), drawn(chosen, tuples=9, images=3)
    assert geometric.mirrored.equal(whole.mirrored[:9])
    assert geometric.light.equal(whole.light[:9, :3])


def test_what_is_mirrored_and_the_light_are_drawn_by_themselves(settings: NewSettings) -> None:
    both = drawn(settings(mirrored=0.5, light=0.2))
    assert drawn(settings(mirrored=0.5)).mirrored.equal(both.mirrored)
    assert drawn(settings(light=0.2)).light.equal(both.light)
    for other in (drawn(settings(mirrored=0.5, light=0.2, seed=1)), drawn(settings(mirrored=0.5, light=0.2), period=1)):
        assert not other.mirrored.equal(both.mirrored)
        assert not other.light.equal(both.light)


def test_some_of_the_tuples_are_changed_as_among_all(settings: NewSettings, pixels: Tensor) -> None:
    changes = drawn(settings(mirrored=0.5, light=0.2))
    assert changes[5:9](pixels[5:9]).equal(changes(pixels)[5:9])


def test_a_view_is_a_crop_whose_pixels_come_from_the_image(settings: NewSettings) -> None:
    """Each image has a view of its own. On a ramp, a crop is a ramp with a smaller slope."""
    ramp = torch.arange(200, dtype=torch.float32).to(torch.uint8).expand(40, 200)[..., None].expand(-1, -1, 3)
    changes = drawn(settings(views=0.3, size="200x40"), tuples=3, images=2)
    assert changes.views is not None
    found = changes(ramp.expand(3, 2, -1, -1, -1))
    assert found.shape == (3, 2, 40, 200, 3)
    middle = found[:, :, 20, 80:120, 0].float()
    slopes = (middle[..., -1] - middle[..., 0]) / 39
    assert len(slopes.unique()) > 3
    assert float(slopes.min()) > 0.6
    assert float(slopes.max()) <= 1.1


def test_views_without_strength_in_any_number_leave_an_image_alone(settings: NewSettings, pixels: Tensor) -> None:
    plain = torch.eye(3).expand(TUPLES, IMAGES, 3, 3)
    changes = drawn(settings(light=0.0, mirrored=0.1))
    same = Changes(torch.zeros(TUPLES, dtype=torch.bool), changes.light, plain, torch.zeros(TUPLES, IMAGES))
    np.testing.assert_allclose(same(pixels).numpy(), pixels.numpy(), atol=1)


def test_a_box_hides_a_part_of_each_image(settings: NewSettings) -> None:
    white = torch.full((TUPLES, IMAGES, 40, 60, 3), 255, dtype=torch.uint8)
    hidden = (drawn(settings(occlusion=0.5))(white) == 128).all(-1).float().mean((-1, -2))
    assert 0.0 <= float(hidden.min()) < 0.02
    assert 0.15 < float(hidden.max()) <= 0.27


def test_changes_of_a_batch_are_a_part_of_all(settings: NewSettings) -> None:
    changes = drawn(settings(views=0.2, occlusion=0.2))
    part = changes[3:5]
    assert changes.views is not None
    assert part.views is not None
    assert part.views.equal(changes.views[3:5])
    assert drawn(settings(views=0.2), tuples=4, images=3).views.equal(changes.views[:4, :3])  # type: ignore[union-attr]
