"""Drive a robot through rooms: along a route, turning on the spot at corners."""

import math
from dataclasses import replace

import numpy as np
from scipy.ndimage import gaussian_filter1d

from mappable.arrays import Floats, Ints, path_length
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable_worlds.rooms.bustle import clearance, parked_things, walking_people
from mappable_worlds.rooms.floorplan import Building
from mappable_worlds.scene import Material, Scene, Traversal

SPEED, TURN_SPEED = 0.5, 0.5  # metres per second, radians per second
TURN_STEP = math.radians(15)  # between images while turning on the spot
SHARP = math.radians(25)  # the robot turns on the spot at sharper corners
DEAD_END = math.radians(150)
LOOK_ROUND = 0.2  # probability of an extra full turn at a dead end
OFFSET_SD, OFFSET_MOST, WANDER_MOST = 0.12, 0.25, 0.08  # metres off the route
KEEP_CLEAR = 0.34  # metres to solids: the offset becomes smaller in narrow places
YAW_SD, PITCH_SD = math.radians(2.0), math.radians(0.3)
FIRST_DAY, DAY, SECOND = 1_735_689_600, 86_400, 10**9  # 2025-01-01 in seconds since 1970


def traverse(
    world: Building, route: str, *, spacing: float, seed: int, alone: bool = False
) -> Traversal:
    """Drive along a route, with an image every `spacing` metres and every 15 degrees of turning.

    Each seed is a run on another day: with another offset from the route and, if not `alone`, with
    other loose things and other people.
    """
    if route not in world.routes:
        raise BadInputError(
            f"this world has no route {route!r}: use one of {', '.join(sorted(world.routes))}"
        )
    if not spacing > 0:
        raise BadInputError(f"spacing must be above 0 metres, got {spacing}")
    line = np.column_stack([world.routes[route].points, world.routes[route].z])
    along = path_length(line[:, :2])
    keep = np.concatenate([[True], np.diff(along) > 1e-9])
    line, along = line[keep], along[keep]
    at, yaw, turned = _schedule(line, along, spacing, np.random.default_rng([seed, 20]))
    x, y, z = (np.interp(at, along, column) for column in line.T)
    shift = _offsets(at, np.random.default_rng([seed, 21]))
    room_for = np.maximum(clearance(world.scene.solids, x, y, z) - KEEP_CLEAR, 0.0)
    shift *= np.minimum(1.0, room_for / np.maximum(np.linalg.norm(shift, axis=1), 1e-9))[:, None]
    x, y = x + shift[:, 0], y + shift[:, 1]
    z = _ground(world.scene, x, y, z)
    generator = np.random.default_rng([seed, 22])
    yaw = wrap(yaw + YAW_SD * _slow(len(at), 6.0, generator))
    pitch = PITCH_SD * _slow(len(at), 1.5, generator)
    start = (
        FIRST_DAY
        + int(generator.integers(365)) * DAY
        + int(generator.integers(8 * 3600, 18 * 3600))
    )
    seconds = at / SPEED + turned / TURN_SPEED
    time: Ints = start * SECOND + np.round((seconds - seconds[0]) * SECOND).astype(np.int64)
    poses = Traversal(x, y, z, yaw, pitch, time)
    if alone:
        return poses
    parked = parked_things(world, poses, np.random.default_rng([seed, 23]))
    moving = walking_people(world, poses, np.random.default_rng([seed, 24]))
    return replace(poses, parked=parked, moving=moving)


def _schedule(
    line: Floats, along: Floats, spacing: float, generator: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return, per image, the metres driven, the heading (radians, not wrapped), and the radians
    turned on the spot.
    """
    headings = np.arctan2(*np.diff(line[:, :2], axis=0).T[::-1])
    at: list[float] = []
    yaw: list[float] = []
    turned: list[float] = []
    heading, spun, following = float(headings[0]), 0.0, float(generator.uniform(0, spacing))
    backwards = 0  # number of legs still to drive in reverse
    for leg, toward in enumerate(headings):
        if leg:
            if abs(wrap(toward - headings[leg - 1])) > DEAD_END:
                backwards = _way_back(line, leg)
            turn = float(wrap(toward + (math.pi if backwards else 0.0) - heading))
            backwards = max(0, backwards - 1)
            if abs(wrap(toward - headings[leg - 1])) > DEAD_END:
                # If both directions are equally short, either is used. Sometimes the robot makes a
                # full turn.
                turn = (
                    abs(turn) * generator.choice([-1.0, 1.0])
                    if abs(turn) > math.pi - 1e-6
                    else turn
                )
                turn += float(
                    generator.choice([-1, 1]) * 2 * math.pi * (generator.random() < LOOK_ROUND)
                )
            steps = round(abs(turn) / TURN_STEP) if abs(turn) > SHARP else 0
            for step in range(1, steps + 1):
                at.append(float(along[leg]))
                yaw.append(heading + turn * step / steps)
                turned.append(spun + abs(turn) * step / steps)
            heading, spun = heading + turn, spun + abs(turn) * bool(steps)
        while following < along[leg + 1]:
            at.append(following)
            yaw.append(heading)
            turned.append(spun)
            following += spacing
    return np.array(at), np.array(yaw), np.array(turned)


def _way_back(line: Floats, leg: int) -> int:
    """Count the next legs that retrace the last ones, at most three: the robot leaves a room as it
    came in.
    """
    legs = 0
    while legs < 3 and leg + legs + 1 < len(line) and legs < leg:
        if not np.allclose(line[leg + legs + 1, :2], line[leg - legs - 1, :2], atol=1e-6):
            break
        legs += 1
    return legs


def _offsets(at: Floats, generator: np.random.Generator) -> Floats:
    """Return offsets (n, 2) from the route in metres: one per run, plus a slow wander; constant
    while turning.
    """
    whole = np.clip(generator.normal(0, OFFSET_SD, 2), -OFFSET_MOST, OFFSET_MOST)
    grid = np.arange(0.0, at[-1] + 1.0, 0.5)
    wander = [
        np.clip(0.05 * _slow(len(grid), 8.0, generator), -WANDER_MOST, WANDER_MOST)
        for _ in range(2)
    ]
    return whole + np.stack([np.interp(at, grid, one) for one in wander], axis=1)


def _slow(count: int, width: float, generator: np.random.Generator) -> Floats:
    """Return noise of unit variance that changes over about `width` samples."""
    reach = int(4 * width) + 1
    smooth = gaussian_filter1d(generator.normal(size=count + 2 * reach), width, mode="constant")[
        reach:-reach
    ]
    return np.asarray(smooth * math.sqrt(2 * math.sqrt(math.pi) * width))


def _ground(scene: Scene, x: Floats, y: Floats, z: Floats) -> Floats:
    """Return the height of the floor or ramp under each pose: the one nearest to the height of the
    route.
    """
    best, nearest = z.copy(), np.full(len(z), 0.5)
    for deck in scene.decks:
        if deck.material != Material.CEILING:
            height = deck.z + deck.slope[0] * (x - deck.x) + deck.slope[1] * (y - deck.y)
            over = (np.abs(x - deck.x) <= deck.length / 2) & (np.abs(y - deck.y) <= deck.width / 2)
            closer = over & (np.abs(height - z) < nearest)
            best, nearest = (
                np.where(closer, height, best),
                np.where(closer, np.abs(height - z), nearest),
            )
    return best
