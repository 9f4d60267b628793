"""Paint walls of rooms and what hangs on them."""

import torch
from torch import Tensor

from mappable_worlds.conditions import Condition
from mappable_worlds.rendering.noise import cell, cell_noise, cloudy
from mappable_worlds.rendering.paint import Paint, between, color, letters, mix, palette
from mappable_worlds.rendering.surfaces import Points


def wall(points: Points) -> Paint:
    """Paint a wall: color, for some seeds a darker band below, baseboard, and scuffs."""
    spots = 0.92 + 0.16 * cloudy(points.u * 0.3, points.z * 0.3 + points.shift)
    band = between(points.v, 0.1, 1.1) & (points.seed % 3 == 0) & (points.tall > 2.5)
    albedo = points.color * spots * torch.where(band, 0.62, 1.0)
    skirting = (points.v < 0.1) & (points.tall > 2.5)
    rail = between(points.v, 1.1, 1.16) & (points.seed % 3 == 0) & (points.tall > 2.5)
    albedo = mix(albedo, color((0.25, 0.2, 0.16), points.u), skirting | rail)
    return Paint(albedo, torch.zeros_like(albedo))


def window(points: Points, condition: Condition) -> Paint:
    """Paint a frame with a cross bar, and the view outside: sky, trees and far houses, or the
    night.
    """
    u, v, seed = points.u, points.v, points.seed
    side = points.inset
    bar = ((u - points.wide / 2).abs() < 0.03) & (points.wide > 0.9)
    frame = (side < 0.07) | bar | (points.level != 0)
    share = v / points.tall
    sky = mix(color(condition.sky_low, u), color(condition.sky_high, u), share)
    skyline = 0.15 + 0.35 * cell_noise(seed, cell(u * 2.5)) + 0.1 * cloudy(u, v)
    outside = palette(cell_noise(seed, cell(u * 2.5), 9)) * 0.6 * sky.mean(0)
    lights = (cell_noise(seed, cell(u * 11), cell(v * 11)) < 0.05) & (sky.mean(0) < 0.1)
    view = mix(sky, outside + 0.3 * lights, share < skyline) * 0.8
    blind = (v > points.tall * (1 - 0.6 * cell_noise(seed, 3))) & (cell_noise(seed, 4) < 0.4)
    slats = 0.5 + 0.5 * (v * 20 - torch.floor(v * 20))
    view = mix(view, color((0.5, 0.48, 0.42), u) * slats * (0.2 + 0.5 * sky.mean(0)), blind)
    albedo = torch.where(frame, 0.75, 0.04).expand(3, -1)
    return Paint(albedo, view * ~frame)


def door(points: Points) -> Paint:
    """Paint a door leaf with panels or a pane, and a handle."""
    u, v = points.u, points.v
    side = torch.minimum(u, points.wide - u)
    panel = (side > 0.15) & (between(v, 0.2, 0.9) | between(v, 1.1, 1.9)) & (points.wide > 0.4)
    is_glazed = (cell_noise(points.seed, 1) < 0.3) & between(v, 1.1, 1.9)
    grain = 0.85 + 0.3 * cloudy(u * 4, v * 0.4 + points.shift)
    albedo = points.color * grain * torch.where(panel, 0.8, 1.0)
    albedo = mix(albedo, color((0.15, 0.2, 0.22), u), panel & is_glazed)
    handle = between(v, 0.98, 1.06) & between(side, 0.06, 0.2) & (points.wide > 0.4)
    return Paint(mix(albedo, torch.full_like(albedo, 0.6), handle), torch.zeros_like(albedo))


def picture(points: Points) -> Paint:
    """Paint a frame, a mount, and one of four motifs: hills, blocks, stripes, circles."""
    u, v, seed = points.u / points.wide, points.v / points.tall, points.seed
    side = points.inset
    first, second, third = points.color, palette(cell_noise(seed, 2)), palette(cell_noise(seed, 3))
    hill = 0.35 + 0.25 * torch.sin(u * (4 + 8 * cell_noise(seed, 5)) + 6 * cell_noise(seed, 6))
    hills = mix(mix(first, second, v < hill + 0.2), third * 0.5, v < hill)
    blocks = palette(cell_noise(seed, cell(u * 4), cell(v * 3)))
    slant = (u + v * (cell_noise(seed, 7) - 0.5) * 2) * (3 + 5 * cell_noise(seed, 8))
    stripes = mix(first, second, slant - torch.floor(slant) < 0.5)
    from_x, from_y = u - 0.25 - 0.5 * cell_noise(seed, 9), v - 0.25 - 0.5 * cell_noise(seed, 10)
    ring = torch.sqrt(from_x * from_x + from_y * from_y) * (4 + 4 * cell_noise(seed, 11))
    rounds = mix(mix(first, third, ring < 1.0), second, ring < 0.5)
    kind = seed % 4
    motif = torch.where(
        kind == 0, hills, torch.where(kind == 1, blocks, torch.where(kind == 2, stripes, rounds))
    )
    mount = (side < 0.12) & (cell_noise(seed, 12) < 0.5) & (points.wide > 0.6)
    albedo = mix(motif, torch.full_like(motif, 0.85), mount)
    frame = torch.where(cell_noise(seed, 13) < 0.5, 0.04, 0.5) * color((1.0, 0.8, 0.5), u)
    albedo = mix(albedo, frame, (side < 0.04) | (points.level != 0))
    return Paint(albedo, torch.zeros_like(albedo))


def shelf(points: Points) -> Paint:
    """Paint boards 0.38 m apart with books of many colors and some gaps; the sides are wood."""
    row = torch.floor((points.v - 0.08) / 0.38)
    up = points.v - 0.08 - row * 0.38
    row = row.to(torch.int32)
    spine = points.u / (0.035 + 0.03 * cell_noise(points.seed, row))
    book = cell_noise(points.seed, cell(spine), row)
    high = 0.2 + 0.14 * cell_noise(points.seed, cell(spine), row + 99)
    gap = cell_noise(points.seed, cell(points.u * 2.5), row + 41) < 0.22
    is_front = (points.level == 0) & (points.face < 2)
    wood = points.color * (0.85 + 0.3 * cloudy(points.u, points.v * 4))
    inside = points.color * 0.2
    books = palette(book) * (0.6 + 0.4 * high / 0.34)
    content = torch.where((up < high) & ~gap, books, inside)
    is_board = (up < 0.03) | (points.v < 0.08) | (points.u < 0.03) | (points.u > points.wide - 0.03)
    albedo = torch.where(is_front & ~is_board, content, wood)
    return Paint(albedo, torch.zeros_like(albedo))


def screen(points: Points, condition: Condition) -> Paint:
    """Paint a monitor: dark, or lit with windows and lines of text."""
    side = points.inset
    is_on = (
        (cell_noise(points.seed, 2) < 0.6) & (points.face == points.seed % 2) & (points.level == 0)
    )
    shown = palette(cell_noise(points.seed, cell(points.u * 6), 5))
    ink = letters(points.u, points.v - torch.floor(points.v / 0.06) * 0.06, 0.04, points.seed)
    glow = mix(shown, torch.full_like(shown, 0.9), ink) * (is_on & (side > 0.02)) * 0.6
    return Paint(torch.full_like(points.color, 0.03), glow * (1.0 if condition.lit > 0 else 0.7))


def notice_board(points: Points) -> Paint:
    """Paint papers pinned in a grid, each with its own color, some with text."""
    u, v = points.u / 0.32, points.v / 0.36
    inside = between(u - torch.floor(u), 0.1, 0.85) & between(v - torch.floor(v), 0.1, 0.9)
    paper = cell_noise(points.seed, cell(u), cell(v))
    sheet: Tensor = mix(torch.full_like(points.color, 0.85), palette(paper * 2.8), paper < 0.35)
    lines = (v * 9 - torch.floor(v * 9) < 0.4) & between(u - torch.floor(u), 0.18, 0.75)
    sheet = mix(sheet, sheet * 0.4, lines & (paper < 0.8))
    albedo = mix(points.color, sheet, inside & (paper > 0.15) & (points.level == 0))
    return Paint(albedo, torch.zeros_like(albedo))
