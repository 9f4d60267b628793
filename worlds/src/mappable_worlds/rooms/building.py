"""Build the indoor world: an office building with a wing and a separate hall, and a second building."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mappable.arrays import Floats
from mappable_worlds.rooms.arranging import Print
from mappable_worlds.rooms.floorplan import SEEDS, Building, Door, Room, Spot, door_solids, shell
from mappable_worlds.rooms.furnishing import furnish
from mappable_worlds.rooms.plans import HOUSE, SCHOOL, WIDE, Plan, Size, tour
from mappable_worlds.rooms.stories import ramp, two_stories
from mappable_worlds.scene import Alias, Deck, Lamp, Opening, Route, Scene, Solid

PRINTS = 5  # pictures that hang in more than one place


def build(seed: int, *, stories: bool = False) -> Building:
    """Build the indoor world of a seed; with `stories`, the small one of two stories, which has the
    route "main" only.

    Route "main" goes through all rooms of the main part. "wing" and "region-b" share no room with
    it. "leaving" starts in the main corridor and goes where no other route goes.
    """
    generator = np.random.default_rng([seed, 10])
    seeds = generator.integers(1, SEEDS, 64).tolist()
    plan = Plan()
    routes = (
        two_stories(plan, generator, seeds) if stories else _office_building(plan, generator, seeds)
    )
    prints = _prints(np.random.default_rng([seed, 11]))
    solids: list[Solid] = []
    decks: list[Deck] = []
    lamps: list[Lamp] = []
    openings: list[Opening] = []
    loose = list(plan.lanes)
    aliases = _look_alikes(plan.rooms)
    for room in plan.rooms:
        some_solids, some_decks, some_lamps, some_openings = shell(room, plan.rooms, plan.doors)
        ways = [_on_floor(route, room) for route in routes.values()]
        inside = furnish(
            room, plan.rooms, plan.doors, [way for way in ways if len(way) > 1], prints
        )
        solids += some_solids + inside.solids
        decks, lamps, openings = decks + some_decks, lamps + some_lamps, openings + some_openings
        loose, aliases = loose + inside.loose, aliases + inside.aliases
    for door in plan.doors:
        solids += door_solids(door)
    if stories:
        ramp_solids, ramp_decks = ramp(seeds[0])
        solids, decks = solids + ramp_solids, decks + ramp_decks
    scene = Scene(solids, decks, (), lamps, openings, indoors=True)
    return Building(scene, routes, _several(aliases), plan.rooms, plan.doors, loose)


def _office_building(
    plan: Plan, generator: np.random.Generator, seeds: Sequence[int]
) -> Mapping[str, Route]:
    """Plan an L of corridors with rooms on all sides, the wing at its end, the hall before its
    start, and region B.
    """
    quarter, middle = math.pi / 2, WIDE / 2
    main = Room("", "main", 0, 0, 0, 0, 0, seeds[0], HOUSE)
    twin = ("office", 6.0, seeds[1])
    kitchen, meeting, lab = generator.permutation(3)
    south: list[Size] = [
        ("kitchen", 5.6, seeds[2]),
        ("meeting room", 7.2, seeds[3]),
        ("lab", 7.8, seeds[4]),
    ]
    south = [south[kitchen], twin, south[meeting], twin, south[lab]]
    long = sum(size[1] for size in south)
    corner, up = long - WIDE, 12.4  # start of the second corridor, and its length
    north: list[Size] = [
        ("library", 7.6, seeds[5]),
        ("lounge", 6.4, seeds[6]),
        ("printer room", 3.8, seeds[7]),
    ]
    north = [north[number] for number in generator.permutation(3)]
    north.append(("shared office", corner - 7.0 - sum(size[1] for size in north), seeds[8]))
    plan.corridor(0, 0, long, WIDE, 0.0, main)
    second = Room("", "main", 0, 0, 0, 0, 0, seeds[9], HOUSE)
    plan.corridor(corner, WIDE, long, WIDE + up, quarter, second)
    plan.doors.append(Door(corner + middle, WIDE, quarter, width=WIDE, arch=True))
    down = plan.row(south[::-1], Spot(long, 0, 0, math.pi), 7.4, middle, main)[::-1]
    above = plan.row(north, Spot(0, WIDE), 6.8, middle, main)
    right = plan.row(
        [("office", 7.0, seeds[11]), ("workshop", up + WIDE - 7.0, seeds[10])],
        Spot(long, WIDE + up, 0, -quarter),
        6.8,
        middle,
        main,
    )[::-1]
    left = plan.row(
        [("archive", 6.2, seeds[12]), ("classroom", up - 6.2, seeds[13])],
        Spot(corner, WIDE, 0, quarter),
        7.0,
        middle,
        main,
    )
    arm = sorted([*right, *left], key=lambda way: float(way[0, 1]))
    bend = (corner + middle, middle)
    begin = (min(way[0, 0] for way in (*down, *above)) - 1.0, middle)
    routes = {"main": tour([begin, *down, bend, *arm, bend, *above[::-1]])}

    wing = Room("", "wing", 0, 0, 0, 0, 0, seeds[20], HOUSE)
    edge, beyond = WIDE + up, 10.4
    plan.corridor(corner, edge, long, edge + beyond, quarter, wing)
    plan.doors.append(
        Door(corner + middle, edge, quarter, opened=0.0, color=HOUSE.doors[1], seed=seeds[21])
    )
    ways = plan.row(
        [("lab", beyond / 2, seeds[22]), ("shared office", beyond / 2, seeds[23])],
        Spot(long, edge + beyond, 0, -quarter),
        6.8,
        middle,
        wing,
    )
    ways += plan.row(
        [("meeting room", beyond, seeds[24])], Spot(corner, edge, 0, quarter), 7.0, middle, wing
    )
    routes["wing"] = tour(
        [(corner + middle, edge + 2.2), *sorted(ways, key=lambda way: float(way[0, 1]))]
    )

    hall = Room("hall", "leaving", -11.0, -4.5, 0.0, 7.4, math.pi, seeds[30], HOUSE)
    plan.rooms.append(hall)
    plan.doors.append(
        Door(0.0, middle, math.pi, opened=math.radians(100), color=HOUSE.doors[1], seed=seeds[31])
    )
    gallery = plan.row([("library", 8.6, seeds[32])], Spot(-11.0, 7.4), 6.6, 7.4 - middle, hall)
    cafe = plan.row([("kitchen", 8.0, seeds[33])], Spot(-11.0, -4.5, 0, quarter), 7.4, 5.5, hall)
    routes["leaving"] = tour([(12.0, middle), *gallery, *cafe])

    other = Room("", "region-b", 0, 0, 0, 0, 0, seeds[40], SCHOOL)
    kinds = [
        ("classroom", 7.5),
        ("library", 7.0),
        ("lounge", 6.5),
        ("lab", 7.2),
        ("office", 5.6),
        ("workshop", 6.8),
    ]
    order = generator.permutation(len(kinds))
    sizes = [(*kinds[number], seeds[41 + number]) for number in order]
    x, y, wide = 112.0, 64.0, 3.0
    lengths = [sum(size[1] for size in some) for some in (sizes[:3], sizes[3:])]
    plan.corridor(x, y, x + wide, y + max(lengths), quarter, other)
    ways = plan.row(sizes[:3], Spot(x, y, 0, quarter), 6.2, wide / 2, other)
    ways += plan.row(sizes[3:], Spot(x + wide, y + lengths[1], 0, -quarter), 6.6, wide / 2, other)
    routes["region-b"] = tour(
        [(x + wide / 2, y + 1.2), *sorted(ways, key=lambda way: float(way[0, 1]))]
    )
    return routes


def _on_floor(route: Route, room: Room) -> Floats:
    """Return the part of a route on the story of a room."""
    return route.points[np.abs(route.z - room.z) < 0.1]


def _prints(generator: np.random.Generator) -> list[Print]:
    found = []
    for number in range(PRINTS):
        wide, high, red, green, blue = generator.uniform(
            [0.6, 0.5, 0.1, 0.1, 0.1], [1.2, 0.9, 0.8, 0.8, 0.8]
        ).tolist()
        found.append(
            Print(
                f"picture-{number + 1}",
                wide,
                high,
                (red, green, blue),
                int(generator.integers(1, SEEDS)),
            )
        )
    return found


def _look_alikes(rooms: Sequence[Room]) -> list[Alias]:
    """Return the rooms that are copies of each other, which have the same kind and seed."""
    groups: dict[tuple[str, int], list[Room]] = {}
    for room in rooms:
        if room.kind != "corridor":
            groups.setdefault((room.kind, room.seed), []).append(room)
    copies = [group for group in groups.values() if len(group) > 1]
    return [
        Alias(f"room-{number}", *room.middle, room.z, room.inward)
        for number, group in enumerate(copies, 1)
        for room in group
    ]


def _several(aliases: Sequence[Alias]) -> list[Alias]:
    """Keep the aliases whose group has more than one member."""
    groups = [alias.group for alias in aliases]
    return [alias for alias in aliases if groups.count(alias.group) > 1]
