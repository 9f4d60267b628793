"""`mappable train`: from a converted set to an encoder on disk."""

import shutil
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from mappable.cli.train import train
from mappable.errors import BadImageError, BadInputError
from mappable.features.encoder import Encoder
from mappable.learning.settings import load_settings
from mappable.places import find_pack, load_places

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


def test_an_encoder_is_trained_and_the_run_summed_up(
    toy_folder: Path, small: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run(toy_folder, out, "--settings", small)
    assert result.exit_code == 0, result.output
    facts = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert facts.keys() == {"encoder", "iterations", "seconds", "images per second", "accuracy"}
    assert Encoder.load(out / "encoder.safetensors").embed(load_places(toy_folder)[:2]).shape == (
        2,
        12,
    )
    assert run(toy_folder, out, "--settings", small).stdout.startswith("encoder ")
    other = run(toy_folder, out, "--settings", small, "--set", "seed=7").exception
    assert isinstance(other, BadInputError)
    assert "seed 0 (now 7)" in str(other)
    assert "--overwrite" in str(other)


def test_settings_come_from_preset_file_and_command_line_in_that_order(
    toy_folder: Path, small: Path, tmp_path: Path
) -> None:
    values = ("loss=huber", "iterations=7", "trainable=last", "seed=9", "margin=0.3")
    flags = [word for value in values for word in ("--set", value)]
    shown = run(
        toy_folder,
        tmp_path / "out",
        "--preset",
        "cold",
        "--settings",
        small,
        *flags,
        "--show-settings",
    )
    assert shown.exit_code == 0, shown.output
    (tmp_path / "shown.yaml").write_text(shown.stdout)
    found = load_settings(file=tmp_path / "shown.yaml")
    assert (found.loss, found.iterations, found.trainable, found.seed, found.margin) == (
        "huber",
        7,
        "last",
        9,
        0.3,
    )
    assert (found.clusters, found.size) == (2, (64, 48))
    assert found.yaw_limit == load_settings("cold").yaw_limit
    assert not (tmp_path / "out").exists()
    error = run(
        toy_folder, tmp_path / "out", "--settings", small, "--set", "postive_radius=3"
    ).exception
    assert "did you mean 'positive_radius'?" in str(error)
    error = run(
        toy_folder, tmp_path / "out", "--settings", small, "--set", "positive_radius=30"
    ).exception
    assert "positive_radius is 30, expected less than negative_radius" in str(error)


def test_images_that_are_not_packed_yet_are(
    unpacked: Path, toy_folder: Path, small: Path, tmp_path: Path
) -> None:
    assert run(unpacked, tmp_path / "first", "--settings", small).exit_code == 0
    assert len(find_pack(unpacked, (64, 48), "crop")) == 60
    shutil.rmtree(unpacked / "images")  # the pack is enough from now on
    assert run(unpacked, tmp_path / "again", "--settings", small).exit_code == 0
    assert run(toy_folder, tmp_path / "other", "--settings", small).exit_code == 0
    first, again, other = (
        Encoder.load(tmp_path / name / "encoder.safetensors").fingerprint
        for name in ("first", "again", "other")
    )
    assert first == again == other
    gone = run(unpacked, tmp_path / "larger", "--settings", small, "--set", "size=80x60").exception
    assert isinstance(gone, BadImageError)
    assert "images/sun/0000m.png: no such file" in str(gone)
