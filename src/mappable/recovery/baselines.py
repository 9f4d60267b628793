"""What can be drawn without any distances: the trivial rows that every table of accuracy carries.

A method that scores like one of these has not recovered the shape of a route, however small its error looks.
"""

from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats, Ints, path_length
from mappable.errors import BadInputError
from mappable.recovery.align import Score, aligned_score, score

if TYPE_CHECKING:
    from mappable.recovery.hints import Anchors

TURNS = np.arange(1.0, 1.5, 0.02)  # that a circle may take: once around, and some of it again


def point(count: int, dimensions: int = 2) -> Floats:
    """All points (count, k) at the origin: from their number alone."""
    return np.zeros((count, dimensions))


def line(along: Floats, dimensions: int = 2) -> Floats:
    """Points (n, k) on a straight line, from how far `along` their path (n,) they are: metres, or just their order."""
    points = point(len(along), dimensions)
    points[:, 0] = along
    return points


def circle(along: Floats, dimensions: int = 2, *, turns: float = 1.0) -> Floats:
    """Points (n, k) on a circle that is gone round so many times, from how far `along` their path (n,) they are."""
    along = np.asarray(along, dtype=np.float64)
    if not turns > 0:
        raise BadInputError(f"a circle is gone round more than {turns:g} times")
    length = float(along[-1] - along[0])
    angle = 2 * np.pi * turns * (along - along[0]) / length
    points = point(len(along), dimensions)
    points[:, 0], points[:, 1] = np.cos(angle), np.sin(angle)
    return points * length / (2 * np.pi * turns)


def interpolated(count: int, points: Ints, positions: Floats) -> Floats:
    """Points (count, k) between known `positions` (m, k) of some `points` (m,), at equal steps in the order of images.

    Before the first known one and behind the last they stay where that is.
    """
    order = np.argsort(points)
    known, at = np.asarray(points)[order], np.asarray(positions, dtype=np.float64)[order]
    if not len(known) or known[0] < 0 or known[-1] >= count or len(known) != len(at):
        raise BadInputError(f"{len(at)} known positions are of points {known.tolist()}, but these are 0 to {count - 1}")
    between: Floats = np.stack([np.interp(np.arange(count), known, column) for column in at.T], axis=1)
    return between


def trivial_rows(truth: Floats, anchors: "Anchors | None" = None, *, scale: bool = True) -> dict[str, Score]:
    """The scores of all trivial drawings of a true path (n, k), which they are given the better of.

    The line and the circle know how far along the path each image is, and the circle how many turns suit it best. They
    are aligned, with or without `scale`; interpolated anchors are not, as they are in the coordinates of the map.
    """
    truth = np.asarray(truth, dtype=np.float64)
    count, dimensions = truth.shape
    along = path_length(truth)
    if not along[-1] > 0:
        raise BadInputError("the true path has no length, so that nothing can be said relative to it")
    circles = (aligned_score(circle(along, dimensions, turns=turns), truth, scale=scale) for turns in TURNS)
    rows = {
        "point": aligned_score(point(count, dimensions), truth, scale=scale),
        "straight line": aligned_score(line(along, dimensions), truth, scale=scale),
        "circle": min(circles, key=lambda row: row.rmse),
    }
    if anchors is not None:
        rows["interpolated anchors"] = score(interpolated(count, anchors.points, anchors.positions), truth)
    return rows
