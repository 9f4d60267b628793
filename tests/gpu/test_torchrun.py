"""One process of `torchrun` on a GPU, connected by NCCL, takes the steps of plain training."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mappable.arrays import Pixels
from mappable.features.encoder import Encoder
from mappable.learning.settings import Settings, settings_to_yaml
from mappable.learning.trainer import train
from mappable.places.table import Places

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

# `mappable ARGUMENTS` with one more folder of backbones; the first step prints how the processes
# are connected.
COMMAND = """
import os, sys

from torch import distributed

from mappable.cli import main
from mappable.features import backbones
from mappable.learning.learner import Learner

backbones.__path__.append(os.environ["BACKBONES"])
step = Learner.step

def telling(*arguments):
    Learner.step = step
    print("connected by", distributed.get_backend(), flush=True)
    return step(*arguments)

Learner.step = telling
sys.argv[0] = "mappable"
main()
"""
SETTINGS = {
    "positive_radius": 5.0,
    "negative_radius": 12.0,
    "positives": 2,
    "negatives": 3,
    "hard_negatives": 1,
    "anchors": 4,
    "cache_every": 10,
    "cache_size": 10,
    "iterations": 25,
    "learning_rate": 1e-4,
    "weights": "random",
    "clusters": 4,
    "size": (64, 48),
    "init_images": 8,
    "landmarks": 6,
    "monitor_every": 7,
    "dimensions": 8,
}


@pytest.mark.parametrize(
    ("backbone", "trainable"), [("small", "all"), ("small", "last"), ("vgg16", "all")]
)
def test_one_rank_with_nccl_trains_like_a_plain_process(
    backbone: str,
    trainable: str,
    toy: tuple[Places, Pixels],
    toy_folder: Path,
    small_backbone: str,
    backbones_folder: Path,
    tmp_path: Path,
) -> None:
    chosen = Settings(**SETTINGS | {"backbone": backbone, "trainable": trainable})
    (tmp_path / "command.py").write_text(COMMAND)
    (tmp_path / "settings.yaml").write_text(settings_to_yaml(chosen))
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "1",
    ]
    arguments = [
        "train",
        toy_folder,
        tmp_path / "out",
        "--settings",
        tmp_path / "settings.yaml",
        "--device",
        "cuda",
    ]
    run = subprocess.run(
        [*torchrun, *map(str, [tmp_path / "command.py", *arguments])],
        env={**os.environ, "BACKBONES": str(backbones_folder)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "connected by nccl" in run.stdout
    alone = train(*toy, chosen, device="cuda")
    assert Encoder.load(tmp_path / "out/encoder.safetensors").fingerprint == alone.fingerprint
