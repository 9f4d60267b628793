"""Run a recovery from files: check what the user gives, recover positions, write them and report."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.checksums import digest_of_file
from mappable.errors import BadInputError
from mappable.files import check_writable, written_together
from mappable.odometry import Track
from mappable.recovery.figure import draw_recovery
from mappable.recovery.files import (
    POSITIONS,
    RECOVERY,
    SUMMARY,
    TRAJECTORY,
    check_points,
    motions_of_track,
    read_anchors,
    read_odometry,
    read_truth,
    write_positions,
)
from mappable.recovery.g2o import write_g2o
from mappable.recovery.graph import load_gtsam
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.methods import DEFAULT, find_method
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.report import Report, report
from mappable.recovery.result import Recovered
from mappable.trajectories import write_tum

FIGURE, GRAPH = "recovery.png", "graph.g2o"


@dataclass(frozen=True)
class Measured:
    """Ranges to recover positions from, and where they come from."""

    ranges: Ranges
    name: str  # title of the figure
    facts: dict[str, Any]  # source of the ranges; written to the summary
    seconds: Floats | None = None  # (n,): times of the points
    motions: Motions | None = None  # if they come with the ranges


@dataclass(frozen=True)
class Task:
    """Files with what is known besides the ranges, and options of the recovery; see `recover`."""

    anchors: Path | None = None
    odometry: Path | None = None
    ordered: bool = True
    assume_steps: bool = True
    truth: Path | None = None
    dimensions: int | None = None  # default: the dimensions of the anchors, or 2 without anchors
    method: str = DEFAULT
    radius: float | None = None  # metres: longer ranges are not used
    seed: int = 0
    read_truth: Callable[[Path, int], Floats] = field(default=read_truth, repr=False)


def recover_to_folder(task: Task, measure: Callable[[], Measured], out: Path) -> Report:
    """Measure, recover and write to the folder `out`; with motions, also a pose graph.

    The task is checked before `measure` is called, because measuring can take long.
    """
    find_method(task.method)
    if task.method != DEFAULT and (task.anchors is not None or task.odometry is not None):
        raise BadInputError(
            f"method {task.method} does not use known positions or odometry: use the default"
            " method, or leave these out"
        )
    if out.exists() and not out.is_dir():
        raise BadInputError(f"{out}: is a file, expected a folder to write to")
    check_writable(out / POSITIONS)
    anchors = None if task.anchors is None else read_anchors(task.anchors)
    odometry = None if task.odometry is None else read_odometry(task.odometry)
    dimensions = task.dimensions or (2 if anchors is None else anchors.positions.shape[1])
    if anchors is not None:
        _check_dimensions(
            task.anchors, anchors.positions.shape[1] == dimensions, anchors.positions, dimensions
        )
    if anchors is not None or odometry is not None:
        load_gtsam()  # measuring may take long, so this fails early
    measured = measure()
    for file in (task.anchors, task.odometry):
        check_points(file, measured.ranges.count)
    if task.radius is not None:
        ranges = measured.ranges.where(measured.ranges.metres <= task.radius)
    else:
        ranges = measured.ranges
    truth = None if task.truth is None else task.read_truth(task.truth, ranges.count)
    if truth is not None:
        _check_dimensions(task.truth, truth.shape[1] >= dimensions, truth, dimensions)
        truth = truth[:, :dimensions]
    motions = odometry if odometry is not None else measured.motions
    if isinstance(motions, Track):
        motions = motions_of_track(motions, ranges.count, measured.seconds, dimensions)
    recovered = _recovered(task, ranges, dimensions, anchors, motions)
    reported = report(ranges, recovered, anchors=anchors, truth=truth, radius=task.radius)
    with written_together(out / POSITIONS, out / TRAJECTORY, out / SUMMARY) as (
        positions,
        trajectory,
        summary,
    ):
        write_positions(positions, recovered)
        numbers = np.arange(ranges.count, dtype=np.float64)
        write_tum(
            trajectory,
            recovered.positions,
            numbers if measured.seconds is None else measured.seconds,
        )
        files = {POSITIONS: digest_of_file(positions), TRAJECTORY: digest_of_file(trajectory)}
        RECOVERY.write(
            summary, measured.facts | {"method": task.method} | asdict(reported) | {"files": files}
        )
    if motions is not None:
        write_g2o(out / GRAPH, recovered, motions)
    known = None if anchors is None else anchors.points
    draw_recovery(out / FIGURE, ranges, recovered, truth=truth, anchors=known, title=measured.name)
    return reported


def _recovered(
    task: Task, ranges: Ranges, dimensions: int, anchors: Anchors | None, motions: Motions | None
) -> Recovered:
    if task.method != DEFAULT:
        return find_method(task.method).run(ranges, dimensions, task.seed)
    return recover(
        ranges,
        dimensions,
        anchors=anchors,
        motions=motions,
        ordered=task.ordered,
        assume_steps=task.assume_steps,
        seed=task.seed,
    )


def _check_dimensions(file: Path | None, fits: bool, positions: Floats, wanted: int) -> None:
    if not fits:
        raise BadInputError(
            f"{file}: positions have {positions.shape[1]} dimensions, expected {wanted}"
        )
