"""Track which ground of a street world is still free to build on."""

import math
from collections.abc import Sequence

import numpy as np

from mappable.arrays import Floats
from mappable_worlds.scene import Road
from mappable_worlds.street.roads import Network, Side

SIGHT = 45.0  # metres from a road within which something may block its houses


class Plots:
    """Ground that is taken: by roads with their pavements, and by what was built so far."""

    def __init__(self, roads: Sequence[Road]) -> None:
        self.roads = roads
        self.network = Network(roads)
        self.boxes: list[Floats] = []  # x, y, cosine and sine of yaw, half length, half width
        self.near_roads, self.near_boxes = self.network, np.zeros((0, 6))
        outline = np.linspace(-1, 1, 5)
        edge = np.ones(5)
        self.rim = np.concatenate(
            [
                np.stack(pair, axis=1)
                for pair in ((outline, edge), (outline, -edge), (edge, outline), (-edge, outline))
            ]
        )

    def around(self, side: Side) -> None:
        """From now on, check only what lies near this side, because nothing else can block it."""
        line = np.array([side.at(along, 0.0) for along in np.linspace(0, side.length, 9)])
        near = self.network.distance(line).min(axis=0) < SIGHT
        self.near_roads = Network(
            [road for road, close in zip(self.roads, near, strict=True) if close]
        )
        every = np.array(self.boxes).reshape(-1, 6)
        self.near_boxes = every[
            np.linalg.norm(every[:, :2] - line[4], axis=1) < SIGHT + side.length / 2
        ]

    def take(self, place: tuple[float, float], size: tuple[float, float], yaw: float) -> bool:
        """Take a rectangle of `size` (along yaw, across) if it is free; return whether it was."""
        mine = np.array([*place, math.cos(yaw), math.sin(yaw), size[0] / 2, size[1] / 2])
        if self._meets_another(mine) or self._meets_road(mine):
            return False
        self.boxes.append(mine)
        self.near_boxes = np.concatenate([self.near_boxes, mine[None]])
        return True

    def _meets_road(self, mine: Floats) -> bool:
        x, y, cosine, sine, length, width = mine
        along, across = self.rim[:, 0] * length, self.rim[:, 1] * width
        points = np.stack(
            [x + along * cosine - across * sine, y + along * sine + across * cosine], axis=1
        )
        roads = self.near_roads
        if (roads.distance(points) < roads.front - 0.01).any():
            return True
        ends = np.concatenate([roads.start, roads.start + roads.vector]) - (
            x,
            y,
        )  # round, so they may poke between points
        along = np.maximum(np.abs(ends @ (cosine, sine)) - length, 0)
        across = np.maximum(np.abs(ends @ (-sine, cosine)) - width, 0)
        return bool((np.hypot(along, across) < np.tile(roads.front, 2) - 0.01).any())

    def _meets_another(self, mine: Floats) -> bool:
        """Return True if the rectangle overlaps another; if not, one of their four axes separates
        the two.
        """
        reach = math.hypot(mine[4], mine[5])
        others = self.near_boxes
        near = (
            np.abs(others[:, :2] - mine[:2]) < (reach + others[:, 4] + others[:, 5])[:, None]
        ).all(axis=1)
        others = others[near]
        if not len(others):
            return False
        offset = others[:, :2] - mine[:2]
        cosine = np.abs(others[:, 2] * mine[2] + others[:, 3] * mine[3])  # between the two yaws
        sine = np.abs(others[:, 3] * mine[2] - others[:, 2] * mine[3])
        apart = np.zeros(len(others), dtype=bool)
        for axes, one, two in ((mine[None], mine[None], others), (others, others, mine[None])):
            along = np.abs(offset[:, 0] * axes[:, 2] + offset[:, 1] * axes[:, 3])
            across = np.abs(offset[:, 1] * axes[:, 2] - offset[:, 0] * axes[:, 3])
            apart |= along > one[:, 4] + two[:, 4] * cosine + two[:, 5] * sine - 0.01
            apart |= across > one[:, 5] + two[:, 4] * sine + two[:, 5] * cosine - 0.01
        return not bool(apart.all())
