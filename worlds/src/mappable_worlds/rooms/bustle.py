"""Place what changes in a building every day: chairs, bags, papers, coats, doors and people."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from mappable.arrays import Floats
from mappable_worlds.rooms.floorplan import SEEDS, Building, Loose, Spot, box
from mappable_worlds.scene import Color, Material, Shape, Solid, Traversal

ROBOT_HIGH = 1.3  # metres: higher things are not in the way
PARKED_AWAY, PEOPLE_AWAY = 0.4, 0.8  # metres from the robot
STRIDE = 1.1  # metres per second
WALKS_A_MINUTE = 5.0
IN_SIGHT = 30.0  # metres
COATS: tuple[Color, ...] = (
    (0.05, 0.06, 0.1),
    (0.25, 0.05, 0.05),
    (0.3, 0.25, 0.15),
    (0.1, 0.2, 0.12),
    (0.5, 0.45, 0.1),
)
BAGS: tuple[Color, ...] = (
    (0.05, 0.05, 0.06),
    (0.1, 0.15, 0.4),
    (0.4, 0.1, 0.08),
    (0.45, 0.33, 0.18),
)


def clearance(solids: Iterable[Solid], x: Floats, y: Floats, z: Floats) -> Floats:
    """Return metres from each point to the nearest solid that a robot could touch there; 0 inside a
    solid.
    """
    nearest = np.full(len(x), np.inf)
    left, right, bottom, top = x.min() - 2, x.max() + 2, y.min() - 2, y.max() + 2
    for solid in solids:
        if not (left < solid.x < right and bottom < solid.y < top):
            reach = math.hypot(solid.length, solid.width) / 2
            if not (
                left - reach < solid.x < right + reach and bottom - reach < solid.y < top + reach
            ):
                continue
        cos, sin = math.cos(solid.yaw), math.sin(solid.yaw)
        along, aside = (
            (x - solid.x) * cos + (y - solid.y) * sin,
            (y - solid.y) * cos - (x - solid.x) * sin,
        )
        if solid.shape == Shape.BOX:
            away = np.hypot(
                np.maximum(np.abs(along) - solid.length / 2, 0),
                np.maximum(np.abs(aside) - solid.width / 2, 0),
            )
        else:
            away = np.maximum(np.hypot(along, aside) - max(solid.length, solid.width) / 2, 0)
        beside = (solid.low < z + ROBOT_HIGH) & (solid.high > z + 0.03)
        nearest = np.minimum(nearest, np.where(beside, away, np.inf))
    return nearest


def parked_things(
    building: Building, poses: Traversal, generator: np.random.Generator
) -> list[Solid]:
    """Return the loose things of a run; none is in the robot's way."""
    things: list[Solid] = []
    for one in building.loose:
        # Each spot has its own random stream, so that one more thing does not move all others.
        draw = np.random.default_rng([int(generator.integers(SEEDS)), one.seed])
        for _ in range(4):
            group = _thing(one, draw)
            if _out_of_the_way(group, poses):
                things += group
                break
    for door in building.doors:
        angle = math.radians(generator.uniform(92, 135))
        if door.swings and _out_of_the_way([door.leaf(angle)], poses):
            things.append(door.leaf(angle))
    return things


def walking_people(
    building: Building, poses: Traversal, generator: np.random.Generator
) -> list[tuple[int, Solid]]:
    """Return people who walk along the lanes of the building, in the images in which they may be
    visible.
    """
    seconds = (poses.time - poses.time[0]) / 1e9
    lanes = [one for one in building.loose if one.kind == "lane" and _in_reach(one.spot, poses)]
    found: list[tuple[int, Solid]] = []
    for _ in range(generator.poisson(seconds[-1] / 60 * WALKS_A_MINUTE) if lanes else 0):
        lane = lanes[generator.integers(len(lanes))]
        # Most people start when the robot is near. Otherwise hardly anyone would ever be seen.
        near = np.hypot(poses.x - lane.spot.x, poses.y - lane.spot.y) < IN_SIGHT / 2
        start = float(generator.choice(seconds[near] if near.any() else seconds)) - float(
            generator.uniform(0, 10)
        )
        speed, back = STRIDE * float(generator.uniform(0.7, 1.2)), generator.random() < 0.5
        person = _person(generator)
        images = np.flatnonzero((seconds >= start) & (seconds < start + lane.size / speed))
        along = (seconds[images] - start) * speed
        along = lane.size - along if back else along
        spots = [lane.spot.at(float(there), 0) for there in along]
        x, y = np.array([spot.x for spot in spots]), np.array([spot.y for spot in spots])
        if not len(images):
            continue
        away = np.hypot(poses.x[images] - x, poses.y[images] - y)
        level = np.abs(poses.z[images] - lane.spot.z) < 2.0
        free = clearance(building.scene.solids, x, y, np.full(len(x), lane.spot.z)) > 0.2
        for image, spot, seen in zip(
            images, spots, (away > PEOPLE_AWAY) & (away < IN_SIGHT) & level & free, strict=True
        ):
            if seen:
                found += [(int(image), spot.put(part)) for part in person]
    return sorted(found, key=lambda pair: pair[0])


def _in_reach(spot: Spot, poses: Traversal) -> bool:
    return bool(np.hypot(poses.x - spot.x, poses.y - spot.y).min() < IN_SIGHT)


def _out_of_the_way(group: Sequence[Solid], poses: Traversal) -> bool:
    return not group or float(clearance(group, poses.x, poses.y, poses.z).min()) > PARKED_AWAY


def _thing(one: Loose, draw: np.random.Generator) -> list[Solid]:
    """Return the solids of the thing at a spot today, if any."""
    if one.kind == "chair":
        return _chair(one, draw)
    if one.kind == "papers":
        sheets = []
        for _ in range(draw.integers(0, 4)):
            x, y, yaw = draw.uniform([-0.25, -0.25, -0.5], [0.25, 0.25, 0.5]).tolist()
            high, seed = float(draw.uniform(0.01, 0.09)), int(draw.integers(1, SEEDS))
            sheet = box(0, 0, 0.3, 0.21, 0, high, Material.SIGN, (0.8, 0.8, 0.78), seed)
            sheets.append(one.spot.at(x, y, yaw).put(sheet))
        return sheets
    if one.kind == "coat" and draw.random() < 0.6:
        color = COATS[draw.integers(len(COATS))]
        seed, low = int(draw.integers(1, SEEDS)), float(draw.uniform(0.7, 1.0))
        return [one.spot.put(box(0.12, 0, 0.16, 0.42, low, 1.62, Material.FABRIC, color, seed))]
    if one.kind == "clutter":
        return _clutter(one, draw)
    return []


def _chair(one: Loose, draw: np.random.Generator) -> list[Solid]:
    x, y, yaw = draw.normal(0, (0.12, 0.12, 0.5)).tolist()
    spot = one.spot.at(x, y, yaw)
    parts = [
        box(0, 0, 0.46, 0.46, 0.43, 0.5, Material.FABRIC, one.color, one.seed),
        box(-0.21, 0, 0.05, 0.44, 0.55, 0.95, Material.FABRIC, one.color, one.seed),
        Solid(Shape.CYLINDER, 0, 0, 0.07, 0.07, 0.0, 0.43, Material.PLAIN, (0.1, 0.1, 0.1)),
    ]
    if draw.random() < 0.12:
        body, head = _person(draw)
        parts += [
            replace(body, x=-0.02, low=0.5, high=1.08),
            replace(head, x=-0.02, low=1.08, high=1.33),
        ]
    elif draw.random() < 0.15:
        color = COATS[draw.integers(len(COATS))]
        parts.append(
            box(
                -0.26,
                0,
                0.06,
                0.46,
                0.45,
                0.97,
                Material.FABRIC,
                color,
                int(draw.integers(1, SEEDS)),
            )
        )
    return [spot.put(part) for part in parts]


def _clutter(one: Loose, draw: np.random.Generator) -> list[Solid]:
    """Return a bin, a bag, boxes, or nothing."""
    spot = one.spot.at(float(draw.normal(0, 0.08)), 0, float(draw.normal(0, 0.3)))
    kind, color, seed = (
        draw.integers(5),
        BAGS[draw.integers(len(BAGS))],
        int(draw.integers(1, SEEDS)),
    )
    if kind == 0:
        return [
            spot.put(Solid(Shape.CYLINDER, 0, 0, 0.3, 0.3, 0, 0.4, Material.PLAIN, color, seed))
        ]
    if kind == 1:
        return [spot.put(box(0, 0, 0.4, 0.2, 0, 0.36, Material.FABRIC, color, seed))]
    if kind == 2:
        boxes = [box(0, 0, 0.44, 0.36, 0, 0.32, Material.PLAIN, (0.4, 0.27, 0.14), seed)]
        if draw.random() < 0.5:
            boxes.append(
                box(0.03, 0, 0.36, 0.3, 0.32, 0.58, Material.PLAIN, (0.45, 0.31, 0.17), seed + 1)
            )
        return [spot.put(part) for part in boxes]
    return []


def _person(draw: np.random.Generator) -> tuple[Solid, Solid]:
    """Return body and head of a person who stands at the origin."""
    high, color, seed = (
        float(draw.uniform(1.55, 1.9)),
        COATS[draw.integers(len(COATS))],
        int(draw.integers(1, SEEDS)),
    )
    body = Solid(Shape.CYLINDER, 0, 0, 0.42, 0.42, 0, high - 0.25, Material.PERSON, color, seed)
    skin = ((0.6, 0.42, 0.32), (0.35, 0.2, 0.13), (0.72, 0.52, 0.42))[draw.integers(3)]
    head = Solid(Shape.ELLIPSOID, 0, 0, 0.2, 0.2, high - 0.27, high, Material.PERSON, skin, seed)
    return body, head
