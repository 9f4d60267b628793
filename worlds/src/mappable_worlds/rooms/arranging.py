"""Place things in a room, along walls and in the open, and keep doors and paths free."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mappable.arrays import Floats
from mappable_worlds.rooms.floorplan import (
    SEEDS,
    SILL,
    WINDOW_WIDTH,
    Door,
    Loose,
    Room,
    Spot,
    box,
    gaps,
    windows,
)
from mappable_worlds.rooms.furniture import Piece, Workshop
from mappable_worlds.scene import Alias, Color, Material, Solid

AISLE = 0.75  # metres from the middle of a path to the nearest furniture
# Metres to each side of a door, and into the room, that stay free for its leaf.
BEFORE_DOOR = (1.3, 1.0)
CHAIR_ROOM = 0.35  # metres from the middle of a chair to the walls
EYE = 1.45  # metres: the height of the middle of a picture


@dataclass(frozen=True)
class Print:
    """A picture that hangs in several places."""

    group: str
    width: float
    height: float
    color: Color
    seed: int


class Interior:
    """A room being furnished: things that would block a path, a window or another thing are left
    out.
    """

    def __init__(
        self, room: Room, rooms: Sequence[Room], doors: Sequence[Door], ways: Sequence[Floats]
    ) -> None:
        self.room, self.generator = room, np.random.default_rng([room.seed, 2])
        self.wide, self.deep = room.size
        self.make = Workshop(room.style, self.generator)
        self.solids: list[Solid] = []
        self.loose: list[Loose] = []
        self.aliases: list[Alias] = []
        self.taken: list[tuple[float, float, float, float]] = []
        self.walls = room.walls()
        self.busy: list[list[tuple[float, float]]] = [
            [] for _ in self.walls
        ]  # per wall: taken stretches at the height of pictures
        self.glazed = windows(room, rooms, doors)
        self.fronts: list[tuple[float, float, float, float]] = []
        for number, (wall, length) in enumerate(self.walls):
            for start, end, _ in gaps(room, wall, length, doors):
                corners = (
                    wall.at(start - BEFORE_DOOR[0] + 0.5, 0),
                    wall.at(end + BEFORE_DOOR[0] - 0.5, BEFORE_DOOR[1]),
                )
                self.fronts.append(_bounds([(corner.x, corner.y) for corner in corners]))
                self.busy[number].append((start - 0.1, end + 0.1))
        for number, along in self.glazed:
            self.busy[number].append(
                (along - WINDOW_WIDTH / 2 - 0.1, along + WINDOW_WIDTH / 2 + 0.1)
            )
        self.way = _samples([np.array([room.spot.local(*point) for point in way]) for way in ways])

    def stand(self, spot: Spot, piece: Piece) -> bool:
        """Put a piece at a frame given in the room's frame; return whether there was space for it."""
        ends = [spot.at(x, y) for x in (0, piece.length) for y in (0, piece.depth)]
        left, bottom, right, top = area = _bounds([(end.x, end.y) for end in ends])
        if left < -0.01 or bottom < -0.01 or right > self.wide + 0.01 or top > self.deep + 0.01:
            return False
        if any(_overlap(area, other) for other in [*self.taken, *self.fronts]):
            return False
        away = np.hypot(*(np.maximum(np.maximum(area[:2] - self.way, self.way - area[2:]), 0)).T)
        if len(away) and away.min() < AISLE:
            return False
        self.taken.append(area)
        self.solids += [self.room.spot.put(spot.put(part)) for part in piece.solids]
        for one in piece.loose:
            within = spot.at(one.spot.x, one.spot.y, one.spot.yaw, one.spot.z)
            if (
                min(within.x, within.y, self.wide - within.x, self.deep - within.y) > CHAIR_ROOM
                or one.kind != "chair"
            ):
                self.loose.append(
                    replace(one, spot=self.room.spot.at(within.x, within.y, within.yaw, within.z))
                )
        return True

    def against(self, wall: int, piece: Piece, share: float = 0.5) -> bool:
        """Put a piece against a wall (0 is the door's, then right, back, left), as near to `share`
        of it as possible.

        If that wall has no space, the opposite wall and then the others are tried.
        """
        return any(self._against((wall + turn) % 4, piece, share) for turn in (0, 2, 1, 3))

    def _against(self, wall: int, piece: Piece, share: float) -> bool:
        spot, length = self.walls[wall]
        off = 0.15 if any(number == wall for number, _ in self.glazed) else 0.03
        for shift in sorted(
            np.arange(0, length, 0.2),
            key=lambda start: abs(start + piece.length / 2 - share * length),
        ):
            span = (float(shift), float(shift) + piece.length)
            if piece.height > SILL + 0.35 and any(_cross(span, other) for other in self.busy[wall]):
                continue
            if self.stand(spot.at(span[0], off), piece):
                if piece.height > SILL + 0.1:
                    self.busy[wall].append((span[0] - 0.1, span[1] + 0.1))
                return True
        return False

    def hang(self, wall: int, along: float, part: Solid) -> bool:
        """Hang a flat thing on a wall, with its middle `along` metres from the start of the wall."""
        span = (along - part.length / 2, along + part.length / 2)
        spot, length = self.walls[wall]
        if (
            span[0] < 0.05
            or span[1] > length - 0.05
            or any(_cross(span, other) for other in self.busy[wall])
        ):
            return False
        self.busy[wall].append((span[0] - 0.12, span[1] + 0.12))
        there = self.room.spot.at(spot.x, spot.y, spot.yaw).at(along, part.width / 2)
        self.solids.append(there.put(part))
        return True

    def board(
        self, wall: int, share: float, length: float, color: Color = (0.5, 0.35, 0.2)
    ) -> bool:
        """Hang a notice board, or a white board to write on."""
        part = box(0, 0, length, 0.04, 0.95, 1.95, Material.BOARD, color, self.make.seed())
        places = np.arange(length / 2 + 0.1, self.walls[wall][1] - length / 2, 0.2)
        wanted = share * self.walls[wall][1]
        return any(
            self.hang(wall, float(along), part)
            for along in sorted(places, key=lambda at: abs(at - wanted))
        )

    def pictures(self, prints: Sequence[Print], every: float) -> None:
        """Hang pictures about every `every` metres where walls are free; some of them also hang in
        other rooms.
        """
        generator = np.random.default_rng([self.room.seed, 3])
        for wall, (spot, length) in enumerate(self.walls):
            along = float(generator.uniform(0.4, 1.0))
            while along < length:
                wide, high = (
                    float(generator.uniform(0.5, 1.4)),
                    float(generator.uniform(0.45, 0.95)),
                )
                color = tuple(generator.uniform(0.05, 0.8, 3).tolist())
                seed, chosen = (
                    int(generator.integers(1, SEEDS)),
                    int(generator.integers(len(prints))),
                )
                known = prints[chosen] if generator.random() < 0.2 else None
                if known is not None:
                    wide, high, color, seed = known.width, known.height, known.color, known.seed
                part = box(
                    0, 0, wide, 0.03, EYE - high / 2, EYE + high / 2, Material.PICTURE, color, seed
                )
                hung = self.hang(wall, along, part)
                if hung and known is not None:
                    there = self.room.spot.at(spot.x, spot.y, spot.yaw).at(along, 0)
                    self.aliases.append(
                        Alias(known.group, there.x, there.y, there.z + EYE, there.yaw + math.pi / 2)
                    )
                along += wide / 2 + float(generator.uniform(0.6, 1.0)) * every if hung else 0.25

    def fill(self) -> None:
        """Furnish the remaining space: low things under windows, others along the walls, and some
        in the open.
        """
        draw, make = self.generator, self.make
        for wall, (_, length) in enumerate(self.walls):
            glazed = any(number == wall for number, _ in self.glazed)
            for _ in range(round(length / 3.5)):
                choice, share = (
                    int(draw.integers(3 if glazed else 6)),
                    float(draw.uniform(0.05, 0.95)),
                )
                if choice == 0:
                    piece = make.cabinet(float(draw.uniform(0.8, 1.8)), 0.45, 0.8)
                elif choice == 1:
                    piece = make.sofa(float(draw.choice([0.9, 1.7])))
                elif choice == 2:
                    piece = make.round_table(0.7, 2)
                elif choice == 3:
                    piece = make.shelf(
                        float(draw.uniform(0.8, 1.8)), 0.35, float(draw.uniform(1.2, 2.2))
                    )
                elif choice == 4:
                    piece = make.cabinet(
                        float(draw.uniform(0.7, 1.4)), 0.5, float(draw.uniform(1.1, 2.0))
                    )
                else:
                    piece = make.plant(float(draw.uniform(1.0, 1.8)))
                self._against(wall, piece, share)
        for _ in range(round(self.wide * self.deep / 4)):
            choice = int(draw.integers(4))
            if choice == 0:
                piece = make.round_table(float(draw.uniform(0.8, 1.1)), 3)
            elif choice == 1:
                piece = make.plant(float(draw.uniform(1.0, 1.8)))
            elif choice == 2:
                piece = make.cabinet(1.0, 0.5, float(draw.uniform(0.7, 1.3)))
            else:
                piece = make.sofa(float(draw.choice([0.9, 1.7])))
            x, y = draw.uniform(0.6, self.wide - 1.2), draw.uniform(1.2, self.deep - 1.2)
            if len(self.taken) < self.wide * self.deep / 4:
                self.stand(Spot(float(x), float(y), yaw=math.pi / 2 * int(draw.integers(4))), piece)

    def clutter(self, count: int) -> None:
        """Choose spots along the walls where a bin, a bag or a box may stand."""
        for _ in range(count):
            wall = int(self.generator.integers(4))
            spot, length = self.walls[wall]
            there = spot.at(float(self.generator.uniform(0.4, length - 0.4)), 0.3)
            area = (there.x - 0.25, there.y - 0.25, there.x + 0.25, there.y + 0.25)
            if not any(_overlap(area, other) for other in [*self.taken, *self.fronts]):
                world = self.room.spot.at(there.x, there.y, there.yaw)
                self.loose.append(Loose("clutter", world, seed=self.make.seed()))


def _bounds(points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    x, y = zip(*points, strict=True)
    return min(x), min(y), max(x), max(y)


def _overlap(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _cross(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _samples(ways: Sequence[Floats]) -> Floats:
    """Return points every 10 cm or less along polylines."""
    points = [np.empty((0, 2))]
    for way in ways:
        for start, end in pairwise(way):
            count = max(2, int(np.linalg.norm(end - start) / 0.1) + 2)
            points.append(start + np.linspace(0, 1, count)[:, None] * (end - start))
    return np.concatenate(points)
