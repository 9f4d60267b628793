"""Augmentation that keeps positions: mirror whole tuples; change each image's light and view; hide a part of it."""

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, grid_sample

from mappable.arrays import Floats
from mappable.learning.settings import Settings
from mappable.randomness import Purpose, generator

GRAY = 128.0  # pixel value that a change of contrast leaves alone, and that hides a part of an image
ROTATION = math.radians(20.0)  # largest rotation at strength 1
PERSPECTIVE = 0.3  # largest difference in depth between the center and an edge, at strength 1
BLUR = 5  # pixels, width of the box that blurs


@dataclass(frozen=True)
class Changes:
    """Changes to the images of n tuples. None turns a change off.

    `mirrored` (n,) bool says which tuples are mirrored. `light` (n, images, 4) has four factors per image: contrast,
    then brightness of red, green and blue. `views` (n, images, 3, 3) are homographies from the changed image to the
    original; coordinates go from -1 to 1. `blur` (n, images) is the share of the blurred image. `boxes`
    (n, images, 4) hide a part of each image: center, then half the width and height, in the same coordinates.
    """

    mirrored: Tensor
    light: Tensor
    views: Tensor | None = None
    blur: Tensor | None = None
    boxes: Tensor | None = None

    def __getitem__(self, part: slice) -> "Changes":
        own = (getattr(self, field.name) for field in fields(self))
        return Changes(*(None if one is None else one[part] for one in own))  # type: ignore[arg-type]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return changed copies of the images (n, images, height, width, 3) uint8."""
        changed = torch.where(self.mirrored[:, None, None, None, None], pixels.flip(-2), pixels)
        if self.views is not None and self.blur is not None:
            changed = _seen(changed, self.views, self.blur)
        contrast, brightness = self.light[:, :, None, None, :1], self.light[:, :, None, None, 1:]
        changed = ((changed - GRAY) * contrast + GRAY).mul_(brightness).round_().clamp_(0, 255)
        if self.boxes is not None:
            changed = changed.masked_fill(_inside(self.boxes, *pixels.shape[2:4])[..., None], GRAY)
        return changed.to(torch.uint8)


def draw_changes(settings: Settings, period: int, tuples: int, images: int, *, device: torch.device) -> Changes | None:
    """Draw the changes of a mining period's tuples, the same for every loss. Return None if changes are turned off."""
    if not (settings.mirrored or settings.light or settings.views or settings.occlusion):
        return None
    # Draw numbers for the longest tuple, so that every loss gets the same ones, even if it uses fewer images.
    longest = 1 + settings.positives + settings.negatives

    def drawn(purpose: Purpose, count: int) -> Floats:
        return generator(settings.seed, purpose, period).uniform(-1.0, 1.0, (tuples, longest, count))[:, :images]

    def on_device(values: Floats) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(device)

    flips = generator(settings.seed, Purpose.MIRRORED, period).random(tuples)
    views = blur = boxes = None
    if settings.views:
        numbers = drawn(Purpose.VIEWS, 7)
        views = on_device(_homographies(numbers, settings.views, settings.size[0] / settings.size[1]))
        blur = on_device(numbers[..., 6].clip(min=0.0) * min(1.0, 2.0 * settings.views))
    if settings.occlusion:
        numbers = drawn(Purpose.OCCLUSION, 4)
        boxes = on_device(np.concatenate([numbers[..., :2], settings.occlusion * np.abs(numbers[..., 2:])], axis=-1))
    light = on_device(np.exp(settings.light * drawn(Purpose.LIGHT, 4)))
    return Changes(torch.from_numpy(flips < settings.mirrored).to(device), light, views, blur, boxes)


def _homographies(numbers: Floats, strength: float, aspect: float) -> Floats:
    """Homographies (..., 3, 3) from numbers (..., 6 or more) between -1 and 1: scale, shift, rotation, perspective."""
    size = 1.0 - strength * (1.0 + numbers[..., 0]) / 2.0
    angle = strength * ROTATION * numbers[..., 3]
    found = np.zeros((*numbers.shape[:-1], 3, 3))
    found[..., 0, 0] = found[..., 1, 1] = size * np.cos(angle)
    found[..., 0, 1] = -size * np.sin(angle) / aspect
    found[..., 1, 0] = size * np.sin(angle) * aspect
    found[..., :2, 2] = (1.0 - size)[..., None] * numbers[..., 1:3]  # shift: the crop stays inside the image
    found[..., 2, :2] = strength * PERSPECTIVE * numbers[..., 4:6]
    found[..., 2, 2] = 1.0
    return found


def _seen(pixels: Tensor, views: Tensor, blur: Tensor) -> Tensor:
    """The images (n, images, height, width, 3) from another view and blurred, as float32."""
    images = pixels.flatten(0, 1).permute(0, 3, 1, 2).float()
    height, width = images.shape[2:]
    y, x = torch.meshgrid(_centers(height, images), _centers(width, images), indexing="ij")
    points = torch.stack([x, y, torch.ones_like(x)], -1).view(-1, 3) @ views.flatten(0, 1).transpose(1, 2)
    grid = (points[..., :2] / points[..., 2:]).view(-1, height, width, 2)
    moved = grid_sample(images, grid, padding_mode="reflection", align_corners=False)
    blurred = avg_pool2d(moved, BLUR, stride=1, padding=BLUR // 2, count_include_pad=False)
    return torch.lerp(moved, blurred, blur.flatten()[:, None, None, None]).permute(0, 2, 3, 1).view(pixels.shape)


def _inside(boxes: Tensor, height: int, width: int) -> Tensor:
    """True (n, images, height, width) for pixels inside the box of their image."""
    across = (_centers(width, boxes) - boxes[..., :1]).abs() < boxes[..., 2:3]
    down = (_centers(height, boxes) - boxes[..., 1:2]).abs() < boxes[..., 3:]
    return down[..., None] & across[..., None, :]


def _centers(count: int, like: Tensor) -> Tensor:
    """Centers of `count` pixels that cover -1 to 1."""
    return (2.0 * torch.arange(count, device=like.device, dtype=torch.float32) + 1.0) / count - 1.0
