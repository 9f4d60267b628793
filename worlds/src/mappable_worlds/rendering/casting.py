"""Find the surface that each pixel sees.

The cameras are level, so all pixels of an image column look along one upright plane. A column is
intersected once, in two dimensions, with the footprints of the solids. Its pixels then only compare
heights.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Bools, Floats, Ints
from mappable_worlds.rendering.noise import cell, cell_noise
from mappable_worlds.scene import Deck, Shape, Solid

NEAR = 0.15  # metres in front of the camera at which a ray begins
FAR = 160.0  # metres at which a ray ends
LAYERS = 64  # solids that a column intersects, at most; the nearest come first
LOOKS = 8  # number of layers after which the caster checks whether later layers can still be seen
NO_HIT = 1e6
SLACK = 1e-5  # tolerance for rounding, for hits on the edge between a wall and a roof


class Solids:
    """Solids as columns of numbers; `frame` is the image in which a solid is seen, or -1 for all
    images.
    """

    def __init__(self, solids: list[Solid], frames: list[int] | None = None) -> None:
        def column(name: str) -> Floats:
            return np.array([getattr(solid, name) for solid in solids], dtype=np.float64)

        self.x, self.y, self.yaw = column("x"), column("y"), column("yaw")
        self.length, self.width = column("length"), column("width")
        self.low, self.high, self.roof = column("low"), column("high"), column("roof")
        self.shape: Ints = column("shape").astype(np.int64)
        self.material: Ints = column("material").astype(np.int64)
        self.seed: Ints = column("seed").astype(np.int64) & 0x7FFFFFFF
        self.kind: Ints = column("kind").astype(np.int64)
        self.color: Floats = np.array([solid.color for solid in solids], dtype=np.float64).reshape(
            -1, 3
        )
        self.frame: Ints = np.array(
            frames if frames is not None else [-1] * len(solids), dtype=np.int64
        )
        self.radius = np.hypot(self.length, self.width) / 2
        self.cosine, self.sine = np.cos(self.yaw), np.sin(self.yaw)

    def in_sight(
        self, x: Floats, y: Floats, yaw: Floats, half_view: float, frames: Ints
    ) -> tuple[Ints, Bools]:
        """Return rows of the solids that some camera may see, and which camera may see which
        (cameras, rows).
        """
        rows: Ints = np.flatnonzero((self.frame < 0) | np.isin(self.frame, frames))
        solid_x, solid_y, radius, frame = (
            self.x[rows],
            self.y[rows],
            self.radius[rows],
            self.frame[rows],
        )
        seen: Bools = np.zeros((len(x), len(rows)), dtype=bool)
        for number, heading in enumerate(yaw):
            east, north = solid_x - x[number], solid_y - y[number]
            ahead = east * np.cos(heading) + north * np.sin(heading)
            aside = np.abs(north * np.cos(heading) - east * np.sin(heading))
            # Metres beyond the edge of the view.
            outside = aside * np.cos(half_view) - ahead * np.sin(half_view)
            near = (outside < radius) & (ahead > -radius) & (ahead < FAR + radius)
            seen[number] = near & ((frame < 0) | (frame == frames[number]))
        wanted = seen.any(0)
        return rows[wanted], seen[:, wanted]


@dataclass(frozen=True)
class View:
    """The rays of a batch of cameras: b images, h rows, w columns.

    Positions are relative to `origin` (float64), so float32 is precise enough. At depth t, a ray
    reaches the point (x + east t, y + north t, eye + slope t).
    """

    origin: Floats
    x: Tensor  # (b, 1, 1)
    y: Tensor
    eye: Tensor
    east: Tensor  # (b, 1, w)
    north: Tensor
    slope: Tensor  # (b, h, 1)


@dataclass(frozen=True)
class Hits:
    """What each pixel sees (b, h, w): the depth, and the row of the solid or the number of the
    deck; -1 for none.
    """

    depth: Tensor
    solid: Tensor
    deck: Tensor


class Caster:
    """The solids and decks near a batch of cameras, prepared for casting rays."""

    def __init__(
        self, view: View, solids: Solids, rows: Ints, seen: Bools, decks: list[Deck]
    ) -> None:
        """Prepare the solids in `rows`, ascending; `seen` (cameras, rows) tells which camera may
        see which.
        """
        self.view, self.decks = view, decks
        self.device = view.x.device

        def column(values: Floats) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=self.device)

        x, y = column(solids.x[rows] - view.origin[0]), column(solids.y[rows] - view.origin[1])
        self.cosine, self.sine = column(solids.cosine[rows]), column(solids.sine[rows])
        self.half_length, self.half_width = (
            column(solids.length[rows] / 2),
            column(solids.width[rows] / 2),
        )
        self.x, self.y = x, y
        self.low, self.high = column(solids.low[rows]), column(solids.high[rows])
        self.decks_in_sight = self._decks_in_sight()
        self.count = len(rows)
        self.layers = 0
        if not self.count:
            return
        shape = torch.tensor(solids.shape[rows], device=self.device)
        east, north = view.east[:, 0, :, None], view.north[:, 0, :, None]  # (b, w, 1)
        from_x, from_y = view.x[:, 0, :, None] - x, view.y[:, 0, :, None] - y  # (b, 1, s)
        begin, end = self._boxes(from_x, from_y, east, north)
        round_begin, round_end, share = self._rounds(from_x, from_y, east, north)
        is_box = shape == Shape.BOX
        begin, end = torch.where(is_box, begin, round_begin), torch.where(is_box, end, round_end)
        may_see = torch.tensor(seen, device=self.device)[:, None, :]
        begin = torch.where((end > begin) & (begin > NEAR) & may_see, begin, NO_HIT)
        # The order is stable: if two faces lie in one plane, the same one is always in front.
        begin, order = torch.sort(begin, dim=2, stable=True)
        # (b, w, k)
        self.begin, self.row = begin[..., :LAYERS].contiguous(), order[..., :LAYERS].contiguous()
        self.end = torch.where(self.begin < NO_HIT, end.gather(2, self.row), NO_HIT)
        self.bottom, self.top = self.low[self.row], self.high[self.row]
        self.layers = int((self.begin < NO_HIT).sum(2).max())
        self._shape_crowns(
            shape, share, torch.tensor(solids.seed[rows].astype(np.int32), device=self.device)
        )
        self._raise_gables(solids, rows)

    def _decks_in_sight(self) -> list[int]:
        """Return the decks that a column passes over, or may pass over by rounding; a single deck
        has no edges.
        """
        if len(self.decks) == 1:
            return [0]
        view, margin = self.view, 0.01
        middle = np.array([(deck.x, deck.y) for deck in self.decks]).reshape(-1, 2) - view.origin
        reach = (
            np.array([(deck.length, deck.width) for deck in self.decks]).reshape(-1, 2) / 2 + margin
        )
        to_x, to_y = torch.tensor(middle.T, dtype=torch.float32, device=self.device)
        reach_x, reach_y = torch.tensor(reach.T, dtype=torch.float32, device=self.device)
        begin, end = _slabs(
            to_x - view.x[:, 0, :, None],
            to_y - view.y[:, 0, :, None],
            view.east[:, 0, :, None],
            view.north[:, 0, :, None],
            reach_x,
            reach_y,
        )
        is_passed = ((end > begin) & (end > 0)).any(1).any(0)
        return [number for number, passed in enumerate(is_passed.tolist()) if passed]

    def _boxes(
        self, from_x: Tensor, from_y: Tensor, east: Tensor, north: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return depths at which columns enter and leave rectangles (slab test along the axes of
        each rectangle).
        """
        along, across = (
            from_x * self.cosine + from_y * self.sine,
            from_y * self.cosine - from_x * self.sine,
        )
        ahead, aside = (
            east * self.cosine + north * self.sine,
            north * self.cosine - east * self.sine,
        )
        return _slabs(-along, -across, ahead, aside, self.half_length, self.half_width)

    def _rounds(
        self, from_x: Tensor, from_y: Tensor, east: Tensor, north: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same for circles of diameter `length`, and how far from the center each column
        passes (0..1).
        """
        squared = east * east + north * north
        middle = -(from_x * east + from_y * north) / squared
        beside = (from_x * north - from_y * east) / torch.sqrt(squared)
        share = beside / self.half_length
        reach = (
            self.half_length * torch.sqrt((1 - share * share).clamp(min=0)) / torch.sqrt(squared)
        )
        return middle - reach, middle + reach, share

    def _shape_crowns(self, shape: Tensor, share: Tensor, seed: Tensor) -> None:
        """Make ellipsoids narrower above and below their middle, and the outline of leaves ragged."""
        crown = (shape == Shape.ELLIPSOID)[self.row]
        share = share.gather(2, self.row)
        ragged = 0.82 + 0.36 * cell_noise(seed[self.row], cell(share * 9.0))
        reach = (self.top - self.bottom) / 2 * torch.sqrt((1 - share * share).clamp(min=0)) * ragged
        middle = (self.top + self.bottom) / 2
        self.bottom = torch.where(crown, torch.maximum(middle - reach, self.bottom), self.bottom)
        self.top = torch.where(crown, middle + reach, self.top)
        self.end = torch.where(crown, self.begin, self.end)

    def _raise_gables(self, solids: Solids, rows: Ints) -> None:
        """Add gables to the height in the middle of a face: pointed, stepped, or cut off at the
        top.
        """
        roofs = solids.roof[rows]
        if not roofs.any():
            return
        roof = torch.tensor(roofs, dtype=torch.float32, device=self.device)[self.row]
        view = self.view
        x, y = self.x[self.row], self.y[self.row]
        cosine, sine = self.cosine[self.row], self.sine[self.row]
        depth = torch.where(self.begin < NO_HIT, self.begin, 0.0)
        east = view.x[:, 0, :, None] + view.east[:, 0, :, None] * depth - x
        north = view.y[:, 0, :, None] + view.north[:, 0, :, None] * depth - y
        along = (east * cosine + north * sine) / self.half_length[self.row]
        kind = torch.tensor(solids.seed[rows] % 3, device=self.device)[self.row]
        slope = 1 - along.abs().clamp(max=1)
        stepped = torch.ceil(slope * 5) / 5
        cut = (slope * 2).clamp(max=1)
        rise = torch.where(kind == 0, slope, torch.where(kind == 1, stepped, cut))
        self.top = self.top + roof * rise

    def cast(self, eye: Tensor, slope: Tensor, beyond: Tensor | None = None) -> Hits:
        """Find the nearest surface of each ray from height `eye` with `slope`; only `beyond` a
        depth, if given.

        A ray that enters the footprint of a solid between its bottom and its top hits a wall.
        Otherwise it hits the roof or the underside, if it reaches their height before it leaves the
        footprint.
        """
        view, slope = self.view, _away_from_zero(slope)
        inverse = 1 / slope
        shape = (len(view.x), slope.shape[1], view.east.shape[2])
        depth = torch.full(shape, NO_HIT, device=self.device)
        deck = torch.full(shape, -1, dtype=torch.int32, device=self.device)
        floor = NEAR if beyond is None else beyond
        for number in self.decks_in_sight:
            one = self.decks[number]
            at = self._deck_depth(one, eye, slope, inverse)
            near = (at > floor) & (at < depth)
            if len(self.decks) > 1:
                at_x, at_y = view.x + view.east * at, view.y + view.north * at
                near &= (at_x - (one.x - view.origin[0])).abs() <= one.length / 2
                near &= (at_y - (one.y - view.origin[1])).abs() <= one.width / 2
            depth = torch.where(near, at, depth)
            deck = torch.where(near, number, deck)
        layer = torch.full(shape, -1, dtype=torch.int32, device=self.device)
        for number in range(self.layers):
            begin, end = self.begin[:, None, :, number], self.end[:, None, :, number]
            bottom, top = self.bottom[:, None, :, number] - eye, self.top[:, None, :, number] - eye
            at = torch.minimum(torch.maximum(slope * begin, bottom), top) * inverse
            inside = torch.minimum(at - (begin - SLACK * (begin + 1)), end + SLACK * (end + 1) - at)
            near = torch.minimum(torch.minimum(inside, depth - at), at - floor) > 0
            depth = torch.where(near, at, depth)
            layer = torch.where(near, number, layer)
            following = self.begin[..., min(number + 1, self.layers - 1)]
            if number % LOOKS == LOOKS - 1 and bool((depth.amax(1) <= following).all()):
                break
        if not self.count:
            return Hits(depth, torch.full_like(layer, -1).long(), deck.long())
        row = (
            self.row[:, None]
            .expand(*shape[:2], -1, -1)
            .gather(3, layer.clamp(min=0).long()[..., None])[..., 0]
        )
        solid = torch.where(layer >= 0, row, -1)
        return Hits(depth, solid, torch.where(layer >= 0, -1, deck).long())

    def _deck_depth(self, deck: Deck, eye: Tensor, slope: Tensor, inverse: Tensor) -> Tensor:
        view = self.view
        if deck.slope == (0.0, 0.0):
            return (deck.z - eye) * inverse
        rise_x, rise_y = deck.slope
        beneath = (
            deck.z
            + rise_x * (view.x - (deck.x - view.origin[0]))
            + rise_y * (view.y - (deck.y - view.origin[1]))
        )
        depth: Tensor = (beneath - eye) / _away_from_zero(
            slope - rise_x * view.east - rise_y * view.north
        )
        return depth


def _slabs(
    to_x: Tensor, to_y: Tensor, ahead_x: Tensor, ahead_y: Tensor, reach_x: Tensor, reach_y: Tensor
) -> tuple[Tensor, Tensor]:
    """Return depths at which rays enter and leave rectangles with centers (to_x, to_y) away; end <
    begin if missed.
    """
    ahead_x, ahead_y = _away_from_zero(ahead_x), _away_from_zero(ahead_y)
    middle_x, half_x = to_x / ahead_x, reach_x / ahead_x.abs()
    middle_y, half_y = to_y / ahead_y, reach_y / ahead_y.abs()
    begin = torch.maximum(middle_x - half_x, middle_y - half_y)
    return begin, torch.minimum(middle_x + half_x, middle_y + half_y)


def _away_from_zero(values: Tensor) -> Tensor:
    """Replace numbers that are so small that dividing by them would overflow."""
    return torch.where(values.abs() < 1e-6, 1e-6, values)
