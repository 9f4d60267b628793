"""Activations of frozen layers are computed once, kept in a file, and never taken for those of something else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Pixels
from mappable.features import activations
from mappable.features.activations import frozen_activations
from mappable.features.encoder import Encoder
from mappable.places.pixels import ImageRows

CPU = torch.device("cpu")


@pytest.fixture
def images(pictures: Pixels) -> ImageRows:
    """Forty images, two whole batches and a half."""
    shifted = np.concatenate([np.roll(pictures, 5 * step, axis=2) for step in range(4)])
    return ImageRows(shifted, np.random.default_rng(0).permutation(40))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images go through the frozen layers, call by call; the first call of each is to know
    the weights by.
    """
    counts: list[int] = []
    lower = activations._lower

    def watched(encoder: Encoder, pixels: Pixels, *rest: Any) -> Tensor:
        counts.append(len(pixels))
        return lower(encoder, pixels, *rest)

    monkeypatch.setattr(activations, "_lower", watched)
    return counts


def compute(
    encoder: Encoder, images: ImageRows, folder: Path | None, precision: Any = "float32"
) -> Tensor:
    """All of them, as one tensor."""
    found = frozen_activations(encoder, images, device=CPU, precision=precision, folder=folder)
    return found.fetch(np.arange(len(images)), CPU)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_in_memory_and_in_a_file_they_are_what_the_encoder_computes(
    precision: str, encoder: Encoder, images: ImageRows, tmp_path: Path
) -> None:
    found = compute(encoder, images, None, precision)
    assert found.shape == (40, 5, 12, 16)
    assert found.dtype == getattr(torch, precision)
    assert compute(encoder, images, tmp_path / "new", precision).equal(found)
    with torch.no_grad():
        expected = encoder.lower(torch.from_numpy(images.read(np.arange(40))))
    error = (found.float() - expected).norm() / expected.norm()
    assert error < {"float32": 1e-6, "bfloat16": 0.01}[precision]


def test_damaged_activations_are_computed_again(
    encoder: Encoder,
    images: ImageRows,
    tmp_path: Path,
    lowered: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = compute(encoder, images, tmp_path)
    (file,) = tmp_path.glob("*.bin")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2 + 100] ^= 1
    file.write_bytes(damaged)
    lowered.clear()
    assert compute(encoder, images, tmp_path).equal(first)
    assert lowered == [1, 1]
    assert f"{file}: 1 activation" in capsys.readouterr().err
    lowered.clear()
    assert compute(encoder, images, tmp_path).equal(first)
    assert lowered == [1]


def test_what_a_stopped_run_computed_is_completed(
    encoder: Encoder, images: ImageRows, tmp_path: Path, lowered: list[int]
) -> None:
    whole = compute(encoder, images, tmp_path)
    (file,), (names,) = tmp_path.glob("*.bin"), tmp_path.glob("*.index")
    data, digests = file.read_bytes(), names.read_bytes()
    row = len(data) // 40
    for kept, named, expected in (
        (0, 0, [16, 16, 8]),
        (100, 0, [16, 16, 8]),
        (16 * row, 16 * 48, [16, 8]),
        (20 * row, 16 * 48, [16, 8]),  # killed before the digests were written
        (len(data) - 3, 40 * 48, [1]),  # and something that should not be
    ):
        file.write_bytes(data[:kept])
        names.write_bytes(digests[:named])
        lowered.clear()
        assert compute(encoder, images, tmp_path).equal(whole)
        assert lowered[1:] == expected
        assert (file.read_bytes(), names.read_bytes()) == (data, digests)
