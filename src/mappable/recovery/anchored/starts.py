"""Start positions for the fit.

Drives start as bows between known positions, and other points between their neighbors. Maps of the ranges alone, moved
to the known positions, are further starts.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import spsolve

from mappable.arrays import Bools, Floats, Ints
from mappable.randomness import Purpose, generator
from mappable.recovery.align import align
from mappable.recovery.anchored.problem import WEAK, consecutive
from mappable.recovery.hints import Anchors, Motions, Odometry
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.grow import grow
from mappable.recovery.unanchored.mds import landmark_geodesic_mds
from mappable.recovery.unanchored.smacof import sparse_smacof

ASIDE = 0.1  # of the longest range: random offset from the mean of its neighbors at which a point starts
STRETCHED = 1.5  # largest factor by which the shape of a path is scaled to its known ends
GROWN = 2  # maps that are grown, each from a known point; chosen on four folded paths (studies/recovery)


def bow(begin: Floats, end: Floats, steps: int, step: float) -> Floats:
    """Return positions (steps + 1, k) between two points on half a sine wave of about the length of all steps.

    The wave never is a straight line, because on a straight line the gradient leads to neither side.
    """
    line = end - begin
    chord = float(np.linalg.norm(line))
    part = np.linspace(0.0, 1.0, steps + 1)[:, None]
    sideways = np.zeros_like(line)
    sideways[:2] = (-line[1], line[0]) if chord > 0 and np.any(line[:2]) else (1.0, 0.0)
    sideways /= np.linalg.norm(sideways)
    longer = max(steps * step - chord, 0.0)
    height = max(2 / np.pi * np.sqrt(chord * longer), longer / 4, 0.01 * chord)
    positions: Floats = begin + part * line + height * np.sin(np.pi * part) * sideways
    return positions


def harmonic(links: csr_array, pull: Floats, positions: Floats) -> Floats:
    """Replace each NaN position by the weighted mean of the positions linked to it, plus the `pull` of odometry."""
    free = np.isnan(positions[:, 0])
    if not free.any():
        return positions
    some = links[free]
    own = diags_array(np.asarray(some.sum(axis=1)).ravel()) - some[:, free]
    filled = positions.copy()
    right = some[:, ~free] @ positions[~free] + pull[free]
    filled[free] = spsolve(own.tocsc(), right).reshape(right.shape)
    return filled


def drawn_from(ranges: Ranges, known: Anchors, seed: int) -> list[Floats]:
    """Make two maps of the ranges alone, aligned to the known positions; none if ranges do not connect all points.

    The second map is made in one dimension more, where groups of points can pass each other, and then flattened.
    """
    if not _connected(ranges):
        return []
    k = known.positions.shape[1]
    drawn = sparse_smacof(ranges, landmark_geodesic_mds(ranges, k, seed=seed)).points
    raised = sparse_smacof(ranges, landmark_geodesic_mds(ranges, k + 1, seed=seed)).points
    raised = raised - raised.mean(0)
    flat = sparse_smacof(ranges, raised @ np.linalg.svd(raised, full_matrices=False)[2][:k].T).points
    return [_moved_to(known, some) for some in (drawn, flat)]


def between_by_shape(start: Floats, drawn: Floats, known: Anchors, drives: list[Ints]) -> Floats:
    """Replace the bows of a start (n, 2) by the shapes that a map of the ranges has there, moved to the known ends.

    All drives along a street then turn to the same side, as their ranges to each other demand.
    """
    shaped, line = start.copy(), drawn @ np.array([1, 1j])
    for drive in drives:
        for begin, end in pairwise(np.flatnonzero(np.isin(drive, known.points)).tolist()):
            part, ends = line[drive[begin : end + 1]], start[drive[[begin, end]]] @ np.array([1, 1j])
            factor = (ends[1] - ends[0]) / (part[-1] - part[0]) if part[-1] != part[0] else 0.0
            if 1 / STRETCHED < abs(factor) < STRETCHED:
                moved = ends[0] + factor * (part - part[0])
                shaped[drive[begin : end + 1]] = np.stack([moved.real, moved.imag], 1)
    return shaped


def grown(ranges: Ranges, known: Anchors) -> Iterator[Floats]:
    """Yield maps of the ranges alone, each grown from a known point and aligned to the known positions.

    There are none if ranges do not connect all points. Each map is grown on demand.
    """
    if _connected(ranges):
        some = np.unique(np.linspace(0, len(known.points) - 1, GROWN).round().astype(np.int64))
        for first in known.points[some].tolist():
            yield _moved_to(known, grow(ranges, known.positions.shape[1], first))


def _connected(ranges: Ranges) -> bool:
    return len(ranges) > 0 and not (ranges.parts > 0).any()


def _moved_to(known: Anchors, positions: Floats) -> Floats:
    return align(positions[known.points], known.positions, scale=False)(positions)


def between_anchors(
    ranges: Ranges,
    known: Anchors,
    drives: list[Ints],
    hints: tuple[Odometry | None, Motions | None],
    led: Bools,
    reach: float,
    vague: float,
    seed: int,
) -> Floats:
    """Start drives as bows between known positions, and other points by odometry or at the mean of their neighbors.

    Points in no drive get a small random offset: on the line between two points, the gradient leads to neither side.
    """
    near = ranges.metres[consecutive(ranges, drives)]
    step = float(np.median(near)) if len(near) and vague <= WEAK else 0.0
    at = np.full((ranges.count, known.positions.shape[1]), np.nan)
    at[known.points] = known.positions
    for drive in drives:
        for begin, end in pairwise(np.flatnonzero(np.isin(drive, known.points)).tolist()):
            if not led[drive[begin + 1 : end]].all():
                at[drive[begin : end + 1]] = bow(at[drive[begin]], at[drive[end]], end - begin, step)
    aside = np.isnan(at[:, 0])
    for drive in drives:
        aside[drive] = False
    filled = harmonic(*_links(ranges, *hints, reach, at.shape[1]), at)
    noise = generator(seed, Purpose.ANCHORED).standard_normal((int(aside.sum()), at.shape[1]))
    filled[aside] += ASIDE * reach * noise
    return filled


def _links(
    ranges: Ranges, odometry: Odometry | None, motions: Motions | None, reach: float, k: int
) -> tuple[csr_array, Floats]:
    """Return weights (n, n) between points, larger for shorter ranges, and the pull (n, k) of odometry."""
    i, j, strength = ranges.i, ranges.j, np.square(1 / (ranges.metres + ranges.sigma))
    if motions is not None:
        i, j = np.concatenate([i, motions.i]), np.concatenate([j, motions.j])
        way = np.linalg.norm(motions.metres, axis=1)
        strength = np.concatenate([strength, np.square(1 / (way + reach))])
    pull = np.zeros((ranges.count, k))
    if odometry is not None:
        i, j = np.concatenate([i, odometry.i]), np.concatenate([j, odometry.j])
        sure = odometry.sigma**-2.0
        strength = np.concatenate([strength, sure])
        np.add.at(pull, odometry.j, sure[:, None] * odometry.metres)
        np.add.at(pull, odometry.i, -sure[:, None] * odometry.metres)
    one_way = csr_array((strength, (i, j)), shape=(ranges.count, ranges.count))
    return (one_way + one_way.T).tocsr(), pull
