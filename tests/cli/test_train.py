"""`mappable train`: from a converted set to an encoder on disk."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from mappable.cli.train import train
from mappable.errors import BadImageError, BadInputError
from mappable.features.encoder import Encoder
from mappable.learning.data import TrainingData, select
from mappable.learning.settings import load_settings
from mappable.learning.trainer import TrainingStopped
from mappable.places import find_pack, load_places
from mappable.places.files import save_places
from mappable.places.table import Places

pytestmark = pytest.mark.medium

SMALL = {
    "backbone": "small",
    "weights": "random",
    "clusters": 2,
    "size": "64x48",
    "positive_radius": 5,
    "negative_radius": 12,
    "positives": 2,
    "negatives": 2,
    "hard_negatives": 1,
    "iterations": 3,
    "init_images": 4,
}


@pytest.fixture
def unpacked(toy_folder: Path, tmp_path: Path) -> Path:
    """A copy of the toy world's images and table."""
    for name in ("images", "places.parquet"):
        copy = shutil.copytree if (toy_folder / name).is_dir() else shutil.copy
        (tmp_path / "toy").mkdir(exist_ok=True)
        copy(toy_folder / name, tmp_path / "toy" / name)
    return tmp_path / "toy"


@pytest.fixture
def small(small_backbone: str, tmp_path: Path) -> Path:
    """A file of settings for a network of two layers."""
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return tmp_path / "small.yaml"


def run(*arguments: object) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(train)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_an_encoder_is_trained_and_the_run_summed_up(toy_folder: Path, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(toy_folder, out, "--settings", small)
    assert result.exit_code == 0, result.output
    facts = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert facts.keys() == {"encoder", "iterations", "seconds", "images per second", "accuracy"}
    assert Encoder.load(out / "encoder.safetensors").embed(load_places(toy_folder)[:2]).shape == (2, 12)
    assert run(toy_folder, out, "--settings", small).stdout.startswith("encoder ")
    other = run(toy_folder, out, "--settings", small, "--set", "seed=7").exception
    assert isinstance(other, BadInputError)
    assert "seed 0 (now 7)" in str(other)
    assert "--overwrite" in str(other)


def test_queries_of_a_folder_without_splits_do_not_train(
    unpacked: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = load_places(unpacked)
    roles = np.where(places.split == "train", "reference", "query").astype(object)
    save_places(places.replace(split="", role=roles), unpacked / "places.parquet")
    shown: list[Places] = []

    def selected(*arguments: Any, **options: Any) -> TrainingData:
        data = select(*arguments, **options)
        shown.append(data.train)
        assert len(data.images) == len(data.train)
        return data

    monkeypatch.setattr("mappable.learning.trainer.select", selected)
    result = run(unpacked, tmp_path / "out", "--settings", small, "--set", "iterations=1")
    assert result.exit_code == 0, result.output
    assert shown[0].path.tolist() == places.path[places.split == "train"].tolist()
    assert set(Encoder.load(tmp_path / "out/encoder.safetensors").about.sequences) == {"sun", "dusk"}
    assert "40 references; 20 queries left out" in result.stderr


def test_settings_come_from_preset_file_and_command_line_in_that_order(
    toy_folder: Path, small: Path, tmp_path: Path
) -> None:
    values = ("loss=huber", "iterations=7", "trainable=last", "seed=9", "margin=0.3")
    flags = [word for value in values for word in ("--set", value)]
    shown = run(toy_folder, tmp_path / "out", "--preset", "cold", "--settings", small, *flags, "--show-settings")
    assert shown.exit_code == 0, shown.output
    (tmp_path / "shown.yaml").write_text(shown.stdout)
    found = load_settings(file=tmp_path / "shown.yaml")
    assert (found.loss, found.iterations, found.trainable, found.seed, found.margin) == ("huber", 7, "last", 9, 0.3)
    assert (found.clusters, found.size) == (2, (64, 48))
    assert found.yaw_limit == load_settings("cold").yaw_limit
    assert not (tmp_path / "out").exists()
    error = run(toy_folder, tmp_path / "out", "--settings", small, "--set", "postive_radius=3").exception
    assert "did you mean 'positive_radius'?" in str(error)
    error = run(toy_folder, tmp_path / "out", "--settings", small, "--set", "positive_radius=30").exception
    assert "positive_radius is 30, expected less than negative_radius" in str(error)


def test_without_a_preset_the_images_decide(toy_folder: Path, tmp_path: Path) -> None:
    shown = run(toy_folder, tmp_path / "out", "--show-settings", "--set", "seed=3")
    assert shown.exit_code == 0, shown.exception
    found = yaml.safe_load(shown.stdout)
    # 8 m is a sixth of the median distance between two images, and less than five times the spacing.
    assert (found["positive_radius"], found["negative_radius"], found["seed"]) == (8.0, 23.0, 3)
    assert (found["iterations"], found["size"]) == (0, "64x48")  # 40 images are too few to train on
    both = run(toy_folder, tmp_path / "out", "--preset", "street", "--minutes", 3).exception
    assert "--minutes is for training without a preset" in str(both)


def test_images_that_are_not_packed_yet_are(unpacked: Path, toy_folder: Path, small: Path, tmp_path: Path) -> None:
    assert run(unpacked, tmp_path / "first", "--settings", small).exit_code == 0
    assert len(find_pack(unpacked, (64, 48), "crop")) == 60
    shutil.rmtree(unpacked / "images")  # the pack is enough from now on
    assert run(unpacked, tmp_path / "again", "--settings", small).exit_code == 0
    assert run(toy_folder, tmp_path / "other", "--settings", small).exit_code == 0
    first, again, other = (
        Encoder.load(tmp_path / name / "encoder.safetensors").fingerprint for name in ("first", "again", "other")
    )
    assert first == again == other
    gone = run(unpacked, tmp_path / "larger", "--settings", small, "--set", "size=80x60").exception
    assert isinstance(gone, BadImageError)
    assert "images/sun/0000m.png: no such file" in str(gone)


def test_parts_on_several_disks_train_like_one_set(toy_folder: Path, small: Path, tmp_path: Path) -> None:
    places = load_places(toy_folder)
    for part, drives in (("a", ("sun", "rain")), ("b", ("dusk", "fog"))):
        (tmp_path / part).mkdir()
        save_places(places[np.isin(places.sequence, drives)], tmp_path / part / "places.parquet")
    together = run(tmp_path / "a", tmp_path / "parts", "--more", tmp_path / "b", "--settings", small)
    assert together.exit_code == 0, together.output
    assert run(toy_folder, tmp_path / "one", "--settings", small).exit_code == 0
    found, expected = (Encoder.load(tmp_path / out / "encoder.safetensors") for out in ("parts", "one"))
    assert found.fingerprint == expected.fingerprint
    assert found.about.data == expected.about.data
    with pytest.raises(BadInputError, match="--more needs fixed settings"):
        raise run(tmp_path / "a", tmp_path / "auto", "--more", tmp_path / "b").exception  # type: ignore[misc]


def test_a_run_that_was_stopped_is_no_error(
    toy_folder: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise TrainingStopped("stopped at iteration 6 of 10")

    monkeypatch.setattr("mappable.learning.trainer.train", stop)
    result = run(toy_folder, tmp_path / "out", "--settings", small)
    sentence = "stopped at iteration 6 of 10; the same command continues from there\n"
    assert result.exit_code == 130
    assert result.stderr.splitlines(keepends=True)[1:] == [sentence]
