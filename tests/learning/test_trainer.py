"""Training as a whole: what a seed decides, what comes out, and how it refuses, fails and stops."""

import gc
import json
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.features.monitor import Monitor
from mappable.features.reduction import fit_reduction
from mappable.learning import start, trainer
from mappable.learning.checkpoint import Checkpoint
from mappable.learning.data import select
from mappable.learning.feature_scale import measure_feature_scale
from mappable.learning.learner import TERMS, Batch, Learner
from mappable.learning.losses import LOSS_NAMES, Loss
from mappable.learning.losses import loss as loss_module
from mappable.learning.losses.terms import VISUAL, Margins, TupleDistances
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import TrainingStopped, train
from mappable.learning.tuples import Sampler, Tuples
from mappable.places.pixels import ImageRows
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


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are read as on a GPU: those of four steps together, when those of the next four are on their way."""
    monkeypatch.setitem(trainer.STEPS_PER_GROUP, "cpu", 4)
    monkeypatch.setitem(trainer.GROUPS_IN_FLIGHT, "cpu", 1)


def reported(folder: Path) -> list[float]:
    """The iterations whose loss is written down."""
    return [line["iteration"] for line in lines(folder) if "loss" in line]


# What comes out


def test_a_seed_decides_on_every_bit(toy: Toy, settings: NewSettings) -> None:
    first, again, other = (train(*toy, settings(iterations=4, seed=seed)).fingerprint for seed in (3, 3, 4))
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
    assert torch.cat([tuples.rows[:, :3] for tuples in steps]).numpy().tobytes() in {rows for rows, _ in seen}
    steps.clear()
    train(*toy, settings(iterations=3, seed=1))
    assert torch.cat([tuples.rows[:, :3] for tuples in steps]).numpy().tobytes() not in {rows for rows, _ in seen}


def test_the_loss_falls(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
    train(*toy, settings(iterations=60, learning_rate=1e-3, anchors=4), out=tmp_path)
    losses = [line["loss"] for line in lines(tmp_path) if "loss" in line]
    assert len(losses) == 60
    assert np.mean(losses[-15:]) < 0.7 * np.mean(losses[:15])


def test_the_folder_of_a_run_says_all_about_it(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
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


def test_an_encoder_knows_what_it_learned_from(toy: Toy, settings: NewSettings) -> None:
    chosen = settings(iterations=1, seed=5)
    about = train(*toy, chosen).about
    data = select(toy[0], ImageRows(toy[1], np.arange(60)), queries=4)
    off_the_shelf = train(*toy, chosen.model_copy(update={"iterations": 0}))
    measured = measure_feature_scale(
        data.train,
        lambda rows: torch.from_numpy(off_the_shelf.embed(toy[1][rows], precision="float32")),
        positive_radius=5.0,
        yaw_limit=None,
        seed=5,
    )
    assert about.feature_scale_squared == pytest.approx(measured, rel=1e-5)
    assert about.squared_distance_per_squared_feature == pytest.approx(25 / measured, rel=1e-5)
    assert (about.positive_radius, about.negative_radius, about.unit) == (5.0, 12.0, "m")
    assert (about.seed, about.data, about.init_source) == (5, data.fingerprint, "train")
    assert about.sequences == tuple(data.train.sequences())
    assert Settings(**about.settings) == chosen
    given = train(*toy, settings(iterations=0, feature_scale_squared=0.6)).about
    assert given.feature_scale_squared == 0.6


def test_without_steps_no_positives_are_needed(toy: Toy, settings: NewSettings) -> None:
    found = train(*toy, settings(iterations=0, positive_radius=0.01, feature_scale_squared="measure")).about
    assert found.feature_scale_squared is None
    with pytest.raises(BadInputError, match=r"none of the 40 training places has another place within 0.01 m"):
        train(*toy, settings(iterations=1, positive_radius=0.01, feature_scale_squared="measure"))


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
    expected = 25 / about.feature_scale_squared if proportional and about.feature_scale_squared else None
    assert about.squared_distance_per_squared_feature == expected


def test_no_iterations_give_the_encoder_off_the_shelf(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
    places, pixels = toy
    found = train(places, pixels, settings(iterations=0), out=tmp_path)
    expected = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone="small")
    expected.initialize(pixels[places.split == "train"], most=8, precision="float32")
    assert found.fingerprint == expected.fingerprint
    assert [line["iteration"] for line in lines(tmp_path)] == [0]


def test_epochs_are_passes_over_all_anchors(toy: Toy, settings: NewSettings, steps: list[Tuples]) -> None:
    train(*toy, settings(iterations=None, epochs=1.5, anchors=4, loss="huber", negatives=0, hard_negatives=0))
    assert len(steps) == 15
    anchors = torch.cat([tuples.rows[:, 0] for tuples in steps])
    assert sorted(anchors[:40].tolist()) == list(range(40))


def test_a_table_without_splits_is_trained_on_as_a_whole(
    toy: Toy, settings: NewSettings, steps: list[Tuples], tmp_path: Path
) -> None:
    train(toy[0].replace(split=""), toy[1], settings(iterations=10, anchors=6), out=tmp_path)
    assert set(torch.cat([tuples.rows[:, 0] for tuples in steps]).tolist()) == set(range(60))
    assert not [line for line in lines(tmp_path) if "accuracy" in line]


def test_a_reduction_is_fitted_after_training(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
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
    torch.testing.assert_close(encoder.get_buffer("reduction.mixing").abs(), expected.mixing.abs(), atol=0.05, rtol=0)
    assert encoder.about.feature_scale_squared == whole.about.feature_scale_squared is not None
    assert encoder.about.settings["dimensions"] == encoder.about.dimensions == 5


@pytest.mark.parametrize("iterations", [0, 3])
def test_the_last_run_of_the_monitor_has_reduced_descriptors(
    iterations: int, toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(monitor: Monitor, describe: Callable[[Ints], Tensor]) -> float:
        seen.append(describe(monitor.queries).shape)
        return 0.5

    monkeypatch.setattr(Monitor, "accuracy", look)
    train(*toy, settings(iterations=iterations, dimensions=6), out=tmp_path)
    assert seen == [(10, 24), (10, 6)]
    assert [line["iteration"] for line in lines(tmp_path) if "accuracy" in line] == [0, iterations]


def test_conv5_of_vgg16_learns_and_nothing_below_it(toy: Toy, settings: NewSettings) -> None:
    chosen = settings(backbone="vgg16", trainable="last", iterations=1, feature_scale_squared=1.0, landmarks=0)
    encoder = train(*toy, chosen)
    created = Encoder.create(weights="random", size=(64, 48), clusters=4).state_dict()
    changed = {name for name, tensor in encoder.state_dict().items() if not tensor.equal(created[name])}
    conv5 = {f"backbone.features.{number}.{kind}" for number in (24, 26, 28) for kind in ("weight", "bias")}
    assert changed == conv5 | {"aggregator.assignment", "aggregator.centres"}


# What is refused at once


def test_what_cannot_be_trained_on_is_refused_at_once(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
    places, pixels = toy
    untrained = places.replace(split=["test"] * 60)
    for table, images, changes, problem in (
        (places, pixels[:, :24], {}, r"shape \(60, 24, 64, 3\), expected .*48, 64"),
        (places, pixels / 255, {}, "images are float64"),
        (untrained, pixels, {}, r"60 places.*'train'"),
        (places, pixels, {"positive_radius": 1.0}, r"none of the 40 training places has another place within 1 m"),
        (places, pixels, {"negative_radius": 99.0}, r"none of the 40 training places has 3 places at least 99 m away"),
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


def test_places_that_are_no_anchors_are_named(
    toy: Toy, settings: NewSettings, steps: list[Tuples], capsys: pytest.CaptureFixture[str]
) -> None:
    x = toy[0].x.copy()
    x[[3, 30]] = (1000.0, 2000.0)
    train(toy[0].replace(x=x), toy[1], settings(iterations=20))
    first, second = toy[0].place_id[[3, 30]]
    sentence = "2 of 40 places cannot be anchors because no other place is within the positive radius"
    assert f"{sentence}: {first}, {second}\n" in capsys.readouterr().err
    assert not {3, 30} & set(torch.cat([tuples.rows[:, 0] for tuples in steps]).tolist())


def test_quadruplets_that_the_places_have_no_room_for_are_refused(toy: Toy, settings: NewSettings) -> None:
    """Three places each 40 m from the others do not fit into 78 m."""
    problem = r"lazy-quadruplet: none of the first 8 anchors has an other negative 40 m from"
    with pytest.raises(BadInputError, match=problem):
        train(*toy, settings(loss="lazy-quadruplet", negative_radius=40.0))
    train(*toy, settings(loss="lazy-triplet", negative_radius=40.0, iterations=1))


def test_a_tiny_share_of_an_epoch_is_one_step(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
    train(*toy, settings(iterations=None, epochs=0.001), out=tmp_path)
    assert [line["iteration"] for line in lines(tmp_path) if "loss" in line] == [1]


# What goes wrong on the way


def test_a_batch_without_a_valid_tuple_is_left_out(
    toy: Toy, settings: NewSettings, before_step: BeforeStep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step, not even one that momentum would take, and no report; also by a run that goes on."""
    draw = Sampler.draw

    def invalid(*arguments: Any) -> Tuples:
        drawn = draw(*arguments)
        drawn.valid[4:6] = False  # the third batch of each period
        return drawn

    monkeypatch.setattr(Sampler, "draw", invalid)
    chosen = settings(cache_size="all", loss="quadruplet+huber")
    two, three = (train(*toy, chosen.model_copy(update={"iterations": count})).fingerprint for count in (2, 3))
    assert two == three
    whole = train(*toy, chosen)
    with before_step(2, lambda _: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(TrainingStopped):
        train(*toy, chosen, out=tmp_path)
    found = train(*toy, chosen, out=tmp_path)
    assert found.fingerprint == whole.fingerprint != two
    assert [line["iteration"] for line in lines(tmp_path) if "loss" in line] == [1, 2, 4, 5, 6, 8, 9, 10]


def test_an_average_begins_with_the_first_step_that_is_taken(
    toy: Toy, settings: NewSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with what the network was before, not even where the first batch is left out."""
    draw = Sampler.draw

    def invalid(*arguments: Any) -> Tuples:
        drawn = draw(*arguments)
        drawn.valid[:2] = False
        return drawn

    monkeypatch.setattr(Sampler, "draw", invalid)
    plain, averaged = (train(*toy, settings(iterations=2, averaging=share)).fingerprint for share in (0.0, 0.5))
    assert averaged == plain


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
    assert f"; the checkpoint of iteration 3 is kept in {tmp_path}; check these images, or lower learning" in text
    assert [line["iteration"] for line in lines(tmp_path) if "loss" in line] == [1, 2, 3, 4]
    assert train(*toy, settings(), out=tmp_path).fingerprint == whole.fingerprint


@pytest.mark.parametrize("iterations", [1, 5])
def test_weights_that_are_no_numbers_are_never_saved(
    iterations: int, toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    """A step may overflow though its loss, which was taken before, is a number."""
    rates = {"learning_rate": 1e30, "geometric_weight": 1e30}
    wild = settings(iterations=iterations, checkpoint_every=1, **rates)
    problem = "weights became infinite or NaN at iteration 1, on the tuples of the anchors images/.*nothing was"
    with pytest.raises(BadInputError, match=problem):
        train(*toy, wild, out=tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))


def test_too_little_memory_says_what_to_lower(toy: Toy, settings: NewSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        torch.empty(2**60, dtype=torch.uint8)  # more than any machine has

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", fail)
        with pytest.raises(BadInputError, match=r"memory.*size.*64x48"):
            train(*toy, settings(anchors=4))
    with monkeypatch.context() as patch:
        patch.setattr(start, "frozen_activations", fail)
        with pytest.raises(BadInputError, match=r"memory.*size.*64x48"):
            train(*toy, settings(trainable="last"))
    monkeypatch.setattr(Encoder, "forward", fail)
    with pytest.raises(BadInputError, match=r"memory.*cpu"):
        train(*toy, settings())


def test_ctrl_c_without_a_folder_takes_effect_at_once(toy: Toy, settings: NewSettings, before_step: BeforeStep) -> None:
    with before_step(2, lambda _: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(KeyboardInterrupt):
        train(*toy, settings())


# How numbers are read that make nobody wait


def watch_steps(patch: pytest.MonkeyPatch, look: Callable[[], object]) -> list[Any]:
    """What `look` gives before each step."""
    seen: list[Any] = []
    step = Learner.step

    def looking(learner: Learner, loss: Loss, batch: Batch, *others: int) -> Tensor:
        seen.append(look())
        return step(learner, loss, batch, *others)

    patch.setattr(Learner, "step", looking)
    return seen


def test_numbers_are_written_at_once_on_a_cpu(
    toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watch_steps(monkeypatch, lambda: reported(tmp_path))
    train(*toy, settings(iterations=5), out=tmp_path)
    assert seen == [list(range(1, count + 1)) for count in range(5)]


@pytest.mark.usefixtures("late")
def test_numbers_are_read_one_group_later_and_at_the_end(
    toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watch_steps(monkeypatch, lambda: len(reported(tmp_path)))
    train(*toy, settings(iterations=15, checkpoint_every=100), out=tmp_path)
    assert seen == 8 * [0] + 4 * [4] + 3 * [8]
    assert reported(tmp_path) == list(range(1, 16))


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("due", [{"checkpoint_every": 6}, {"checkpoint_every": 100, "monitor_every": 6}])
def test_all_numbers_are_read_before_a_checkpoint_and_before_the_monitor_looks(
    due: dict[str, int], toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watch_steps(monkeypatch, lambda: len(reported(tmp_path)))
    train(*toy, settings(iterations=8, **due), out=tmp_path)
    assert seen == 6 * [0] + 2 * [6]
    order = [line["iteration"] for line in lines(tmp_path)]
    assert order == sorted(order)


@pytest.mark.parametrize("monitor_every", [0, 3])
def test_what_is_read_late_is_the_same(
    monitor_every: int, toy: Toy, settings: NewSettings, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chosen = settings(iterations=14, checkpoint_every=5, monitor_every=monitor_every, loss="quadruplet+huber")
    at_once = train(*toy, chosen, out=tmp_path / "at_once")
    request.getfixturevalue("late")
    assert train(*toy, chosen, out=tmp_path / "late").fingerprint == at_once.fingerprint
    found, expected = (
        [{name: line[name] for name in line if name not in ("seconds", "images_per_second")} for line in lines(folder)]
        for folder in (tmp_path / "late", tmp_path / "at_once")
    )
    assert found == expected


@pytest.mark.usefixtures("late")
def test_speeds_and_seconds_agree(toy: Toy, settings: NewSettings, tmp_path: Path) -> None:
    """Every image is counted once, and so is every second of training."""
    train(*toy, settings(iterations=23, checkpoint_every=7, monitor_every=5), out=tmp_path)
    found = [line for line in lines(tmp_path) if "loss" in line]
    images = 2 * 6  # of a step
    assert sum(images / line["images_per_second"] for line in found) == pytest.approx(found[-1]["seconds"])


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize(("checkpoint_every", "steps_taken"), [(100, 12), (6, 6), (3, 6)])
def test_a_loss_that_is_no_number_is_noticed_later_but_before_anything_is_saved(
    checkpoint_every: int,
    steps_taken: int,
    toy: Toy,
    settings: NewSettings,
    before_step: BeforeStep,
    tmp_path: Path,
    steps: list[Tuples],
) -> None:
    chosen = settings(iterations=20, checkpoint_every=checkpoint_every)
    with (
        before_step(5, lambda learner: learner.parameters[0].data.fill_(torch.nan)),
        pytest.raises(BadInputError, match=r"nan.*iteration 5") as caught,
    ):
        train(*toy, chosen, out=tmp_path)
    assert len(steps) == steps_taken
    assert ", ".join(toy[0].where(split="train").place_id[steps[4].rows[0].numpy()]) in str(caught.value)
    assert reported(tmp_path) == [1, 2, 3, 4]
    kept = "the checkpoint of iteration 3 is kept" if checkpoint_every == 3 else "nothing was saved before"
    assert kept in str(caught.value)
    assert (tmp_path / "checkpoint.safetensors").exists() == (checkpoint_every == 3)


@pytest.mark.usefixtures("late")
def test_a_run_that_is_stopped_reads_all_numbers_first(
    toy: Toy, settings: NewSettings, before_step: BeforeStep, tmp_path: Path, steps: list[Tuples]
) -> None:
    """It goes on in the middle of a mining period, with the tuples that are left of it."""
    chosen = settings(iterations=14, cache_every=10, checkpoint_every=100)
    whole = train(*toy, chosen)
    expected = [tuples.rows.tolist() for tuples in steps]
    steps.clear()
    with (
        before_step(6, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(TrainingStopped, match=r"iteration 8.*14"),
    ):
        train(*toy, chosen, out=tmp_path)
    assert reported(tmp_path) == list(range(1, 9))
    found = train(*toy, chosen, out=tmp_path)
    assert found.fingerprint == whole.fingerprint
    assert [tuples.rows.tolist() for tuples in steps] == expected
    assert reported(tmp_path) == list(range(1, 15))


# How images are read


def test_only_images_that_are_trained_on_are_read(
    toy: Toy, settings: NewSettings, tmp_path: Path, before_step: BeforeStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of batches that are left out, and of steps that were taken before a run stopped, are not."""
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
    with before_step(5, lambda _: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(TrainingStopped):
        train(*toy, chosen, out=tmp_path)
    assert asked == [3, 3]
    train(*toy, chosen, out=tmp_path)  # from iteration 8 on, the last of the second period
    assert asked == [3, 3, 1, 1]


def test_no_thread_is_left_however_a_run_ends(
    toy: Toy, settings: NewSettings, before_step: BeforeStep, tmp_path: Path
) -> None:
    before, chosen = threading.active_count(), settings(cache_every=10)

    def fail(_: Learner) -> None:
        assert threading.active_count() == before + 1
        raise LookupError

    train(*toy, chosen)
    assert threading.active_count() == before
    with before_step(2, fail), pytest.raises(LookupError):
        train(*toy, chosen)
    assert threading.active_count() == before
    for out, error in ((tmp_path, TrainingStopped), (None, KeyboardInterrupt)):
        with before_step(2, lambda _: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(error):
            train(*toy, chosen, out=out)
        assert threading.active_count() == before


def test_nothing_but_the_encoder_is_left_of_a_run(
    toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, begin = [], Learner.__init__

    def noticed(learner: Learner, *given: Any, **others: Any) -> None:
        begin(learner, *given, **others)
        learner._recorded[object(), 0] = lambda: learner  # type: ignore[index,assignment] - as recorded work does
        kept.append(weakref.ref(learner))

    monkeypatch.setattr(Learner, "__init__", noticed)
    gc.collect()
    gc.disable()  # many gigabytes of a GPU would not wait for it
    try:
        encoder = train(*toy, settings(iterations=2), out=tmp_path / "run")
        assert [learner() for learner in kept] == [None]
    finally:
        gc.enable()
    assert all(parameter.grad is None for parameter in encoder.parameters())


def test_an_image_that_cannot_be_read_ends_the_run(
    toy: Toy, settings: NewSettings, before_step: BeforeStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> Pixels:
        raise BadInputError("the images are gone")

    before = threading.active_count()
    with (
        before_step(2, lambda _: monkeypatch.setattr(ImageRows, "read", gone)),
        pytest.raises(BadInputError, match="the images are gone"),
    ):
        train(*toy, settings())
    assert threading.active_count() == before


def test_checkpoints_that_follow_too_soon_are_left_out(
    toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds a step, a checkpoint due at every second, and no two within seven seconds."""
    saved: list[int] = []
    monkeypatch.setattr(Checkpoint, "save", lambda checkpoint, file: saved.append(checkpoint.iteration))
    clock, step = [0.0], Learner.step
    monkeypatch.setattr("mappable.learning.trainer.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def slow(learner: Learner, loss: Loss, batch: Batch, *others: int) -> Tensor:
        clock[0] += 2.0
        return step(learner, loss, batch, *others)

    monkeypatch.setattr(Learner, "step", slow)
    monkeypatch.setattr("mappable.learning.trainer.SECONDS_BETWEEN_CHECKPOINTS", 7.0)
    train(*toy, settings(iterations=20, checkpoint_every=2), out=tmp_path)
    assert saved == [4, 8, 12, 16]


def test_a_new_loss_is_a_function_and_a_line_of_the_registry(
    toy: Toy, settings: NewSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def soft_triplet(distances: TupleDistances, margins: Margins) -> Tensor:
        called.append(distances.negative.shape)
        return torch.nn.functional.softplus(margins.first + distances.best[:, None] - distances.negative).sum(dim=1)

    monkeypatch.setitem(VISUAL, "soft-triplet", soft_triplet)
    monkeypatch.setattr(loss_module, "LOSS_NAMES", (*LOSS_NAMES, "soft-triplet", "soft-triplet+huber"))
    before = train(*toy, settings(iterations=0, landmarks=0))
    after = train(*toy, settings(loss="soft-triplet+huber", iterations=1, landmarks=0))
    assert called
    assert after.about.settings["loss"] == "soft-triplet+huber"
    assert after.fingerprint != before.fingerprint
