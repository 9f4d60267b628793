"""Build the street world: a town of jittered blocks, and a second town far away.

Route "main" is for the map. "wing" has streets next to "main" that "main" never enters. "region-b"
is the second town. "leaving" begins on "main" and leaves the map. With hills, there is one small
town, with "main" only.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from mappable.arrays import Floats
from mappable_worlds.scene import Alias, Deck, Lamp, Material, Road, Route, Scene, Solid, World
from mappable_worlds.street.houses import BRICK_TOWN, PLASTER_TOWN, fill, sunk
from mappable_worlds.street.pavements import furnish
from mappable_worlds.street.roads import ROOMY, STEP, Network, drive, ground_height, sides

Node = tuple[int, int]  # column and row of a junction

COLUMN_STEP, ROW_STEP = (72.0, 90.0), (68.0, 84.0)  # metres between streets
JITTER = 9.0  # metres by which a junction may deviate from its grid
WIDTH = (7.0, 11.0)
# On narrow roads, cars park half on the pavement.
PAVEMENT, NARROW_PAVEMENT = (2.0, 3.5), (2.8, 3.5)
DROPPED = 0.18  # share of the streets without a route that are removed, so that blocks differ
AWAY = 360.0  # metres between the two towns
BEYOND = 700.0  # metres of open ground around the towns
MARGIN = 12.0  # metres from a junction where a route begins or ends
MAIN_LENGTH = 1260.0
WING_ROOM = 30.0  # metres from "main" at which "wing" begins
LEAVING_LEAD = 100.0  # metres that "leaving" shares with "main"
# Metres that walls reach into sloping ground: more than the ground rises over half a house.
FOUNDATION = 0.8

# columns count from the start of "main"; the town has two more columns in the west and one more in
# the east
TOWN = (range(-2, 6), range(5))
MAIN: tuple[Node, ...] = (
    *((0, 0), (1, 0), (1, 1), (2, 1), (3, 1), (3, 2), (2, 2), (1, 2), (1, 1), (2, 1), (3, 1)),
    *((4, 1), (4, 2), (4, 3), (3, 3), (3, 4), (2, 4), (2, 3), (1, 3), (0, 3)),
)
WING: tuple[Node, ...] = ((4, 1), (5, 1), (5, 2), (5, 3))
LEAVING: tuple[Node, ...] = ((3, 2), (2, 2), (1, 2), (0, 2), (-1, 2), (-2, 2), (-2, 1), (-2, 0))
SECOND_TOWN = (range(5), range(3))
REGION_B: tuple[Node, ...] = ((0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 1), (4, 1))
HILL_TOWN = (range(4), range(3))
HILL_MAIN: tuple[Node, ...] = (
    (0, 0),
    (1, 0),
    (2, 0),
    (3, 0),
    (3, 1),
    (2, 1),
    (1, 1),
    (1, 2),
    (0, 2),
)


class _Town:
    """Junctions on a jittered, bent grid, and the streets between neighbors.

    Streets of one row or column have the same width. Streets that no route needs may be missing,
    but every junction keeps at least two streets.
    """

    def __init__(
        self, grid: tuple[range, range], corner: tuple[float, float], stream: Sequence[int]
    ) -> None:
        columns, rows = grid
        self.generator = np.random.default_rng([*stream, 0])
        across = corner[0] + np.concatenate(
            [[0.0], np.cumsum(self.generator.uniform(*COLUMN_STEP, len(columns) - 1))]
        )
        up = corner[1] + np.concatenate(
            [[0.0], np.cumsum(self.generator.uniform(*ROW_STEP, len(rows) - 1))]
        )
        bend, lean = self.generator.uniform(0, 2 * math.pi, 2)
        self.nodes: dict[Node, tuple[float, float]] = {}
        for x, column in zip(across, columns, strict=True):
            for y, row in zip(up, rows, strict=True):
                shift = self.generator.uniform(-JITTER, JITTER, 2)
                bent = 8 * math.sin(y / 50 + lean), 12 * math.sin(x / 80 + bend)
                self.nodes[column, row] = (
                    float(x + shift[0] + bent[0]),
                    float(y + shift[1] + bent[1]),
                )
        self.widths = {("column", column): self._profile() for column in columns}
        self.widths |= {("row", row): self._profile() for row in rows}

    def _profile(self) -> tuple[float, float]:
        width = self.generator.uniform(*WIDTH)
        return width, self.generator.uniform(*(PAVEMENT if width >= ROOMY else NARROW_PAVEMENT))

    def profile(self, one: Node, two: Node) -> tuple[float, float]:
        """Return the width of the street between two junctions, and of its pavements."""
        return self.widths["column", one[0]] if one[0] == two[0] else self.widths["row", one[1]]

    def roads(self, routes: Sequence[Sequence[Node]]) -> list[Road]:
        streets = [
            (node, other)
            for node in self.nodes
            for other in ((node[0] + 1, node[1]), (node[0], node[1] + 1))
            if other in self.nodes
        ]
        needed = {frozenset(pair) for route in routes for pair in pairwise(route)}
        degree = {node: sum(node in street for street in streets) for node in self.nodes}
        kept = []
        for one, two in streets:
            left_out = self.generator.random() < DROPPED and frozenset((one, two)) not in needed
            if left_out and min(degree[one], degree[two]) > 2:
                degree[one], degree[two] = degree[one] - 1, degree[two] - 1
            else:
                kept.append((one, two))
        return [
            Road(
                self.nodes[one],
                self.nodes[two],
                *self.profile(one, two),
                seed=int(self.generator.integers(1 << 30)),
            )
            for one, two in kept
        ]

    def drive(self, route: Sequence[Node]) -> Floats:
        """Return the driven line from shortly after the first junction to shortly before the last."""
        widths = [self.profile(one, two)[0] for one, two in pairwise(route)]
        margin = round(MARGIN / STEP)
        return drive([self.nodes[node] for node in route], widths)[margin:-margin]


def build(seed: int, *, hills: bool = False) -> World:
    """Build the town of this seed."""
    return _hill_world(seed) if hills else _flat_world(seed)


def _flat_world(seed: int) -> World:
    first = _Town(TOWN, (0.0, 0.0), [seed, 0])
    roads = first.roads([MAIN, WING, LEAVING])
    east = max(x for x, _ in first.nodes.values())
    second = _Town(SECOND_TOWN, (east + AWAY, 40.0), [seed, 1])
    more = second.roads([REGION_B])
    main = first.drive(MAIN)[: round(MAIN_LENGTH / STEP) + 1]
    known = cKDTree(main)
    wing = first.drive(WING)
    wing = wing[np.argmax(known.query(wing)[0] >= WING_ROOM) :]
    leaving = first.drive(LEAVING)
    parting = int(np.argmax(known.query(leaving)[0] > STEP))
    leaving = leaving[max(0, parting - round(LEAVING_LEAD / STEP)) :]
    lines = {"main": main, "wing": wing, "region-b": second.drive(REGION_B), "leaving": leaving}
    corners = np.array([*first.nodes.values(), *second.nodes.values()])
    low, high = corners.min(axis=0) - BEYOND, corners.max(axis=0) + BEYOND
    (x, y), (length, width) = ((low + high) / 2).tolist(), (high - low).tolist()
    decks = [Deck(x, y, length, width, 0.0, Material.ASPHALT)]
    palettes = [BRICK_TOWN] * len(roads) + [PLASTER_TOWN] * len(more)
    return _furnished(roads + more, palettes, lines, decks, seed)


def _hill_world(seed: int) -> World:
    """Build a small town on two levels, joined by a ramp that rises toward the east."""
    town = _Town(HILL_TOWN, (0.0, 0.0), [seed, 2])
    roads = town.roads([HILL_MAIN])
    slope, rise = np.random.default_rng([seed, 3]).uniform((0.065, 9.0), (0.085, 10.0))
    middle = float(np.mean([x for x, _ in town.nodes.values()]))
    half, reach = rise / slope / 2, 2 * BEYOND
    decks = [
        Deck(middle - half - reach / 2, 0.0, reach, 2 * reach, 0.0, Material.ASPHALT),
        Deck(
            middle,
            0.0,
            2 * half,
            2 * reach,
            rise / 2,
            Material.ASPHALT,
            slope=(rise / half / 2, 0.0),
        ),
        Deck(middle + half + reach / 2, 0.0, reach, 2 * reach, rise, Material.ASPHALT),
    ]
    return _furnished(
        roads, [BRICK_TOWN] * len(roads), {"main": town.drive(HILL_MAIN)}, decks, seed
    )


def _furnished(
    roads: Sequence[Road],
    palettes: Sequence[Sequence[tuple[float, float, float]]],
    lines: dict[str, Floats],
    decks: Sequence[Deck],
    seed: int,
) -> World:
    """Return a world with the given roads and routes, and everything along them, on the ground of
    the given decks.
    """
    built = fill(roads, palettes, [seed, 4])
    things, lamps = furnish(
        sides(roads), Network(roads), np.concatenate(list(lines.values())), [seed, 5]
    )
    lamps = [
        replace(lamp, z=lamp.z + height)
        for lamp, height in zip(lamps, _heights(lamps, decks), strict=True)
    ]
    scene = Scene(_on_ground(built.solids + things, decks), decks, roads, lamps)
    routes = {name: Route(points, ground_height(decks, points)) for name, points in lines.items()}
    both = zip(built.aliases, _heights(built.aliases, decks), strict=True)
    return World(scene, routes, [replace(alias, z=height) for alias, height in both])


def _on_ground(solids: Sequence[Solid], decks: Sequence[Deck]) -> list[Solid]:
    if len(decks) == 1:
        return list(solids)
    founded = [sunk(solid, FOUNDATION) for solid in solids]
    return [
        replace(solid, low=solid.low + height, high=solid.high + height)
        for solid, height in zip(founded, _heights(founded, decks), strict=True)
    ]


def _heights(things: Sequence[Solid | Lamp | Alias], decks: Sequence[Deck]) -> list[float]:
    """Return the height of the ground below each thing."""
    heights: list[float] = ground_height(
        decks, np.array([(one.x, one.y) for one in things])
    ).tolist()
    return heights
