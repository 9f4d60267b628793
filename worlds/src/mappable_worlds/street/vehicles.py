"""Vehicles and people of a street world, as solids at a place and time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mappable_worlds.scene import Color, Material, Shape, Solid

PAINTS: tuple[Color, ...] = (
    (0.75, 0.75, 0.74),
    (0.02, 0.02, 0.025),
    (0.12, 0.12, 0.13),
    (0.4, 0.41, 0.42),
    (0.03, 0.07, 0.25),
    (0.35, 0.02, 0.02),
    (0.03, 0.13, 0.07),
    (0.5, 0.38, 0.2),
    (0.1, 0.25, 0.4),
)
BUS_PAINTS: tuple[Color, ...] = ((0.5, 0.03, 0.02), (0.04, 0.2, 0.4), (0.6, 0.42, 0.03))
CLOTHES: tuple[Color, ...] = (
    (0.03, 0.04, 0.08),
    (0.3, 0.05, 0.05),
    (0.05, 0.12, 0.3),
    (0.35, 0.33, 0.3),
    (0.5, 0.4, 0.05),
    (0.02, 0.02, 0.02),
    (0.08, 0.2, 0.1),
)
SKINS: tuple[Color, ...] = ((0.6, 0.4, 0.3), (0.4, 0.24, 0.16), (0.15, 0.08, 0.05))
KINDS = ("car", "van", "lorry", "bus")
PARKED_SHARES = (0.8, 0.15, 0.05, 0.0)
MOVING_SHARES = (0.66, 0.2, 0.06, 0.08)


@dataclass(frozen=True)
class Part:
    """A box of a vehicle: `ahead` of its middle, in metres."""

    ahead: float
    length: float
    width: float
    low: float
    high: float


@dataclass(frozen=True)
class Vehicle:
    """The look of a vehicle; all its parts lie within `length` and `width`."""

    parts: Sequence[Part]
    color: Color
    seed: int

    @property
    def length(self) -> float:
        return 2 * max(abs(part.ahead) + part.length / 2 for part in self.parts)

    @property
    def width(self) -> float:
        return max(part.width for part in self.parts)

    def at(self, x: float, y: float, z: float, yaw: float) -> list[Solid]:
        """Return the solids of the vehicle with its middle there; it is level on any ground."""
        return [
            Solid(
                Shape.BOX,
                x + part.ahead * math.cos(yaw),
                y + part.ahead * math.sin(yaw),
                part.length,
                part.width,
                z + part.low,
                z + part.high,
                Material.VEHICLE,
                self.color,
                self.seed,
                yaw,
                kind=int(part.low > 0),  # a cabin
            )
            for part in self.parts
        ]


def draw_vehicle(generator: np.random.Generator, shares: Sequence[float]) -> Vehicle:
    """Draw a random vehicle; `shares` are the probabilities of `KINDS`. Only buses are longer than
    5.8 m.
    """
    kind = KINDS[int(generator.choice(len(KINDS), p=shares))]
    size = generator.uniform(0.94, 1.06)
    paints = BUS_PAINTS if kind == "bus" else PAINTS
    color, seed = paints[int(generator.integers(len(paints)))], int(generator.integers(1 << 30))
    parts: tuple[Part, ...]
    if kind == "car":
        waist, top = 0.92 * size, generator.uniform(1.38, 1.62) * size
        cabin = generator.uniform(2.0, 2.7)
        parts = (
            Part(0.0, 4.3 * size, 1.78 * size, 0.0, waist),
            Part(-generator.uniform(0.1, 0.6), cabin, 1.55 * size, waist, top),
        )
    elif kind == "van":
        parts = (
            Part(-0.45, 4.4 * size, 1.9, 0.0, 2.2 * size),
            Part(2.1 * size, 0.9, 1.85, 0.0, 1.2),
        )
    elif kind == "lorry":
        parts = (Part(-0.8, 3.9, 2.1, 0.0, 3.0 * size), Part(2.0, 1.5, 2.05, 0.0, 2.3 * size))
    else:
        parts = (Part(0.0, 10.5 * size, 2.3, 0.0, 3.0),)
    return Vehicle(parts, color, seed)


@dataclass(frozen=True)
class Walker:
    """The look of a person, `height` metres tall."""

    height: float
    clothes: Color
    skin: Color
    seed: int

    def at(self, x: float, y: float, z: float) -> list[Solid]:
        """Return body and head of the person standing there."""
        neck = z + 0.84 * self.height
        body = Solid(
            Shape.CYLINDER, x, y, 0.46, 0.46, z, neck, Material.PERSON, self.clothes, self.seed
        )
        head = Solid(
            Shape.ELLIPSOID,
            x,
            y,
            0.23,
            0.23,
            neck,
            z + self.height,
            Material.PERSON,
            self.skin,
            self.seed,
        )
        return [body, head]


def draw_walker(generator: np.random.Generator) -> Walker:
    return Walker(
        float(generator.uniform(1.5, 1.92)),
        CLOTHES[int(generator.integers(len(CLOTHES)))],
        SKINS[int(generator.integers(len(SKINS)))],
        int(generator.integers(1 << 30)),
    )
