"""Several processes that train one encoder together come to the same as one."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mappable.arrays import Pixels
from mappable.features.encoder import Encoder
from mappable.learning.distributed import Group
from mappable.learning.settings import Settings
from mappable.learning.trainer import train
from mappable.places.table import Places

Toy = tuple[Places, Pixels]
NewSettings = Callable[..., Settings]


def assert_same_steps(
    found: dict[str, Tensor], expected: Encoder, before: Encoder, frozen: str = "none"
) -> None:
    """Both moved each parameter by the same, to the rounding of float32."""
    for name, tensor in tensors(before).items():
        if name == "reduction.signs":  # those of an axis may be turned around
            assert found[name].shape == tensor.shape
        elif name.startswith("reduction."):
            torch.testing.assert_close(
                found[name].abs(), tensors(expected)[name].abs(), atol=0.05, rtol=0
            )
        elif name.startswith(frozen):
            assert found[name].equal(tensor)
        else:
            step = tensors(expected)[name] - tensor
            assert step.norm() > 1e-4 * tensor.norm(), name
            assert (found[name] - tensor - step).norm() < 1e-4 * step.norm(), name


def tensors(encoder: Encoder) -> dict[str, Tensor]:
    """As the file has them."""
    return {name: tensor.detach() for name, tensor in encoder._tensors().items()}


COMMAND = """
import functools, torch

from mappable.cli import main

torch.optim.Adam = functools.partial(torch.optim.SGD, momentum=0.9)  # Adam enlarges rounding
main()
"""


@pytest.mark.long
@pytest.mark.usefixtures("sgd")
def test_torchrun_with_two_processes_takes_the_steps_of_one(
    toy: Toy, settings: NewSettings, train_arguments: Callable[..., list[object]], tmp_path: Path
) -> None:
    """VGG-16, three anchors divided among two processes, one at a time, with a new mining period in
    between.
    """
    chosen = settings(
        backbone="vgg16",
        learning_rate=0.3,
        anchors=3,
        positives=1,
        negatives=1,
        iterations=2,
        cache_every=1,
        cache_size=4,
        feature_scale_squared=1.0,
        landmarks=0,
    )
    out = tmp_path / "out"
    arguments = train_arguments(chosen, out)
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    run = subprocess.run(
        [*torchrun, str(script), *map(str, arguments)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("iterations ") == run.stderr.count("clusters: ") == 1
    before = train(*toy, settings(**chosen.model_dump() | {"iterations": 0}))
    assert_same_steps(load_file(out / "encoder.safetensors"), train(*toy, chosen), before)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.fixture
def start_two(start: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Start a command twice, as torchrun does, with what comes out of both."""

    def begin(
        *arguments: object, moments: tuple[Any, Any] = (None, None), **environment: str
    ) -> list[tuple[int, str]]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **environment}
        running = [
            start(*arguments, moment=moment, RANK=str(rank), LOCAL_RANK=str(rank), **common)
            for rank, moment in enumerate(moments)
        ]
        return [command.wait() for command in running]

    return begin


@pytest.mark.medium
@pytest.mark.parametrize(
    ("trainable", "loss"),
    [
        ("last", "triplet+huber"),
        pytest.param("all", "lazy-quadruplet", marks=pytest.mark.long),
        pytest.param("all", "distance", marks=pytest.mark.long),
    ],
)
def test_five_anchors_among_two_processes(
    trainable: str,
    loss: str,
    sgd: dict[str, str],
    toy: Toy,
    settings: NewSettings,
    start_two: Callable[..., list[Any]],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    changes = {"trainable": trainable, "loss": loss, "anchors": 5, "learning_rate": 0.1}
    changes |= {"dimensions": 5}
    chosen = settings(**changes, iterations=3, cache_every=2)
    out = tmp_path / "out"
    results = start_two(*train_arguments(chosen, out), **sgd)
    assert [code for code, _ in results] == [0, 0], results
    assert "iterations" in results[0][1]
    assert results[1][1] == ""
    alone, before = (
        train(*toy, chosen, out=tmp_path / "alone"),
        train(*toy, settings(**changes, iterations=0)),
    )
    found = load_file(out / "encoder.safetensors")
    assert_same_steps(found, alone, before, frozen="first" if trainable == "last" else "none")
    assert found["reduction.coordinates"].shape == (5, 5)
    of_two, of_one = (
        [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (out, tmp_path / "alone")
    )
    assert [line["iteration"] for line in of_two] == [0, 1, 2, 3, 3]
    for name in ("loss", "active", "residual", "accuracy"):
        assert [line.get(name) for line in of_two] == pytest.approx(
            [line.get(name) for line in of_one], abs=1e-5
        )


@pytest.mark.medium
def test_ctrl_c_in_one_process_stops_and_saves_all_of_them(
    settings: NewSettings,
    start_two: Callable[..., list[Any]],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    chosen, out = settings(checkpoint_every=100), tmp_path / "out"
    moment = (signal.SIGINT, "mappable.learning.learner:Learner.step", 6)
    results = start_two(*train_arguments(chosen, out), moments=(None, moment))
    assert [code for code, _ in results] == [130, 130], results
    assert "of 10, which is saved in" in results[0][1]
    assert results[1][1] == ""
    assert [code for code, _ in start_two(*train_arguments(chosen, out))] == [0, 0]
    assert [code for code, _ in start_two(*train_arguments(chosen, tmp_path / "whole"))] == [0, 0]
    stopped, whole = (
        load_file(folder / "encoder.safetensors") for folder in (out, tmp_path / "whole")
    )
    assert all(stopped[name].equal(whole[name]) for name in whole)


def test_shares_cover_everything_once_and_differ_by_one_at_most() -> None:
    for size in (1, 2, 3, 7):
        for count in (0, 1, 2, 6, 7, 100):
            shares = [Group(rank, size).share(count) for rank in range(size)]
            assert [row for share in shares for row in range(count)[share]] == list(range(count))
            lengths = [share.stop - share.start for share in shares]
            assert max(lengths) - min(lengths) <= 1
