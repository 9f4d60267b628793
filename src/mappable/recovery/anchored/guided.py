"""Recovery with relative motions: start positions by dead reckoning, and sentences about what motions contradict."""

from collections.abc import Iterator

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import Refined, fit, settle
from mappable.recovery.anchored.relative import DeadReckoning, rotations
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges

ANGLES = 24  # directions that are tried for a part with fewer than two known positions
CAPPED = 3.0  # sigmas: residual above which a range counts no more in this trial
JOINED = 5  # ranges to placed points from which the place of a part is found
NOISY = 2.0  # noise of odometry, in stated spreads, above which a sentence reports it
DRIFTED = 0.02, 0.002  # scale (share) and bias (radians per metre) above which a sentence reports drift
FAR = 50  # points in order: a range that spans more closes a loop
LEVELS = 10.0, 3.0, 1.0  # noise of ranges, in stated spreads: false ones are found at each level, the gross ones first
FEW = 10  # loop-closing ranges that may be false by chance
SLIP_ROUNDS = 5  # rounds per level in which motions that contradict the rest are found
LISTED = 4  # parts that a sentence names, at most


def guided_start(reckoned: DeadReckoning, ranges: Ranges, known: Anchors, rough: Floats) -> tuple[Floats, Floats]:
    """Move each part of dead reckoning to its known positions; return positions (n, k) and frames (n, k, k).

    A part with fewer than two known positions is moved to the `rough` positions, in the direction that fits ranges
    best.
    """
    positions, frames = rough.copy(), reckoned.frames.copy()
    sizes = np.bincount(reckoned.parts)
    sizes[reckoned.parts[known.points]] += len(rough)  # parts with known positions come first
    placed = np.zeros(len(rough), dtype=bool)
    for part in np.argsort(-sizes, kind="stable").tolist():
        own = np.flatnonzero(reckoned.parts == part)
        if len(own) < 2:
            continue
        here = np.isin(known.points, own)
        anchors, places = known.points[here], known.positions[here]
        if len(anchors) >= 2:
            rotation, shift = _rigid(reckoned.positions[anchors], places)
        else:
            about = anchors[0] if len(anchors) else own[len(own) // 2]
            target = places[0] if len(anchors) else rough[own].mean(0)
            joined = ranges.where(placed[ranges.i] != placed[ranges.j])
            joined = joined.where(np.isin(joined.i, own) | np.isin(joined.j, own))
            if len(anchors) or len(joined) < JOINED:
                rotation = _best_direction(reckoned, own, int(about), target, positions, ranges)
                shift = target - rotation @ reckoned.positions[about]
            else:
                rotation, shift = _best_place(reckoned, np.isin(joined.i, own), positions, joined)
        placed[own] = True
        positions[own] = reckoned.positions[own] @ rotation.T + shift
        frames[own] = rotation @ reckoned.frames[own]
    return positions, frames


def _rigid(points: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Return the rotation (k, k) and shift (k,) that bring points (m, k) nearest to targets; nothing is mirrored."""
    center, to_center = points.mean(0), targets.mean(0)
    left, _, right = np.linalg.svd((targets - to_center).T @ (points - center))
    signs = np.ones(points.shape[1])
    signs[-1] = np.sign(np.linalg.det(left @ right))
    rotation: Floats = left * signs @ right
    return rotation, to_center - rotation @ center


def _best_direction(
    reckoned: DeadReckoning, own: Ints, about: int, target: Floats, placed: Floats, ranges: Ranges
) -> Floats:
    """Return the rotation about the vertical whose positions fit the ranges to other parts best."""
    k = placed.shape[1]
    inside = np.isin(ranges.i, own) != np.isin(ranges.j, own)
    some, best = ranges.where(inside), (np.inf, np.eye(k))
    for angle in np.linspace(0, 2 * np.pi, ANGLES, endpoint=False):
        rotation = np.eye(k)
        rotation[:2, :2] = rotations(np.array([angle]))[0]
        trial = placed.copy()
        trial[own] = (reckoned.positions[own] - reckoned.positions[about]) @ rotation.T + target
        off = (np.linalg.norm(trial[some.i] - trial[some.j], axis=1) - some.metres) / some.sigma
        cost = float(np.minimum(np.square(off), CAPPED**2).sum())
        if cost < best[0]:
            best = cost, rotation
    return best[1]


def _best_place(reckoned: DeadReckoning, first: Bools, placed: Floats, ranges: Ranges) -> tuple[Floats, Floats]:
    """Return the rotation about the vertical and the shift (k,) that fit the ranges of a part to placed points best.

    Ranges are short, so a rotated part is shifted until its ends of ranges lie on the other ends. The end i is in the
    part if `first` (edges,) is true, else the end j.
    """
    own, other = np.where(first, ranges.i, ranges.j), np.where(first, ranges.j, ranges.i)
    best = np.inf, np.eye(placed.shape[1]), np.zeros(placed.shape[1])
    for angle in np.linspace(0, 2 * np.pi, ANGLES, endpoint=False):
        rotation = np.eye(placed.shape[1])
        rotation[:2, :2] = rotations(np.array([angle]))[0]
        apart = placed[other] - reckoned.positions[own] @ rotation.T
        shift = np.median(apart, axis=0)
        off = (np.linalg.norm(apart - shift, axis=1) - ranges.metres) / ranges.sigma
        cost = float(np.minimum(np.square(off), CAPPED**2).sum())
        if cost < best[0]:
            best = cost, rotation, shift
    return best[1:]


def fit_guided(problem: Problem) -> tuple[Problem, Refined, Refined]:
    """Fit twice, and return the fit of lower cost with its problem, and the other fit.

    One fit begins with known positions and motions alone: ranges that are far off then do not count. The other begins
    with all ranges: those that close a loop pull it together, however far the odometry has drifted.
    """
    found = []
    for believed in (0.0, 1.0):
        trial, state = problem.twin(), problem.state
        trial.true = np.full(len(problem.true), believed)
        for level in LEVELS if believed else LEVELS[-1:]:
            trial.noise.noise = level
            state = settle(trial, state)
            for _ in range(SLIP_ROUNDS):
                if trial.motion is None:
                    break
                trial.motion.relax()  # else a turn where motions are missing makes the motions at its ends look false
                trial.motion.measure_steps(state[:, : trial.dimensions])
                state = settle(trial, state, steps=5)
            for _ in range(SLIP_ROUNDS):
                if trial.relative is not None:
                    trial.relative.doubt()
                state = settle(trial, state, steps=3)
            trial.true = trial.noise.chances()
        refined = fit(trial, state)
        found.append((float(trial.costs().sum()), trial, refined))
    (_, best, refined), (_, _, other) = sorted(found, key=lambda one: one[0])
    return best, refined, other


def contradictions(problem: Problem, other: Refined, points: Ints, ranges: Ranges, false: Bools) -> Iterator[str]:
    """Report what in the motions disagrees with the rest; `points` has the user's numbers of the points.

    If only ranges that close a loop show a drift, the odometry may be right: the `other` fit has no drift then.
    """
    relative = problem.relative
    if relative is None:
        return
    motions, drift = relative.motions, problem.state[problem.points, :-1]
    slipped = np.flatnonzero(relative.true < 0.5)
    if len(slipped):
        first = slipped[0]
        yield (
            f"{len(slipped):,} of {len(motions):,} motions contradict the rest and hardly count (first: from point"
            f" {points[motions.i[first]]} to {points[motions.j[first]]})."
        )
    closing = np.abs(ranges.i - ranges.j) > FAR
    if (false & closing).sum() > max(FEW, 0.5 * closing.sum()):
        first = np.flatnonzero(false & closing)[0]
        yield (
            f"{(false & closing).sum():,} of {closing.sum():,} ranges that close a loop contradict the odometry (first:"
            f" points {points[ranges.i[first]]} and {points[ranges.j[first]]}): the places only look alike, or the"
            " odometry is far off."
        )
    for level, what in zip(relative.scales.tolist(), ("steps", "turns"), strict=True):
        if level > NOISY:
            yield f"The {what} of the odometry are {level:.1f} times as noisy as stated."
    if _drifts(drift, relative.k):
        bias = float(np.abs(drift[relative.k :]).max())
        yield (
            f"The odometry drifts: its steps are {100 * np.expm1(-drift[0]):+.1f} % off, and its turns"
            f" {np.degrees(100 * bias):.0f} degrees per 100 m. Both are estimated and corrected."
        )
        if abs(drift[0]) > DRIFTED[0] and len(problem.known) < 2:
            yield "Only ranges show that steps are off: if the ranges are too short or too long, the steps are right."
        lost = closing & ~false & (other.true <= 0.5)
        if lost.sum() > max(FEW, 0.5 * closing.sum()) and not _drifts(other.state[problem.points, :-1], relative.k):
            first = np.flatnonzero(lost)[0]
            yield (
                f"Only {lost.sum():,} ranges that close a loop show this drift (first: points"
                f" {points[ranges.i[first]]} and {points[ranges.j[first]]}). If these places only look alike, the"
                " odometry is right, and the map is wrong. The covariances do not cover this."
            )


def _drifts(drift: Floats, k: int) -> bool:
    """Return whether the scale or the bias of a drift is large enough to be reported."""
    return bool(abs(drift[0]) > DRIFTED[0] or np.abs(drift[k:]).max() > DRIFTED[1])


def coverage(led: Bools, parts: Ints, drives: list[Ints]) -> Iterator[str]:
    """Report images of drives without odometry, and odometry in separate parts."""
    if not drives:
        return
    every = np.concatenate(drives)
    steps = sum(len(drive) - 1 for drive in drives)
    missing = steps - int(led[every].sum())
    pieces = [piece for drive in drives for piece in _pieces(drive, parts)]
    long = [piece for piece in pieces if len(piece) > 1]
    if missing and len(long) < 2:
        where = f"points {long[0][0]} to {long[0][-1]}" if long else "no step"
        yield f"The odometry covers {where} only: {missing:,} of {steps:,} steps rest on ranges and a steady pace."
    elif missing:
        named = ", ".join(f"{piece[0]} to {piece[-1]}" for piece in long[:LISTED]) + (
            ", …" if len(long) > LISTED else ""
        )
        yield (
            f"The odometry has {len(long):,} separate parts (points {named}): only ranges and known positions join"
            " these parts."
        )


def _pieces(drive: Ints, parts: Ints) -> list[Ints]:
    """Split a drive wherever the part changes."""
    return np.split(drive, np.flatnonzero(np.diff(parts[drive])) + 1)
