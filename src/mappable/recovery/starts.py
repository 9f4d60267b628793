"""Where a fit begins: between known positions, or by dead reckoning."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from mappable.arrays import Floats, Ints
from mappable.recovery.align import align
from mappable.recovery.graph import Problem, connected
from mappable.recovery.hints import Motions


def interpolated(problem: Problem) -> Floats:
    """Return positions (n, k) at equal steps between the known positions of each drive."""
    anchors = problem.anchors
    if anchors is None:
        return np.zeros((problem.ranges.count, problem.dimensions))
    between = np.tile(anchors.positions.mean(0), (problem.ranges.count, 1))
    order = np.argsort(anchors.points)
    points, positions = anchors.points[order], anchors.positions[order]
    for drive in problem.drives:
        at = np.flatnonzero(np.isin(drive, points))
        if len(at):
            known = positions[np.searchsorted(points, drive[at])]
            between[drive] = np.stack(
                [np.interp(np.arange(len(drive)), at, axis) for axis in known.T], 1
            )
    return between


def reckoned(problem: Problem, motions: Motions) -> tuple[Floats, Floats]:
    """Return positions (n, k) and orientations (n, k, k) that add up the motions, moved to the
    known positions.
    """
    n, k = problem.ranges.count, problem.dimensions
    parts = connected(n, motions.i, motions.j)
    positions, frames = np.zeros((n, k)), np.tile(np.eye(k), (n, 1, 1))
    backward = motions.rotations.transpose(0, 2, 1)
    ways = np.concatenate([motions.metres, -np.einsum("mab,mb->ma", backward, motions.metres)])
    turns = np.concatenate([motions.rotations, backward])
    begin, end = np.concatenate([motions.i, motions.j]), np.concatenate([motions.j, motions.i])
    row_of = {pair: row for row, pair in enumerate(zip(begin.tolist(), end.tolist(), strict=True))}
    links = csr_array((np.ones(len(motions)), (motions.i, motions.j)), shape=(n, n))
    for first in np.unique(parts, return_index=True)[1].tolist():
        order, before = breadth_first_order(links, first, directed=False)
        for point in order[1:].tolist():
            row = row_of[int(before[point]), point]
            frame = frames[before[point]]
            positions[point] = positions[before[point]] + frame @ ways[row]
            frames[point] = frame @ turns[row]
    if problem.anchors is not None:
        _move_to_known(problem, parts, positions, frames)
    return positions, frames


def _move_to_known(problem: Problem, parts: Ints, positions: Floats, frames: Floats) -> None:
    """Move each part rigidly, in place, to its known positions."""
    anchors = problem.anchors
    if anchors is None:
        return
    for part in np.unique(parts[anchors.points]):
        own, known = parts == part, parts[anchors.points] == part
        here, there = positions[anchors.points[known]], anchors.positions[known]
        if known.sum() > 1:
            move = align(here, there, scale=False, mirror=False)
            positions[own], frames[own] = move(positions[own]), move.rotation @ frames[own]
        else:
            positions[own] += there[0] - here[0]
