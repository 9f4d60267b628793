"""`mappable weights` as a user types it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mappable.features.weight_files import shapes_of
from mappable.features.weights import WEIGHT_SETS, fetch_weights

Weights = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def weights(typed: Weights, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Run `mappable weights ARGUMENTS` with a separate cache."""

    def run(cache: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
        monkeypatch.setenv("MAPPABLE_CACHE", str(cache))
        return typed("weights", *arguments)

    return run


@pytest.mark.medium
def test_import_then_show(weights: Weights, tmp_path: Path) -> None:
    original = fetch_weights("vgg16-v1")  # of the user's own cache
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", "from mappable.cli import main; main()", "weights"]
    shown = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"MAPPABLE_CACHE": str(cache)})
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    assert shown.stdout.count("cached  no; fetch it with: mappable weights ") == len(WEIGHT_SETS)
    imported = weights(cache, "vgg16-v1", "--file", original)
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout == f"{cache / 'vgg16-v1.safetensors'}\n"
    assert weights(cache, "vgg16-v1").stdout == imported.stdout
    first, second, third, fourth = weights(cache).stdout.split("\n\n")
    for text in (
        "vgg16-v1: torchvision's own training",
        "mean 0.485 0.456 0.406, std 0.229 0.224 0.225",
        f"cached  {cache / 'vgg16-v1.safetensors'} (58.9 MB)",
        f"source  {original}",
    ):
        assert text in first
    assert "vgg16-caffe: the original weights" in second
    assert "mean 0.48235 0.45882 0.40784, std 0.00392157" in second
    assert "cached  no" in second
    assert "network resnet50_keras\n  license believed MIT" in third
    assert "network resnet50\n" in fourth


def test_a_damaged_file_in_the_cache_is_shown_as_such(weights: Weights, tmp_path: Path) -> None:
    (tmp_path / "vgg16-v1.safetensors").write_bytes(b"half of it")
    assert "vgg16-v1.safetensors is damaged; fetch it again" in weights(tmp_path).stdout


@pytest.mark.medium
def test_a_file_of_another_set_is_refused_in_one_sentence(weights: Weights, tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_file({name: torch.zeros(shape) for name, shape in shapes_of("vgg16").items()}, file)
    refused = weights(tmp_path, "vgg16-caffe", "--file", file)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"error: {file}: not known to be vgg16-caffe;")
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "vgg16-caffe.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--sha256", "ab"), "--sha256 'ab': needs SET, the name of the set with this SHA-256"),
        (
            ("vgg19",),
            f"unknown weight set 'vgg19'; the sets are {', '.join(WEIGHT_SETS)}",
        ),
        (
            ("--file", "mine.pth"),
            f"--file mine.pth: needs SET, the name of the set in the file: {', '.join(WEIGHT_SETS)}",
        ),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], part: str, weights: Weights, tmp_path: Path) -> None:
    failed = weights(tmp_path, *arguments)
    assert failed.returncode == 1
    assert failed.stderr == f"error: {part}\n"


def test_help_names_the_sets_and_the_file_formats(weights: Weights, tmp_path: Path) -> None:
    text = weights(tmp_path, "--help").stdout
    for name in (*WEIGHT_SETS, ".safetensors", ".pth", ".ckpt", "MAPPABLE_CACHE"):
        assert name in text
