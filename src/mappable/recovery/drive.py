"""The one path from ranges to positions: `mappable recover`, `POST /recover` and the protocol map-recovery take it.

The images of a drive are in order. Where no range joins an image to the next, the drive would break in two. A step of
the usual length is assumed there, and the result says how many steps were assumed.
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
    """Positions in the coordinates of the anchors or, without anchors, in coordinates of their own.

    If points are `ordered`, they are the images of one drive, and with `assume_steps` a step is assumed wherever no
    range joins an image to the next. Without anchors the `method` recovers the positions. `used` of the result is about
    the given ranges; `assumed` counts the steps.
    """
    run = find_method(method).run
    if anchors is not None and method != "default":
        raise BadInputError(f"known positions are used by the default method alone, not by {method}")
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
    said = (
        f"{len(steps):,} of {ranges.count:,} images have no range to the next: a step of {_usual_step(ranges):.2g} m,"
        " give or take as much, is assumed there."
    )
    return replace(
        recovered,
        used=recovered.used[measured],
        assumed=len(steps),
        undetermined=(*recovered.undetermined, said),
    )


def missing_steps(ranges: Ranges) -> Ints:
    """The points that no range joins to the next."""
    return np.setdiff1d(np.arange(ranges.count - 1), ranges.i[ranges.j - ranges.i == 1])


def _usual_step(ranges: Ranges) -> float:
    """Median metres from a point to the next or, if no range tells, of all ranges."""
    following = ranges.j - ranges.i == 1
    return float(np.median(ranges.metres[following] if following.any() else ranges.metres))


def _with_steps(ranges: Ranges, points: Ints) -> Ranges:
    """The ranges, and a usual step from each of these points to the next, with a sigma as large as the step."""
    if not len(ranges):
        raise BadInputError("there are no ranges to tell how long a usual step is")
    step = np.full(len(points), _usual_step(ranges))
    sigma = np.where(step > 0, step, np.median(ranges.sigma))
    return Ranges(
        ranges.count,
        np.concatenate([ranges.i, points]),
        np.concatenate([ranges.j, points + 1]),
        np.concatenate([ranges.metres, step]),
        np.concatenate([ranges.sigma, sigma]),
    )
