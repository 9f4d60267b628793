"""Draw floor plans: corridors, rows of rooms along them, and the paths in and out of the rooms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mappable.arrays import Floats
from mappable_worlds.rooms.floorplan import WALL, Door, Loose, Room, Spot, Style
from mappable_worlds.scene import Material, Route

HOUSE = Style(
    paints=(
        (0.72, 0.7, 0.64),
        (0.6, 0.66, 0.68),
        (0.7, 0.62, 0.48),
        (0.55, 0.64, 0.52),
        (0.75, 0.74, 0.72),
    ),
    floors=(
        (Material.PARQUET, (0.36, 0.22, 0.11)),
        (Material.CARPET, (0.12, 0.16, 0.24)),
        (Material.TILES, (0.5, 0.48, 0.44)),
        (Material.CARPET, (0.25, 0.24, 0.23)),
        (Material.PARQUET, (0.5, 0.35, 0.2)),
    ),
    woods=((0.45, 0.3, 0.16), (0.6, 0.47, 0.3), (0.25, 0.14, 0.08), (0.68, 0.66, 0.62)),
    fabrics=(
        (0.1, 0.15, 0.35),
        (0.35, 0.07, 0.06),
        (0.08, 0.2, 0.12),
        (0.16, 0.16, 0.17),
        (0.5, 0.33, 0.08),
    ),
    metals=((0.45, 0.46, 0.48), (0.65, 0.65, 0.63), (0.2, 0.21, 0.23)),
    doors=((0.42, 0.27, 0.14), (0.5, 0.5, 0.5)),
)
SCHOOL = Style(
    paints=((0.7, 0.55, 0.5), (0.45, 0.55, 0.68), (0.72, 0.7, 0.45), (0.5, 0.68, 0.62)),
    floors=(
        (Material.TILES, (0.42, 0.2, 0.14)),
        (Material.TILES, (0.2, 0.3, 0.26)),
        (Material.CARPET, (0.3, 0.1, 0.1)),
    ),
    woods=((0.7, 0.55, 0.38), (0.3, 0.3, 0.32)),
    fabrics=((0.55, 0.2, 0.02), (0.02, 0.3, 0.35), (0.4, 0.4, 0.05)),
    metals=((0.1, 0.25, 0.2), (0.5, 0.2, 0.15), (0.7, 0.7, 0.7)),
    doors=((0.1, 0.2, 0.4), (0.45, 0.08, 0.06)),
)
WIDE = 2.8  # metres: width of a corridor

Size = tuple[str, float, int]  # kind of room, metres along the corridor, seed


@dataclass
class Plan:
    """A floor plan being drawn."""

    rooms: list[Room] = field(default_factory=list)
    doors: list[Door] = field(default_factory=list)
    lanes: list[Loose] = field(default_factory=list)

    def corridor(
        self, left: float, bottom: float, right: float, top: float, inward: float, about: Room
    ) -> None:
        """Add a piece of corridor in the area, style and story of `about`, with lanes for people on
        both sides.
        """
        room = Room(
            "corridor",
            about.area,
            left,
            bottom,
            right,
            top,
            inward,
            about.seed,
            about.style,
            about.z,
        )
        self.rooms.append(room)
        wide, long = room.size
        for side in (-0.85, 0.85):
            spot = room.spot.at(wide / 2 + side, 0.5, math.pi / 2)
            self.lanes.append(Loose("lane", spot, size=long - 1.0))

    def row(
        self, sizes: Sequence[Size], start: Spot, depth: float, reach: float, about: Room
    ) -> list[Floats]:
        """Add rooms side by side along a corridor wall, which runs along the x axis of `start`;
        rooms lie on its left.

        Return, per room, the path from the middle line of the corridor, `reach` metres off the
        wall, to its stations.
        """
        visits, along = [], 0.0
        for kind, width, seed in sizes:
            generator = np.random.default_rng([seed, 4])
            near, far = start.at(along, 0), start.at(along + width, depth)
            (left, right), (bottom, top) = sorted((near.x, far.x)), sorted((near.y, far.y))
            inward = start.yaw + math.pi / 2
            room = Room(
                kind, about.area, left, bottom, right, top, inward, seed, about.style, about.z
            )
            self.rooms.append(room)
            door = start.at(along + width * float(generator.uniform(0.36, 0.64)), 0)
            leaf = Door(
                door.x,
                door.y,
                inward,
                door.z,
                opened=math.radians(generator.uniform(95, 125)),
                hinge=int(generator.choice([-1, 1])),
                swings=bool(generator.random() < 0.4),
                color=about.style.doors[generator.integers(len(about.style.doors))],
                seed=seed,
                # Copies of a room still have their own name plates.
                plate=seed + 1 + len(self.doors),
            )
            self.doors.append(leaf)
            way = self._stations(room, door, reach, generator)
            visits.append(way)
            length = float(np.linalg.norm(way[1] - way[0]))
            self.lanes.append(
                Loose("lane", Spot(float(way[0, 0]), float(way[0, 1]), room.z, inward), size=length)
            )
            along += width
        return visits

    @staticmethod
    def _stations(room: Room, door: Spot, reach: float, generator: np.random.Generator) -> Floats:
        """Return stations straight in from the corridor; in a larger room, also one where more of
        it is visible.
        """
        wide, deep = room.size
        entry, _ = room.spot.local(door.x, door.y)
        first = float(generator.uniform(0.36, 0.42)) * deep
        way = [(entry, -WALL - reach), (entry, first)]
        if wide > 4.5:
            aside = 1.0 if entry < wide / 2 else -1.0
            way.append(
                (
                    entry + aside * float(generator.uniform(1.2, 1.7)),
                    first + float(generator.uniform(0.6, 1.1)),
                )
            )
        spots = [room.spot.at(*point) for point in way]
        return np.array([(spot.x, spot.y) for spot in spots])


def tour(stops: Sequence[tuple[float, float] | Floats]) -> Route:
    """Return a level route: points to pass, and paths to walk to their end and back."""
    points: list[tuple[float, float]] = []
    for stop in stops:
        way = np.atleast_2d(np.asarray(stop, dtype=np.float64))
        points += (
            [(float(x), float(y)) for x, y in (*way, *way[-2::-1])]
            if len(way) > 1
            else [(float(way[0, 0]), float(way[0, 1]))]
        )
    return Route(np.array(points), np.zeros(len(points)))
