"""Several processes that train one encoder together come to the same as one, and one device is found by its name."""

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
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.learning import distributed
from mappable.learning.distributed import Group, find_device, joined, speaks
from mappable.learning.settings import Settings
from mappable.learning.trainer import train
from mappable.places.table import Places

Toy = tuple[Places, Pixels]
NewSettings = Callable[..., Settings]


def assert_same_updates(found: dict[str, Tensor], expected: dict[str, Tensor], before: dict[str, Tensor]) -> None:
    """Both moved each parameter by the same, to the rounding of float32."""
    assert found.keys() == expected.keys() == before.keys()
    for name in expected:
        update = expected[name] - before[name]
        assert update.norm() > 1e-3 * before[name].norm(), name
        assert (found[name] - expected[name]).norm() < 1e-3 * update.norm(), name


def tensors(encoder: Encoder) -> dict[str, Tensor]:
    return {name.removeprefix("backbone."): tensor.detach() for name, tensor in encoder.state_dict().items()}


def test_torchrun_with_two_processes_takes_the_steps_of_one(
    toy: Toy, settings: NewSettings, train_arguments: Callable[..., list[object]], tmp_path: Path
) -> None:
    """VGG-16, three anchors divided among two processes, one at a time, with a new mining period in between."""
    chosen = settings(
        backbone="vgg16",
        optimizer="sgd",
        learning_rate=0.3,
        anchors=3,
        positives=1,
        negatives=1,
        iterations=2,
        cache_every=1,
        cache_size=4,
        feature_scale_squared=1.0,
        monitor_queries=0,
    )
    out = tmp_path / "out"
    arguments = train_arguments(chosen.model_copy(update={"micro_batch": 1}), out)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run([*torchrun, "-m", "mappable", *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("encoder: ") == run.stderr.count("clusters: ") == 1
    alone = train(*toy, chosen)
    before = train(*toy, settings(**chosen.model_dump() | {"iterations": 0}))
    assert_same_updates(load_file(out / "encoder.safetensors"), tensors(alone), tensors(before))
    lines = (out / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 2


@pytest.fixture
def start_two(start: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Start a command twice, as torchrun does, with what comes out of both."""

    def begin(*arguments: object, moments: tuple[Any, Any] = (None, None)) -> list[tuple[int, str]]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        running = [
            start(*arguments, moment=moment, RANK=str(rank), LOCAL_RANK=str(rank), **common)
            for rank, moment in enumerate(moments)
        ]
        return [command.wait() for command in running]

    return begin


@pytest.mark.parametrize(
    ("trainable", "loss"), [("all", "lazy-quadruplet"), ("conv5", "triplet+huber"), ("all", "distance")]
)
def test_two_processes_take_the_steps_of_one(
    trainable: str,
    loss: str,
    toy: Toy,
    settings: NewSettings,
    start_two: Callable[..., list[Any]],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    chosen = settings(
        trainable=trainable,
        loss=loss,
        anchors=5,
        micro_batch=2,
        optimizer="sgd",
        learning_rate=0.1,
        iterations=3,
        cache_every=2,
        whitening=5,
    )
    out = tmp_path / "out"
    results = start_two(*train_arguments(chosen, out))
    assert [code for code, _ in results] == [0, 0], results
    alone = train(*toy, chosen, out=tmp_path / "alone")
    before = train(*toy, settings(**chosen.model_dump() | {"iterations": 0}))
    found, expected = load_file(out / "encoder.safetensors"), tensors(alone)
    for name in expected:
        update = expected[name] - tensors(before)[name]
        print(name, float(update.norm()/expected[name].norm()), float((found[name]-expected[name]).norm()/update.norm()))
