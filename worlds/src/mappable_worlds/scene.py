"""The parts of a world (solids, decks, roads, lamps and windows), and a run through it.

Units are metres and radians; heights are above z = 0. Colors are linear red, green and blue in
0..1. A `seed` decides the fine details of a surface. Two surfaces with the same material, seed,
color and size look exactly the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from mappable.arrays import Floats, Ints

Color = tuple[float, float, float]
Corner = tuple[float, float, float]


class Shape(IntEnum):
    """The outline of a solid. An ellipsoid is drawn as its silhouette, which is enough for tree
    crowns and heads.
    """

    BOX = 0
    CYLINDER = 1
    ELLIPSOID = 2


class Material(IntEnum):
    """The material of a surface; `rendering` paints each."""

    PLAIN = 0  # one color with a little dirt: poles, furniture, curb stones, pipes
    FACADE = 1  # stories, windows, doors, shops and signs; a gable rises `roof` metres above `high`
    VEHICLE = 2  # bodywork with wheels, lamps and a band of windows
    FOLIAGE = 3  # leaves, which carry snow
    SIGN = 4  # boards with shapes and fake letters
    LAMP = 5  # glows when lamps are lit
    WALL = 6  # indoor wall: paint, a darker band below, skirting
    WINDOW = 7  # seen from inside: frame, and the sky or the night behind it
    DOOR = 8
    PICTURE = 9  # framed, all kinds of motifs
    SHELF = 10  # boards with books and boxes
    WOOD = 11
    FABRIC = 12
    SCREEN = 13  # a monitor, dark or lit
    BOARD = 14  # notice board with papers
    PERSON = 15
    # Ground of a street world: roads, lanes, curbs, pavements and grass, from `Scene.roads`.
    ASPHALT = 16
    TILES = 17  # floors
    CARPET = 18
    PARQUET = 19
    CEILING = 20  # panels, with lamps among them
    FENCE = 21
    BRICK = 22  # garden walls, bridges, walls of houses without windows


@dataclass(frozen=True)
class Solid:
    """An upright body on a footprint of `length` (along its yaw) by `width`, from `low` to `high`.

    Houses of one `kind` come from one builder: they share their pattern of stories and windows.
    """

    shape: Shape
    x: float
    y: float
    length: float
    width: float
    low: float
    high: float
    material: Material
    color: Color = (0.5, 0.5, 0.5)
    seed: int = 0
    yaw: float = 0.0
    roof: float = 0.0
    kind: int = 0


@dataclass(frozen=True)
class Deck:
    """A flat rectangle, level or with a `slope` (metres per metre along x and y): ground, floor,
    ceiling or ramp.

    Its center (x, y) is at height z. A deck is visible from above and from below.
    """

    x: float
    y: float
    length: float
    width: float
    z: float
    material: Material
    color: Color = (0.5, 0.5, 0.5)
    seed: int = 0
    slope: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Road:
    """A straight piece of road, `width` metres from curb to curb, with pavements of `pavement`
    metres on both sides.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    width: float
    pavement: float
    seed: int = 0


@dataclass(frozen=True)
class Lamp:
    """A lamp: lit if the condition lights lamps."""

    x: float
    y: float
    z: float
    color: Color
    power: float = 1.0


@dataclass(frozen=True)
class Opening:
    """A window through which the sun shines into a room: an upright rectangle; `yaw` points to its
    outside.

    `room` has the lowest and the highest corner (x, y, z) of the room. The sun does not reach other
    rooms.
    """

    x: float
    y: float
    yaw: float
    width: float
    low: float
    high: float
    room: tuple[Corner, Corner]


@dataclass(frozen=True)
class Scene:
    """Everything that stands still."""

    solids: Sequence[Solid] = ()
    decks: Sequence[Deck] = ()
    roads: Sequence[Road] = ()
    lamps: Sequence[Lamp] = ()
    openings: Sequence[Opening] = ()
    indoors: bool = False


@dataclass(frozen=True)
class Traversal:
    """One run of a camera through a scene, with one pose per image.

    `x`, `y`, `z`, `yaw` are the pose of the vehicle; z is the ground under it, not the camera.
    `pitch` tilts the camera up a little and is not part of the ground truth. `time` is nanoseconds
    since 1970. `parked` has the solids that stand there during this run. `moving` has pairs of an
    image and a solid that is seen in it.
    """

    x: Floats
    y: Floats
    z: Floats
    yaw: Floats
    pitch: Floats
    time: Ints
    parked: Sequence[Solid] = ()
    moving: Sequence[tuple[int, Solid]] = ()

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Alias:
    """A surface or room that looks the same as others on purpose: all of one `group` look the same."""

    group: str
    x: float
    y: float
    z: float = 0.0
    yaw: float = 0.0  # direction that it faces


@dataclass(frozen=True)
class Route:
    """A line to drive or walk: points (n, 2) and the ground height (n,) at each."""

    points: Floats
    z: Floats


@dataclass(frozen=True)
class World:
    """A place to drive or walk through: its scene, the named routes, and what looks alike."""

    scene: Scene
    routes: Mapping[str, Route]
    aliases: Sequence[Alias]
