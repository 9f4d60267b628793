"""Find the points on surfaces that pixels look at."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable_worlds.rendering.casting import Caster, Hits, Solids
from mappable_worlds.scene import Shape


@dataclass(frozen=True)
class Points:
    """n points on surfaces, one per pixel that sees a surface, over all images of a batch: vectors
    (n), colors (3, n).

    `u` and `v` are metres along the face and above its foot. `wide` and `tall` are the size of the
    face, and `face` is its number on the solid. On level faces, u and v run along the axes of the
    solid. `level` is 1 on faces seen from above, -1 from below, and 0 on walls. `solid` is the row
    of the solid in the caster, or -1 on decks. `distance` is metres from the camera.
    """

    pixel: Tensor
    image: Tensor
    solid: Tensor
    x: Tensor
    y: Tensor
    z: Tensor
    u: Tensor
    v: Tensor
    wide: Tensor
    tall: Tensor
    face: Tensor
    level: Tensor
    normal: Tensor
    distance: Tensor
    material: Tensor
    kind: Tensor
    seed: Tensor
    color: Tensor

    def __len__(self) -> int:
        return len(self.pixel)

    def take(self, rows: Tensor | slice) -> "Points":
        def some(values: Tensor) -> Tensor:
            return values[..., rows] if isinstance(rows, slice) else values.index_select(-1, rows)

        return Points(**{one.name: some(getattr(self, one.name)) for one in fields(self)})

    @property
    def inset(self) -> Tensor:
        """Return metres to the nearest edge of the face."""
        across, up = (
            torch.minimum(self.u, self.wide - self.u),
            torch.minimum(self.v, self.tall - self.v),
        )
        return torch.minimum(across, up)

    @property
    def shift(self) -> Tensor:
        """Shift a pattern of `cloudy` (which repeats every 8 units) by the seed, so that no two
        surfaces share it.
        """
        return (self.seed % 61).to(torch.float32) * 0.13

    def groups(self) -> list[tuple[int, slice]]:
        """Return materials, each with its points, which are contiguous."""
        kinds, counts = torch.unique_consecutive(self.material, return_counts=True)
        ends = torch.cumsum(counts, 0).tolist()
        return [
            (kind, slice(end - count, end))
            for kind, end, count in zip(kinds.tolist(), ends, counts.tolist(), strict=True)
        ]


def joined(parts: list[Points]) -> Points:
    return Points(
        **{
            one.name: torch.cat([getattr(part, one.name) for part in parts], -1)
            for one in fields(Points)
        }
    )


def points_seen(
    caster: Caster, hits: Hits, slope: Tensor, solids: Solids, rows: Ints, eye: Tensor
) -> Points:
    """Return the points of all pixels that see a solid or a deck; `slope` and `eye` are those of
    the cast rays.
    """
    return joined(
        [_on_solids(caster, hits, slope, solids, rows, eye), _on_decks(caster, hits, slope, eye)]
    )


def _rays(
    caster: Caster, hits: Hits, slope: Tensor, eye: Tensor, pixel: Tensor
) -> tuple[Tensor, ...]:
    """Return depth, position relative to the view's origin, and distance of the points that some
    pixels see.
    """
    view, shape = caster.view, hits.depth.shape

    def flat(values: Tensor) -> Tensor:
        return values.expand(shape).reshape(-1).index_select(0, pixel)

    depth, east, north, rise = flat(hits.depth), flat(view.east), flat(view.north), flat(slope)
    distance = depth * torch.sqrt(east * east + north * north + rise * rise)
    return (
        depth,
        flat(view.x) + east * depth,
        flat(view.y) + north * depth,
        flat(eye) + rise * depth,
        distance,
    )


def _on_solids(
    caster: Caster, hits: Hits, slope: Tensor, solids: Solids, rows: Ints, eye: Tensor
) -> Points:
    device = hits.depth.device

    def whole(values: Ints) -> Tensor:
        return torch.tensor(values[rows].astype(np.int32), device=device)

    def each(values: Tensor) -> Tensor:
        return values.index_select(-1, solid)

    seen = hits.solid.reshape(-1)
    pixel = _by_material(seen, whole(solids.material))
    if not len(pixel):
        return _none(device)
    solid = seen.index_select(0, pixel)
    _, x, y, z, distance = _rays(caster, hits, slope, eye, pixel)

    cosine, sine = each(caster.cosine), each(caster.sine)
    half_length, half_width = each(caster.half_length), each(caster.half_width)
    low, high = each(caster.low), each(caster.high)
    east, north = x - each(caster.x), y - each(caster.y)
    along, across = east * cosine + north * sine, north * cosine - east * sine
    shape = each(whole(solids.shape))
    is_round = shape != Shape.BOX
    turn = torch.atan2(across, along)
    end, side = (half_length - along.abs()).abs(), (half_width - across.abs()).abs()
    above, below = (high - z).abs(), (z - low).abs()
    wall = torch.minimum(end, side)
    wall = torch.where(
        is_round, (half_length - torch.sqrt(along * along + across * across)).abs(), wall
    )
    is_level = (torch.minimum(above, below) < wall) & (shape != Shape.ELLIPSOID)
    level = torch.where(is_level, torch.where(above < below, 1, -1), 0)
    on_side = side < end
    u = torch.where(on_side, along + half_length, across + half_width)
    u = torch.where(is_round, (turn + np.pi) * half_length, u)
    u = torch.where(is_level, along + half_length, u)
    wide = torch.where(on_side, half_length, half_width) * 2
    wide = torch.where(is_round, 2 * np.pi * half_length, wide)
    wide = torch.where(is_level, half_length * 2, wide)
    outward_a = torch.where(
        is_round, along / half_length, torch.where(on_side, 0.0, torch.sign(along))
    )
    outward_b = torch.where(
        is_round, across / half_length, torch.where(on_side, torch.sign(across), 0.0)
    )
    outward_a, outward_b = (torch.where(is_level, 0.0, value) for value in (outward_a, outward_b))
    upward = torch.where(
        shape == Shape.ELLIPSOID, (2 * (z - low) / (high - low) - 1).clamp(-1, 1), level.float()
    )
    normal = torch.stack(
        [outward_a * cosine - outward_b * sine, outward_a * sine + outward_b * cosine, upward]
    )
    normal = normal * torch.rsqrt(
        (normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]).clamp(min=1e-6)
    )
    face = torch.where(on_side, torch.where(across > 0, 0, 1), torch.where(along > 0, 2, 3))
    return Points(
        pixel=pixel,
        image=pixel // hits.depth[0].numel(),
        solid=solid,
        x=x + float(caster.view.origin[0]),
        y=y + float(caster.view.origin[1]),
        z=z,
        u=u,
        v=torch.where(is_level, across + half_width, z - low),
        wide=wide,
        tall=torch.where(is_level, half_width * 2, high - low),
        face=torch.where(is_round, 0, face).to(torch.int32),
        level=level.to(torch.int32),
        normal=normal,
        distance=distance,
        material=each(whole(solids.material)),
        kind=each(whole(solids.kind)),
        seed=each(whole(solids.seed)),
        color=each(torch.tensor(solids.color[rows].T, dtype=torch.float32, device=device)),
    )


def _on_decks(caster: Caster, hits: Hits, slope: Tensor, eye: Tensor) -> Points:
    device, decks = hits.depth.device, caster.decks
    seen = hits.deck.reshape(-1)
    pixel = _by_material(
        seen, torch.tensor([int(one.material) for one in decks], dtype=torch.int32, device=device)
    )
    if not len(pixel):
        return _none(device)
    deck = seen.index_select(0, pixel)
    _, x, y, z, distance = _rays(caster, hits, slope, eye, pixel)
    x, y = x + float(caster.view.origin[0]), y + float(caster.view.origin[1])
    is_above = (slope < 0).expand(hits.depth.shape).reshape(-1).index_select(0, pixel)

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device).index_select(0, deck)

    length, width = column([one.length for one in decks]), column([one.width for one in decks])
    upward = torch.where(is_above, 1.0, -1.0)
    return Points(
        pixel=pixel,
        image=pixel // hits.depth[0].numel(),
        solid=torch.full_like(pixel, -1),
        x=x,
        y=y,
        z=z,
        u=x - column([one.x - one.length / 2 for one in decks]),
        v=y - column([one.y - one.width / 2 for one in decks]),
        wide=length,
        tall=width,
        face=torch.zeros_like(deck, dtype=torch.int32),
        level=upward.to(torch.int32),
        normal=torch.stack([torch.zeros_like(x), torch.zeros_like(x), upward]),
        distance=distance,
        material=column([float(one.material) for one in decks]).to(torch.int32),
        kind=torch.zeros_like(deck, dtype=torch.int32),
        seed=torch.tensor(
            [one.seed & 0x7FFFFFFF for one in decks], dtype=torch.int32, device=device
        )[deck],
        color=torch.stack([column([one.color[band] for one in decks]) for band in range(3)]),
    )


def _by_material(seen: Tensor, material: Tensor) -> Tensor:
    """Return numbers of the pixels that see a surface (not -1), grouped by material."""
    nothing = torch.zeros(1, dtype=torch.uint8, device=seen.device)
    kind = torch.cat([nothing, (material + 1).to(torch.uint8)]).index_select(0, seen + 1)
    return torch.sort(kind, stable=True).indices[len(kind) - int(kind.count_nonzero()) :]


def _none(device: torch.device) -> Points:
    whole = torch.zeros(0, dtype=torch.int32, device=device)
    number = torch.zeros(0, device=device)
    triple = torch.zeros(3, 0, device=device)
    kinds = {"pixel": whole.long(), "image": whole.long(), "solid": whole.long()}
    kinds |= {"face": whole, "level": whole, "material": whole, "kind": whole, "seed": whole}
    kinds |= {"normal": triple, "color": triple}
    return Points(**{one.name: kinds.get(one.name, number) for one in fields(Points)})
