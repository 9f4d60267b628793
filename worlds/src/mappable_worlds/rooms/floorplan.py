"""The shell of a building: rooms, doors, walls, windows, floors and lamps.

Rooms are rectangles that tile the building. Each room has its own walls just inside, so adjacent
rooms can have different paint. A room has its own frame: the door wall lies along the first axis,
and the second axis leads inward.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mappable_worlds.scene import Color, Corner, Deck, Lamp, Material, Opening, Shape, Solid, World

WALL = 0.12  # metres: a room's half of a wall
CLEAR = 3.0  # metres from floor to ceiling
STORY = 3.4  # metres from floor to floor
DOOR_WIDTH, DOOR_HIGH = 1.0, 2.1
SILL, WINDOW_HIGH, WINDOW_WIDTH = 0.9, 2.3, 1.5
WINDOW_EVERY = 2.6  # metres of outer wall per window
LAMP_EVERY = 3.0
SEEDS = 1 << 20  # seeds of surfaces are below this number


@dataclass(frozen=True)
class Spot:
    """Position and heading of a thing: the frame in which its parts are given."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    yaw: float = 0.0

    @cached_property
    def _turn(self) -> tuple[float, float]:
        # Rounded, so that quarter turns are exact and copies of a room stay exact copies.
        return round(math.cos(self.yaw), 12), round(math.sin(self.yaw), 12)

    def at(self, x: float, y: float, yaw: float = 0.0, z: float = 0.0) -> "Spot":
        """Convert a spot given in this frame to the world."""
        cos, sin = self._turn
        return Spot(
            self.x + x * cos - y * sin, self.y + x * sin + y * cos, self.z + z, self.yaw + yaw
        )

    def local(self, x: float, y: float) -> tuple[float, float]:
        """Convert a point of the world to this frame."""
        cos, sin = self._turn
        return (x - self.x) * cos + (y - self.y) * sin, (y - self.y) * cos - (x - self.x) * sin

    def put(self, solid: Solid) -> Solid:
        """Convert a solid given in this frame to the world."""
        there = self.at(solid.x, solid.y, solid.yaw)
        return replace(
            solid,
            x=there.x,
            y=there.y,
            yaw=there.yaw,
            low=solid.low + self.z,
            high=solid.high + self.z,
        )


@dataclass(frozen=True)
class Style:
    """The paint, floors and furniture of the rooms of a building."""

    paints: tuple[Color, ...]
    floors: tuple[tuple[Material, Color], ...]
    woods: tuple[Color, ...]
    fabrics: tuple[Color, ...]
    metals: tuple[Color, ...]
    doors: tuple[Color, ...]


@dataclass(frozen=True)
class Room:
    """A room or a piece of corridor: a rectangle up to the middle of its walls; `inward` leads away
    from the door wall.

    `seed` decides everything inside, so two rooms of one kind, seed and size are copies of each
    other.
    """

    kind: str
    area: str
    left: float
    bottom: float
    right: float
    top: float
    inward: float
    seed: int
    style: Style
    z: float = 0.0
    height: float = CLEAR

    @cached_property
    def spot(self) -> Spot:
        """Return the frame of the free inside, with its origin in the corner at the door wall."""
        corners = [
            (self.left, self.bottom),
            (self.left, self.top),
            (self.right, self.bottom),
            (self.right, self.top),
        ]
        turned = Spot(yaw=self.inward - math.pi / 2)
        x, y = min(corners, key=lambda corner: sum(turned.local(*corner)))
        return Spot(x, y, self.z, turned.yaw).at(WALL, WALL)

    @property
    def corners(self) -> tuple[Corner, Corner]:
        """Return the lowest and the highest corner."""
        return (self.left, self.bottom, self.z), (self.right, self.top, self.z + self.height)

    @property
    def size(self) -> tuple[float, float]:
        """Return metres between the walls: along the door wall, and inward."""
        across, up = self.right - self.left - 2 * WALL, self.top - self.bottom - 2 * WALL
        return (across, up) if abs(math.sin(self.inward)) > 0.5 else (up, across)

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    def walls(self) -> list[tuple[Spot, float]]:
        """Return door, right, back and left wall in the room's frame, each with its length; a wall
        faces its +y.
        """
        wide, deep = self.size
        return [
            (Spot(0, 0), wide),
            (Spot(wide, 0, yaw=math.pi / 2), deep),
            (Spot(wide, deep, yaw=math.pi), wide),
            (Spot(0, deep, yaw=-math.pi / 2), deep),
        ]

    def holds(self, x: float, y: float, z: float) -> bool:
        inside = self.left < x < self.right and self.bottom < y < self.top
        return inside and self.z - 0.2 < z < self.z + self.height


@dataclass(frozen=True)
class Door:
    """A door in a wall at (x, y); `inward` points into the room that it belongs to.

    `opened` is the angle of the leaf in radians. 0 is closed, a right angle or more is out of the
    way, and None means no leaf. A leaf that `swings` has another angle every day. `hinge` is -1 or
    1. An `arch` is as high as the room, and joins two pieces of a corridor. `plate` is the seed of
    the name plate next to the door.
    """

    x: float
    y: float
    inward: float
    z: float = 0.0
    width: float = DOOR_WIDTH
    opened: float | None = None
    hinge: int = 1
    arch: bool = False
    swings: bool = False
    color: Color = (0.4, 0.3, 0.2)
    seed: int = 0
    plate: int = 0

    @property
    def spot(self) -> Spot:
        """Return the frame of the door: its origin is in the middle of the wall, and +y points into
        the room.
        """
        return Spot(self.x, self.y, self.z, self.inward - math.pi / 2)

    def leaf(self, opened: float) -> Solid:
        """Return the leaf, opened into the room by an angle in radians."""
        turn = opened if self.hinge < 0 else math.pi - opened
        x, y = self.hinge * self.width / 2, WALL
        reach = self.width / 2
        middle = self.spot.at(x + reach * math.cos(turn), y + reach * math.sin(turn), turn)
        return middle.put(
            box(
                0,
                0,
                self.width - 0.04,
                0.045,
                0.01,
                DOOR_HIGH - 0.02,
                Material.DOOR,
                self.color,
                self.seed,
            )
        )


@dataclass(frozen=True)
class Loose:
    """A spot where something stands that changes every day.

    `kind` is "chair", "papers", "clutter" (a bin, a bag, a box or nothing), "coat", or "lane"
    (where people walk, `size` metres straight on).
    """

    kind: str
    spot: Spot
    color: Color = (0.5, 0.5, 0.5)
    seed: int = 0
    size: float = 0.0


@dataclass(frozen=True)
class Building(World):
    """A world of rooms, with its floor plan and the spots of loose things."""

    rooms: Sequence[Room] = ()
    doors: Sequence[Door] = ()
    loose: Sequence[Loose] = ()


def box(
    x: float,
    y: float,
    length: float,
    width: float,
    low: float,
    high: float,
    material: Material = Material.PLAIN,
    color: Color = (0.5, 0.5, 0.5),
    seed: int = 0,
) -> Solid:
    """Return a box in the frame of the thing that it is part of."""
    return Solid(Shape.BOX, x, y, length, width, low, high, material, color, seed)


def gaps(
    room: Room, wall: Spot, length: float, doors: Sequence[Door]
) -> list[tuple[float, float, Door]]:
    """Return the intervals along a wall of a room that its doors leave open."""
    there = room.spot.at(wall.x, wall.y, wall.yaw)
    found = []
    for door in doors:
        along, away = there.local(door.x, door.y)
        if (
            abs(away + WALL) < 0.02
            and -WALL < along < length + WALL
            and room.z - 0.1 < door.z < room.z + room.height
        ):
            found.append((along - door.width / 2, along + door.width / 2, door))
    return sorted(found, key=lambda gap: gap[0])


def windows(room: Room, rooms: Sequence[Room], doors: Sequence[Door]) -> list[tuple[int, float]]:
    """Return the windows of a room: wall number and metres along it; only where nothing is built
    outside.
    """
    found = []
    for number, (wall, length) in enumerate(room.walls()):
        there = room.spot.at(wall.x, wall.y, wall.yaw)
        count = int(length / WINDOW_EVERY)
        taken = gaps(room, wall, length, doors)
        for along in (np.arange(count) + 0.5) * length / max(count, 1):
            ends = [there.at(along + side * WINDOW_WIDTH / 2, -0.5) for side in (-1, 1)]
            outside = not any(
                other.holds(end.x, end.y, room.z + 1) for other in rooms for end in ends
            )
            if outside and all(abs(along - (start + end) / 2) > 1.5 for start, end, _ in taken):
                found.append((number, float(along)))
    return found


def shell(
    room: Room, rooms: Sequence[Room], doors: Sequence[Door]
) -> tuple[list[Solid], list[Deck], list[Lamp], list[Opening]]:
    """Build walls, windows, radiators, floor, ceiling, lamps, and openings for the sun of one room."""
    generator = np.random.default_rng([room.seed, 1])
    paint = room.style.paints[generator.integers(len(room.style.paints))]
    red, green, blue = np.multiply(paint, generator.uniform(0.85, 1.1, 3)).tolist()
    paint = (red, green, blue)
    floor, floor_color = room.style.floors[generator.integers(len(room.style.floors))]
    wall_seed, floor_seed, window_seed = (int(seed) for seed in generator.integers(1, SEEDS, 3))
    solids, openings = [], []
    walls = room.walls()
    for wall, length in walls:
        there = room.spot.at(wall.x, wall.y, wall.yaw)
        for start, end, low, high in _pieces(room, length, gaps(room, wall, length, doors)):
            piece = box(
                (start + end) / 2,
                -WALL / 2,
                end - start,
                WALL,
                low,
                high,
                Material.WALL,
                paint,
                wall_seed,
            )
            solids.append(there.put(piece))
    for number, along in windows(room, rooms, doors):
        wall, _ = walls[number]
        tall = room.height > STORY  # the lower part of a tall hall is for the ramp
        there = room.spot.at(wall.x, wall.y, wall.yaw).at(along, 0, z=STORY if tall else 0.0)
        parts = [
            box(
                0,
                0,
                WINDOW_WIDTH,
                0.06,
                SILL,
                WINDOW_HIGH,
                Material.WINDOW,
                (0.85, 0.85, 0.85),
                window_seed,
            ),
            box(
                0,
                0.08,
                WINDOW_WIDTH + 0.1,
                0.16,
                SILL - 0.04,
                SILL,
                Material.PLAIN,
                (0.8, 0.8, 0.78),
            ),
        ]
        if not tall:
            radiator = box(
                0,
                0.07,
                WINDOW_WIDTH - 0.3,
                0.1,
                0.12,
                0.72,
                Material.PLAIN,
                (0.8, 0.8, 0.8),
                window_seed,
            )
            parts.append(radiator)
        solids += [there.put(part) for part in parts]
        outside = there.at(0, -WALL / 2, -math.pi / 2)
        low, high, inside = SILL + there.z, WINDOW_HIGH + there.z, room.corners
        openings.append(Opening(outside.x, outside.y, outside.yaw, WINDOW_WIDTH, low, high, inside))
    across, up, (x, y) = room.right - room.left, room.top - room.bottom, room.middle
    decks = [
        Deck(x, y, across, up, room.z, floor, floor_color, floor_seed),
        Deck(
            x, y, across, up, room.z + room.height, Material.CEILING, (0.85, 0.85, 0.83), floor_seed
        ),
    ]
    grid = [max(1, round(length / LAMP_EVERY)) for length in room.size]
    lamps = []
    for i, j in np.ndindex(*grid):
        there = room.spot.at((i + 0.5) * room.size[0] / grid[0], (j + 0.5) * room.size[1] / grid[1])
        lamps.append(Lamp(there.x, there.y, room.z + room.height - 0.1, (1.0, 1.0, 1.0)))
    return solids, decks, lamps, openings


def door_solids(door: Door) -> list[Solid]:
    """Build the frame around a door, and its leaf if the leaf does not swing."""
    if door.arch:
        return []
    # Deeper than the wall, because two faces in one plane would flicker.
    deep, proud = 2 * WALL + 0.04, 0.01
    frame = [
        box(side * (door.width / 2 + 0.04 - proud), 0, 0.08, deep, 0, DOOR_HIGH + 0.06)
        for side in (-1, 1)
    ]
    frame.append(box(0, 0, door.width, deep, DOOR_HIGH - proud, DOOR_HIGH + 0.06))
    solids = [door.spot.put(replace(part, color=door.color)) for part in frame]
    return solids if door.opened is None or door.swings else [*solids, door.leaf(door.opened)]


def _pieces(
    room: Room, length: float, open_between: Sequence[tuple[float, float, Door]]
) -> list[tuple[float, float, float, float]]:
    """Return the boxes of a wall with gaps: from, to, low and high, in the frame of the room."""
    pieces, start = [], -WALL
    for left, right, door in open_between:
        pieces.append((start, left, 0.0, room.height))
        if not door.arch:
            pieces.append((left, right, door.z - room.z + DOOR_HIGH, room.height))
        pieces.append((left, right, 0.0, door.z - room.z))
        start = right
    pieces.append((start, length + WALL, 0.0, room.height))
    return [piece for piece in pieces if piece[1] - piece[0] > 0.01 and piece[3] - piece[2] > 0.01]
