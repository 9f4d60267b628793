"""Run a recovery from files: check the user's hints, recover positions, write them and report."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.checksums import digest_of_file
from mappable.errors import BadInputError
from mappable.files import check_writable, written_together
from mappable.recovery.drive import recover_drive
from mappable.recovery.figure import draw_recovery
from mappable.recovery.files import (
    POSITIONS,
    RECOVERY,
    SUMMARY,
    TRAJECTORY,
    check_points,
    read_anchors,
    read_truth,
    read_turns,
    write_positions,
)
from mappable.recovery.graph_files import write_graph
from mappable.recovery.graphs import Graph, as_given, graph_of, known_positions, placing_pose, recover_graph
from mappable.recovery.hints import Motions, Odometry
from mappable.recovery.methods import method as find_method
from mappable.recovery.ranges import Ranges
from mappable.recovery.report import Report, report
from mappable.recovery.tracks import Track, read_odometry
from mappable.trajectories import write_tum

FIGURE, GRAPH = "recovery.png", "graph"


@dataclass(frozen=True)
class Measured:
    """Ranges to recover positions from, and where they come from."""

    ranges: Ranges
    name: str  # title of the figure
    facts: dict[str, Any]  # source of the ranges; written to the summary
    seconds: Floats | None = None  # (n,): times of the points
    graph: Graph | None = None  # if the ranges come with a factor graph


@dataclass(frozen=True)
class Task:
    """Files with what is known besides the ranges, and options of the recovery; see `recover_drive`."""

    anchors: Path | None = None
    odometry: Path | None = None
    turns: Path | None = None
    ordered: bool = True
    assume_steps: bool = True
    truth: Path | None = None
    dimensions: int | None = None  # default: the dimensions of the anchors, or 2 without anchors
    method: str = "default"
    radius: float | None = None  # metres: longer ranges are not used
    seed: int = 0
    graph_suffix: str | None = None  # also write the result as a factor graph: .g2o or .pyfg
    read_truth: Callable[[Path, int], Floats] = field(default=read_truth, repr=False)
    read_odometry: Callable[[Path], Odometry | Motions | Track] = field(default=read_odometry, repr=False)

    def __post_init__(self) -> None:
        if self.turns is not None and self.anchors is None:
            raise BadInputError("--turns needs known positions: give --anchors")
        if self.turns is not None and not self.ordered:
            raise BadInputError("--turns needs an order of the images: leave out --unordered")
        if not self.ordered and self.anchors is None and self.odometry is None and not self.assume_steps:
            raise BadInputError("--unordered needs known positions or odometry: give --anchors or --odometry")


def recover_to_folder(task: Task, measure: Callable[[], Measured], out: Path, *, figure: bool = False) -> Report:
    """Measure, recover and write to the folder `out`.

    The task is checked before `measure` is called, because measuring can take long.
    """
    find_method(task.method)
    if out.exists() and not out.is_dir():
        raise BadInputError(f"{out}: is a file, expected a folder to write to")
    check_writable(out / POSITIONS)
    anchors = None if task.anchors is None else read_anchors(task.anchors)
    odometry = None if task.odometry is None else task.read_odometry(task.odometry)
    if isinstance(odometry, Odometry) and anchors is None:
        raise BadInputError(f"{task.odometry}: displacements along the map's axes need known positions: give --anchors")
    turns = None if task.turns is None else read_turns(task.turns)
    dimensions = task.dimensions or (2 if anchors is None else anchors.positions.shape[1])
    if anchors is not None:
        _check_dimensions(task.anchors, anchors.positions.shape[1] == dimensions, anchors.positions, dimensions)
    measured = measure()
    ranges = measured.ranges
    for file in (task.anchors, task.odometry, task.turns):
        check_points(file, ranges.count)
    if measured.graph is not None:
        dimensions = measured.graph.positions.shape[1]
        _check_graph(task, measured.name)
    if task.radius is not None:
        ranges = ranges.where(ranges.metres <= task.radius)
    truth = None if task.truth is None else task.read_truth(task.truth, ranges.count)
    if truth is not None:
        _check_dimensions(task.truth, truth.shape[1] >= dimensions, truth, dimensions)
        truth = truth[:, :dimensions]
    motions = _motions(odometry, ranges.count, measured.seconds, dimensions)
    given = measured.graph
    if given is not None:
        given = replace(given, ranges=ranges)
        anchors = known_positions(given)
        try:
            recovered = recover_graph(given, seed=task.seed)
        except BadInputError as error:
            raise BadInputError(f"{measured.name}: {error}") from None
    else:
        recovered = recover_drive(
            ranges,
            dimensions,
            anchors=anchors,
            odometry=odometry if isinstance(odometry, Odometry) else None,
            motions=motions,
            turns=turns,
            ordered=task.ordered,
            assume_steps=task.assume_steps,
            method=task.method,
            seed=task.seed,
            progress=True,
        )
    reported = report(ranges, recovered, anchors=anchors, truth=truth, radius=task.radius)
    with written_together(out / POSITIONS, out / TRAJECTORY, out / SUMMARY) as (positions, trajectory, summary):
        write_positions(positions, recovered)
        write_tum(trajectory, *_trajectory(recovered.positions, measured))
        files = {POSITIONS: digest_of_file(positions), TRAJECTORY: digest_of_file(trajectory)}
        RECOVERY.write(summary, measured.facts | {"method": task.method} | asdict(reported) | {"files": files})
    if task.graph_suffix is not None:
        graph = graph_of(ranges, recovered, None if given is not None and placing_pose(given) is not None else anchors)
        written = graph if given is None else as_given(graph, given, recovered)
        write_graph((out / GRAPH).with_suffix(task.graph_suffix), written)
    if figure:
        known = None if anchors is None else anchors.points
        draw_recovery(out / FIGURE, ranges, recovered, truth=truth, anchors=known, title=measured.name)
    return reported


def _trajectory(positions: Floats, measured: Measured) -> tuple[Floats, Floats]:
    """Return positions and times of the images; without times, the number of the point. Landmarks are no images."""
    numbers = np.arange(len(positions), dtype=np.float64)
    seconds = numbers if measured.seconds is None else measured.seconds
    if measured.graph is None or not measured.graph.oriented.any():
        return positions, seconds
    return positions[measured.graph.oriented], seconds[measured.graph.oriented]


def _check_graph(task: Task, name: str) -> None:
    """Raise if an option does not go with a factor graph, which has its own hints."""
    usual = Task()
    options = ("anchors", "odometry", "turns", "ordered", "dimensions", "method")
    given = [option for option in options if getattr(task, option) != getattr(usual, option)]
    if given:
        option = "unordered" if given[0] == "ordered" else given[0]
        raise BadInputError(f"{name}: a factor graph has its own hints: leave out --{option}")


def _motions(
    odometry: Odometry | Motions | Track | None, count: int, seconds: Floats | None, dimensions: int
) -> Motions | None:
    if isinstance(odometry, Track):
        return odometry.motions(count, seconds, dimensions)
    return odometry if isinstance(odometry, Motions) else None


def _check_dimensions(file: Path | None, fits: bool, positions: Floats, wanted: int) -> None:
    if not fits:
        raise BadInputError(f"{file}: positions have {positions.shape[1]} dimensions, expected {wanted}")
