"""Drive through a street world on one day: the path of the camera, and the traffic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from mappable.arrays import Floats, Ints, path_length
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable_worlds.scene import Deck, Material, Route, Shape, Solid, Traversal, World
from mappable_worlds.street.roads import (
    LANE,
    PASSING,
    Network,
    Side,
    ground_height,
    headings,
    sides,
)
from mappable_worlds.street.vehicles import (
    MOVING_SHARES,
    PARKED_SHARES,
    Vehicle,
    draw_vehicle,
    draw_walker,
)

SPEED = 8.0  # metres per second on straight roads
SIDEWAYS = 2.2  # metres per second squared: comfortable lateral acceleration in a turn
OFFSET, OFFSET_LIMIT, WANDER = (
    0.35,
    0.8,
    0.25,
)  # metres to the left of the route: spread per run, its limit, and the spread along a run
# Standard deviations.
HEADING, HEADING_NOISE, PITCH = math.radians(1.5), math.radians(0.3), math.radians(0.3)
# Runs are on days of 2024 and 2025.
DAY_NS, FIRST_DAY, DAYS, DAY_STEP = 86_400_000_000_000, 19_723, 730, 37
SLOT, TAKEN = 6.4, 0.45  # metres of a parking slot, and the share of slots that are taken
SLOT_ROOM = 4.5  # metres between a parked vehicle's middle and the carriageway of a crossing road
PARKED_SIGHT, MOVING_SIGHT = 160.0, 80.0  # metres from the camera within which others are listed
MEETING = 55.0  # metres driven from one oncoming vehicle to the next
# Metres per second, and seconds before and after the meeting.
MEETING_SPEED, MEETING_LIFE = (5.0, 10.0), 15.0
TOUCHING = 0.3  # metres: nearer vehicles would hit the camera where a route crosses itself
# Share of the run with a vehicle ahead, and metres of each such stretch.
FOLLOWED, STRETCH = 0.3, 90.0
FOLLOWING = (8.0, 25.0)  # metres to the vehicle ahead
WALKERS = 1 / 55  # people per metre of pavement
# Construction fences per metre of road side, and their lengths in metres.
WORKS, WORKS_LENGTH = 1 / 150, (5.0, 14.0)
TARPAULINS = (
    (0.75, 0.75, 0.72),
    (0.10, 0.25, 0.14),
    (0.08, 0.16, 0.36),
    (0.45, 0.33, 0.2),
    (0.35, 0.36, 0.38),
)
STANDING = 0.15  # share of the people who stand

Moving = list[tuple[int, Solid]]
Wave = Callable[[Floats], Floats]


class Track:
    """A route by the distance along it."""

    def __init__(self, route: Route) -> None:
        self.points = route.points
        self.along = path_length(route.points)
        self.heading = headings(route.points)

    def at(self, along: Floats, left: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Return points (n, 2), `left` metres to the left of the line, and the headings there."""
        heading = np.interp(along, self.along, self.heading)
        x, y = (np.interp(along, self.along, column) for column in self.points.T)
        return np.stack([x - left * np.sin(heading), y + left * np.cos(heading)], axis=1), heading


@dataclass(frozen=True)
class Run:
    """Positions and times of the camera: at each image, and (`full`) at each point of the whole
    route.
    """

    track: Track
    along: Floats
    seconds: Floats
    points: Floats
    full_seconds: Floats
    full_points: Floats
    decks: Sequence[Deck]


def traverse(
    world: World, route: str, *, spacing: float, seed: int, alone: bool = False
) -> Traversal:
    """Drive a route with an image every `spacing` metres; traffic, if not `alone`, does not depend
    on the spacing.
    """
    if route not in world.routes:
        raise BadInputError(
            f"this world has no route {route!r}: use one of {', '.join(sorted(world.routes))}"
        )
    if not spacing > 0:
        raise BadInputError(f"spacing must be above 0 metres, got {spacing}")
    track = Track(world.routes[route])
    along = np.arange(0.0, track.along[-1] + 1e-6, spacing)
    streams = [
        np.random.default_rng([seed, 10 + purpose]) for purpose in range(7)
    ]  # streams below 10 belong to the layout
    constant = float(np.clip(streams[0].normal(0, OFFSET), -OFFSET_LIMIT, OFFSET_LIMIT))
    wander, sway, haste = (
        _wave(streams[0], 40, 200),
        _wave(streams[0], 25, 150),
        _wave(streams[0], 60, 300),
    )
    full_left = constant + WANDER * np.tanh(wander(track.along))
    full_points, _ = track.at(track.along, full_left)
    full_seconds = _seconds(track, haste)
    left, seconds = (np.interp(along, track.along, values) for values in (full_left, full_seconds))
    points, heading = track.at(along, left)
    noise = streams[1].normal(0, (HEADING_NOISE, PITCH), (len(along), 2))
    run = Run(track, along, seconds, points, full_seconds, full_points, world.scene.decks)
    first = (FIRST_DAY + seed * DAY_STEP % DAYS) * DAY_NS + int(
        streams[1].uniform(8, 17) * DAY_NS / 24
    )
    poses = Traversal(
        points[:, 0],
        points[:, 1],
        ground_height(world.scene.decks, points),
        wrap(heading + HEADING * sway(along) + noise[:, 0]),
        noise[:, 1],
        first + np.round(seconds * 1e9).astype(np.int64),
    )
    if alone:
        return poses
    return replace(
        poses,
        parked=[*_parked(world, run, streams[2]), *_works(world, run, streams[6])],
        moving=[
            *_oncoming(run, streams[3]),
            *_ahead(run, streams[4]),
            *_walkers(world, run, streams[5]),
        ],
    )


def _wave(generator: np.random.Generator, shortest: float, longest: float) -> Wave:
    """Return a smooth random function of metres, with mean 0 and standard deviation 1, made of six
    waves.
    """
    rates = 2 * math.pi / np.geomspace(shortest, longest, 6) * generator.uniform(0.9, 1.1, 6)
    phases = generator.uniform(0, 2 * math.pi, 6)

    def wave(along: Floats) -> Floats:
        values: Floats = np.sin(along[:, None] * rates + phases).sum(axis=1) / math.sqrt(3)
        return values

    return wave


def _seconds(track: Track, haste: Wave) -> Floats:
    """Return the time at each point of the track: slower in turns, with random variation elsewhere."""
    bend = np.abs(np.gradient(track.heading, track.along))
    speed = np.minimum(
        SPEED * (1 + 0.25 * np.tanh(haste(track.along))), np.sqrt(SIDEWAYS / np.maximum(bend, 1e-3))
    )
    # Brakes before the turn.
    smooth = np.convolve(np.pad(speed, 20, mode="edge"), np.ones(41) / 41, mode="valid")
    return np.concatenate([[0.0], np.cumsum(np.diff(track.along) / smooth[:-1])])


def _parked(world: World, run: Run, generator: np.random.Generator) -> list[Solid]:
    """Park vehicles along the curbs where they leave every driven line free."""
    slots = [
        (side, along)
        for side in sides(world.scene.roads)
        for along in np.arange(SLOT, side.length - SLOT, SLOT).tolist()
    ]
    middles = np.array([side.at(along, side.parking + 1.0) for side, along in slots])
    free = Network(world.scene.roads).off_other_roads(
        middles, [side.number for side, _ in slots], SLOT_ROOM
    )
    driven = cKDTree(np.concatenate([route.points for route in world.routes.values()]))
    free &= cKDTree(run.points).query(middles)[0] < PARKED_SIGHT
    heights = ground_height(world.scene.decks, middles)
    taken = generator.random(len(slots)) < TAKEN
    solids: list[Solid] = []
    for number in np.flatnonzero(taken):
        vehicle = draw_vehicle(
            np.random.default_rng([int(generator.integers(1 << 62)), 0]), PARKED_SHARES
        )
        if not free[number]:
            continue
        side, along = slots[number]
        jitter = np.random.default_rng(vehicle.seed).uniform(
            (-0.25, 0.0, -0.02), (0.25, 0.15, 0.02)
        )
        x, y = side.at(along + jitter[0], side.parking + vehicle.width / 2 + jitter[1])
        yaw = side.yaw + (math.pi if side.left > 0 else 0.0) + jitter[2]
        if _clear_of_routes(vehicle, x, y, yaw, driven):
            solids += vehicle.at(x, y, float(heights[number]), yaw)
    return solids


def _works(world: World, run: Run, generator: np.random.Generator) -> list[Solid]:
    """Put construction fences and scaffolds with tarpaulins in front of some houses, for this run
    only.
    """
    solids: list[Solid] = []
    network, near = Network(world.scene.roads), cKDTree(run.points)
    for side in sides(world.scene.roads):
        for _ in range(int(generator.poisson(WORKS * side.length))):
            along, length, high = (
                generator.uniform(0, side.length),
                generator.uniform(*WORKS_LENGTH),
                generator.uniform(2.2, 9),
            )
            x, y = side.at(along, side.front - 0.2)
            ends = np.array(
                [side.at(along + end * length / 2, side.front - 0.2) for end in (-1, 0, 1)]
            )
            color, seed = (
                TARPAULINS[int(generator.integers(len(TARPAULINS)))],
                int(generator.integers(1 << 30)),
            )
            material = Material.SIGN if generator.random() < 0.15 else Material.FENCE
            if (
                near.query((x, y))[0] < PARKED_SIGHT
                and network.off_other_roads(ends, [side.number] * 3, 0.5).all()
            ):
                ground = float(ground_height(world.scene.decks, ends).min())
                low, top = ground - 0.5, ground + high
                solids.append(
                    Solid(Shape.BOX, x, y, length, 0.12, low, top, material, color, seed, side.yaw)
                )
    return solids


def _clear_of_routes(vehicle: Vehicle, x: float, y: float, yaw: float, driven: cKDTree) -> bool:
    """Return True if the sides of a vehicle keep clear of all driven lines, which come near the
    curb in right turns.
    """
    along, across = np.meshgrid(
        np.linspace(-0.5, 0.5, 7) * vehicle.length, (-vehicle.width / 2, vehicle.width / 2)
    )
    outline = np.stack(
        [
            x + along * math.cos(yaw) - across * math.sin(yaw),
            y + along * math.sin(yaw) + across * math.cos(yaw),
        ],
        axis=-1,
    )
    return bool(driven.query(outline.reshape(-1, 2))[0].min() > PASSING - 0.15)


def _show(
    run: Run, vehicle: Vehicle, images: Ints, along: Floats, left: float, back: bool
) -> Moving:
    """Return a vehicle `left` metres left of the route at distances `along` it, in the images that
    are near it.
    """
    points, heading = run.track.at(along, left)
    near = np.linalg.norm(points - run.points[images], axis=1) < MOVING_SIGHT
    near &= (along >= 0) & (along <= run.track.along[-1])
    heights = ground_height(run.decks, points)
    yaw = heading + (math.pi if back else 0.0)
    return [
        (int(images[row]), solid)
        for row in np.flatnonzero(near)
        for solid in vehicle.at(
            float(points[row, 0]), float(points[row, 1]), float(heights[row]), float(yaw[row])
        )
    ]


def _oncoming(run: Run, generator: np.random.Generator) -> Moving:
    """Return oncoming vehicles in the other lane of the route, at a steady speed."""
    moving: Moving = []
    for _ in range(round(run.track.along[-1] / MEETING)):
        vehicle = draw_vehicle(generator, MOVING_SHARES)
        where, speed = generator.uniform(0, run.track.along[-1]), generator.uniform(*MEETING_SPEED)
        when, left = (
            float(np.interp(where, run.track.along, run.full_seconds)),
            2 * LANE + generator.uniform(-0.1, 0.1),
        )
        if _drives_into(run, vehicle, where, when, speed, left):
            continue
        images = np.flatnonzero(np.abs(run.seconds - when) < MEETING_LIFE)
        moving += _show(
            run, vehicle, images, where - speed * (run.seconds[images] - when), left, True
        )
    return moving


def _drives_into(
    run: Run, vehicle: Vehicle, where: float, when: float, speed: float, left: float
) -> bool:
    """Return True if the camera is ever inside the vehicle, or almost touches it."""
    late = run.full_seconds - when
    alive = np.abs(late) < MEETING_LIFE
    points, heading = run.track.at(where - speed * late[alive], left)
    offset = run.full_points[alive] - points
    along = np.abs(offset[:, 0] * np.cos(heading) + offset[:, 1] * np.sin(heading))
    across = np.abs(offset[:, 1] * np.cos(heading) - offset[:, 0] * np.sin(heading))
    return bool(
        ((along < vehicle.length / 2 + TOUCHING) & (across < vehicle.width / 2 + TOUCHING)).any()
    )


def _ahead(run: Run, generator: np.random.Generator) -> Moving:
    """Return vehicles that drive in front of the camera for a while, one in each part of the run."""
    length = float(run.track.along[-1])
    count = math.ceil(FOLLOWED * length / STRETCH)
    moving: Moving = []
    for part in range(count):
        vehicle = draw_vehicle(generator, MOVING_SHARES)
        stretch = FOLLOWED * length / count
        start = length * part / count + generator.uniform(0, length / count - stretch)
        gap = _wave(generator, 60, 200)
        images = np.flatnonzero((run.along >= start) & (run.along < start + stretch))
        near, far = FOLLOWING
        room = (
            near + (far - near) * (0.5 + 0.5 * np.tanh(gap(run.along[images]))) + vehicle.length / 2
        )
        moving += _show(run, vehicle, images, run.along[images] + room, 0.0, False)
    return moving


def _walkers(world: World, run: Run, generator: np.random.Generator) -> Moving:
    """Return people who walk back and forth between the junctions of their street, or stand."""
    moving: Moving = []
    for side in sides(world.scene.roads):
        first, last = 10.0, side.length - 10.0
        for _ in range(int(generator.poisson(WALKERS * side.length))):
            walker = draw_walker(generator)
            start, pace = (
                generator.uniform(0, 2),
                generator.uniform(0.9, 1.6) * float(generator.random() > STANDING),
            )
            out = side.walking + generator.uniform(-0.25, 0.25)
            moving += _walk(run, side, out, walker.at, np.array([first, last]), start, pace)
    return moving


def _walk(
    run: Run,
    side: Side,
    out: float,
    body: Callable[[float, float, float], list[Solid]],
    ends: Floats,
    start: float,
    pace: float,
) -> Moving:
    """Return a person's body in the images that are near; `start` is a share of the path, 1 to 2 on
    the way back.
    """
    span = float(ends[1] - ends[0])
    if (
        span <= 0
        or np.linalg.norm(run.points - side.at(side.length / 2, 0.0), axis=1).min()
        > MOVING_SIGHT + span
    ):
        return []
    along = ends[0] + span * np.abs((start + pace * run.seconds / span) % 2 - 1)
    origin, ahead = np.array(side.at(0.0, out)), np.array([math.cos(side.yaw), math.sin(side.yaw)])
    points = origin + along[:, None] * ahead
    images = np.flatnonzero(np.linalg.norm(points - run.points, axis=1) < MOVING_SIGHT)
    heights = ground_height(run.decks, points[images])
    return [
        (int(image), solid)
        for image, height in zip(images, heights, strict=True)
        for solid in body(float(points[image, 0]), float(points[image, 1]), float(height))
    ]
