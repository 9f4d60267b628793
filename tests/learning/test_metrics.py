"""Metrics: one JSON object a line, each iteration once whatever happened between, and TensorBoard's own files."""

import json
from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.learning.metrics import Metrics, read_metrics


def iterations(folder: Path) -> list[int]:
    return [
        json.loads(line)["iteration"]
        for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


def test_each_line_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with Metrics(tmp_path / "out") as metrics:
        metrics.write(0, accuracy=0.25)
        metrics.write(1, loss=0.1 + 0.2, active=1.0)
        lines = (tmp_path / "out/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"iteration": 0, "accuracy": 0.25},
        {"iteration": 1, "loss": 0.1 + 0.2, "active": 1.0},
    ]


def test_a_run_that_goes_on_keeps_what_was_before_its_checkpoint(tmp_path: Path) -> None:
    with Metrics(tmp_path) as metrics:
        for iteration in range(6):
            metrics.write(iteration, loss=1.0)
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write('{"iteration": 6, "lo')  # the process was killed here
    with Metrics(tmp_path, iteration=3) as metrics:
        metrics.write(4, loss=2.0)
    assert iterations(tmp_path) == [0, 1, 2, 3, 4]
    with Metrics(tmp_path) as metrics:
        metrics.write(0, accuracy=0.5)
    assert iterations(tmp_path) == [0]


def test_a_torn_last_line_is_left_out_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"iteration": 0}\n{"iteration": 1}\n{"iterat')
    assert [line["iteration"] for line in read_metrics(tmp_path)] == [0, 1]
    file.write_text('{"iteration": 0}\n{"iterat\n')
    with pytest.raises(BadInputError, match=r"metrics\.jsonl, row 2"):
        read_metrics(tmp_path)
