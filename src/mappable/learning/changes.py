"""Augmentation that keeps distances between places: mirror whole tuples, and change the light of each image."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mappable.learning.settings import Settings
from mappable.randomness import Purpose, generator

GRAY = 128.0  # pixel value that a change of contrast leaves alone


@dataclass(frozen=True)
class Changes:
    """Changes to the images of n tuples.

    `mirrored` (n,) bool says which tuples are mirrored. `light` (n, images, 4) has four factors per
    image: contrast, then brightness of red, green and blue.
    """

    mirrored: Tensor
    light: Tensor

    def __getitem__(self, part: slice) -> "Changes":
        return Changes(self.mirrored[part], self.light[part])

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return changed copies of the images (n, images, height, width, 3) uint8."""
        flipped = torch.where(self.mirrored[:, None, None, None, None], pixels.flip(-2), pixels)
        contrast, brightness = self.light[:, :, None, None, :1], self.light[:, :, None, None, 1:]
        return (
            ((flipped - GRAY) * contrast + GRAY)
            .mul_(brightness)
            .round_()
            .clamp_(0, 255)
            .to(torch.uint8)
        )


def draw_changes(
    settings: Settings, period: int, tuples: int, images: int, *, device: torch.device
) -> Changes | None:
    """Draw the changes of a mining period's tuples, the same for every loss. Return None if changes
    are turned off.
    """
    if not settings.mirrored and not settings.light:
        return None
    flips = generator(settings.seed, Purpose.MIRRORED, period).random(tuples)
    # Draw numbers for the longest tuple, so that every loss gets the same ones, even if it uses
    # fewer images.
    longest = 1 + settings.positives + settings.negatives
    powers = generator(settings.seed, Purpose.LIGHT, period).uniform(
        -1.0, 1.0, (tuples, longest, 4)
    )[:, :images]
    light = np.exp(settings.light * powers).astype(np.float32)
    return Changes(
        torch.from_numpy(flips < settings.mirrored).to(device), torch.from_numpy(light).to(device)
    )
