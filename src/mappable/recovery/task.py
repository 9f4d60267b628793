"""A recovery as a user asks for it: hints from files are checked, positions are recovered, reported and written."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.files import check_writable
from mappable.recovery.drive import recover_drive
from mappable.recovery.figure import draw_recovery
from mappable.recovery.files import RECOVERY, read_anchors, read_odometry, read_truth, read_turns, write_positions
from mappable.recovery.methods import method as find_method
from mappable.recovery.ranges import Ranges
from mappable.recovery.report import Report, report
from mappable.trajectories import write_tum

POSITIONS, TRAJECTORY, SUMMARY, FIGURE = "positions.csv", "trajectory.txt", "summary.json", "recovery.png"


@dataclass(frozen=True)
class Measured:
    """What positions are recovered from."""

    ranges: Ranges
    name: str  # title of the figure
    facts: dict[str, Any]  # where the ranges come from, for the summary
    seconds: Floats | None = None  # (n,): times of the points


@dataclass(frozen=True)
class Task:
    """What is known beside the ranges, by file, and how to recover; see `recover_drive`."""

    anchors: Path | None = None
    odometry: Path | None = None
    turns: Path | None = None
    ordered: bool = True
    assume_steps: bool = True
    truth: Path | None = None
    dimensions: int | None = None  # those of the anchors, or else 2
    method: str = "default"
    radius: float | None = None  # metres: only ranges up to it are used
    seed: int = 0
    read_truth: Callable[[Path, int], Floats] = field(default=read_truth, repr=False)

    def __post_init__(self) -> None:
        if self.odometry is not None and self.anchors is None:
            raise BadInputError("--odometry needs known positions: give --anchors")
        if self.turns is not None and self.anchors is None:
            raise BadInputError("--turns needs known positions: give --anchors")
        if self.turns is not None and not self.ordered:
            raise BadInputError("--turns are along a drive: leave out --unordered")
        if not self.ordered and self.anchors is None and not self.assume_steps:
            raise BadInputError("--unordered needs known positions: give --anchors")


def recover_to_folder(task: Task, measure: Callable[[], Measured], out: Path, *, figure: bool = False) -> Report:
    """Measure, recover and write to the folder `out`; what is wrong with the task is found before the long work."""
    find_method(task.method)
    if out.exists() and not out.is_dir():
        raise BadInputError(f"{out}: is a file; give a folder to write to")
    check_writable(out / POSITIONS)
    anchors = None if task.anchors is None else read_anchors(task.anchors)
    odometry = None if task.odometry is None else read_odometry(task.odometry)
    turns = None if task.turns is None else read_turns(task.turns)
    dimensions = task.dimensions or (2 if anchors is None else anchors.positions.shape[1])
    if anchors is not None:
        _check_dimensions(task.anchors, anchors.positions.shape[1] == dimensions, anchors.positions, dimensions)
    measured = measure()
    ranges = measured.ranges
    if task.radius is not None:
        ranges = ranges.where(ranges.metres <= task.radius)
    truth = None if task.truth is None else task.read_truth(task.truth, ranges.count)
    if truth is not None:
        _check_dimensions(task.truth, truth.shape[1] >= dimensions, truth, dimensions)
        truth = truth[:, :dimensions]
    recovered = recover_drive(
        ranges,
        dimensions,
        anchors=anchors,
        odometry=odometry,
        turns=turns,
        ordered=task.ordered,
        assume_steps=task.assume_steps,
        method=task.method,
        seed=task.seed,
        progress=True,
    )
    said = report(ranges, recovered, anchors=anchors, truth=truth, radius=task.radius)
    write_positions(out / POSITIONS, recovered)
    write_tum(out / TRAJECTORY, recovered.positions, measured.seconds)
    RECOVERY.write(out / SUMMARY, measured.facts | {"method": task.method} | asdict(said))
    if figure:
        known = None if anchors is None else anchors.points
        draw_recovery(out / FIGURE, ranges, recovered, truth=truth, anchors=known, title=measured.name)
    return said


def _check_dimensions(file: Path | None, right: bool, positions: Floats, wanted: int) -> None:
    if not right:
        raise BadInputError(f"{file}: has {positions.shape[1]} dimensions, but {wanted} are asked for")
