"""Training as a whole: what a seed decides, what comes out, and how it refuses, fails and stops."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Pixels
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.features.reduction import fit_reduction
from mappable.learning.learner import TERMS, Batch, Learner
from mappable.learning.losses import LOSS_NAMES
from mappable.learning.losses import loss as loss_module
from mappable.learning.losses.terms import VISUAL, Margins, TupleDistances
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import TrainingStopped, train
from mappable.learning.tuples import Sampler, Tuples
from mappable.places.table import Places

pytestmark = pytest.mark.medium

Toy = tuple[Places, Pixels]
NewSettings = Callable[..., Settings]
BeforeStep = Callable[..., AbstractContextManager[None]]


def lines(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Tuples]:
    """The tuples of all steps that are taken."""
    taken: list[Tuples] = []
    batches = Learner.batches

    def watched(learner: Learner, tuples: Sequence[Tuples], *others: Any) -> Iterator[Batch]:
        for one, batch in zip(tuples, batches(learner, tuples, *others), strict=True):
            taken.append(one)
            yield batch

    monkeypatch.setattr(Learner, "batches", watched)
    return taken


def reported(folder: Path) -> list[float]:
    """The iterations whose loss is written down."""
    return [line["iteration"] for line in lines(folder) if "loss" in line]


# What comes out


def test_a_seed_decides_on_every_bit(toy: Toy, settings: NewSettings) -> None:
    first, again, other = (
        train(*toy, settings(iterations=4, seed=seed)).fingerprint for seed in (3, 3, 4)
    )
    assert first == again != other


def test_one_seed_gives_every_loss_the_same_anchors_and_positives(
    toy: Toy, settings: NewSettings, steps: list[Tuples]
) -> None:
    seen = set()
    for loss in LOSS_NAMES:
        train(*toy, settings(loss=loss, iterations=3, cache_every=2, landmarks=0))
        rows = torch.cat([tuples.rows[:, :3] for tuples in steps])
        distances = torch.cat([tuples.squared_distances for tuples in steps])
        seen.add((rows.numpy().tobytes(), distances.numpy().tobytes()))
        steps.clear()
    assert len(seen) == 1
    train(*toy, settings(iterations=3, cache_every=2, landmarks=0, mirrored=0.5, light=0.3))
    assert torch.cat([tuples.rows[:, :3] for tuples in steps]).numpy().tobytes() in {
        rows for rows, _ in seen
    }
    steps.clear()
    train(*toy, settings(iterations=3, seed=1))
    assert torch.cat([tuples.rows[:, :3] for tuples in steps]).numpy().tobytes() not in {
        rows for rows, _ in seen
    }


def test_the_loss_falls(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
    train(*toy, settings(iterations=60, learning_rate=1e-3, anchors=4), out=tmp_path)
    losses = [line["loss"] for line in lines(tmp_path) if "loss" in line]
    assert len(losses) == 60
    assert np.mean(losses[-15:]) < 0.7 * np.mean(losses[:15])


def test_the_folder_of_a_run_says_all_about_it(
    toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    chosen = settings(iterations=5, monitor_every=2, checkpoint_every=1)
    encoder = train(*toy, chosen, out=tmp_path / "new/out")
    assert {file.name for file in (tmp_path / "new/out").iterdir()} - {".lock"} == {
        "encoder.safetensors",
        "metrics.jsonl",
        "settings.yaml",
    }
    assert load_settings(file=tmp_path / "new/out/settings.yaml") == chosen
    assert Encoder.load(tmp_path / "new/out/encoder.safetensors").fingerprint == encoder.fingerprint
    found = lines(tmp_path / "new/out")
    assert [line["iteration"] for line in found if "accuracy" in line] == [0, 2, 4, 5]
    reported = [line for line in found if "loss" in line]
    assert [line["iteration"] for line in reported] == [1, 2, 3, 4, 5]
    for line in reported:
        assert set(line) == {"iteration", "loss", *TERMS[1:], "images_per_second", "seconds"}
        assert line["loss"] == pytest.approx(line["visual"] + 0.5 * line["geometric"], rel=1e-4)
        assert 0 <= line["active"] <= 1
        assert line["images_per_second"] > 0
    seconds = [line["seconds"] for line in reported]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(
    ("changes", "proportional"),
    [
        ({"loss": "lazy-quadruplet+distance"}, True),
        ({"loss": "huber"}, True),
        ({"loss": "lazy-quadruplet"}, False),
        ({"iterations": 0}, False),
        ({"loss": "huber", "dimensions": 5}, True),
    ],
)
def test_distances_are_proportional_after_a_geometric_loss_alone(
    changes: dict[str, Any], proportional: bool, toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    train(*toy, settings(**{"iterations": 1, "landmarks": 0} | changes), out=tmp_path)
    about = Encoder.load(tmp_path / "encoder.safetensors").about
    assert about.proportional == proportional
    assert about.feature_scale_squared is not None
    expected = (
        25 / about.feature_scale_squared if proportional and about.feature_scale_squared else None
    )
    assert about.squared_distance_per_squared_feature == expected


def test_a_reduction_is_fitted_after_training(
    toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    chosen = settings(iterations=3)
    whole = train(*toy, chosen)
    train(*toy, chosen.model_copy(update={"dimensions": 5}), out=tmp_path)
    encoder = Encoder.load(tmp_path / "encoder.safetensors")
    assert encoder.embed(toy[1][:3]).shape == (3, 5)
    trained = whole.state_dict()
    for name, tensor in encoder.state_dict().items():
        assert name.startswith("reduction.") or tensor.equal(trained[name])
    raw = torch.from_numpy(whole.embed(toy[1][toy[0].split == "train"], precision="float32"))
    expected = fit_reduction(raw, 5, parts=chosen.clusters)
    torch.testing.assert_close(
        encoder.get_buffer("reduction.mixing").abs(), expected.mixing.abs(), atol=0.05, rtol=0
    )
    assert encoder.about.feature_scale_squared == whole.about.feature_scale_squared is not None
    assert encoder.about.settings["dimensions"] == encoder.about.dimensions == 5


def test_conv5_of_vgg16_learns_and_nothing_below_it(toy: Toy, settings: NewSettings) -> None:
    chosen = settings(
        backbone="vgg16", trainable="last", iterations=1, feature_scale_squared=1.0, landmarks=0
    )
    encoder = train(*toy, chosen)
    created = Encoder.create(weights="random", size=(64, 48), clusters=4).state_dict()
    changed = {
        name for name, tensor in encoder.state_dict().items() if not tensor.equal(created[name])
    }
    conv5 = {
        f"backbone.features.{number}.{kind}"
        for number in (24, 26, 28)
        for kind in ("weight", "bias")
    }
    assert changed == conv5 | {"aggregator.assignment", "aggregator.centres"}


# What is refused at once


def test_what_cannot_be_trained_on_is_refused_at_once(
    toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    places, pixels = toy
    untrained = places.replace(split=["test"] * 60)
    for table, images, changes, problem in (
        (places, pixels[:, :24], {}, r"shape \(60, 24, 64, 3\), expected .*48, 64"),
        (places, pixels / 255, {}, "images are float64"),
        (untrained, pixels, {}, r"60 places.*'train'"),
        (
            places,
            pixels,
            {"positive_radius": 1.0},
            r"none of the 40 training places has another place within 1 m",
        ),
        (
            places,
            pixels,
            {"negative_radius": 99.0},
            r"none of the 40 training places has 3 places at least 99 m away",
        ),
        (places, pixels, {"anchors": 41}, r"41 anchors.*40 places"),
        (places, pixels, {"weights": "vgg19"}, "vgg19"),
    ):
        with pytest.raises(BadInputError, match=problem):
            train(table, images, settings(**changes), out=tmp_path / "out")
    with pytest.raises(BadInputError, match=r"device.*'gpu'"):
        train(*toy, settings(), device="gpu")
    with pytest.raises(BadInputError, match=r"positive_radius.*12.*negative_radius"):
        settings(positive_radius=12.0)
    assert not list(tmp_path.glob("out/*.safetensors"))


# What goes wrong on the way


def test_a_batch_without_a_valid_tuple_is_left_out(
    toy: Toy,
    settings: NewSettings,
    before_step: BeforeStep,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No step, not even one that momentum would take, and no report; also by a run that goes on."""
    draw = Sampler.draw

    def invalid(*arguments: Any) -> Tuples:
        drawn = draw(*arguments)
        drawn.valid[4:6] = False  # the third batch of each period
        return drawn

    monkeypatch.setattr(Sampler, "draw", invalid)
    chosen = settings(cache_size="all", loss="quadruplet+huber")
    two, three = (
        train(*toy, chosen.model_copy(update={"iterations": count})).fingerprint for count in (2, 3)
    )
    assert two == three
    whole = train(*toy, chosen)
    with (
        before_step(2, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(TrainingStopped),
    ):
        train(*toy, chosen, out=tmp_path)
    found = train(*toy, chosen, out=tmp_path)
    assert found.fingerprint == whole.fingerprint != two
    assert [line["iteration"] for line in lines(tmp_path) if "loss" in line] == [
        1,
        2,
        4,
        5,
        6,
        8,
        9,
        10,
    ]


@pytest.mark.parametrize("iterations", [1, 5])
def test_weights_that_are_not_finite_are_never_saved(
    iterations: int, toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    """A step may overflow although its loss, which was computed before, is finite."""
    rates = {"learning_rate": 1e30, "geometric_weight": 1e30}
    wild = settings(iterations=iterations, checkpoint_every=1, **rates)
    with pytest.raises(BadInputError, match=r"iteration 1\b"):
        train(*toy, wild, out=tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_images(
    toy: Toy, settings: NewSettings, before_step: BeforeStep, tmp_path: Path
) -> None:
    whole = train(*toy, settings())
    with (
        before_step(5, lambda learner: learner.parameters[0].data.fill_(torch.nan)),
        pytest.raises(BadInputError) as caught,
    ):
        train(*toy, settings(), out=tmp_path)
    text = str(caught.value)
    assert text.startswith("the loss became nan at iteration 5, on the tuple images/")
    assert text.count("images/") == 6
    assert (
        f"; the checkpoint of iteration 3 is kept in {tmp_path}; check these images, or lower"
        " learning" in text
    )
    assert [line["iteration"] for line in lines(tmp_path) if "loss" in line] == [1, 2, 3, 4]
    assert train(*toy, settings(), out=tmp_path).fingerprint == whole.fingerprint


# How numbers are read that make nobody wait


# How images are read


def test_only_images_that_are_trained_on_are_read(
    toy: Toy,
    settings: NewSettings,
    tmp_path: Path,
    before_step: BeforeStep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of batches that are left out, and of steps that were taken before a run stopped, are
    not.
    """
    asked: list[int] = []
    draw, batches = Sampler.draw, Learner.batches

    def invalid(*arguments: Any) -> Tuples:
        drawn = draw(*arguments)
        drawn.valid[2:4] = False  # the second batch of each period
        return drawn

    def watched(learner: Learner, tuples: Sequence[Tuples], *others: Any) -> Iterator[Batch]:
        asked.append(len(tuples))
        return batches(learner, tuples, *others)

    monkeypatch.setattr(Sampler, "draw", invalid)
    monkeypatch.setattr(Learner, "batches", watched)
    chosen = settings(iterations=10, checkpoint_every=100)
    with (
        before_step(5, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(TrainingStopped),
    ):
        train(*toy, chosen, out=tmp_path)
    assert asked == [3, 3]
    train(*toy, chosen, out=tmp_path)  # from iteration 8 on, the last of the second period
    assert asked == [3, 3, 1, 1]


def test_a_new_loss_is_a_function_and_a_line_of_the_registry(
    toy: Toy, settings: NewSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def soft_triplet(distances: TupleDistances, margins: Margins) -> Tensor:
        called.append(distances.negative.shape)
        return torch.nn.functional.softplus(
            margins.first + distances.best[:, None] - distances.negative
        ).sum(dim=1)

    monkeypatch.setitem(VISUAL, "soft-triplet", soft_triplet)
    monkeypatch.setattr(
        loss_module, "LOSS_NAMES", (*LOSS_NAMES, "soft-triplet", "soft-triplet+huber")
    )
    before = train(*toy, settings(iterations=0, landmarks=0))
    after = train(*toy, settings(loss="soft-triplet+huber", iterations=1, landmarks=0))
    assert called
    assert after.about.settings["loss"] == "soft-triplet+huber"
    assert after.fingerprint != before.fingerprint
