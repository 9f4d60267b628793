"""Build pieces of furniture out of a few solids each."""

import math
from dataclasses import dataclass, replace

import numpy as np

from mappable_worlds.rooms.floorplan import SEEDS, Loose, Spot, Style, box
from mappable_worlds.scene import Color, Material, Shape, Solid

DARK: Color = (0.06, 0.06, 0.07)


@dataclass(frozen=True)
class Piece:
    """A piece of furniture that fills [0, length] x [0, depth] metres of its frame and is `height`
    metres tall.
    """

    length: float
    depth: float
    height: float
    solids: tuple[Solid, ...]
    loose: tuple[Loose, ...] = ()


class Workshop:
    """Makes furniture in the style of a building, with one draw per room, so that the furniture of
    a room matches.
    """

    def __init__(self, style: Style, generator: np.random.Generator) -> None:
        self.generator = generator
        self.wood, self.fabric, self.metal = (
            self._pick(some) for some in (style.woods, style.fabrics, style.metals)
        )

    def _pick(self, colors: tuple[Color, ...]) -> Color:
        return colors[self.generator.integers(len(colors))]

    def seed(self) -> int:
        return int(self.generator.integers(1, SEEDS))

    def chair(self, x: float, y: float, yaw: float) -> Loose:
        """Return a chair that faces along `yaw`, in the frame of its table."""
        return Loose("chair", Spot(x, y, 0, yaw), self.fabric, self.seed())

    def desk(self, length: float = 1.6, screens: int = 1) -> Piece:
        """A desk against a wall, with screens, drawers and papers, and its chair."""
        depth, seed = 0.8, self.seed()
        parts = [
            box(length / 2, depth / 2, length, depth, 0.70, 0.74, Material.WOOD, self.wood, seed)
        ]
        parts += [
            box(x, depth / 2, 0.05, depth - 0.1, 0, 0.70, color=self.metal)
            for x in (0.05, length - 0.05)
        ]
        parts.append(box(length - 0.3, 0.35, 0.42, 0.6, 0.05, 0.62, color=self.metal, seed=seed))
        for number in range(screens):
            x = length * (number + 0.5) / screens
            parts.append(box(x, 0.22, 0.56, 0.04, 0.86, 1.2, Material.SCREEN, DARK, self.seed()))
            parts.append(box(x, 0.2, 0.06, 0.05, 0.74, 0.9, color=DARK))
        papers = Loose("papers", Spot(length * 0.3, 0.55, 0.74), seed=self.seed())
        return Piece(
            length,
            depth,
            1.2,
            tuple(parts),
            (self.chair(length * 0.45, 1.15, -math.pi / 2), papers),
        )

    def shelf(self, length: float = 1.8, depth: float = 0.35, height: float = 2.1) -> Piece:
        part = box(
            length / 2, depth / 2, length, depth, 0, height, Material.SHELF, self.wood, self.seed()
        )
        return Piece(length, depth, height, (part,))

    def cabinet(self, length: float = 0.9, depth: float = 0.45, height: float = 1.25) -> Piece:
        part = box(
            length / 2, depth / 2, length, depth, 0, height, Material.PLAIN, self.metal, self.seed()
        )
        lid = box(
            length / 2,
            depth / 2,
            length + 0.04,
            depth + 0.04,
            height,
            height + 0.03,
            Material.WOOD,
            self.wood,
        )
        return Piece(length, depth, height, (part, lid))

    def sofa(self, length: float = 2.0) -> Piece:
        """A sofa, or an armchair if it is short."""
        seed, depth, color = self.seed(), 0.85, self.fabric
        parts = [
            box(length / 2, 0.5, length, 0.7, 0.06, 0.42, Material.FABRIC, color, seed),
            box(length / 2, 0.12, length, 0.24, 0.06, 0.85, Material.FABRIC, color, seed),
        ]
        parts += [
            box(x, 0.45, 0.18, 0.8, 0.06, 0.6, Material.FABRIC, color, seed)
            for x in (0.09, length - 0.09)
        ]
        return Piece(length, depth, 0.85, tuple(parts))

    def counter(self, length: float = 3.0) -> Piece:
        """A line of kitchen cupboards with a top, wall cupboards and a refrigerator."""
        seed, run = self.seed(), length - 0.65
        white = (0.75, 0.74, 0.7)
        parts = (
            box(run / 2, 0.3, run, 0.6, 0.1, 0.88, Material.PLAIN, white, seed),
            box(run / 2, 0.31, run, 0.64, 0.88, 0.92, Material.WOOD, self.wood, seed),
            box(run / 2, 0.18, run, 0.35, 1.45, 2.15, Material.PLAIN, self.fabric, seed),
            box(run * 0.75, 0.3, 0.5, 0.36, 0.92, 1.2, Material.SCREEN, DARK, self.seed()),
            box(run * 0.2, 0.2, 0.2, 0.2, 0.92, 1.25, Material.PLAIN, self.metal),
            box(
                length - 0.32,
                0.33,
                0.62,
                0.64,
                0,
                1.95,
                Material.PLAIN,
                (0.8, 0.8, 0.82),
                self.seed(),
            ),
        )
        return Piece(length, 0.66, 2.15, parts)

    def table(self, length: float, depth: float, chairs: int) -> Piece:
        """A table in the open, with `chairs` chairs at each long side."""
        seed = self.seed()
        parts = [
            box(length / 2, depth / 2, length, depth, 0.70, 0.74, Material.WOOD, self.wood, seed)
        ]
        parts += [
            box(x, depth / 2, 0.08, depth * 0.7, 0, 0.70, color=self.metal)
            for x in (0.25, length - 0.25)
        ]
        loose = [
            Loose("papers", Spot(length * share, depth / 2, 0.74), seed=self.seed())
            for share in (0.3, 0.7)
        ]
        for number in range(chairs):
            x = length * (number + 0.5) / chairs
            loose += [self.chair(x, -0.3, math.pi / 2), self.chair(x, depth + 0.3, -math.pi / 2)]
        return Piece(length, depth, 0.75, tuple(parts), tuple(loose))

    def round_table(self, across: float = 1.0, chairs: int = 3, height: float = 0.74) -> Piece:
        half, seed = across / 2, self.seed()
        top = Solid(
            Shape.CYLINDER,
            half,
            half,
            across,
            across,
            height - 0.04,
            height,
            Material.WOOD,
            self.wood,
            seed,
        )
        post = Solid(
            Shape.CYLINDER, half, half, 0.1, 0.1, 0, height - 0.04, Material.PLAIN, self.metal
        )
        loose = []
        for angle in np.arange(chairs) * 2 * math.pi / max(chairs, 1) + 0.5:
            x, y = half + (half + 0.3) * math.cos(angle), half + (half + 0.3) * math.sin(angle)
            loose.append(self.chair(x, y, float(angle) + math.pi))
        return Piece(across, across, height, (top, post), tuple(loose))

    def plant(self, height: float = 1.5) -> Piece:
        pot = Solid(
            Shape.CYLINDER,
            0.25,
            0.25,
            0.34,
            0.34,
            0,
            0.36,
            Material.PLAIN,
            self.fabric,
            self.seed(),
        )
        green = (0.05, float(self.generator.uniform(0.14, 0.3)), 0.05)
        leaves = Solid(
            Shape.ELLIPSOID,
            0.25,
            0.25,
            0.7,
            0.7,
            0.34,
            height,
            Material.FOLIAGE,
            green,
            self.seed(),
        )
        return Piece(0.5, 0.5, height, (pot, leaves))

    def bench(self, length: float = 3.0) -> Piece:
        """A laboratory bench with instruments on it and a shelf above."""
        parts = [
            box(length / 2, 0.4, length, 0.78, 0.1, 0.86, Material.PLAIN, self.metal, self.seed()),
            box(length / 2, 0.4, length, 0.8, 0.86, 0.9, Material.WOOD, self.wood, self.seed()),
            box(length / 2, 0.15, length, 0.28, 1.35, 1.75, Material.SHELF, self.wood, self.seed()),
        ]
        for x in np.arange(0.4, length - 0.3, 0.8):
            high = 0.9 + float(self.generator.uniform(0.15, 0.4))
            material = Material.SCREEN if self.generator.random() < 0.4 else Material.PLAIN
            color = self._pick((DARK, (0.7, 0.7, 0.68), (0.1, 0.2, 0.4), (0.6, 0.35, 0.05)))
            wide = float(self.generator.uniform(0.25, 0.55))
            parts.append(box(float(x), 0.38, wide, 0.3, 0.9, high, material, color, self.seed()))
        return Piece(
            length, 0.8, 1.75, tuple(parts), (self.chair(length * 0.4, 1.2, -math.pi / 2),)
        )

    def printer(self) -> Piece:
        parts = (
            box(0.35, 0.33, 0.7, 0.65, 0, 1.0, Material.PLAIN, (0.65, 0.65, 0.66), self.seed()),
            box(0.35, 0.3, 0.66, 0.5, 1.0, 1.15, Material.PLAIN, DARK),
            box(0.55, 0.62, 0.22, 0.06, 1.0, 1.2, Material.SCREEN, DARK, self.seed()),
        )
        return Piece(
            0.75, 0.7, 1.2, parts, (Loose("papers", Spot(0.35, 0.3, 1.15), seed=self.seed()),)
        )

    def rack(self) -> Piece:
        """A cupboard full of computers."""
        parts = (
            box(0.35, 0.4, 0.7, 0.8, 0, 2.0, Material.PLAIN, DARK, self.seed()),
            box(0.35, 0.81, 0.6, 0.02, 0.15, 1.9, Material.SCREEN, DARK, self.seed()),
        )
        return Piece(0.7, 0.85, 2.0, parts)

    def coats(self) -> Piece:
        """A coat stand, with the coats of today."""
        pole = Solid(Shape.CYLINDER, 0.25, 0.25, 0.06, 0.06, 0, 1.75, Material.PLAIN, DARK)
        foot = Solid(Shape.CYLINDER, 0.25, 0.25, 0.42, 0.42, 0, 0.04, Material.PLAIN, DARK)
        coats = tuple(
            Loose("coat", Spot(0.25, 0.25, 0, yaw), seed=self.seed()) for yaw in (0.3, 1.9)
        )
        return Piece(0.5, 0.5, 1.75, (pole, foot), coats)

    def extinguisher(self) -> Piece:
        red = (0.6, 0.02, 0.02)
        body = Solid(Shape.CYLINDER, 0.1, 0.1, 0.17, 0.17, 0.45, 0.95, Material.PLAIN, red)
        plate = box(0.1, 0.01, 0.2, 0.02, 1.2, 1.4, Material.SIGN, red, 7)
        return Piece(0.2, 0.2, 1.4, (body, plate))


def two_sided(piece: Piece) -> Piece:
    """Two copies of a piece, back to back."""
    turned = Spot(piece.length, piece.depth, 0, math.pi)
    straight = Spot(0, piece.depth)
    solids = [straight.put(part) for part in piece.solids] + [
        turned.put(part) for part in piece.solids
    ]
    loose = [
        replace(one, spot=straight.at(one.spot.x, one.spot.y, one.spot.yaw, one.spot.z))
        for one in piece.loose
    ]
    loose += [
        replace(one, spot=turned.at(one.spot.x, one.spot.y, one.spot.yaw, one.spot.z))
        for one in piece.loose
    ]
    return replace(piece, depth=2 * piece.depth, solids=tuple(solids), loose=tuple(loose))
