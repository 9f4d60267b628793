"""Place things on the pavements: lamps, trees, signs, benches, bins, shelters and traffic lights."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from mappable.arrays import Floats
from mappable_worlds.scene import Color, Lamp, Material, Shape, Solid
from mappable_worlds.street.roads import Network, Side

LAMP_STEP = (25.0, 30.0)  # metres between lamp posts, which alternate between the sides
LAMP_HEIGHT = (5.0, 6.0)
TREE_STEP = (9.0, 14.0)
AVENUES = 0.6  # share of the wide road sides that have trees
ITEM_STEP = 11.0  # average metres between the smaller things of one side
SIGNALED = 0.5  # share of the roads that have traffic lights at junctions
CORNER_ROOM = 0.6  # metres between a thing and the carriageway of a crossing road
# Metres between the edge of a thing and any driven line, because right turns come near the curb.
ROUTE_ROOM = 1.9
METAL: Color = (0.3, 0.31, 0.32)
DARK: Color = (0.06, 0.07, 0.07)
RED: Color = (0.5, 0.03, 0.02)
TRUNK: Color = (0.13, 0.09, 0.06)
SEAT: Color = (0.28, 0.17, 0.08)
GLASS: Color = (0.35, 0.42, 0.44)
BINS: tuple[Color, ...] = ((0.05, 0.13, 0.07), (0.06, 0.07, 0.07), (0.5, 0.2, 0.03))
POST_BOXES: tuple[Color, ...] = (RED, (0.65, 0.45, 0.02))
LEAVES: tuple[Color, ...] = (
    (0.09, 0.2, 0.04),
    (0.14, 0.24, 0.06),
    (0.06, 0.15, 0.05),
    (0.2, 0.24, 0.06),
)
LIGHTS: tuple[Color, ...] = ((1.0, 0.75, 0.42), (1.0, 0.83, 0.6), (0.9, 0.93, 1.0))
# From bottom to top.
SIGNALS: tuple[Color, ...] = ((0.05, 0.8, 0.25), (0.9, 0.5, 0.03), (0.9, 0.04, 0.03))
PAINTS: tuple[Color, ...] = (
    (0.03, 0.1, 0.4),
    (0.5, 0.04, 0.03),
    (0.6, 0.45, 0.04),
    (0.7, 0.7, 0.7),
    (0.04, 0.25, 0.1),
)

Spot = tuple[float, float]
# Side, along, out -> solids.
Maker = Callable[[Side, float, float, np.random.Generator], list[Solid]]


def pick(generator: np.random.Generator, colors: Sequence[Color]) -> Color:
    return colors[int(generator.integers(len(colors)))]


def new_seed(generator: np.random.Generator) -> int:
    return int(generator.integers(1 << 30))


def upright(
    place: Spot,
    size: Spot,
    heights: Spot,
    yaw: float,
    material: Material,
    color: Color,
    seed: int = 0,
) -> Solid:
    """Return a box of `size` (along its yaw, across), from the first height to the second."""
    return Solid(Shape.BOX, *place, *size, *heights, material, color, seed, yaw)


def post(place: Spot, thickness: float, height: float, color: Color = METAL) -> Solid:
    return Solid(Shape.CYLINDER, *place, thickness, thickness, 0.0, height, Material.PLAIN, color)


def tree(place: Spot, radius: float, generator: np.random.Generator) -> list[Solid]:
    """Return a trunk with a crown whose lowest leaves are above the eyes of a driver."""
    low, thickness = generator.uniform(2.2, 2.9), generator.uniform(0.25, 0.5)
    high, size = low + radius * generator.uniform(1.8, 3.0), 2 * radius
    leaves, seed = pick(generator, LEAVES), new_seed(generator)
    trunk = Solid(
        Shape.CYLINDER, *place, thickness, thickness, 0.0, low + 0.4, Material.WOOD, TRUNK
    )
    return [
        trunk,
        Solid(Shape.ELLIPSOID, *place, size, size, low, high, Material.FOLIAGE, leaves, seed),
    ]


def bench(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    seat = upright(side.at(along, out), (1.7, 0.45), (0.3, 0.46), side.yaw, Material.WOOD, SEAT)
    back = upright(
        side.at(along, out + 0.22), (1.7, 0.07), (0.46, 0.9), side.yaw, Material.WOOD, SEAT
    )
    return [seat, back]


def board(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    """A large advertisement on two posts, along the road."""
    place, paint, seed = side.at(along, out), pick(generator, PAINTS), new_seed(generator)
    picture = upright(place, (3.6, 0.15), (1.2, 3.6), side.yaw, Material.SIGN, paint, seed)
    return [picture, *(post(side.at(along + step, out), 0.12, 1.2) for step in (-1.4, 1.4))]


def _bin(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    return [post(side.at(along, out), 0.45, 1.0, pick(generator, BINS))]


def _hydrant(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    return [post(side.at(along, out), 0.28, 0.75, RED)]


def _post_box(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    return [post(side.at(along, out), 0.5, 1.5, pick(generator, POST_BOXES))]


def _sign(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    """A traffic sign that faces the traffic along the road."""
    low, width, height = (
        generator.uniform(1.9, 2.3),
        generator.uniform(0.55, 0.8),
        generator.uniform(0.55, 0.9),
    )
    place, paint, seed = side.at(along, out), pick(generator, PAINTS), new_seed(generator)
    plate = upright(place, (0.06, width), (low, low + height), side.yaw, Material.SIGN, paint, seed)
    return [post(place, 0.08, low), plate]


def _poster(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    """A small billboard across the pavement."""
    place, paint, seed = side.at(along, out), pick(generator, PAINTS), new_seed(generator)
    return [
        upright(place, (0.18, 0.9), (0.3, 2.2), side.yaw, Material.SIGN, paint, seed),
        post(place, 0.15, 0.3),
    ]


def _shelter(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    """A bus shelter: back, roof and an advertisement at its end."""
    paint, seed = pick(generator, PAINTS), new_seed(generator)
    back = upright(
        side.at(along, out + 0.8), (3.4, 0.08), (0.0, 2.25), side.yaw, Material.PLAIN, GLASS
    )
    roof = upright(
        side.at(along, out + 0.35), (3.6, 1.2), (2.25, 2.4), side.yaw, Material.PLAIN, DARK
    )
    place = side.at(along + 1.7, out + 0.35)
    return [
        back,
        roof,
        upright(place, (0.12, 1.0), (0.0, 2.25), side.yaw, Material.SIGN, paint, seed),
    ]


def _lamp(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    height, light = generator.uniform(*LAMP_HEIGHT), pick(generator, LIGHTS)
    head = upright(
        side.at(along, out - 0.5),
        (0.35, 1.1),
        (height, height + 0.18),
        side.yaw,
        Material.LAMP,
        light,
    )
    return [post(side.at(along, out), 0.14, height), head]


def _signal(side: Side, along: float, out: float, generator: np.random.Generator) -> list[Solid]:
    """A traffic light: a dark case with one glowing lamp that faces approaching traffic."""
    (x, y), low = side.at(along, out), 2.3
    toward = side.yaw + (math.pi if side.left < 0 else 0.0)
    glow = int(generator.integers(len(SIGNALS)))
    front, height = (
        (x + 0.16 * math.cos(toward), y + 0.16 * math.sin(toward)),
        low + 0.06 + 0.3 * glow,
    )
    case = upright((x, y), (0.28, 0.32), (low, low + 0.95), side.yaw, Material.PLAIN, DARK)
    light = upright(
        front, (0.06, 0.22), (height, height + 0.22), side.yaw, Material.LAMP, SIGNALS[glow]
    )
    return [post((x, y), 0.12, low), case, replace(light, kind=1)]


def _street_tree(
    side: Side, along: float, out: float, generator: np.random.Generator
) -> list[Solid]:
    return tree(side.at(along, out), generator.uniform(1.1, 1.9), generator)


# maker, metres along the road, share among the things, and whether it needs a free curb
ITEMS: tuple[tuple[Maker, float, float, bool], ...] = (
    (_bin, 0.5, 0.24, False),
    (_hydrant, 0.3, 0.12, False),
    (_post_box, 0.5, 0.1, False),
    (_sign, 0.8, 0.26, False),
    (_poster, 0.9, 0.1, True),
    (bench, 1.7, 0.12, False),
    (_shelter, 3.6, 0.06, True),
)


def furnish(
    pavements: Sequence[Side], network: Network, driven: Floats, stream: Sequence[int]
) -> tuple[list[Solid], list[Lamp]]:
    """Place things on every pavement, and their lights; `driven` has the points of all routes,
    `stream` is the seed.
    """
    nearest = cKDTree(driven)
    solids: list[Solid] = []
    lamps: list[Lamp] = []
    for side in pavements:
        generator = np.random.default_rng([*stream, side.number, 1 + int(side.left > 0)])
        wanted = _wishes(side, np.random.default_rng([*stream, side.number, 0]), generator)
        places = np.array([side.at(along, side.furniture) for along, _, _ in wanted])
        halves = np.array([half for _, half, _ in wanted])
        clear = network.off_other_roads(places, [side.number] * len(places), CORNER_ROOM + halves)
        clear &= nearest.query(places)[0] > ROUTE_ROOM + halves
        taken: list[Spot] = []
        for (along, half, maker), free in zip(wanted, clear, strict=True):
            if free and all(
                abs(along - other) > half + other_half + 0.4 for other, other_half in taken
            ):
                taken.append((along, half))
                solids += maker(side, along, side.furniture, generator)
                if maker is _lamp:
                    head = solids[-1]
                    lamps.append(Lamp(head.x, head.y, head.low, head.color))
    return solids, lamps


def _wishes(
    side: Side, common: np.random.Generator, generator: np.random.Generator
) -> list[tuple[float, float, Maker]]:
    """Return wanted things (along, half their extent) by priority; `common` is one random stream
    for both sides.
    """
    step, phase, signaled = (
        common.uniform(*LAMP_STEP),
        common.uniform(0, 8),
        common.random() < SIGNALED,
    )
    wishes: list[tuple[float, float, Maker]] = []
    if signaled:  # on the right of traffic that approaches the junction
        before = side.front + 2.0
        wishes.append((side.length - before if side.left < 0 else before, 0.2, _signal))
    start = phase + (step if side.left > 0 else 0.0)
    wishes += [(along, 0.1, _lamp) for along in np.arange(start, side.length, 2 * step).tolist()]
    if side.roomy and generator.random() < AVENUES:
        gap, start = generator.uniform(*TREE_STEP), generator.uniform(4, 9)
        wishes += [
            (along, 0.3, _street_tree) for along in np.arange(start, side.length, gap).tolist()
        ]
    shares = np.array([share for _, _, share, _ in ITEMS])
    for _ in range(int(side.length / ITEM_STEP)):
        maker, extent, _, free_curb = ITEMS[
            int(generator.choice(len(ITEMS), p=shares / shares.sum()))
        ]
        along = float(generator.uniform(2, side.length - 2))
        if side.roomy or not free_curb:
            wishes.append((along, extent / 2, maker))
    return wishes
