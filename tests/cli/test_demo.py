"""The training of `mappable demo`: stopped, gone on with, and begun anew where an older demo is in the way."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from mappable import load_places
from mappable.cli import demo
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import TrainingStopped


@pytest.fixture
def settings(small_backbone: str) -> Callable[..., Settings]:
    small = {"backbone": small_backbone, "weights": "random", "clusters": 2, "size": "64x48", "init_images": 4}
    tuples = {"positive_radius": 5, "negative_radius": 12, "positives": 2, "negatives": 2, "hard_negatives": 1}
    return lambda **changes: load_settings(overrides=small | tuples | {"trainable": "conv5", "iterations": 2} | changes)


def test_fewer_images_are_trained_on_for_fewer_steps() -> None:
    usual = load_settings("street-laptop")
    assert usual.iterations is not None
    assert demo._settings(1) == usual
    assert demo._settings(10) == usual.model_copy(update={"iterations": usual.iterations // 10})
    assert demo._settings(10_000).iterations == 1


def test_an_encoder_of_another_demo_gives_way_if_that_is_asked_for(
    toy_folder: Path, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    places, out = load_places(toy_folder), tmp_path / "encoder"
    demo._train(places, toy_folder, out, settings(), overwrite=False)
    with pytest.raises(BadInputError, match="begin anew with --overwrite"):
        demo._train(places, toy_folder, out, settings(iterations=1), overwrite=False)
    assert Encoder.load(out / "encoder.safetensors").about.settings["iterations"] == 2
    demo._train(places, toy_folder, out, settings(iterations=1), overwrite=True)
    assert Encoder.load(out / "encoder.safetensors").about.settings["iterations"] == 1


def test_a_demo_that_was_stopped_says_that_it_goes_on(
    toy_folder: Path,
    settings: Callable[..., Settings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise TrainingStopped("stopped at iteration 1 of 2")

    monkeypatch.setattr("mappable.learning.trainer.train", stop)
    with pytest.raises(typer.Exit) as caught:
        demo._train(load_places(toy_folder), toy_folder, tmp_path / "encoder", settings(), overwrite=False)
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "stopped at iteration 1 of 2; the same command goes on from there\n"
