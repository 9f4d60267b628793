"""Paint vehicles, plants, people and furniture."""

import torch

from mappable_worlds.conditions import Condition
from mappable_worlds.rendering.light import lit
from mappable_worlds.rendering.noise import cell, cell_noise, cloudy
from mappable_worlds.rendering.paint import Paint, between, color, letters, mix, palette
from mappable_worlds.rendering.surfaces import Points


def plain(points: Points) -> Paint:
    """Paint one color with a little dirt."""
    dirt = 0.85 + 0.3 * cloudy(points.u * 0.8 + points.shift, points.v * 0.8)
    return _dark(points.color * dirt)


def vehicle(points: Points, condition: Condition) -> Paint:
    """Paint the body of a vehicle; a cabin (kind 1) is mostly glass."""
    u, v = points.u / points.wide, points.v
    is_side, is_cabin = points.wide > 2.4, points.kind == 1
    share = points.v / points.tall
    albedo = points.color * (0.75 + 0.35 * share)
    dark = color((0.025, 0.028, 0.032), u)
    beat = u * 3
    pillar = (beat - torch.floor(beat) < 0.1) & is_side
    glass = (
        is_cabin
        & between(share, 0.12, 0.9)
        & (points.level == 0)
        & ~pillar
        & between(u, 0.06, 0.94)
    )
    big = (
        ~is_cabin
        & (points.tall > 1.5)
        & (share > 0.55)
        & (share < 0.88)
        & (points.level == 0)
        & ~pillar
    )
    glass |= big & between(u, 0.05, torch.where(points.seed % 2 == 0, 0.95, 0.3))
    albedo = mix(albedo, dark + color(condition.sky_low, u) * 0.12, glass)
    for wheel in (0.2, 0.8):
        across, high = (u - wheel) * points.wide, v - 0.3
        radius = across * across + high * high
        is_wheel = ~is_cabin & is_side & (radius < 0.11) & (points.level == 0)
        albedo = mix(albedo, torch.where(radius < 0.035, 0.3, 0.02).expand(3, -1), is_wheel)
    is_end = ~is_side & ~is_cabin & (points.level == 0)
    lamp = is_end & between(v, 0.5, 0.75) & ((u < 0.22) | (u > 0.78))
    plate = is_end & between(v, 0.32, 0.46) & between(u, 0.35, 0.65)
    albedo = mix(albedo, dark, (is_end & between(v, 0.2, 0.3)) | (~is_cabin & (v < 0.15)))
    albedo = mix(albedo, torch.full_like(albedo, 0.75), plate)
    tone = torch.where(points.face == 2, color((0.9, 0.9, 0.8), u), color((0.7, 0.03, 0.02), u))
    albedo = mix(albedo, tone, lamp)
    lettering = is_side & (points.tall > 1.9) & letters(points.u - 0.5, v - 1.1, 0.4, points.seed)
    albedo = mix(
        albedo, palette(cell_noise(points.seed, 3)), lettering & between(u, 0.1, 0.9) & ~glass
    )
    albedo = mix(albedo, color((0.85, 0.88, 0.92), u), (points.level > 0) & (condition.snow > 0.5))
    return Paint(albedo, tone * lamp * (1.2 if condition.lamps > 0 else 0.0))


def foliage(points: Points, condition: Condition) -> Paint:
    """Paint leaves as light and dark clumps, with snow on the upper ones."""
    clump = cloudy(points.u * 0.9 + points.shift, points.z * 0.9)
    fine = cell_noise(points.seed, cell(points.u * 7), cell(points.z * 7))
    albedo = points.color * (0.25 + 1.1 * clump) * (0.6 + 0.8 * fine)
    white = (clump > 0.45 - 0.25 * points.normal[2]) & (condition.snow > 0.5)
    return _dark(mix(albedo, color((0.8, 0.83, 0.88), clump), white))


def lamp(points: Points, condition: Condition, run: int) -> Paint:
    """Paint a lamp that glows if the `run` with this seed has light there; signals (kind 1) always
    glow.
    """
    on = min(1.0, condition.lamps) * lit(points.x, points.y, condition.lamps_lit, run)
    return Paint(
        torch.full_like(points.color, 0.6),
        points.color * torch.where(points.kind == 1, 0.8, 3.0 * on),
    )


def person(points: Points) -> Paint:
    """Paint a jacket in the color of the body, and trousers by seed; a head is all skin."""
    jacket, trousers = points.color, palette(cell_noise(points.seed, 2)) * 0.5
    folds = 0.75 + 0.5 * cloudy(points.u * 2, points.v * 2)
    body = torch.where(points.v < points.tall * 0.48, trousers, jacket) * folds
    return _dark(torch.where(points.tall < 0.5, points.color, body))


def wood(points: Points) -> Paint:
    """Paint wood with its grain along the longer side."""
    grain = cloudy(points.u * 0.5 + points.shift, points.v * 5)
    return _dark(points.color * (0.75 + 0.5 * grain))


def fabric(points: Points) -> Paint:
    """Paint cushions: seams every 0.7 m, folds, and a weave or stripes by seed."""
    across = points.u / 0.7
    seam = (across - torch.floor(across) < 0.06) & (points.level == 0)
    stripe = (points.seed % 3 == 0) & (cell(points.u * 6) % 2 == 0)
    folds = 0.8 + 0.4 * cloudy(points.u, points.v)
    return _dark(points.color * folds * torch.where(seam, 0.6, 1.0) * torch.where(stripe, 0.7, 1.0))


def _dark(albedo: torch.Tensor) -> Paint:
    """Return the paint of a surface that emits no light."""
    return Paint(albedo, torch.zeros_like(albedo))
