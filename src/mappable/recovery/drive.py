"""Recover the positions of a drive: `mappable recover`, `POST /recover` and the protocol map-recovery all call this.

The images of a drive are in order. If no range joins an image to the next, the drive would break in two. Recovery then
assumes a step of the median length, and the result counts the assumed steps.
"""

from dataclasses import replace

import numpy as np

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.anchored.relative import covered
from mappable.recovery.hints import Anchors, Motions, Odometry, Turns
from mappable.recovery.methods import method as find_method
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered


def recover_drive(
    ranges: Ranges,
    dimensions: int = 2,
    *,
    anchors: Anchors | None = None,
    odometry: Odometry | None = None,
    motions: Motions | None = None,
    turns: Turns | None = None,
    ordered: bool = True,
    assume_steps: bool = True,
    method: str = "default",
    seed: int = 0,
    progress: bool = False,
) -> Recovered:
    """Recover positions in the coordinates of the anchors or, without anchors, in arbitrary coordinates.

    `motions` are relative motions of the camera, such as odometry, with or without anchors.

    If points are `ordered`, they are the images of one drive. With `assume_steps`, a step is assumed wherever no range
    joins an image to the next. `method` is used only without anchors. In the result, `used` refers to the given ranges,
    and `assumed` counts the assumed steps.
    """
    run = find_method(method).run
    if (anchors is not None or motions is not None) and method != "default":
        raise BadInputError(
            f"method {method} does not use known positions or odometry: use the default method, or leave these out"
        )
    steps = missing_steps(ranges, motions) if ordered and assume_steps else np.arange(0)
    linked = ranges if not len(steps) else _with_steps(ranges, steps)
    if anchors is None and motions is None:
        recovered = run(linked, dimensions, seed)
    else:
        hints = {"odometry": odometry, "motions": motions, "turns": turns}
        recovered = recover_anchored(linked, anchors, ordered=ordered, seed=seed, progress=progress, **hints)  # type: ignore[arg-type]
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


def missing_steps(ranges: Ranges, motions: Motions | None = None) -> Ints:
    """Return the points that no range and no motion joins to the next point."""
    joined = ranges.i[ranges.j - ranges.i == 1]
    if motions is not None:
        joined = np.concatenate([joined, np.flatnonzero(covered(motions, [np.arange(ranges.count)], ranges.count))])
    return np.setdiff1d(np.arange(ranges.count - 1), joined)


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
