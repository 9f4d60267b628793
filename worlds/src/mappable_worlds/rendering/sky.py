"""The sky, and the air between the camera and what it sees."""

from math import cos, pi, sin

import torch
from torch import Tensor

from mappable_worlds.conditions import Condition
from mappable_worlds.rendering.noise import cloudy
from mappable_worlds.rendering.paint import color, mix


def sky(east: Tensor, north: Tensor, up: Tensor, condition: Condition, drift: float) -> Tensor:
    """Return the color (3, n) of the sky in directions of any length; `drift` moves the clouds."""
    level = torch.sqrt(east * east + north * north)
    elevation = torch.atan2(up, level)
    azimuth = torch.atan2(north, east)
    rise = (elevation / 0.7).clamp(0, 1)
    base = mix(color(condition.sky_low, up), color(condition.sky_high, up), torch.sqrt(rise))
    # The noise repeats after one full turn, so the sky has no seam.
    around = azimuth * (8 / (2 * pi))
    cloud = cloudy(around * 2 + drift, elevation * 4 + drift)
    cover = ((cloud - (1 - condition.clouds)) * 3).clamp(0, 1) * condition.clouds
    bright = sum(condition.sky_low) / 3 * 1.12
    base = mix(
        base,
        torch.full_like(base, bright) * (0.72 + 0.45 * cloudy(around + drift, elevation * 3)),
        cover,
    )
    if any(condition.sun):
        length = torch.sqrt(level * level + up * up)
        toward = east * (cos(condition.sun_azimuth) * cos(condition.sun_elevation))
        toward = toward + north * (sin(condition.sun_azimuth) * cos(condition.sun_elevation))
        toward = ((toward + up * sin(condition.sun_elevation)) / length).clamp(0, 1)
        base = base + color(condition.sun, up) * (0.25 * toward**24 + 2.0 * toward**600)
    return base


def through_air(light: Tensor, distance: Tensor, condition: Condition) -> Tensor:
    """Return the light that is left after some metres of haze, plus the light of the haze."""
    clear = torch.exp(-condition.fog * distance)
    return mix(color(condition.sky_low, distance) * 0.95, light, clear)
