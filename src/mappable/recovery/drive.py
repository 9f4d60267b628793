"""Recover the positions of a drive: `mappable recover`, `POST /recover` and the protocol map-recovery all call this.

The images of a drive are in order. If no range joins an image to the next, the drive would break in two. Recovery then
assumes a step of the median length, and the result counts the assumed steps.
"""

from dataclasses import replace

import numpy as np

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.hints import Anchors, Odometry, Turns
from mappable.recovery.methods import method as find_method
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered


def recover_drive(
    ranges: Ranges,
    dimensions: int = 2,
    *,
    anchors: Anchors | None = None,
    odometry: Odometry | None = None,
    turns: Turns | None = None,
    ordered: bool = True,
    assume_steps: bool = True,
    method: str = "default",
    seed: int = 0,
    progress: bool = False,
) -> Recovered:
    """Recover positions in the coordinates of the anchors or, without anchors, in arbitrary coordinates.

    If points are `ordered`, they are the images of one drive. With `assume_steps`, a step is assumed wherever no range
    joins an image to the next. `method` is used only without anchors. In the result, `used` refers to the given ranges,
    and `assumed` counts the assumed steps.
    """
    run = find_method(method).run
    if anchors is not None and method != "default":
        raise BadInputError(f"method {method} does not use known positions: use the default method, or no anchors")
    steps = missing_steps(ranges) if ordered and assume_steps else np.arange(0)
    linked = ranges if not len(steps) else _with_steps(ranges, steps)
    if anchors is None:
        recovered = run(linked, dimensions, seed)
    else:
        recovered = recover_anchored(
            linked, anchors, ordered=ordered, odometry=odometry, turns=turns, seed=seed, progress=progress
        )
    if not len(steps):
        return recovered
    measured = ~((linked.j - linked.i == 1) & np.isin(linked.i, steps))
    step = _usual_step(ranges)
    sentence = (
        f"{len(steps):,} of {ranges.count:,} images have no range to the next image: a step of {step:.2g} m (sigma"
        f" {step:.2g} m) is assumed there."
    )
    return replace(
        recovered,
        used=recovered.used[measured],
        assumed=len(steps),
        undetermined=(*recovered.undetermined, sentence),
    )


def missing_steps(ranges: Ranges) -> Ints:
    """Return the points that no range joins to the next point."""
    return np.setdiff1d(np.arange(ranges.count - 1), ranges.i[ranges.j - ranges.i == 1])


def _usual_step(ranges: Ranges) -> float:
    """Return the median range in metres from a point to the next or, if there are none, of all ranges."""
    following = ranges.j - ranges.i == 1
    return float(np.median(ranges.metres[following] if following.any() else ranges.metres))


def _with_steps(ranges: Ranges, points: Ints) -> Ranges:
    """Add a usual step from each of `points` to the next point, with a sigma as large as the step."""
    if not len(ranges):
        raise BadInputError("there are no ranges, so the length of a step is unknown: give at least one range")
    step = np.full(len(points), _usual_step(ranges))
    sigma = np.where(step > 0, step, np.median(ranges.sigma))
    return Ranges(
        ranges.count,
        np.concatenate([ranges.i, points]),
        np.concatenate([ranges.j, points + 1]),
        np.concatenate([ranges.metres, step]),
        np.concatenate([ranges.sigma, sigma]),
    )
