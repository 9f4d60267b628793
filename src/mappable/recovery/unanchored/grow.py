"""Grow a map point by point: each new point is placed by its ranges to the points placed before.

With precise ranges, this hardly ever folds a map, because earlier points hold a new point on its side. With noisy
ranges, errors add up, and shortest paths are a better start.
"""

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.polish import polish

POLISHED_EVERY = 1.15  # polish when there are this many times as many points as at the last polish
STEPS, ROUGHLY = 8, 1e-3  # steps and tolerance of an intermediate polish
PLACING_STEPS = 4  # Gauss-Newton steps for one point
THIN = 0.05  # share of the widest extent: along thinner axes, neighbors do not tell on which side a point lies


def grow(ranges: Ranges, dimensions: int, first: int) -> Floats:
    """Place the points (count, k) of one connected part, starting at `first`.

    The next point is always the one with most ranges to placed points. If its neighbors allow two sides, both are
    tried. All placed points are polished from time to time.
    """
    graph = ranges.graph
    near = [slice(*graph.indptr[point : point + 2]) for point in range(ranges.count)]
    sigmas = Ranges(ranges.count, ranges.i, ranges.j, ranges.sigma, ranges.sigma).graph.data  # in the same order
    points, placed = np.zeros((ranges.count, dimensions)), np.zeros(ranges.count, dtype=bool)
    links = np.zeros(ranges.count)  # number of ranges to placed points
    new, polished = first, dimensions + 1
    for number in range(1, ranges.count + 1):
        own = near[new]
        known = placed[graph.indices[own]]
        neighbors = points[graph.indices[own][known]]
        if len(neighbors):
            points[new] = _placed(neighbors, graph.data[own][known], sigmas[own][known] ** -2)
        placed[new], links[new] = True, -np.inf
        links[graph.indices[own]] += 1
        if number >= POLISHED_EVERY * polished:
            _polish_some(ranges, points, placed)
            polished = number
        new = int(np.argmax(links))
    return points


def _polish_some(ranges: Ranges, points: Floats, placed: Bools) -> None:
    some: Ints = np.flatnonzero(placed)
    points[some] = polish(ranges.among(some), points[some], steps=STEPS, tolerance=ROUGHLY).points


def _placed(neighbors: Floats, metres: Floats, weights: Floats) -> Floats:
    """Find the position (k,) of a point with these ranges, in metres (m,), to its neighbors (m, k)."""
    center = neighbors.mean(0)
    apart = neighbors - center
    squared_extents, axes = np.linalg.eigh(apart.T @ apart)  # the thinnest axis comes first
    squared = np.square(apart).sum(1) - np.square(metres)
    along = axes.T @ (apart.T @ (squared - squared.mean())) / 2  # differences of squared ranges are linear
    wide = squared_extents > THIN**2 * max(squared_extents[-1], 1e-12)
    along = np.where(wide, along / np.maximum(squared_extents, 1e-12), 0.0)
    if not wide[0]:
        along[0] = np.sqrt(max(float(-squared.mean() - along @ along), 1e-4))
    mirrored = along * np.where(np.arange(len(along)) == 0, -1.0, 1.0)
    tried = center + np.stack([along, mirrored]) @ axes.T
    for step in range(PLACING_STEPS + 1):
        to = tried[:, None] - neighbors
        lengths = np.maximum(np.sqrt(np.square(to).sum(2)), 1e-9)
        off = lengths - metres
        if step == PLACING_STEPS:
            break
        slopes = to / lengths[:, :, None]
        weighted = (slopes * weights[:, None]).transpose(0, 2, 1)
        information = weighted @ slopes
        damped = information + 1e-3 * np.eye(len(along)) * np.trace(information, axis1=1, axis2=2)[:, None, None]
        tried = tried - np.linalg.solve(damped, weighted @ off[:, :, None])[:, :, 0]
    best: Floats = tried[np.argmin((np.square(off) * weights).sum(1))]
    return best
