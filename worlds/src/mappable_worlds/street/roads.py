"""Geometry of the roads of a street world: sides, curb lines, lanes, and the height of the ground.

Traffic drives on the right. `along` is metres from the start of a road, and `out` is metres from
its middle line toward a side.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mappable.arrays import Bools, Floats, path_length
from mappable_worlds.scene import Deck, Road

LANE = 1.5  # metres between the middle of a road and the driven line
STEP = 0.5  # metres between the points of a route
PARKED_WIDTH = 2.0  # metres of carriageway that a parked car takes if there is space for it
PASSING = 1.4  # metres that parked cars leave free next to the driven line
# Narrower roads have cars parked half on the pavement.
ROOMY = 2 * (LANE + PASSING + PARKED_WIDTH) - 0.4
# metres; a bend turns by less than BEND.
RIGHT_RADIUS, LEFT_RADIUS, BEND_RADIUS = (4.0, 7.0), 8.0, 25.0
BEND = math.radians(25)
CURB_ROOM = 0.5  # metres between the driven line of a right turn and the corner of the curb


@dataclass(frozen=True)
class Side:
    """One side of a road; `left` is +1 for the left side, seen from the start of the road, and -1
    for the right.
    """

    road: Road
    number: int
    left: int

    @property
    def length(self) -> float:
        return math.dist(self.road.start, self.road.end)

    @property
    def yaw(self) -> float:
        """Return the direction from the start of the road to its end."""
        return math.atan2(
            self.road.end[1] - self.road.start[1], self.road.end[0] - self.road.start[0]
        )

    @property
    def facing(self) -> float:
        """Return the direction in which a house on this side faces the road."""
        return self.yaw - self.left * math.pi / 2

    @property
    def curb(self) -> float:
        return self.road.width / 2

    @property
    def front(self) -> float:
        """Return how far out the pavement ends."""
        return self.curb + self.road.pavement

    @property
    def parking(self) -> float:
        """Return how far out the near sides of parked vehicles are."""
        return max(LANE + PASSING, self.curb - PARKED_WIDTH)

    @property
    def roomy(self) -> bool:
        """Return True if parked cars leave the pavement free, so that trees and poles stand at the
        curb.
        """
        return self.road.width >= ROOMY

    @property
    def furniture(self) -> float:
        """Return how far out lamp posts and bins stand: at the curb, or along the houses if cars
        need the curb.
        """
        return self.curb + 0.5 if self.roomy else self.front - 0.35

    @property
    def walking(self) -> float:
        """Return how far out people walk: past lamp posts and bins, or between these and the parked
        cars.
        """
        return self.front - (0.65 if self.roomy else 0.95)

    def at(self, along: float, out: float) -> tuple[float, float]:
        """Return the point (x, y) at these metres."""
        cosine, sine = math.cos(self.yaw), math.sin(self.yaw)
        shift = self.left * out
        return self.road.start[0] + cosine * along - sine * shift, self.road.start[
            1
        ] + sine * along + cosine * shift


def sides(roads: Sequence[Road]) -> list[Side]:
    """Return both sides of every road, the left one first."""
    return [Side(road, number, left) for number, road in enumerate(roads) for left in (1, -1)]


class Network:
    """All roads, to measure the distance of points from carriageways."""

    def __init__(self, roads: Sequence[Road]) -> None:
        self.start = np.array([road.start for road in roads])
        self.vector = np.array([road.end for road in roads]) - self.start
        self.squared = (self.vector**2).sum(axis=1)
        self.half = np.array([road.width for road in roads]) / 2
        self.front = self.half + np.array([road.pavement for road in roads])

    def distance(self, points: Floats) -> Floats:
        """Return metres (n, roads) from each point (n, 2) to the middle line of each road."""
        offset = points[:, None] - self.start
        share = np.clip((offset * self.vector).sum(axis=2) / self.squared, 0.0, 1.0)
        offset = offset - share[..., None] * self.vector
        metres: Floats = np.sqrt((offset**2).sum(axis=2))
        return metres

    def off_other_roads(self, points: Floats, own: Sequence[int], room: float | Floats) -> Bools:
        """Return True for points at least `room` metres from the carriageways of all roads except
        their own.
        """
        outside = self.distance(points) - self.half
        outside[np.arange(len(points)), list(own)] = np.inf
        clear: Bools = outside.min(axis=1) >= room
        return clear


def drive(nodes: Sequence[tuple[float, float]], widths: Sequence[float]) -> Floats:
    """Return the driven line through `nodes`, with road `widths` between them: points (n, 2), 0.5 m
    apart.

    Corners are arcs. A right turn is as wide as the curb allows, so that no wheel touches the
    pavement.
    """
    middles = np.array(nodes)
    steps = np.diff(middles, axis=0)
    ahead = steps / np.linalg.norm(steps, axis=1, keepdims=True)
    right = np.stack([ahead[:, 1], -ahead[:, 0]], axis=1)
    line = [middles[:1] + LANE * right[:1]]
    for number, (before, after) in enumerate(pairwise(ahead)):
        turn = math.atan2(before[0] * after[1] - before[1] * after[0], float(before @ after))
        bisector = right[number] + right[number + 1]
        corner = middles[number + 1] + 2 * LANE * bisector / float(bisector @ bisector)
        radius = _radius(turn, min(widths[number], widths[number + 1]) / 2)
        center = (
            corner
            - before * radius * math.tan(abs(turn) / 2)
            + math.copysign(radius, -turn) * right[number]
        )
        first = math.atan2(right[number][1], right[number][0]) + (0.0 if turn > 0 else math.pi)
        angles = first + turn * np.linspace(0, 1, 2 + int(abs(turn) * radius / 0.1))
        line.append(center + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    line.append(middles[-1:] + LANE * right[-1:])
    return resample(np.concatenate(line), STEP)


def _radius(turn: float, half: float) -> float:
    """Return the radius of a turn in metres: free to the left (positive), limited by half the road
    to the right.
    """
    if abs(turn) < BEND:
        return BEND_RADIUS
    if turn > 0:
        return LEFT_RADIUS
    sine = math.sin((math.pi + turn) / 2)
    return min(max((half - LANE - CURB_ROOM * sine) / (1 - sine), RIGHT_RADIUS[0]), RIGHT_RADIUS[1])


def resample(points: Floats, step: float) -> Floats:
    """Return the same line with points `step` metres apart."""
    along = path_length(points)
    wanted = np.arange(0.0, along[-1], step)
    return np.stack(
        [np.interp(wanted, along, points[:, 0]), np.interp(wanted, along, points[:, 1])], axis=1
    )


def headings(points: Floats) -> Floats:
    """Return the direction of a line at each of its points, without jumps by full turns."""
    steps = np.gradient(points, axis=0)
    return np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))


def ground_height(decks: Iterable[Deck], points: Floats) -> Floats:
    """Return the height of the ground below each point (n, 2); NaN outside the decks."""
    height = np.full(len(points), np.nan)
    for deck in decks:
        offset = points - (deck.x, deck.y)
        on = (np.abs(offset[:, 0]) <= deck.length / 2 + 1e-9) & (
            np.abs(offset[:, 1]) <= deck.width / 2 + 1e-9
        )
        height = np.where(on & np.isnan(height), deck.z + offset @ np.array(deck.slope), height)
    return height
