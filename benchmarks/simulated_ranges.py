"""Simulated routes, and the ranges that an encoder of a given quality measures along them."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints, path_length
from mappable.errors import BadInputError
from mappable.randomness import Purpose, generator
from mappable.recovery.ranges import Ranges

Kind = Literal["open", "loop", "city", "wandering", "curling", "snaking"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WOBBLE = 0.25  # lateral metres within a lane
APART = 26.0  # smallest distance of an open route from itself, in metres
BLOCK = 110.0  # metres, of the city's grid
STEP = 0.25  # metres, of the route as it is laid out
SHORTEST = 100.0  # metres, of a route
STRETCH = 15.0  # metres of a stretch that looks like another
TRIALS = 2_000  # attempts at a draw that must meet a condition
OVERLAP = 0.12  # fraction of a loop that is driven twice
CURVATURE = 0.05  # per metre, of routes that wind: spread, or amplitude
# Metres after which a curvature is another one, and of a snaking route from left to left.
MEMORY, PERIOD = 20.0, 80.0

STEP_SIGMA, TURN_SIGMA = 0.05, 0.01  # noise of odometry: metres and radians per step
SCALE, BIAS = 0.02, 0.001  # drift of odometry: share of a step, and radians per metre


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a measured distance d: `relative` * d + `absolute` metres."""

    relative: float
    absolute: float

    def sigma(self, metres: Floats) -> Floats:
        spread: Floats = self.relative * metres + self.absolute
        return spread


NOISES = {"low": Noise(0.02, 0.05), "mid": Noise(0.05, 0.2), "high": Noise(0.15, 0.5)}


def route(kind: Kind, count: int, *, seed: int, length: float = 672.0) -> Floats:
    """Positions (count, 2) at equal steps along a simulated route of this length in metres.

    "open" never comes near itself. "loop" is a rectangle whose beginning is driven again. "city"
    wanders through a grid of streets and comes back to them. Streets are 50 to 140 m long and turn
    by about 90 degrees. Three kinds wind gently and may cross themselves: "wandering" with sudden
    changes of curvature, "curling" with slow ones, "snaking" left and right in turn.
    """
    if kind not in KINDS:
        raise BadInputError(f"unknown route {kind!r}; the routes are {', '.join(KINDS)}")
    if count < 2 or not SHORTEST <= length < np.inf:
        raise BadInputError(
            f"a route needs at least 2 points and {SHORTEST:g} m, got {count} points and"
            f" {length:g} m"
        )
    rng = generator(seed, Purpose.ROUTE)
    if kind == "city":
        line = _city(rng, length)
    elif kind == "loop":
        line = _loop(rng, length)
    elif kind == "open":
        line = _open(rng, length)
    else:
        line = _winding(rng, kind, length)
    at = np.linspace(0, length, count)
    along = np.arange(len(line)) * STEP
    wave = WOBBLE * np.sin(2 * np.pi * at / rng.uniform(20, 40) + rng.uniform(0, 6))
    x, y = (np.interp(at, along, line[:, axis]) for axis in (0, 1))
    heading = np.arctan2(np.gradient(y), np.gradient(x))
    positions: Floats = np.stack([x - wave * np.sin(heading), y + wave * np.cos(heading)], 1)
    return positions


def measure(
    positions: Floats,
    noise: Noise,
    *,
    seed: int,
    radius: float = 10.0,
    missing: float = 0.0,
    outliers: float = 0.0,
    aliased: float = 0.0,
) -> Ranges:
    """Simulate the measured ranges up to `radius` among positions (n, k).

    Distances up to the radius are measured as they are. Longer ones are measured too short, and
    approach 2.5 times the radius. Then noise is added, and ranges up to the radius are kept.
    `missing` is the fraction of pairs that are dropped. `outliers` and `aliased` are numbers of
    false ranges, relative to the true ones. Outliers are independent pairs; aliased pairs are
    between stretches of 15 m that look alike.
    """
    rng = generator(seed, Purpose.RANGES)
    near = KDTree(positions).query_pairs(1.6 * radius, output_type="ndarray")
    near = near[np.lexsort((near[:, 1], near[:, 0]))]
    true = np.linalg.norm(positions[near[:, 0]] - positions[near[:, 1]], axis=1)
    measured = np.abs(response(true, radius) + noise.sigma(true) * rng.standard_normal(len(true)))
    kept = (measured <= radius) & (rng.random(len(true)) >= missing)
    pairs, metres = near[kept].astype(np.int64), measured[kept]
    false = [_independent(rng, len(positions), round(outliers * len(pairs)))]
    false.append(_aliased(rng, positions, round(aliased * len(pairs)), radius))
    known = set(map(tuple, pairs.tolist()))
    extra = [
        pair
        for pair in dict.fromkeys(map(tuple, np.concatenate(false).tolist()))
        if pair not in known
    ]
    added = np.array(extra, dtype=np.int64).reshape(-1, 2)
    pairs = np.concatenate([pairs, added])
    metres = np.concatenate([metres, rng.uniform(0.1, 1.0, len(added)) * radius])
    return Ranges(len(positions), pairs[:, 0], pairs[:, 1], metres, noise.sigma(metres))


def odometry(
    positions: Floats, rng: np.random.Generator, *, drifting: bool
) -> tuple[Ints, Ints, Floats, Floats, tuple[float, float]]:
    """Odometry along a path (n, 2), seen from a camera that looks along its way: the arguments of
    `Motions`.
    """
    x, y = np.gradient(positions, axis=0).T
    heading = np.unwrap(np.arctan2(y, x))
    cos, sin = np.cos(heading[:-1]), np.sin(heading[:-1])
    east, north = np.diff(positions, axis=0).T
    metres = np.stack([cos * east + sin * north, cos * north - sin * east], 1)
    turns = np.diff(heading)
    if drifting:
        turns = turns + BIAS * np.linalg.norm(metres, axis=1)
        metres = (1 + SCALE) * metres
    metres = metres + rng.normal(0, STEP_SIGMA, metres.shape)
    turns = turns + rng.normal(0, TURN_SIGMA, turns.shape)
    i = np.arange(len(turns), dtype=np.int64)
    return i, i + 1, metres, turns, (STEP_SIGMA, TURN_SIGMA)


def response(metres: Floats, radius: float) -> Floats:
    """The measured distance without noise: the same up to the radius, then too short, approaching
    2.5 radii.
    """
    beyond = np.maximum(metres - radius, 0.0)
    measured: Floats = np.minimum(metres, radius) + 1.5 * radius * -np.expm1(
        -beyond / (1.5 * radius)
    )
    return measured


def _independent(rng: np.random.Generator, points: int, count: int) -> Ints:
    pairs = np.sort(rng.integers(0, points, (count, 2)), axis=1)
    distinct: Ints = pairs[pairs[:, 0] != pairs[:, 1]]
    return distinct


def _aliased(rng: np.random.Generator, positions: Floats, count: int, radius: float) -> Ints:
    """Pairs between two stretches of 15 m; the images of one resemble those of the other, in order."""
    along = path_length(positions)
    pairs: list[tuple[int, int]] = []
    for _ in range(TRIALS):
        if len(pairs) >= count:
            break
        one, other = rng.uniform(0, max(along[-1] - STRETCH, 0.0), 2)
        if (
            np.linalg.norm(
                positions[np.searchsorted(along, one)] - positions[np.searchsorted(along, other)]
            )
            < 5 * radius
        ):
            continue
        first, second = (
            np.flatnonzero((along >= start) & (along < start + STRETCH)) for start in (one, other)
        )
        for a in first:
            like = second[np.abs((along[second] - other) - (along[a] - one)) <= 0.7 * radius]
            pairs += [(min(a, b), max(a, b)) for b in like.tolist()]
    if len(pairs) < count:
        raise BadInputError(
            f"the route is too short for stretches that look alike and lie {5 * radius:g} m apart"
        )
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _walk(rng: np.random.Generator, legs: list[tuple[float, float]]) -> Floats:
    """A line in steps of STEP. A leg has a length and the turn (radians) after it, on an arc of 8
    to 14 m radius.
    """
    headings = []
    heading = 0.0
    for length, turn in legs:
        bend = float(rng.normal(0, 0.0006))  # a slight curvature, in radians per metre
        steps = max(1, round(length / STEP))
        headings.append(heading + bend * STEP * np.arange(steps))
        heading += bend * STEP * steps
        arc = max(1, round(abs(turn) * rng.uniform(8, 14) / STEP))
        headings.append(heading + turn * np.linspace(1 / arc, 1, arc))
        heading += turn
    all_headings = np.concatenate(headings)
    steps_taken = STEP * np.stack([np.cos(all_headings), np.sin(all_headings)], 1)
    line: Floats = np.concatenate([np.zeros((1, 2)), steps_taken.cumsum(0)])
    return line


def _open(rng: np.random.Generator, length: float) -> Floats:
    for _ in range(TRIALS):
        legs = [
            (rng.uniform(50, 140), rng.choice([-1, 1]) * rng.normal(np.pi / 2, 0.12))
            for _ in range(2 + round(length / 50))
        ]
        line = _walk(rng, legs)[: 2 + round(length / STEP)]
        some = line[::8]
        close = KDTree(some).query_pairs(APART, output_type="ndarray")
        if not (np.abs(close[:, 0] - close[:, 1]) * 8 * STEP > 2.2 * APART).any():
            return line
    raise BadInputError(
        f"found no open route of {length:g} m that stays away from itself; try a shorter one"
    )


def _loop(rng: np.random.Generator, length: float) -> Floats:
    around = length / (1 + OVERLAP)
    share, radius = rng.uniform(0.3, 0.7), rng.uniform(8, 14)
    sides = np.array([share, 1 - share]) * (around / 2 - np.pi * radius)
    headings: list[Floats] = []
    for corner in range(8):
        steps, arc = round(sides[corner % 2] / STEP), round(np.pi / 2 * radius / STEP)
        headings += [
            np.full(steps, corner * np.pi / 2),
            (corner + np.arange(1, arc + 1) / arc) * np.pi / 2,
        ]
    every = np.concatenate(headings)
    line: Floats = np.concatenate(
        [np.zeros((1, 2)), (STEP * np.stack([np.cos(every), np.sin(every)], 1)).cumsum(0)]
    )
    return line[: 2 + round(length / STEP)]


def _winding(rng: np.random.Generator, kind: Kind, length: float) -> Floats:
    steps, noise = (
        2 + round(length / STEP),
        rng.standard_normal(2 + round((length + 10 * MEMORY) / STEP)),
    )
    if kind == "snaking":
        phase = rng.uniform(0, 2 * np.pi) + np.cumsum(0.02 * noise[:steps])
        curvature = CURVATURE * np.sin(2 * np.pi * STEP * np.arange(steps) / PERIOD + phase)
    else:
        lags = STEP / MEMORY * np.arange(round(5 * MEMORY / STEP))
        weights = (
            np.exp(-lags) if kind == "wandering" else np.exp(-np.square(lags - lags[-1] / 2) / 2)
        )
        curvature = (
            CURVATURE * np.convolve(noise, weights / np.linalg.norm(weights), mode="valid")[:steps]
        )
    headings = STEP * np.cumsum(curvature)
    line: Floats = STEP * np.stack([np.cos(headings), np.sin(headings)], 1).cumsum(0)
    return line


def _city(rng: np.random.Generator, length: float) -> Floats:
    """A path along the streets of a grid, straight on, left or right at each corner; arcs cut the
    corners.
    """
    side = max(3, round(np.sqrt(length / BLOCK / 2)))
    corner, direction = np.array([side // 2, side // 2]), 0
    ways = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    corners = [corner]
    while (len(corners) - 2) * BLOCK < 1.2 * length:
        turns = [
            turn for turn in (0, 1, -1) if _inside(corner + ways[(direction + turn) % 4], side)
        ]
        weights = np.array([2.0 if turn == 0 else 1.0 for turn in turns])
        direction = (
            direction + (turns[rng.choice(len(turns), p=weights / weights.sum())] if turns else 2)
        ) % 4
        corner = corner + ways[direction]
        corners.append(corner)
    rough = BLOCK * np.array(corners, dtype=np.float64)
    along = path_length(rough)
    at = np.arange(0, along[-1], STEP)
    sharp = np.stack([np.interp(at, along, rough[:, axis]) for axis in (0, 1)], 1)
    window = np.ones(round(20 / STEP)) / round(20 / STEP)
    smooth = np.stack([np.convolve(sharp[:, axis], window, mode="valid") for axis in (0, 1)], 1)
    gone = path_length(smooth)
    even = np.arange(0, length + 2 * STEP, STEP)
    line: Floats = np.stack([np.interp(even, gone, smooth[:, axis]) for axis in (0, 1)], 1)
    return line


def _inside(corner: Ints, side: int) -> bool:
    return bool(((corner >= 0) & (corner < side)).all())
