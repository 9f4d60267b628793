"""Build houses and gardens along the roads, and the pool of facades that look alike on purpose.

A house is one box whose yaw runs along its road, with the front to the right of the yaw. So two
houses of one design show the same face to the road, on either side of it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mappable_worlds.scene import Alias, Color, Material, Road, Shape, Solid
from mappable_worlds.street.pavements import bench, board, new_seed, pick, tree, upright
from mappable_worlds.street.plots import Plots
from mappable_worlds.street.roads import Side, sides

POOL_SIZE, POOL_SHARE = 5, 0.15
RETURN = 0.15  # how strongly a lack of pool houses raises the probability of the next one
STYLES = {"mixed": 0.3, "terrace": 0.45, "villas": 0.1, "blocks": 0.15}  # shares of the road sides
KINDS = 10  # number of kinds of facades
PATTERNS = 3  # designs per style that whole rows of houses follow
GAP_SHARE = 0.06  # probability of a garden before a house
SQUARES = 0.04  # share of the road sides with an open square
SQUARE = (26.0, 15.0)  # metres along the road, and away from it
TRY_STEP = 1.5  # metres to move on if a house does not fit
OVERHANG = 9.0  # metres that houses may extend past the ends of a road, if no other road is there
NARROWEST = 6.0

# brick reds, cream, gray stone, ochre, white and brown; then the lighter plaster of the second town
BRICK_TOWN: tuple[Color, ...] = (
    (0.35, 0.12, 0.08),
    (0.43, 0.18, 0.12),
    (0.28, 0.13, 0.09),
    (0.72, 0.62, 0.43),
    (0.38, 0.37, 0.34),
    (0.55, 0.38, 0.16),
    (0.77, 0.76, 0.72),
    (0.24, 0.15, 0.1),
)
PLASTER_TOWN: tuple[Color, ...] = (
    (0.42, 0.5, 0.57),
    (0.74, 0.6, 0.27),
    (0.64, 0.4, 0.34),
    (0.6, 0.5, 0.36),
    (0.44, 0.52, 0.37),
    (0.8, 0.79, 0.76),
    (0.17, 0.18, 0.2),
)
WALLS: tuple[Color, ...] = ((0.33, 0.14, 0.1), (0.4, 0.37, 0.32), (0.3, 0.2, 0.14))
FENCES: tuple[Color, ...] = ((0.2, 0.13, 0.08), (0.05, 0.06, 0.06), (0.6, 0.6, 0.57))


@dataclass(frozen=True)
class Design:
    """Everything that decides how a house looks, in metres."""

    frontage: float
    depth: float
    height: float
    roof: float
    color: Color
    seed: int
    kind: int
    group: str = ""  # group in the alias table, for houses of the pool


@dataclass
class Filling:
    """What was built: solids, the alias table, and the number of houses that face a road."""

    solids: list[Solid] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    houses: int = 0


def fill(
    roads: Sequence[Road], palettes: Sequence[Sequence[Color]], seeds: Sequence[int]
) -> Filling:
    """Build along both sides of every road; `palettes` has wall colors per road, `seeds` start the
    random streams.
    """
    plots, built = Plots(roads), Filling()
    pool = _pool(np.random.default_rng([*seeds, 0]))
    patterns = {
        (style, palette): [
            _design(style, palette, np.random.default_rng([*seeds, 3, number]))
            for number in range(PATTERNS)
        ]
        for style in STYLES
        for palette in {tuple(palette) for palette in palettes}
    }
    draws = np.random.default_rng([*seeds, 1])
    for side in sides(roads):
        plots.around(side)
        generator = np.random.default_rng([*seeds, 2, side.number, int(side.left > 0)])
        _build_side(side, plots, palettes[side.number], pool, patterns, built, generator, draws)
    return built


def _pool(generator: np.random.Generator) -> list[Design]:
    """Return five designs of different sizes and colors, which are used again and again."""
    frontages = generator.permutation(np.linspace(7.0, 12.0, POOL_SIZE))
    heights = generator.permutation(np.linspace(7.0, 15.0, POOL_SIZE))
    roofs = generator.permutation([0.0, 0.0, 2.0, 2.8, 3.5])
    colors = generator.permutation(len(BRICK_TOWN))
    return [
        Design(
            float(frontages[number]),
            10.0,
            float(heights[number]),
            float(roofs[number]),
            BRICK_TOWN[int(colors[number])],
            new_seed(generator),
            number,
            f"facade-{number + 1}",
        )
        for number in range(POOL_SIZE)
    ]


def _build_side(
    side: Side,
    plots: Plots,
    palette: Sequence[Color],
    pool: Sequence[Design],
    patterns: Mapping[tuple[str, tuple[Color, ...]], Sequence[Design]],
    built: Filling,
    generator: np.random.Generator,
    draws: np.random.Generator,
) -> None:
    style = str(generator.choice(list(STYLES), p=list(STYLES.values())))
    pattern = patterns[style, tuple(palette)][int(generator.integers(PATTERNS))]
    setback = generator.uniform(3.0, 4.5) if style == "villas" else generator.uniform(0.05, 0.3)
    if generator.random() < SQUARES and side.length > 2 * SQUARE[0]:
        _square(side, plots, built, generator)
    along, end = -OVERHANG, side.length + OVERHANG
    while along < end - NARROWEST:
        owed = POOL_SHARE * built.houses - len(built.aliases)
        if draws.random() < POOL_SHARE + RETURN * owed:
            design = pool[int(draws.integers(POOL_SIZE))]
        else:
            design = _design(style, palette, generator, pattern)
        if generator.random() < GAP_SHARE:
            along = _garden(side, along, plots, built, generator)
        spare = generator.uniform(2.0, 4.0) if style == "villas" else 0.0
        while along + design.frontage <= end:
            if _build_house(side, along, setback, design, plots, built):
                break
            smaller = replace(design, frontage=NARROWEST + 0.5)
            if not design.group and _build_house(side, along, setback, smaller, plots, built):
                design = smaller
                break
            along += TRY_STEP
        if style == "villas":
            _front_garden(side, along, design.frontage + spare, setback, plots, built, generator)
        along += design.frontage + spare


def _design(
    style: str,
    palette: Sequence[Color],
    generator: np.random.Generator,
    pattern: Design | None = None,
) -> Design:
    """Return an ordinary house. A row follows one pattern; only doors, curtains and signs (the
    seed) differ.
    """
    frontage, height = generator.uniform(6, 14), generator.uniform(6, 15)
    roof = generator.uniform(1.5, 4.0) if generator.random() < 0.6 else 0.0
    shade = generator.uniform(0.88, 1.12)
    depth, color, seed = generator.uniform(8, 12), pick(generator, palette), new_seed(generator)
    if pattern and style != "mixed":
        return replace(pattern, seed=seed)
    painted: Color = (
        min(1.0, color[0] * shade),
        min(1.0, color[1] * shade),
        min(1.0, color[2] * shade),
    )
    if style == "terrace":
        frontage, height, roof = 0.5 * frontage + 3, 0.5 * height + 3.5, max(roof, 1.5)
    if style == "villas":
        frontage, height = 0.5 * frontage + 5, 0.3 * height + 4.5
    if style == "blocks":
        frontage, height, roof = 0.4 * frontage + 10.4, 0.6 * height + 11, 0.0
    return Design(frontage, depth, height, roof, painted, seed, int(generator.integers(KINDS)))


def _build_house(
    side: Side, along: float, setback: float, design: Design, plots: Plots, built: Filling
) -> bool:
    middle, front = along + design.frontage / 2, side.front + setback
    place = side.at(middle, front + design.depth / 2)
    yaw = side.facing + math.pi / 2
    if not plots.take(place, (design.frontage, design.depth), yaw):
        return False
    size = (design.frontage, design.depth)
    house = upright(
        place, size, (0.0, design.height), yaw, Material.FACADE, design.color, design.seed
    )
    built.solids.append(replace(house, roof=design.roof, kind=design.kind))
    built.houses += 1
    if design.group:
        built.aliases.append(Alias(design.group, *side.at(middle, front), 0.0, side.facing))
    return True


def _garden(
    side: Side, along: float, plots: Plots, built: Filling, generator: np.random.Generator
) -> float:
    """Build a gap with a wall or a fence in front and trees behind, if there is space; return where
    to continue.
    """
    length = generator.uniform(5, 9)
    if not _boundary(side, along, length, side.front + 0.15, plots, built, generator):
        return along
    for _ in range(int(generator.integers(1, 3))):
        place = side.at(
            along + generator.uniform(1, length - 1), side.front + generator.uniform(2.5, 7)
        )
        if plots.take(place, (1.0, 1.0), side.yaw):
            built.solids += tree(place, generator.uniform(1.4, 2.6), generator)
    return along + length


def _boundary(
    side: Side,
    along: float,
    length: float,
    out: float,
    plots: Plots,
    built: Filling,
    generator: np.random.Generator,
) -> bool:
    """Build a garden wall or a fence, `length` metres along the road; return whether there was
    space.
    """
    kind, height = generator.random(), generator.uniform(0.9, 1.9)
    place = side.at(along + length / 2, out)
    material, colors = (Material.BRICK, WALLS) if kind < 0.5 else (Material.FENCE, FENCES)
    color, seed = pick(generator, colors), new_seed(generator)
    if not plots.take(place, (length, 0.25), side.yaw):
        return False
    built.solids.append(
        upright(place, (length, 0.2), (0.0, height), side.yaw, material, color, seed)
    )
    return True


def _front_garden(
    side: Side,
    along: float,
    length: float,
    setback: float,
    plots: Plots,
    built: Filling,
    generator: np.random.Generator,
) -> None:
    """Build the front garden of a villa: a low boundary with an entrance, and perhaps a tree."""
    _boundary(side, along, length - 1.4, side.front + 0.15, plots, built, generator)
    place = side.at(along + length - 2.2, side.front + setback / 2)
    if generator.random() < 0.5 and plots.take(place, (0.8, 0.8), side.yaw):
        built.solids += tree(place, generator.uniform(0.9, 1.4), generator)


def _square(side: Side, plots: Plots, built: Filling, generator: np.random.Generator) -> None:
    """Build an open square halfway along the road: trees, benches, a billboard and a fence at the
    back.
    """
    length, depth = SQUARE
    start = (side.length - length) / 2
    if not plots.take(
        side.at(side.length / 2, side.front + depth / 2 + 0.05), (length, depth), side.yaw
    ):
        return
    for along in np.arange(start + 3, start + length - 2, 6.5):
        place = side.at(float(along), side.front + generator.uniform(3, depth - 4))
        built.solids += tree(place, generator.uniform(1.6, 2.6), generator)
    for along in (start + 6.5, start + length - 7):
        built.solids += bench(side, along, side.front + 1.6, generator)
    built.solids += board(side, start + length / 2, side.front + depth - 2.0, generator)
    place, heights = (
        side.at(side.length / 2, side.front + depth - 0.2),
        (0.0, generator.uniform(1.0, 1.6)),
    )
    built.solids.append(
        upright(
            place,
            (length, 0.15),
            heights,
            side.yaw,
            Material.FENCE,
            pick(generator, FENCES),
            new_seed(generator),
        )
    )


def sunk(solid: Solid, metres: float) -> Solid:
    """Return the solid with foundations, for sloping ground; solids with a small footprint need
    none.
    """
    shallow = solid.low != 0.0 or solid.shape is not Shape.BOX
    return solid if shallow else replace(solid, low=-metres)
