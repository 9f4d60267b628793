"""Build the small house of two stories, joined by a ramp of two flights."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mappable_worlds.rooms.arranging import EYE
from mappable_worlds.rooms.floorplan import CLEAR, SILL, STORY, WALL, Door, Room, Spot, box
from mappable_worlds.rooms.plans import HOUSE, WIDE, Plan, tour
from mappable_worlds.scene import Deck, Material, Route, Solid

# metres: two flights of a slope of 0.147.
RAMP_RUN, RAMP_FOOT, HALL_LONG, HALL_HALF = 11.6, 2.5, 17.2, 3.0
# Metres along the corridor: three rooms on one side and two on the other.
WIDTHS = (6.4, 6.8, 6.8, 9.0, 11.0)


def two_stories(
    plan: Plan, generator: np.random.Generator, seeds: Sequence[int]
) -> Mapping[str, Route]:
    """Plan rooms along a corridor, a second story above it, and a hall at its end with a ramp of
    two flights.
    """
    middle, long = WIDE / 2, sum(WIDTHS[:3])
    kinds = generator.permutation(
        [
            "lab",
            "kitchen",
            "meeting room",
            "library",
            "lounge",
            "shared office",
            "workshop",
            "classroom",
        ]
    )
    points: list[tuple[float, float, float]] = []
    for level, z in enumerate((0.0, STORY)):
        about = Room("", "main", 0, 0, 0, 0, 0, seeds[1 + level], HOUSE, z)
        plan.corridor(-long, -middle, 0, middle, 0.0, about)
        some = [
            (str(kind), seeds[10 + 4 * level + number])
            for number, kind in enumerate(kinds[4 * level :][:4])
        ]
        some.insert(1, ("office", seeds[3]))  # the same room, one above the other
        sizes = [(kind, width, own) for (kind, own), width in zip(some, WIDTHS, strict=True)]
        ways = plan.row(sizes[:3], Spot(-long, middle, z), 6.4, middle, about)
        ways += plan.row(sizes[3:], Spot(0, -middle, z, math.pi), 6.4, middle, about)
        ways = sorted(ways, key=lambda way: float(way[0, 0]), reverse=bool(level))
        level_tour = tour([(-long + 1.0, 0.0), *ways] if level == 0 else ways)
        if level:
            points += _up_the_ramp()
        points += [(float(x), float(y), z) for x, y in level_tour.points]
    plan.rooms.append(
        Room(
            "ramp",
            "main",
            0,
            -HALL_HALF,
            HALL_LONG,
            HALL_HALF,
            0.0,
            seeds[0],
            HOUSE,
            0.0,
            STORY + CLEAR,
        )
    )
    for y, z in ((-0.7, 0.0), (0.7, STORY)):
        plan.doors.append(Door(0.0, y, 0.0, z, seed=seeds[4]))
    line = np.array(points)
    return {"main": Route(line[:, :2], line[:, 2])}


def _up_the_ramp() -> list[tuple[float, float, float]]:
    """Return the path from the end of the lower corridor to the end of the upper one."""
    half, foot, top = HALL_HALF / 2, RAMP_FOOT, RAMP_FOOT + RAMP_RUN
    up = [
        (-1.6, 0.0, 0.0),
        (-0.8, -0.7, 0.0),
        (1.0, -0.7, 0.0),
        (2.0, -half, 0.0),
        (foot, -half, 0.0),
    ]
    up += [(top, -half, STORY / 2), (top + 1.4, -half, STORY / 2)]
    return up + [(x, -y, STORY - z) for x, y, z in up[::-1]]


def ramp(seed: int) -> tuple[list[Solid], list[Deck]]:
    """Build two parallel flights with a wall between them, a landing at the far end, and one above
    the start.
    """
    slope, half, inner = STORY / 2 / RAMP_RUN, HALL_HALF / 2, HALL_HALF - 0.1
    floor = (Material.TILES, (0.42, 0.4, 0.38), seed)
    x, end = RAMP_FOOT + RAMP_RUN / 2, RAMP_FOOT + RAMP_RUN
    decks = [
        Deck(x, -half, RAMP_RUN, inner, STORY / 4, *floor, slope=(slope, 0.0)),
        Deck(x, half, RAMP_RUN, inner, STORY * 3 / 4, *floor, slope=(-slope, 0.0)),
        Deck((end + HALL_LONG) / 2, 0, HALL_LONG - end, 2 * HALL_HALF, STORY / 2, *floor),
        Deck(RAMP_FOOT / 2, half, RAMP_FOOT, inner, STORY, *floor),
    ]
    solids, pieces = [], 10
    paint = (0.62, 0.6, 0.55)
    for number in range(pieces):
        start = RAMP_FOOT + RAMP_RUN * number / pieces
        high = STORY - slope * RAMP_RUN * (number + 0.5) / pieces + 0.9
        solids.append(
            box(
                start + RAMP_RUN / pieces / 2,
                0,
                RAMP_RUN / pieces,
                0.1,
                0,
                high,
                Material.WALL,
                paint,
                seed,
            )
        )
    solids.append(
        box(
            RAMP_FOOT / 2 + 0.06,
            0.02,
            RAMP_FOOT - 0.12,
            0.06,
            STORY - 0.1,
            STORY + 0.9,
            Material.WOOD,
            (0.3, 0.2, 0.1),
            seed,
        )
    )
    solids.append(box(RAMP_FOOT, half, 0.1, inner, 0, STORY - 0.02, Material.WALL, paint, seed))
    for number, spot in enumerate(_picture_spots(slope, end)):
        generator = np.random.default_rng([seed, 5, number])
        wide, high, red, green, blue = generator.uniform(
            [0.5, 0.45, 0.05, 0.05, 0.05], [1.3, 0.9, 0.8, 0.8, 0.8]
        ).tolist()
        picture = box(
            0,
            0.015,
            wide,
            0.03,
            -high / 2,
            high / 2,
            Material.PICTURE,
            (red, green, blue),
            seed + number,
        )
        solids.append(spot.put(picture))
    return solids, decks


def _picture_spots(slope: float, end: float) -> list[Spot]:
    """Return spots along both flights and at their far end, at eye height."""
    spots, wall = [], HALL_HALF - WALL
    for x in np.arange(RAMP_FOOT + 0.8, HALL_LONG - 0.9, 1.9).tolist():
        rise = slope * (min(x, end) - RAMP_FOOT)
        spots.append(Spot(x, -wall, rise + EYE, 0.0))
        if rise > EYE + 0.5 - SILL:  # windows are farther up
            spots.append(Spot(x, wall, STORY - rise + EYE, math.pi))
    return spots + [
        Spot(HALL_LONG - WALL, y, STORY / 2 + EYE, math.pi / 2) for y in (-1.6, 0.1, 1.7)
    ]
