"""Recover positions from ranges, and from whatever else is known: known positions, odometry, the order of a drive."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.recovery.graph import Problem, connected
from mappable.recovery.hints import Anchors, Motions, check_points, whole_numbers
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.shape import recover_shape
from mappable.recovery.solve import solve


def recover(
    ranges: Ranges,
    dimensions: int = 2,
    *,
    anchors: Anchors | None = None,
    motions: Motions | None = None,
    ordered: bool | Sequence[ArrayLike] = True,
    assume_steps: bool = False,
    seed: int = 0,
) -> Recovered:
    """Recover the positions of all points.

    With `anchors` (known positions), the result is in their coordinates. With `motions` alone, such
    as odometry, it begins at the first point. Without both, each connected part has coordinates of
    its own. Known positions and motions need GTSAM (the extra `slam`). Read `undetermined` of the
    result: ranges do not determine everything.

    Points are `ordered` if they are the images of one drive. A list of point numbers per drive says
    which points are. With `assume_steps`, a drive does not break where no range joins an image to
    the next: a usual step is assumed. In the result, `used` refers to the given ranges, and
    `assumed` counts these steps.
    """
    dimensions = dimensions if anchors is None else anchors.positions.shape[1]
    drives = _checked(ranges, dimensions, anchors, motions, ordered)
    steps = missing_steps(ranges, motions) if ordered is True and assume_steps else np.arange(0)
    linked = _with_steps(ranges, steps) if len(steps) else ranges
    if anchors is None and motions is None:
        recovered = recover_shape(linked, dimensions, seed=seed)
    else:
        recovered = solve(Problem(linked, dimensions, anchors, motions, drives), seed=seed)
    if not len(steps):
        return recovered
    measured = ~((linked.j - linked.i == 1) & np.isin(linked.i, steps))
    step = _usual_step(ranges)
    sentence = (
        f"{len(steps):,} of {ranges.count:,} images have no range to the next image: a step of"
        f" {step:.2g} m (sigma {step:.2g} m) is assumed there."
    )
    undetermined = (*recovered.undetermined, sentence)
    return replace(
        recovered, used=recovered.used[measured], assumed=len(steps), undetermined=undetermined
    )


def missing_steps(ranges: Ranges, motions: Motions | None = None) -> Ints:
    """Return the points that no range and no motion joins to the next point."""
    joined = ranges.i[ranges.j - ranges.i == 1]
    steps = np.setdiff1d(np.arange(ranges.count - 1), joined)
    if motions is None:
        return steps
    parts = connected(ranges.count, motions.i, motions.j)
    apart: Ints = steps[parts[steps] != parts[steps + 1]]
    return apart


def _checked(
    ranges: Ranges,
    dimensions: int,
    anchors: Anchors | None,
    motions: Motions | None,
    ordered: bool | Sequence[ArrayLike],
) -> list[Ints]:
    """Raise for input that does not fit together; return the points of each drive."""
    if dimensions not in (2, 3):
        raise BadInputError(f"points are recovered in 2 or 3 dimensions, got {dimensions}")
    if ranges.count < 3:
        raise BadInputError(f"a map needs at least 3 points, got {ranges.count}")
    if not len(ranges) and motions is None:
        raise BadInputError(f"there are no ranges between the {ranges.count:,} points")
    if anchors is not None:
        check_points("an anchor", anchors.points, ranges.count)
    if motions is not None:
        check_points("odometry", np.concatenate([motions.i, motions.j]), ranges.count)
        if motions.metres.shape[1] != dimensions:
            raise BadInputError(
                f"odometry has {motions.metres.shape[1]} dimensions, expected {dimensions}"
            )
    if isinstance(ordered, bool):
        return [np.arange(ranges.count)] if ordered else []
    drives = [whole_numbers("a drive", drive) for drive in ordered]
    points = np.concatenate([np.arange(0), *drives])
    check_points("a drive", points, ranges.count)
    if len(np.unique(points)) < len(points):
        twice = np.flatnonzero(np.bincount(points) > 1)[0]
        raise BadInputError(
            f"point {twice} occurs more than once in the drives: give each point once"
        )
    return drives


def _usual_step(ranges: Ranges) -> float:
    """Return the median range in metres from a point to the next or, if there are none, of all
    ranges.
    """
    following = ranges.j - ranges.i == 1
    return float(np.median(ranges.metres[following] if following.any() else ranges.metres))


def _with_steps(ranges: Ranges, points: Ints) -> Ranges:
    """Add a usual step from each of `points` to the next point, with a sigma as large as the step."""
    if not len(ranges):
        raise BadInputError(
            "there are no ranges, so the length of a step is unknown: give at least one range"
        )
    step = np.full(len(points), _usual_step(ranges))
    sigma = np.where(step > 0, step, np.median(ranges.sigma))
    return Ranges(
        ranges.count,
        np.concatenate([ranges.i, points]),
        np.concatenate([ranges.j, points + 1]),
        np.concatenate([ranges.metres, step]),
        np.concatenate([ranges.sigma, sigma]),
    )
