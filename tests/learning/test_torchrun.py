"""`torchrun` on one machine and on two nodes: the steps of one process, also after ranks and nodes are killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import Tensor

from mappable.arrays import Pixels
from mappable.learning.settings import Settings
from mappable.learning.trainer import train
from mappable.places.table import Places

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("sgd")]

Toy = tuple[Places, Pixels]
# `mappable ARGUMENTS` with one more folder of backbones. The processes of KILLED, in their first
# life, kill themselves before step 6 of 10: after the checkpoint of step 3, in the middle of an
# epoch. With NODE, their torchrun dies first.
COMMAND = """
import functools, itertools, os, signal, sys

import torch

from mappable.cli import main
from mappable.features import backbones
from mappable.learning import trainer
from mappable.learning.learner import Learner

trainer.SECONDS_BETWEEN_CHECKPOINTS = 0.0
torch.optim.Adam = functools.partial(torch.optim.SGD, momentum=0.9)  # Adam enlarges rounding
backbones.__path__.append(os.environ["BACKBONES"])
step, count = Learner.step, itertools.count(1)

def dying(*arguments):
    if next(count) == 6 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if os.environ.get("NODE"):
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*arguments)

if os.environ["RANK"] in os.environ.get("KILLED", "").split(","):
    Learner.step = dying
sys.argv[0] = "mappable"
main()
"""
SETTINGS = {"anchors": 5, "learning_rate": 0.1, "landmarks": 0}


@pytest.fixture
def chosen(small_backbone: str) -> Callable[..., Settings]:
    from small_training import TRAINING

    common = TRAINING | {"iterations": 10, "clusters": 4, "size": (64, 48), "checkpoint_every": 3}
    return lambda **changes: Settings(**common | SETTINGS | changes)


@pytest.fixture
def torchrun(
    backbones_folder: Path, tmp_path: Path
) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start `torchrun OPTIONS mappable ARGUMENTS`; processes that still run at the end are killed."""
    (tmp_path / "command.py").write_text(COMMAND)
    started: list[subprocess.Popen[str]] = []

    def begin(
        options: list[str], arguments: list[object], **variables: str
    ) -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            *options,
            str(tmp_path / "command.py"),
        ]
        environment = {
            **os.environ,
            "BACKBONES": str(backbones_folder),
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        running = subprocess.Popen(
            [*command, *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(running)
        return running

    yield begin
    for running in started:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def ended(running: "subprocess.Popen[str]") -> str:
    """All that it wrote, after it ended well."""
    text, _ = running.communicate(timeout=120)
    assert running.returncode == 0, text
    return text


def assert_same_steps(folder: Path, toy: Toy, chosen: Callable[..., Settings]) -> None:
    """The encoder in the folder moved as that of one process did, to the rounding of float32."""
    alone, before = train(*toy, chosen()), train(*toy, chosen(iterations=0))
    found = weights(folder)
    for (name, end), start in zip(
        alone.state_dict().items(), before.state_dict().values(), strict=True
    ):
        step = end - start
        assert step.norm() > 1e-4 * start.norm(), name
        assert (found[name.removeprefix("backbone.")] - end).norm() < 1e-4 * step.norm(), name


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "encoder.safetensors")


TWO = ["--standalone", "--nproc-per-node", "2"]


def test_a_killed_rank_is_started_again_and_the_result_is_the_same(
    toy: Toy,
    chosen: Callable[..., Settings],
    torchrun: Callable[..., "subprocess.Popen[str]"],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    ended(torchrun(TWO, train_arguments(chosen(), tmp_path / "whole")))
    assert_same_steps(tmp_path / "whole", toy, chosen)
    for killed in ("0", "1"):
        out = tmp_path / f"killed {killed}"
        text = ended(
            torchrun([*TWO, "--max-restarts", "1"], train_arguments(chosen(), out), KILLED=killed)
        )
        assert text.count("training on 40 references") == 2  # it was started twice
        assert ("lost another process" in text) == (killed == "1")  # only process 0 prints
        assert {
            name
            for name, one in weights(out).items()
            if not one.equal(weights(tmp_path / "whole")[name])
        } == set()
        lines = (out / "metrics.jsonl").read_text().splitlines()
        assert [f'"iteration": {number}' in line for number, line in enumerate(lines, 1)] == [
            True
        ] * 10


@pytest.mark.parametrize("killed", [False, True])
def test_two_nodes_train_together_and_one_goes_on_if_the_other_dies(
    killed: bool,
    toy: Toy,
    chosen: Callable[..., Settings],
    torchrun: Callable[..., "subprocess.Popen[str]"],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    quick = "last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3"
    options = ["--nnodes", "1:2" if killed else "2", "--nproc-per-node", "1", "--max-restarts", "2"]
    options += [
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        f"127.0.0.1:{port}",
        "--rdzv-id",
        "toy",
    ]
    options += ["--rdzv-conf", quick, "--local-addr", "127.0.0.1"]
    arguments, out = train_arguments(chosen(), tmp_path / "out"), tmp_path / "out"
    first = torchrun(options, arguments)
    # The node that dies must not be the one that keeps the store of torchrun: that is the first to
    # listen.
    while first.poll() is None and not _listens(port):
        time.sleep(0.1)
    second = torchrun(options, arguments, **({"KILLED": "0,1", "NODE": "1"} if killed else {}))
    text = ended(first)
    if killed:
        assert second.wait(timeout=60) == -signal.SIGKILL
        assert "lost another process" in text, text
    else:
        ended(second)
    assert_same_steps(out, toy, chosen)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
