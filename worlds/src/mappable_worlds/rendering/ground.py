"""Paint floors, ground and ceilings."""

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Floats
from mappable_worlds.conditions import Condition
from mappable_worlds.rendering.facades import bricks
from mappable_worlds.rendering.light import lit
from mappable_worlds.rendering.noise import cell, cell_noise, cloudy
from mappable_worlds.rendering.paint import Paint, between, color, mix
from mappable_worlds.rendering.surfaces import Points
from mappable_worlds.scene import Road

SIGHT = 90.0  # metres up to which roads are drawn; all ground beyond looks like a road
BESIDE = 30.0  # metres from a road within which it shapes the ground
NO_LINE = (0.0,) * 8  # result of `_line` without a road
PATCH = 0.8  # brightness of a repaired piece of road
SNOW = (0.84, 0.87, 0.92)


def roads_near(roads: list[Road], x: Floats, y: Floats) -> list[Road]:
    """Return the roads that shape the ground visible from any of the positions."""
    if not roads:
        return []
    start, end = np.array([road.start for road in roads]), np.array([road.end for road in roads])
    line = end - start
    near = np.zeros(len(roads), dtype=bool)
    for position in np.column_stack([x, y]):
        share = np.clip(((position - start) * line).sum(1) / (line**2).sum(1), 0, 1)
        near |= np.linalg.norm(start + share[:, None] * line - position, axis=1) < SIGHT + BESIDE
    return [road for road, is_near in zip(roads, near, strict=True) if is_near]


def _line(road: Road) -> tuple[float, ...]:
    """Return start (x, y), direction (east, north), length, half width, pavement width, and a
    number from the seed.
    """
    (x0, y0), (x1, y1) = road.start, road.end
    length = float(np.hypot(x1 - x0, y1 - y0))
    return (
        x0,
        y0,
        (x1 - x0) / length,
        (y1 - y0) / length,
        length,
        road.width / 2,
        road.pavement,
        float(road.seed % 997),
    )


def street(points: Points, roads: list[Road], condition: Condition) -> Paint:
    """Paint carriageways with marks, curbs, pavements, and grass or yards behind them."""
    x, y, seed = points.x, points.y, points.seed
    edge = torch.full_like(x, 1e3)  # metres from the nearest curb, negative on a carriageway
    # Number of carriageways; line of the nearest road.
    on, nearest = torch.zeros_like(x), torch.zeros_like(seed)
    lines = [NO_LINE, *(_line(road) for road in roads)]
    for number, (x0, y0, to_east, to_north, end, half_width, *_) in enumerate(lines[1:], start=1):
        from_x, from_y = x - x0, y - y0
        ahead, aside = from_x * to_east + from_y * to_north, from_y * to_east - from_x * to_north
        over = ahead - ahead.clamp(0, end)
        distance = torch.sqrt(over * over + aside * aside) - half_width
        on += distance < 0
        nearer = distance < edge
        edge = torch.where(nearer, distance, edge)
        nearest = torch.where(nearer, number, nearest)
    is_far = points.distance > SIGHT
    edge, on = torch.where(is_far, -1.0, edge), torch.where(is_far, 2.0, on)
    nearest = torch.where(is_far, 0, nearest)
    columns = torch.tensor(lines, dtype=torch.float32, device=x.device).T.contiguous()
    begin_x, begin_y, east, north, length, half, walk, own = columns.index_select(1, nearest)
    from_x, from_y = x - begin_x, y - begin_y
    along, center = from_x * east + from_y * north, from_y * east - from_x * north
    left = length - along
    spots, fine = cloudy(x * 0.13, y * 0.13), cloudy(x * 1.3, y * 1.3)
    gray = 0.085 + 0.06 * spots + 0.03 * fine
    patch = cell_noise(seed, cell(x / 4.3), cell(y / 3.1))
    gray = torch.where(patch < 0.13, gray * PATCH, gray)
    tarmac = gray.expand(3, -1)

    is_clear = (on < 2) & (along > half) & (left > half)
    beat = along / 6 - torch.floor(along / 6)
    worn = 0.6 * (fine > 0.2)
    dash = (center.abs() < 0.08) & (beat < 0.5) & is_clear
    bay = ((center.abs() - (half - 2.2)).abs() < 0.06) & is_clear & (beat < 0.8) & (half > 3.8)
    near_end = torch.minimum(along, left) - half
    zebra = (
        between(near_end, 3.0, 6.0)
        & (center - torch.floor(center) < 0.5)
        & (on < 2)
        & (cell_noise(seed, cell(own)) < 0.7)
    )
    road_paint = color((0.62, 0.62, 0.58), x)
    albedo = mix(tarmac, road_paint, (dash | bay | zebra) * worn)
    hole_x, hole_y = x / 7 - torch.floor(x / 7) - 0.5, y / 7 - torch.floor(y / 7) - 0.5
    is_hole = (hole_x * hole_x + hole_y * hole_y < 0.0025) & (
        cell_noise(seed, cell(x / 7), cell(y / 7), 5) < 0.4
    )
    albedo = mix(albedo, color((0.04, 0.035, 0.03), x), is_hole)

    near = (1 - points.distance / 30).clamp(0, 1)
    slabs = (0.30 + 0.08 * spots) * (1 - 0.3 * near * (1 - bricks(along, center, 0.9, 0.6)))
    paving = slabs * torch.tensor([1.0, 0.97, 0.92], device=x.device)[:, None]
    albedo = mix(albedo, paving, edge >= 0)
    albedo = mix(albedo, color((0.42, 0.41, 0.39), x), between(edge, 0.0, 0.22))
    grass = color((0.10, 0.17, 0.05), x) * (0.5 + spots) * (0.7 + 0.6 * fine)
    yard = color((0.24, 0.22, 0.20), x) * (0.6 + 0.8 * spots)
    behind = torch.where(cell_noise(seed, cell(x / 23), cell(y / 23)) < 0.6, grass, yard)
    albedo = mix(albedo, behind, edge >= walk)
    if condition.snow > 0:
        rut = ((center.abs() - half / 2).abs() - 0.8).abs()
        cover = torch.where(edge < 0, (rut * 1.6 - 0.35 + 0.5 * spots).clamp(0, 1) * 0.9, 0.97)
        albedo = mix(albedo, color(SNOW, x) * (0.9 + 0.1 * fine), cover * condition.snow)
    return Paint(albedo * (1 - 0.45 * condition.wet), torch.zeros_like(albedo))


def puddles(points: Points) -> Tensor:
    """Return how wet each point of the ground is, 0..1: water collects in spots."""
    depth = cloudy(points.x * 0.25 + 3.1, points.y * 0.25 + 1.7)
    return ((depth - 0.35) * 2.2).clamp(0.15, 1.0)


def tiles(points: Points) -> Paint:
    """Paint square tiles, each a little different, with joints."""
    u, v = points.u / 0.5, points.v / 0.5
    joint = torch.minimum(u - torch.floor(u), v - torch.floor(v)) < 0.05
    shade = 0.85 + 0.3 * cell_noise(points.seed, cell(u), cell(v))
    checker = ((cell(u) + cell(v)) % 2 == 0) & (points.seed % 3 == 0)
    near = (1 - points.distance / 12).clamp(0.2, 1)
    albedo = points.color * shade * torch.where(checker, 0.6, 1.0) * (1 - 0.35 * near * joint)
    return Paint(albedo, torch.zeros_like(albedo))


def carpet(points: Points) -> Paint:
    """Paint soft carpet with a border and worn paths."""
    spots, fine = cloudy(points.u * 0.5, points.v * 0.5), cloudy(points.u * 4, points.v * 4)
    albedo = points.color * (0.8 + 0.25 * spots + 0.2 * fine)
    return Paint(
        mix(albedo, points.color.flip(0) * 0.6, between(points.inset, 0.35, 0.5)),
        torch.zeros_like(albedo),
    )


def parquet(points: Points) -> Paint:
    """Paint wooden boards, each with its own shade and grain."""
    board = points.v / 0.14
    start = points.u / 1.3 + cell_noise(points.seed, cell(board)) * 7
    shade = 0.75 + 0.45 * cell_noise(points.seed, cell(board), cell(start))
    grain = 0.9 + 0.2 * cloudy(points.u * 0.7, points.v * 8)
    near = (1 - points.distance / 8).clamp(0, 1)
    gap = (board - torch.floor(board) < 0.1) | (start - torch.floor(start) < 0.012)
    albedo = points.color * shade * grain * (1 - 0.5 * near * gap)
    return Paint(albedo, torch.zeros_like(albedo))


def ceiling(points: Points, condition: Condition, seed: int) -> Paint:
    """Paint panels with joints; some panels are lamps, lit where the run with this seed has light."""
    u, v = points.u / 0.6, points.v / 0.6
    joint = torch.minimum(u - torch.floor(u), v - torch.floor(v)) < 0.04
    is_lamp = (cell(u) % 5 == 2) & (cell(v) % 4 == 1)
    albedo = points.color * torch.where(joint, 0.7, 1.0)
    is_on = lit(points.x, points.y, condition.lamps_lit, seed)
    glow = color((1.0, 0.97, 0.88), u) * (is_lamp & is_on & ~joint) * (2.0 * condition.lamps)
    return Paint(mix(albedo, torch.full_like(albedo, 0.85), is_lamp), glow)
