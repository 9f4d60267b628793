"""Augmentation that keeps distances between places: mirror whole tuples, and change the light."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mappable.learning.settings import Settings
from mappable.randomness import Purpose, generator

GREY = 128.0


@dataclass(frozen=True)
class Changes:
    """Of n tuples: which are mirrored (n,) bool, and the contrast and the brightness of each colour (n, images, 4)."""

    mirrored: Tensor
    light: Tensor

    def __getitem__(self, part: slice) -> "Changes":
        return Changes(self.mirrored[part], self.light[part])

    def __call__(self, pixels: Tensor) -> Tensor:
        """The images (n, images, height, width, 3) uint8, changed. A mirrored world is as good as the world."""
        turned = torch.where(self.mirrored[:, None, None, None, None], pixels.flip(-2), pixels)
        contrast, brightness = self.light[:, :, None, None, :1], self.light[:, :, None, None, 1:]
        return ((turned - GREY) * contrast + GREY).mul_(brightness).round_().clamp_(0, 255).to(torch.uint8)


def draw_changes(settings: Settings, period: int, tuples: int, images: int, *, device: torch.device) -> Changes | None:
    """The changes of a mining period's tuples, the same for every loss; None where there are none."""
    if not settings.mirrored and not settings.light:
        return None
    sides = generator(settings.seed, Purpose.MIRRORED, period).random(tuples)
    most = 1 + settings.positives + settings.negatives  # numbers for as many images, whatever the loss has of them
    powers = generator(settings.seed, Purpose.LIGHT, period).uniform(-1.0, 1.0, (tuples, most, 4))[:, :images]
    light = np.exp(settings.light * powers).astype(np.float32)
    return Changes(torch.from_numpy(sides < settings.mirrored).to(device), torch.from_numpy(light).to(device))
