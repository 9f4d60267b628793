"""Fixtures for tests of commands with maps: a long wall, and a small encoder that distinguishes its parts."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from mappable.cli import main
from mappable.cli.app import app
from mappable.features.encoder import Encoder
from mappable.places.files import load_places
from mappable.places.frames import Frame
from walls import HEIGHT, WIDTH, draw_wall

# Split, first place and distance from one to the next in metres, light.
DRIVES = {
    "sun": ("train", 0.0, 3.0, 1.0),
    "rain": ("calibration", 0.5, 1.5, 0.9),
    "fog": ("test", 2.0, 2.0, 0.95),
}


@pytest.fixture(scope="session")
def wall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wall: 80 places for training, 160 for calibration, 119 for tests."""
    folder = tmp_path_factory.mktemp("walls") / "wall"
    draw_wall(folder, DRIVES, 240.0, Frame("wall"))
    return folder


@pytest.fixture(scope="session")
def wall_encoder(small_backbone: str, wall: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an encoder of two layers, with random weights."""
    encoder = Encoder.create(
        weights="random", size=(WIDTH, HEIGHT), clusters=32, backbone=small_backbone
    )
    encoder.initialize(load_places(wall).where(split="train"))
    file = tmp_path_factory.mktemp("wall-encoder") / "encoder.safetensors"
    encoder.save(file)
    return file


@pytest.fixture(scope="session")
def wall_map(wall: Path, wall_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a map of the wall, with 60 landmarks; a test that changes it must copy it
    first.
    """
    out = tmp_path_factory.mktemp("maps") / "map"
    result = invoke("map", "build", wall, out, "--encoder", wall_encoder, "--landmarks", 60)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def copied_map(wall_map: Path, tmp_path: Path) -> Path:
    """A copy of the wall's map."""
    return shutil.copytree(wall_map, tmp_path / "map")


@pytest.fixture(scope="session")
def other_encoder(small_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of another encoder."""
    encoder = Encoder.create(
        weights="random", size=(WIDTH, HEIGHT), clusters=2, backbone=small_backbone, seed=1
    )
    encoder.initialize(
        np.random.default_rng(0).integers(0, 256, (8, HEIGHT, WIDTH, 3), dtype=np.uint8)
    )
    file = tmp_path_factory.mktemp("other-encoder") / "encoder.safetensors"
    encoder.save(file)
    return file


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def mappable() -> Callable[..., Result]:
    """Run `mappable ARGUMENTS` in this process."""
    return invoke


@pytest.fixture(scope="session")
def typed() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run `mappable ARGUMENTS` from the first line of `main` to the exit status, in this process
    (faster).
    """

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        command, out, errors = ["mappable", *map(str, arguments)], StringIO(), StringIO()
        before, ctrl_c = sys.argv, signal.getsignal(signal.SIGINT)
        sys.argv = command
        try:
            with redirect_stdout(out), redirect_stderr(errors), pytest.raises(SystemExit) as end:
                main()
        finally:
            sys.argv = before
            signal.signal(signal.SIGINT, ctrl_c)
        return subprocess.CompletedProcess(
            command, end.value.code or 0, out.getvalue(), errors.getvalue()
        )

    return run
