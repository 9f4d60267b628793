"""Turn light into an image: raindrops, exposure, blur, noise, and eight bits."""

from functools import reduce
from math import exp

import torch
import torch.nn.functional as functional
from torch import Tensor

from mappable_worlds.camera import Camera
from mappable_worlds.conditions import Condition
from mappable_worlds.rendering.noise import HALF_TEXEL, cell_noise, cloudy

LUMINANCE = (0.2126, 0.7152, 0.0722)
DROPS = 14


def develop(
    light: Tensor, condition: Condition, camera: Camera, *, gain: float, seeds: Tensor
) -> Tensor:
    """Return pixels (b, h, w, 3) uint8 of light (b, 3, h, w); `seeds` (b) decide the rain and noise
    of each image.
    """
    if condition.rain > 0:
        light = _rained_on(light, condition.rain, seeds)
    tint = torch.tensor(camera.tint, device=light.device)[:, None, None]
    picture = _exposed(light * tint, condition, gain * camera.gain)
    picture = _blurred(picture, camera.blur * condition.blur * light.shape[3] / 1000)
    grain = camera.noise * condition.noise * _grain(picture, seeds)
    picture = (picture + grain * (0.4 + picture.clamp(min=0).sqrt())).clamp(0, 1)
    return (picture * 255 + 0.5).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def _exposed(light: Tensor, condition: Condition, gain: float) -> Tensor:
    """Apply automatic exposure toward a mean, within the limits of a camera, then a soft shoulder
    and gamma.
    """
    weights = torch.tensor(LUMINANCE, device=light.device)[:, None, None]
    mean = (light * weights).sum(1).clamp(max=2.0).mean((1, 2))
    factor = (condition.exposure / (mean + 0.02)).clamp(0.25, 6.0) ** 0.75 * gain
    exposed = 1 - torch.exp(-1.1 * light.clamp(min=0) * factor[:, None, None, None])
    return exposed ** (1 / 2.2)


def _blurred(picture: Tensor, sigma: float) -> Tensor:
    """Convolve with a Gaussian of `sigma` pixels, tap by tap, because library convolutions may
    round to fewer bits.
    """
    if sigma < 0.2:
        return picture
    # A wide Gaussian does not need every tap.
    reach, step = max(1, round(2.5 * sigma)), max(1, int(sigma / 2))
    offsets = range(0, 2 * reach + 1, step)
    weights = [exp(-((offset - reach) ** 2) / (2 * sigma**2)) for offset in offsets]
    for axis, padding in ((3, (reach, reach, 0, 0)), (2, (0, 0, reach, reach))):
        padded, length, total = (
            functional.pad(picture, padding, "replicate"),
            picture.shape[axis],
            sum(weights),
        )
        taps = zip(offsets, weights, strict=True)
        picture = reduce(
            torch.add,
            [padded.narrow(axis, start, length) * (weight / total) for start, weight in taps],
        )
    return picture


def _grain(picture: Tensor, seeds: Tensor) -> Tensor:
    """Return noise of about unit variance, the same on every device: sums of three uniform numbers."""
    _, channels, height, width = picture.shape
    number = torch.arange(channels * height * width, dtype=torch.int32, device=picture.device)
    number = number.reshape(1, channels, height, width)
    seed = seeds.reshape(-1, 1, 1, 1)
    first, second, third = (cell_noise(seed, number, part) for part in (1, 2, 3))
    return (first + second + third - 1.5) * 2.0


def _rained_on(light: Tensor, rain: float, seeds: Tensor) -> Tensor:
    """Add streaks in the air, and drops on the glass that smear the image."""
    batch, _, height, width = light.shape
    y = torch.arange(height, device=light.device, dtype=torch.float32)[:, None] / width
    x = torch.arange(width, device=light.device, dtype=torch.float32)[None] / width
    offset = (seeds % 61).to(torch.float32).reshape(-1, 1, 1) / 8
    streak = cloudy((x + 0.08 * y) * 40 + offset, y * 2.5 + offset * 3 + HALF_TEXEL)
    mean = light.mean((1, 2, 3)).reshape(-1, 1, 1, 1)
    light = light + mean * 0.5 * rain * ((streak - 0.86) * 8).clamp(0, 1)[:, None]
    reach = max(1, width // 24)
    smeared = _blurred(light, reach)
    cover = torch.zeros(batch, height, width, device=light.device)
    for drop in range(round(DROPS * rain)):
        at_x, at_y, size = (cell_noise(seeds, drop, part).reshape(-1, 1, 1) for part in (1, 2, 3))
        away = torch.sqrt((x - at_x) ** 2 + (y - at_y * height / width) ** 2) / (
            0.012 + 0.035 * size**2
        )
        cover = torch.maximum(cover, (1.6 - away).clamp(0, 0.85))
    return light + (smeared - light) * cover[:, None]
