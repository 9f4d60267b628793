"""Search for other maps that fit: with a part mirrored, or with another turn where odometry pauses.

Each round fits several changed maps, and the next round changes the best. Maps that fit nearly as
well as the best show how uncertain positions are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Bools, Floats
from mappable.recovery.align import align
from mappable.recovery.graph import Builder, Fit, Problem
from mappable.recovery.settings import SETTINGS

LENGTHS = (1, 2, 4, 8, 16, 32)  # points of a run inside a path; a run at its end has any length
HINGES = (2, 4, 7)  # points on a side of a fold through which a plane is put
Maps = list[tuple[float, Floats]]  # misfit and positions (n, k) of each, the best first
Start = tuple[Floats, Floats | None]  # positions (n, k) and orientations (n, k, k)


@dataclass(frozen=True, eq=False)
class OtherMaps:
    """What other maps that fit nearly as well say about the best."""

    shift: Floats  # (n, k): from the best map to the estimate
    covariances: Floats  # (n, k, k), to be added
    loose: Bools  # (n,): points that are not determined, because such maps have them elsewhere


def unfold(
    builder: Builder, best: Fit, change: Callable[[Fit], list[Start]]
) -> tuple[Fit, list[Fit]]:
    """Return the best fit, and all fits of the search."""
    fits = [best]
    for _ in range(SETTINGS.fold_rounds):
        changed = [builder.fit(*start) for start in change(best)]
        fits += changed
        better = min(changed, key=lambda fit: fit.cost)
        if better.cost > best.cost - SETTINGS.better:
            break
        best = better
    return min(fits, key=lambda fit: fit.cost), fits


def distinct(best: Fit, fits: list[Fit], reach: float, *, placed: bool = True) -> Maps:
    """Return misfit and positions (n, k) of different maps, the best first.

    Maps that are not `placed` are aligned before they are compared.
    """
    maps = [(best.cost, best.positions)]
    for fit in sorted(fits, key=lambda fit: fit.cost):
        positions = fit.positions
        if not placed:
            positions = align(positions, best.positions, scale=False)(positions)
        nearest = min(float(np.square(positions - other).sum(1).mean()) for _, other in maps)
        if np.sqrt(nearest) > SETTINGS.same_map * reach:
            maps.append((fit.cost, positions))
    return maps


def other_maps(maps: Maps, reach: float) -> OtherMaps:
    """Return the spread of maps around the first; they count by how well they fit."""
    costs, best = np.array([cost for cost, _ in maps]), maps[0][1]
    odds = np.exp((costs[0] - costs) / SETTINGS.temper)
    off = np.stack([positions for _, positions in maps]) - best
    covariances = np.einsum("f,fna,fnb->nab", odds / odds.sum(), off, off)
    loose = np.sqrt(np.trace(covariances, axis1=1, axis2=2)) > SETTINGS.same_map * reach
    return OtherMaps(np.zeros_like(best), covariances, loose)


def turned_pauses(problem: Problem, best: Fit, rng: np.random.Generator) -> list[Start]:
    """Return maps in which the rest of each drive turns by a random angle where odometry pauses."""
    large = problem.ranges.count > SETTINGS.largest_search
    starts: list[Start] = []
    for _ in range(2 if large else SETTINGS.members):
        positions, frames = best.positions.copy(), best.frames.copy()
        for pause in problem.pauses:
            turn = _random_turn(
                problem.dimensions, rng.normal(0, SETTINGS.pause_turn / len(pause)), rng
            )
            drive = next(drive for drive in problem.drives if pause[0, 0] in drive)
            for before, after in pause.tolist():
                rest = drive[np.flatnonzero(drive == after)[0] :]
                positions[rest] = positions[before] + (positions[rest] - positions[before]) @ turn.T
                frames[rest] = turn @ frames[rest]
        starts.append((positions, frames))
    return starts


def _random_turn(dimensions: int, angle: float, rng: np.random.Generator) -> Floats:
    axis = np.array([0.0, 0.0, 1.0]) if dimensions == 2 else rng.standard_normal(3)
    turn: Floats = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()
    return turn[:dimensions, :dimensions]


def mirrored_runs(problem: Problem, best: Fit) -> list[Start]:
    """Return the most promising maps in which a run of points is mirrored at the plane of the
    points beside it.
    """
    maps = sorted(
        ((_misfit(problem, other), run, other) for run, other in _mirrored(best.positions)),
        key=lambda row: row[0],
    )
    runs: list[tuple[int, int]] = []
    starts: list[Start] = []
    for _, run, other in maps:
        if len(starts) < SETTINGS.fold_fits and all(
            abs(run[0] - a) + abs(run[1] - b) > 1 for a, b in runs
        ):
            runs.append(run)
            starts.append((other, None))
    return starts


def _misfit(problem: Problem, positions: Floats) -> float:
    ranges, anchors = problem.ranges, problem.anchors
    lengths = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    misfit = float(np.log1p(np.square((lengths - ranges.metres) / ranges.sigma)).sum())
    if anchors is not None:
        off = np.linalg.norm(positions[anchors.points] - anchors.positions, axis=1)
        misfit += float(np.log1p(np.square(off / anchors.sigma)).sum())
    return misfit


def _mirrored(positions: Floats) -> Iterator[tuple[tuple[int, int], Floats]]:
    """Yield runs [a, b), and positions (n, k) with this run mirrored."""
    count = len(positions)
    runs = [(0, b) for b in range(2, count - 1)] + [(a, count) for a in range(2, count - 1)]
    runs += [(a, a + length) for length in LENGTHS for a in range(1, count - length)]
    for a, b in runs:
        for width in HINGES:
            at_a = np.arange(max(a - width, 0), min(a + width, count)) if a > 0 else np.arange(0)
            at_b = (
                np.arange(max(b - width, 0), min(b + width, count)) if b < count else np.arange(0)
            )
            hinge = positions[np.concatenate([at_a, at_b])]
            center = hinge.mean(0)
            for normal in np.linalg.svd(hinge - center, full_matrices=False)[2][1:]:
                other = positions.copy()
                other[a:b] -= 2 * ((other[a:b] - center) @ normal)[:, None] * normal
                yield (a, b), other
