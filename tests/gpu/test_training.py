"""Training on a GPU: the same bits wherever the images lie and however often it stops, and a host that runs ahead."""

import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.features.encoder import Encoder
from mappable.features.inputs import DeviceInputs, HostInputs
from mappable.learning import start
from mappable.learning.layout import Layout
from mappable.learning.learner import Batch, Learner
from mappable.learning.losses import Loss
from mappable.learning.settings import Settings
from mappable.learning.trainer import TrainingStopped, train
from mappable.learning.tuples import Sampler
from mappable.places.pixels import ImageRows
from mappable.places.table import Places

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

Toy = tuple[Places, Pixels]
BACKBONES = pytest.mark.parametrize(
    ("backbone", "precision"), [("small", "float32"), ("vgg16", "auto"), ("resnet50", "auto")]
)
TOY = {
    "positive_radius": 5.0,
    "negative_radius": 12.0,
    "positives": 2,
    "negatives": 3,
    "hard_negatives": 1,
    "cache_every": 10,
    "cache_size": 10,
    "iterations": 25,
    "learning_rate": 1e-4,
    "weights": "random",
    "backbone": "small",
    "clusters": 4,
    "size": (64, 48),
    "init_images": 8,
    "landmarks": 6,
    "checkpoint_every": 1000,
}


@pytest.fixture
def learn(toy: Toy, small_backbone: str) -> Callable[..., Encoder]:
    """Train on the toy world, on the GPU, with changed settings."""

    def run(out: Path | None = None, **changes: Any) -> Encoder:
        return train(*toy, Settings(**TOY | changes), device="cuda", out=out)

    return run


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, images stay in the host's memory."""
    return lambda: monkeypatch.setattr(start, "RESIDENT", 0.0)


def before_steps(patch: pytest.MonkeyPatch, act: Callable[[int, Learner], object]) -> None:
    """`act(n, learner)` happens before the n-th step, counted from 1."""
    step, count = Learner.step, itertools.count(1)

    def acting(learner: Learner, loss: Loss, batch: Batch, *others: int) -> Tensor:
        act(next(count), learner)
        return step(learner, loss, batch, *others)

    patch.setattr(Learner, "step", acting)


def reported(folder: Path) -> list[int]:
    """The iterations whose loss is written down."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["iteration"] for line in lines if "loss" in line]


@BACKBONES
def test_a_seed_decides_on_every_bit(
    backbone: str, precision: str, learn: Callable[..., Encoder]
) -> None:
    first, again, other = (
        learn(backbone=backbone, precision=precision, seed=seed).fingerprint for seed in (3, 3, 4)
    )
    assert first == again != other


@BACKBONES
def test_it_does_not_matter_whether_the_images_lie_on_the_gpu(
    backbone: str,
    precision: str,
    learn: Callable[..., Encoder],
    streamed: Callable[[], None],
) -> None:
    chosen = {"backbone": backbone, "precision": precision}
    resident = learn(**chosen)
    streamed()
    assert learn(**chosen).fingerprint == resident.fingerprint


def test_it_does_not_matter_whether_stored_activations_lie_on_the_gpu(
    toy: Toy, small_backbone: str, streamed: Callable[[], None], tmp_path: Path
) -> None:
    settings = Settings(**TOY | {"trainable": "last"})
    resident = train(*toy, settings, device="cuda", activations=tmp_path)
    streamed()
    assert (
        train(*toy, settings, device="cuda", activations=tmp_path).fingerprint
        == resident.fingerprint
    )


@BACKBONES
@pytest.mark.parametrize("where", ["resident", "streamed"])
def test_a_run_that_is_stopped_goes_on_to_the_same_bits(
    backbone: str,
    precision: str,
    where: str,
    learn: Callable[..., Encoder],
    streamed: Callable[[], None],
    tmp_path: Path,
) -> None:
    """Ctrl-C comes in step 7 and is noticed after step 20, in the middle of a mining period."""
    if where == "streamed":
        streamed()
    chosen: dict[str, Any] = {"backbone": backbone, "precision": precision, "cache_every": 12}
    whole = learn(**chosen)
    with pytest.MonkeyPatch.context() as patch:
        before_steps(patch, lambda number, _: number == 7 and os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(TrainingStopped, match="stopped at iteration 20 of 25"):
            learn(out=tmp_path, **chosen)
    assert reported(tmp_path) == list(range(1, 21))
    assert learn(out=tmp_path, **chosen).fingerprint == whole.fingerprint
    assert reported(tmp_path) == list(range(1, 26))


def test_batches_are_copied_whole_while_the_gpu_is_busy() -> None:
    """Pinned memory is not used again as long as a copy from it is under way."""
    images = np.random.default_rng(0).integers(0, 256, (200, 64, 64, 3), dtype=np.uint8)
    portions: list[Ints] = [np.arange(start, start + 20) for start in range(0, 200, 20)]
    much = torch.randn(4096, 4096, device="cuda")
    found = []
    for batch in HostInputs(ImageRows(images, np.arange(200))).batches(
        portions, torch.device("cuda")
    ):
        for _ in range(10):
            much = (much @ much).tanh()
        found.append(batch)
    np.testing.assert_array_equal(torch.cat(found).cpu().numpy(), images)
    resident = torch.from_numpy(images).cuda()
    again = torch.cat(list(DeviceInputs(resident).batches(portions[::-1], torch.device("cuda"))))
    assert again.equal(resident[np.concatenate(portions[::-1])])


def test_a_gpu_draws_the_tuples_of_a_cpu(toy: Toy) -> None:
    places = toy[0].where(split="train")
    rng = np.random.default_rng(0)
    features = torch.tensor(rng.normal(size=(len(places), 16)), dtype=torch.float32)
    found = []
    for device in ("cpu", "cuda"):
        sampler = Sampler(
            places, positive_radius=5.0, negative_radius=12.0, negatives=4, device=device
        )
        rows, anchors = np.arange(len(places)), sampler.anchors(0, 10, 4)
        found.append(
            sampler.draw(anchors, Layout(2, 1, 2, True), 0, rows, features.to(device)).cpu().state()
        )
    for name, tensor in found[0].items():
        assert tensor.equal(found[1][name]), name
