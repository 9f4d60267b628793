"""Runs that are killed, or stopped by Ctrl-C, at the worst moments go on to the very same encoder."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import Tensor

from mappable.arrays import Pixels
from mappable.features.encoder import Encoder
from mappable.learning import choosing
from mappable.learning.auto import Plan
from mappable.learning.choosing import train_as_planned
from mappable.learning.learner import Batch, Learner
from mappable.learning.losses import Loss
from mappable.learning.settings import Settings
from mappable.learning.trainer import TrainingStopped, train
from mappable.places.pixels import ImageRows
from mappable.places.table import Places

pytestmark = pytest.mark.medium

Toy = tuple[Places, Pixels]
NewSettings = Callable[..., Settings]
BeforeStep = Callable[..., AbstractContextManager[None]]
STEP = "mappable.learning.learner:Learner.step"
# Just before what each run dies, having gone on from where the one before it died; iterations are
# counted from 1.
MOMENTS = [
    (STEP, 3),  # nothing is saved yet
    # The checkpoint of iteration 6 is written, but does not have its name yet.
    ("pathlib:Path.replace", 4),
    # Iterations 4 and 5, of the second mining period, are reported.
    ("mappable.learning.metrics:Metrics.write", 3),
    (STEP, 5),  # three further steps and a checkpoint in the middle of that period
    # The next period's images are about to be described.
    ("mappable.learning.learner:Learner.describe", 1),
    ("mappable.features.encoder:Encoder.save", 1),  # trained, but not saved
    ("pathlib:Path.unlink", 1),  # saved, but the last checkpoint is still there
]
# Activations of 16 of 44 images are written.
WHILE_FREEZING = ("mappable.features.activations:_lower", 4)


def tensors(encoder: Encoder) -> dict[str, Tensor]:
    """As the file has them."""
    return {name: tensor.detach() for name, tensor in encoder._tensors().items()}


def assert_identical(file: Path, encoder: Encoder) -> None:
    found, expected = load_file(file), tensors(encoder)
    assert found.keys() == expected.keys()
    assert [name for name in expected if not found[name].equal(expected[name])] == []


def reports(folder: Path) -> list[dict[str, Any]]:
    """What the metrics say, but for how fast it went."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: line[name] for name in line if name not in ("seconds", "images_per_second")}
        for line in lines
    ]


@pytest.mark.parametrize(
    ("trainable", "precision"),
    [
        pytest.param("all", "float32", marks=pytest.mark.long),
        pytest.param("all", "bfloat16", marks=pytest.mark.long),
        ("last", "bfloat16"),
    ],
)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(
    trainable: str,
    precision: str,
    toy: Toy,
    settings: NewSettings,
    start: Callable[..., Any],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    # The seed of no other test, so that no other has left its activations beside the images.
    own = 7
    chosen = settings(trainable=trainable, precision=precision, monitor_every=5, seed=own)
    whole = train(*toy, chosen, out=tmp_path / "whole")
    out = tmp_path / "killed"
    command = train_arguments(chosen, out)
    for name, count in [WHILE_FREEZING, *MOMENTS] if trainable == "last" else MOMENTS:
        code, text = start(*command, moment=(signal.SIGKILL, name, count)).wait()
        assert code == -signal.SIGKILL, (name, text)
    assert {"checkpoint.safetensors", "encoder.safetensors"} <= {
        file.name for file in out.iterdir()
    }
    code, text = start(*command).wait()
    assert code == 0, text
    assert "10" in text
    assert_identical(out / "encoder.safetensors", whole)
    assert reports(out) == reports(tmp_path / "whole")
    assert [line["iteration"] for line in reports(out) if "loss" in line] == list(range(1, 11))
    assert {file.name for file in out.iterdir()} - {".lock"} == {
        "encoder.safetensors",
        "metrics.jsonl",
        "settings.yaml",
    }


def test_a_stopped_run_goes_on_with_its_changes_and_its_average(
    toy: Toy, settings: NewSettings, before_step: BeforeStep, tmp_path: Path
) -> None:
    """In the middle of a mining period; and each of these settings has its part in what comes out."""
    alone: list[dict[str, Any]] = [{"mirrored": 0.5}, {"light": 0.3}, {"averaging": 0.6}]
    together = {name: value for one in alone for name, value in one.items()}
    whole = train(*toy, settings(**together))
    with (
        before_step(6, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(TrainingStopped, match="6 of 10"),
    ):
        train(*toy, settings(**together), out=tmp_path)
    train(*toy, settings(**together), out=tmp_path)
    assert_identical(tmp_path / "encoder.safetensors", whole)
    ways = [{}, *alone]
    others = {train(*toy, settings(iterations=3, landmarks=0, **way)).fingerprint for way in ways}
    assert len(others) == len(ways)


def test_ctrl_c_saves_and_says_how_to_go_on(
    toy: Toy,
    settings: NewSettings,
    start: Callable[..., Any],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    chosen, out = settings(checkpoint_every=100, dimensions=5), tmp_path / "out"
    code, text = start(*train_arguments(chosen, out), moment=(signal.SIGINT, STEP, 6)).wait()
    sentence = (
        f"stopped at iteration 6 of 10, which is saved in {out}; the same command continues from"
        " there"
    )
    assert (code, text.splitlines()[-1]) == (130, sentence)
    assert "finishing this step and saving; a second Ctrl-C stops at once\n" in text
    # In the last step it is too late to stop: all is finished and saved first.
    code, text = start(*train_arguments(chosen, out), moment=(signal.SIGINT, STEP, 4)).wait()
    assert (code, text.splitlines()[-1]) == (
        130,
        "error: stopped; finished work is kept, and the same command continues from there",
    )
    whole = train(*toy, chosen)
    assert_identical(out / "encoder.safetensors", whole)
    code, text = start(*train_arguments(chosen, out)).wait()
    assert code == 0
    assert f"{out}/encoder.safetensors" in text
    assert [line["iteration"] for line in reports(out) if "loss" in line] == list(range(1, 11))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock of the trainer that stands still unless a test moves it: ten seconds per step."""
    now, step = [0.0], Learner.step
    for module in ("trainer", "choosing"):
        monkeypatch.setattr(
            f"mappable.learning.{module}.time", SimpleNamespace(perf_counter=lambda: now[0])
        )

    def slow(learner: Learner, loss: Loss, batch: Batch, *others: int) -> Tensor:
        now[0] += 10.0
        return step(learner, loss, batch, *others)

    monkeypatch.setattr(Learner, "step", slow)
    return now


@pytest.mark.usefixtures("clock")
def test_a_deadline_ends_training_with_the_steps_so_far_and_more_minutes_continue(
    toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    whole = train(*toy, settings())
    part = train(*toy, settings(), out=tmp_path, minutes=0.6)
    assert part.about.settings["iterations"] == 4
    assert Encoder.load(tmp_path / "encoder.safetensors").fingerprint == part.fingerprint
    again = train(*toy, settings(), out=tmp_path, minutes=0)
    assert again.fingerprint == part.fingerprint
    assert (tmp_path / "checkpoint.safetensors").exists()
    more = train(*toy, settings(), out=tmp_path, minutes=1.1)  # the first 40 seconds count
    assert more.about.settings["iterations"] == 7
    assert train(*toy, settings(), out=tmp_path).fingerprint == whole.fingerprint
    assert not (tmp_path / "checkpoint.safetensors").exists()


@pytest.mark.usefixtures("clock")
def test_the_same_command_repeats_no_step_after_its_deadline_and_more_minutes_continue(
    toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, images = toy[0], ImageRows(toy[1], np.arange(60))
    plan = Plan(settings(iterations=0), settings(), np.empty(0, dtype=np.int64), places, ())
    monkeypatch.setattr(choosing, "ENOUGH", 2.0)
    first = train_as_planned(places, images, plan, out=tmp_path, minutes=0.6)
    assert first.why.endswith("the time ran out after 4 steps, more --minutes continue")
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", lambda *_: pytest.fail("a step was taken again"))
        assert train_as_planned(places, images, plan, out=tmp_path, minutes=0.6) == first
    more = train_as_planned(places, images, plan, out=tmp_path, minutes=9)
    assert "the time ran out" not in more.why
    whole = train(*toy, settings())
    assert_identical(tmp_path / "trained/encoder.safetensors", whole)
