"""Trivial baselines: maps drawn without any distances, shown in every table of accuracy.

A method that scores like a baseline has not recovered the shape of a route, even if its error looks
small.
"""

from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Ints, path_length
from mappable.errors import BadInputError
from mappable.recovery.align import Score, aligned_score, score

if TYPE_CHECKING:
    from mappable.recovery.hints import Anchors

# How often the circle baseline may go around: once, up to almost one and a half.
TURNS = np.arange(1.0, 1.5, 0.02)


def point(count: int, dimensions: int = 2) -> Floats:
    """Put all points (count, k) at the origin."""
    return np.zeros((count, dimensions))


def line(along: Floats, dimensions: int = 2) -> Floats:
    """Put points (n, k) on a straight line, at their distances `along` the path (n,): metres, or
    their order.
    """
    points = point(len(along), dimensions)
    points[:, 0] = along
    return points


def circle(along: Floats, dimensions: int = 2, *, turns: float = 1.0) -> Floats:
    """Put points (n, k) on a circle that goes around `turns` times, by their distances `along` the
    path (n,).
    """
    along = np.asarray(along, dtype=np.float64)
    if not turns > 0:
        raise BadInputError(f"turns of the circle must be above 0, got {turns:g}")
    length = float(along[-1] - along[0])
    angle = 2 * np.pi * turns * (along - along[0]) / length
    points = point(len(along), dimensions)
    points[:, 0], points[:, 1] = np.cos(angle), np.sin(angle)
    return points * length / (2 * np.pi * turns)


def interpolated(count: int, points: Ints, positions: Floats) -> Floats:
    """Interpolate points (count, k) between known `positions` (m, k) of `points` (m,), at equal
    steps per image.

    Points before the first known point get its position, and points after the last known point get
    that one's.
    """
    order = np.argsort(points)
    known, at = np.asarray(points)[order], np.asarray(positions, dtype=np.float64)[order]
    if not len(known) or known[0] < 0 or known[-1] >= count or len(known) != len(at):
        listed = str(known.tolist())
        listed = listed if len(listed) <= 80 else listed[:79] + "…"
        raise BadInputError(
            f"{len(at)} known positions for the points {listed}: give one or more points between 0"
            f" and {count - 1}, and one position per point"
        )
    between: Floats = np.stack(
        [np.interp(np.arange(count), known, column) for column in at.T], axis=1
    )
    return between


def trivial_rows(
    truth: Floats, anchors: "Anchors | None" = None, *, scale: bool = True
) -> dict[str, Score]:
    """Score all trivial baselines of a true path (n, k).

    The baselines get an advantage: the line and the circle know how far along the path each image
    is. The circle also gets the number of turns that scores best. Both are aligned, with or without
    `scale`. Interpolated anchors are not aligned because they are in the coordinates of the map.
    """
    truth = np.asarray(truth, dtype=np.float64)
    count, dimensions = truth.shape
    along = path_length(truth)
    if not along[-1] > 0:
        raise BadInputError("the true path has length 0, so relative errors are undefined")
    circles = (
        aligned_score(circle(along, dimensions, turns=turns), truth, scale=scale) for turns in TURNS
    )
    rows = {
        "point": aligned_score(point(count, dimensions), truth, scale=scale),
        "straight line": aligned_score(line(along, dimensions), truth, scale=scale),
        "circle": min(circles, key=lambda row: row.rmse),
    }
    if anchors is not None:
        rows["interpolated anchors"] = score(
            interpolated(count, anchors.points, anchors.positions), truth
        )
    return rows
