"""Paint facades of houses: stories of windows, doors, shops and signs, all decided by the seed of the house."""

import torch
from torch import Tensor

from mappable_worlds.conditions import Condition
from mappable_worlds.rendering.noise import cell, cell_noise, cloudy
from mappable_worlds.rendering.paint import Paint, between, color, letters, mix, palette
from mappable_worlds.rendering.surfaces import Points

# Rows of the style that each house has for itself: door, shutters, sign and pipe.
OWN = (7, 12, 20, 21, 22, 23)
WARM, COOL = (1.0, 0.72, 0.38), (0.75, 0.9, 1.0)


def styles(seed: Tensor, kind: Tensor) -> Tensor:
    """Return the random numbers (24, s) of the style of s houses; `front` tells what each row
    means.

    Builders repeat themselves: most rows follow from the kind of the house, and only the `OWN` rows
    from its seed.
    """
    row = torch.arange(24, dtype=torch.int32, device=seed.device)[:, None]
    is_own = torch.isin(row, torch.tensor(OWN, device=seed.device))
    return cell_noise(torch.where(is_own, seed, kind), 1000 + row)


def front(points: Points, style: Tensor, condition: Condition, run: int) -> Paint:
    """Paint the front of houses; `style` (24, n) is the column of `styles` of each point's house.

    The seed of the `run` decides what changes from day to day: curtains, lit windows, posters.
    """
    u, v, seed = points.u, points.v, points.seed + points.face * 7919
    story, first = 2.8 + style[0], 3.0 + style[1] * 1.2
    bays = torch.clamp(torch.round(points.wide / (1.7 + style[2] * 2.2)), min=1)
    bay = points.wide / bays
    column = torch.floor(u / bay)
    row = torch.where(v < first, -1.0, torch.floor((v - first) / story))
    across = (u / bay - column - 0.5).abs() * bay  # metres from the middle of the bay
    up = torch.where(v < first, v, v - first - row * story)
    column, row = column.to(torch.int32), row.to(torch.int32)
    chance = cell_noise(seed, column, row)
    today = seed + run % 2**20 * 613
    other = cell_noise(today, column, row + 500)
    drawn = cell_noise(today, column, row + 900)

    wall = _wall(points, style)
    half, sill = 0.3 + style[3] * bay * 0.3, 0.5 + style[4] * 0.5
    head = sill + 1.0 + style[5] * (story - sill - 1.4)
    is_upper = (row >= 0) & (v < points.tall - 0.3)
    is_shop = style[6] < 0.45
    is_door = (column == torch.floor(style[7] * bays).to(torch.int32)) & (v < 2.4) & (row < 0)
    pane = is_upper & (across < half) & between(up, sill, head) & (chance > 0.06)
    lower = (row < 0) & ~is_shop & ~is_door & (across < half) & between(v, 1.0, 2.6)
    display = (
        (row < 0) & is_shop & ~is_door & (across < bay / 2 - 0.15) & between(v, 0.45, first - 0.95)
    )
    glass = pane | lower | display

    trim = torch.stack([style[8], style[8] * 0.97, style[8] * 0.9]) * 0.6 + 0.2
    around = (
        is_upper & (across < half + 0.16) & between(up, sill - 0.16, head + 0.16) & (style[9] < 0.6)
    )
    around |= (
        (row < 0) & ~is_shop & (across < half + 0.16) & between(v, 0.84, 2.76) & (style[9] < 0.6)
    )
    shutter = (
        is_upper & between(across, half, half * 1.6) & between(up, sill, head) & (style[10] < 0.3)
    )
    cornice = (up < 0.22) & (row >= 0) & (style[11] < 0.5)
    albedo = mix(wall, trim, around | cornice | ((v > points.tall - 0.35) & (v <= points.tall)))
    albedo = mix(albedo, palette(style[12]), shutter)
    pilaster = (across > bay / 2 - 0.2) & (style[13] < 0.25) & (v < points.tall)
    albedo = mix(albedo, trim * 0.9, pilaster)
    roof_tiles = color((0.22, 0.12, 0.09), u) * (0.7 + 0.6 * style[14])
    albedo = mix(albedo, roof_tiles, (v > points.tall) & (style[15] < 0.5))
    albedo = mix(albedo, wall * 0.55, (v < 0.45) & (style[16] < 0.7))

    frame = glass & ((across > half - 0.08) | (up < sill + 0.08) | (up > head - 0.08)) & ~display
    frame |= glass & (across < 0.05) & (style[17] < 0.6)
    frame |= pane & ((up - (sill + head) / 2).abs() < 0.04) & (style[18] < 0.5)
    inside = _behind_glass(drawn, other, up, head, condition)
    goods = palette(cell_noise(seed, cell(u * 2.2), cell(v * 2.2))) * 0.5
    inside = mix(inside, goods, display & (cell_noise(seed, cell(u * 2.2), cell(v * 2.2), 3) < 0.6))
    albedo = mix(albedo, inside, glass)
    albedo = mix(albedo, torch.where(style[19] < 0.7, 0.75, 0.12) * torch.ones_like(albedo), frame)
    door = palette(style[20]) * 0.7
    albedo = mix(albedo, door, is_door & (across < 0.55))
    albedo = mix(albedo, door * 0.3, is_door & between(across, 0.18, 0.42) & between(v, 1.2, 2.0))

    board = is_shop & between(v, first - 0.85, first - 0.1) & between(u, 0.2, points.wide - 0.2)
    ink = letters(u - 0.3, v - first + 0.7, 0.45, seed) & board
    sign = palette(style[21])
    contrast = torch.where(sign.mean(0) > 0.3, 0.04, 0.85)
    albedo = mix(mix(albedo, sign, board), contrast.expand(3, -1), ink)
    poster = (
        (cell_noise(seed, column, 901) < 0.12)
        & between(v, 0.9, 2.1)
        & (across < 0.45)
        & ~glass
        & (row < 0)
    )
    albedo = mix(albedo, palette(cell_noise(today, cell(u * 5), cell(v * 4))), poster)
    pipe = (u - 0.3 - style[22] * (points.wide - 0.6)).abs() < 0.07
    albedo = mix(albedo, color((0.12, 0.12, 0.12), u), pipe & (style[23] < 0.5) & (v < points.tall))
    ledge = is_upper & (across < half + 0.1) & between(up, sill - 0.12, sill + 0.02)
    albedo = mix(albedo, color((0.85, 0.88, 0.92), u), ledge & (condition.snow > 0.5))

    is_lit = glass & ~frame & (other < torch.where(display, condition.lit * 1.7, condition.lit))
    curtain = 0.35 + 0.65 * drawn
    tint = torch.where(drawn < 0.7, color(WARM, u), color(COOL, u))
    glow = tint * (is_lit * curtain * torch.where(display, 0.9, 0.5)) * (0.3 + inside)
    return Paint(
        albedo, glow + sign * (board & (style[12] < 0.5)) * (0.5 if condition.lamps > 0 else 0.0)
    )


def _wall(points: Points, style: Tensor) -> Tensor:
    """Paint plaster, brick or stone, with dirt in large spots."""
    dirt = 0.82 + 0.36 * cloudy(points.u * 0.35 + style[0] * 8, points.v * 0.35 + style[1] * 8)
    near = (1 - points.distance / 25).clamp(0, 1)
    return points.color * (
        dirt * (1 - 0.35 * near * (style[2] < 0.5) * (1 - bricks(points.u, points.v)))
    )


def bricks(u: Tensor, v: Tensor, long: float = 0.5, high: float = 0.17) -> Tensor:
    """Return 1 on bricks or blocks, and 0 on the joints between them."""
    course = torch.floor(v / high)
    across = u / long + 0.5 * (course % 2)
    is_brick = (across - torch.floor(across) > 0.08) & (v / high - course > 0.16)
    return is_brick.to(torch.float32)


def _behind_glass(
    chance: Tensor, other: Tensor, up: Tensor, head: Tensor, condition: Condition
) -> Tensor:
    """Paint what is behind windows: dark rooms, curtains and blinds, and a little reflected sky."""
    sky = color(condition.sky_low, up) * (0.10 + 0.16 * other)
    room = 0.03 + sky
    curtain = color((0.62, 0.6, 0.55), up) * (0.5 + 0.5 * chance)
    is_drawn = (up > head - (head - 0.5) * other) & (chance < 0.55)
    return mix(room, curtain, is_drawn)


def brick_wall(points: Points) -> Paint:
    """Paint garden walls and walls without windows: bricks, darker at the foot."""
    joint = bricks(points.u, points.v) * 0.3 + 0.7
    spots = 0.75 + 0.5 * cloudy(points.u * 0.6, points.v * 0.6 + points.shift)
    foot = 0.6 + 0.4 * (points.v / 0.6).clamp(0, 1)
    return Paint(points.color * joint * spots * foot, torch.zeros_like(points.color))


def fence(points: Points) -> Paint:
    """Paint upright boards with dark gaps."""
    board = points.u / 0.16
    gap = (board - torch.floor(board) < 0.2) & (points.level == 0)
    shade = 0.7 + 0.5 * cell_noise(points.seed, cell(board))
    return Paint(points.color * shade * torch.where(gap, 0.25, 1.0), torch.zeros_like(points.color))


def board(points: Points) -> Paint:
    """Paint traffic signs and billboards: a field, a border, shapes, a line of letters."""
    u, v, seed = points.u, points.v, points.seed
    field = points.color
    shape = palette(cell_noise(seed, 2))
    grid = 3.0 / points.wide.clamp(min=0.3)
    albedo = mix(field, shape, cell_noise(seed, cell(u * grid), cell(v * grid)) < 0.45)
    size = (points.tall * 0.2).clamp(min=0.08)
    ink = letters(u - 0.1 * points.wide, v - points.tall * 0.4, size, seed) & between(
        u, points.wide * 0.1, points.wide * 0.9
    )
    albedo = mix(albedo, torch.where(field.mean(0) > 0.35, 0.03, 0.9).expand(3, -1), ink)
    albedo = mix(albedo, torch.full_like(albedo, 0.8), points.inset < points.wide * 0.05)
    return Paint(albedo, torch.zeros_like(albedo))
