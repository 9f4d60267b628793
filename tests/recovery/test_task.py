"""A recovery from files to files: what is wrong is found before anything is measured, and what is written."""

import json
from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges
from mappable.recovery.task import (
    FIGURE,
    POSITIONS,
    SUMMARY,
    TRAJECTORY,
    Measured,
    Task,
    recover_to_folder,
)


def square() -> Measured:
    """Four points of a square, and times."""
    ranges = Ranges(
        4, [0, 1, 2, 0, 0, 1], [1, 2, 3, 3, 2, 3], [2.0, 2.0, 2.0, 2.0, 8**0.5, 8**0.5], 0.1
    )
    return Measured(ranges, "square", {"file": "square.csv"}, np.array([10.0, 11.0, 12.0, 13.0]))


def measured_too_early() -> Measured:
    pytest.fail("measured before the task was checked")


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


@pytest.mark.medium
def test_positions_times_and_a_summary_are_written(tmp_path: Path) -> None:
    said = recover_to_folder(Task(), square, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(
        [POSITIONS, TRAJECTORY, SUMMARY, FIGURE]
    )
    assert np.loadtxt(tmp_path / "out" / TRAJECTORY)[:, 0].tolist() == [10.0, 11.0, 12.0, 13.0]
    summary = json.loads((tmp_path / "out" / SUMMARY).read_text())
    assert (summary["file"], summary["method"], summary["points"], summary["assumed"]) == (
        "square.csv",
        "default",
        4,
        0,
    )
    assert next(said.lines()).startswith("4 points in 2 dimensions, 6 ranges")


def test_what_is_wrong_is_found_before_anything_is_measured(tmp_path: Path) -> None:
    anchors = written(tmp_path / "anchors.csv", "point,x,y,z\n0,0,0,0\n")
    for task, part in (
        (Task(method="magic"), "'magic'"),
        (Task(anchors=tmp_path / "no.csv"), "no.csv: no such file"),
        (
            Task(odometry=written(tmp_path / "ways.csv", "time,x,y,yaw\n1,x,0,0\n2,0,0,0\n")),
            "ways.csv, row 2",
        ),
        (
            Task(anchors=anchors, dimensions=2),
            "anchors.csv: positions have 3 dimensions, expected 2",
        ),
    ):
        with pytest.raises(BadInputError) as refused:
            recover_to_folder(task, measured_too_early, tmp_path / "out")
        assert part in str(refused.value)
    with pytest.raises(BadInputError, match="is a file"):
        recover_to_folder(Task(), measured_too_early, anchors)
    assert not (tmp_path / "out").exists()
