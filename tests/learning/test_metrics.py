"""Metrics: one JSON object a line, each iteration once whatever happened between, and TensorBoard's own files."""

import json
import sys
import warnings
from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.learning.metrics import Metrics, check_tensorboard, read_metrics


def iterations(folder: Path) -> list[int]:
    return [json.loads(line)["iteration"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


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


def test_metrics_that_were_deleted_begin_anew(tmp_path: Path) -> None:
    with Metrics(tmp_path, iteration=3) as metrics:
        metrics.write(4, loss=2.0)
    assert iterations(tmp_path) == [4]


def test_a_torn_last_line_is_left_out_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"iteration": 0}\n{"iteration": 1}\n{"iterat')
    assert [line["iteration"] for line in read_metrics(tmp_path)] == [0, 1]
    file.write_text('{"iteration": 0}\n{"iterat\n')
    with pytest.raises(BadInputError, match=r"metrics\.jsonl, row 2"):
        read_metrics(tmp_path)


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Metrics(None, tensorboard=True) as metrics:
        metrics.write(1, loss=1.0)
    assert not list(tmp_path.iterdir())


def test_tensorboard_shows_each_iteration_once_though_the_run_was_killed_and_begun_anew(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that TensorBoard brings along
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        for begin, end in ((0, 3), (0, 6), (3, 5)):
            with Metrics(tmp_path, iteration=begin, tensorboard=True) as metrics:
                if not begin:
                    metrics.write(0, accuracy=0.5)
                for iteration in range(begin + 1, end + 1):
                    metrics.write(iteration, loss=iteration + end / 10)
        shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, round(event.value, 3)) for event in shown.Scalars("loss")] == [
        (1, 1.6),
        (2, 2.6),
        (3, 3.6),
        (4, 4.5),
        (5, 5.5),
    ]
    assert [event.step for event in shown.Scalars("accuracy")] == [0]


def test_tensorboard_that_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that TensorBoard brings along
        check_tensorboard()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(BadInputError, match=r"pip install 'mappable\[tensorboard\]'"):
        check_tensorboard()
