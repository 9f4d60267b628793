"""What tests of learning share: settings for the toy world, and the command line in processes that may be killed."""

import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mappable.learning.learner import Batch, Learner
from mappable.learning.losses import Loss
from mappable.learning.settings import Settings, settings_to_yaml
from small_training import TRAINING

TOY = TRAINING | {
    "iterations": 10,
    "clusters": 4,
    "size": (64, 48),
    "landmarks": 6,
    "checkpoint_every": 3,
}

# `mappable ARGUMENTS` with the backbones of one more folder. A moment, such as (SIGKILL,
# "mappable.learning.learner: Learner.step", 3), is when the process sends itself that signal: just
# before that function is called so many times.
COMMAND = """
import itertools, os, pkgutil, sys

os.environ |= environment
written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(written, 1), os.dup2(written, 2)

import functools, torch

from mappable.cli import main
from mappable.features import backbones
from mappable.learning import trainer

trainer.SECONDS_BETWEEN_CHECKPOINTS = 0.0
if environment.get("SGD"):
    torch.optim.Adam = functools.partial(torch.optim.SGD, momentum=0.9)
backbones.__path__.append(backbones_folder)
if moment:
    number, name, count = moment
    owner, attribute = name.rsplit("." if "." in name.partition(":")[2] else ":", 1)
    owner = pkgutil.resolve_name(owner)
    function, calls = getattr(owner, attribute), itertools.count(1)

    def counting(*positional, **named):
        if next(calls) == count:
            os.kill(os.getpid(), number)
        return function(*positional, **named)

    setattr(owner, attribute, counting)
sys.argv = ["mappable", *arguments]
main()
"""

Moment = tuple[signal.Signals, str, int]


@dataclass(frozen=True)
class Command:
    """A command that is running, or was."""

    process: BaseProcess
    output: Path

    def wait(self) -> tuple[int | None, str]:
        """How it ended (minus the signal, if by one; None if it does not end), and all it wrote."""
        self.process.join(60)
        self.process.kill()
        return self.process.exitcode, self.output.read_text()


@pytest.fixture
def settings(small_backbone: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """Settings that suit the toy world, a network of two layers, and changes; no checkpoint is
    skipped.
    """
    monkeypatch.setattr("mappable.learning.trainer.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    return lambda **changes: Settings(**TOY | changes)


@pytest.fixture
def sgd(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Take steps along the gradient: Adam enlarges rounding. The variables do the same in a process
    of `start`.
    """
    monkeypatch.setattr(torch.optim, "Adam", partial(torch.optim.SGD, momentum=0.9))
    return {"SGD": "1"}


@pytest.fixture
def before_step() -> Callable[..., AbstractContextManager[None]]:
    """Within `before_step(n, act)`, `act(learner)` happens before the n-th step that is taken,
    counted from 1.
    """

    @contextmanager
    def acting(number: int, act: Callable[[Learner], object]) -> Iterator[None]:
        step, count = Learner.step, itertools.count(1)

        def counting(learner: Learner, loss: Loss, batch: Batch, *others: int) -> Tensor:
            if next(count) == number:
                act(learner)
            return step(learner, loss, batch, *others)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Learner, "step", counting)
            yield

    return acting


@pytest.fixture(scope="session")
def warm() -> ForkServerContext:
    """Starts processes that have PyTorch loaded already, and what of it an optimizer loads when it
    first steps.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["mappable.cli.app", "mappable.learning.trainer", "torch._dynamo"]
    )
    return context


@pytest.fixture
def start(
    warm: ForkServerContext, backbones_folder: Path, tmp_path: Path
) -> Callable[..., Command]:
    """Start `mappable ARGUMENTS` in a process of its own, which may send itself a signal at a
    `moment`.
    """
    count = itertools.count()

    def begin(*arguments: object, moment: Moment | None = None, **environment: str) -> Command:
        output = tmp_path / f"command-{next(count)}.txt"
        given: dict[str, Any] = {
            "arguments": [str(argument) for argument in arguments],
            "backbones_folder": str(backbones_folder),
            "environment": environment,
            "moment": moment,
            "output": str(output),
        }
        process = warm.Process(target=exec, args=(COMMAND, given), daemon=True)
        process.start()
        return Command(process, output)

    return begin


@pytest.fixture
def train_arguments(toy_folder: Path, tmp_path: Path) -> Callable[..., list[object]]:
    """The arguments of `mappable train` on the toy world with these settings."""

    def arguments(settings: Settings, out: Path, *more: str) -> list[object]:
        file = tmp_path / f"{out.name}.yaml"
        file.write_text(settings_to_yaml(settings))
        return ["train", toy_folder, out, "--settings", file, "--device", "cpu", *more]

    return arguments
