"""Activations of frozen layers are computed once, kept in a file, and never taken for those of something else."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Pixels
from mappable.errors import BadInputError
from mappable.features import activations
from mappable.features.activations import BATCH_SIZE, frozen_activations
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
    """How many images go through the frozen layers, call by call; the first call of each is to know the weights by."""
    counts: list[int] = []
    lower = activations._lower

    def watched(encoder: Encoder, pixels: Pixels, *rest: Any) -> Tensor:
        counts.append(len(pixels))
        return lower(encoder, pixels, *rest)

    monkeypatch.setattr(activations, "_lower", watched)
    return counts


def compute(encoder: Encoder, images: ImageRows, folder: Path | None, precision: Any = "float32") -> Tensor:
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


def test_a_second_run_finds_them(encoder: Encoder, images: ImageRows, tmp_path: Path, lowered: list[int]) -> None:
    first = compute(encoder, images, tmp_path)
    (file,) = tmp_path.glob("*.bin")
    modified = file.stat().st_mtime_ns
    lowered.clear()
    assert compute(encoder, images, tmp_path).equal(first)
    assert lowered == [1]
    assert file.stat().st_mtime_ns == modified
    file.chmod(0o400)
    assert compute(encoder, images, tmp_path).equal(first)


def test_damaged_activations_are_computed_again(
    encoder: Encoder, images: ImageRows, tmp_path: Path, lowered: list[int], capsys: pytest.CaptureFixture[str]
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


def test_what_is_there_of_other_images_is_not_computed_again(
    encoder: Encoder, images: ImageRows, tmp_path: Path, lowered: list[int]
) -> None:
    whole = compute(encoder, images, None)
    few = np.array([3, 20, 7])
    assert compute(encoder, images.take(few), tmp_path).equal(whole[few])
    lowered.clear()
    assert compute(encoder, images, tmp_path).equal(whole)
    assert lowered == [1, 16, 16, 5]
    lowered.clear()
    some = np.array([30, 3, 31])
    assert compute(encoder, images.take(some), tmp_path).equal(whole[some])
    assert lowered == [1]
    twice = ImageRows(np.concatenate([images.images, images.images]), np.array([5, 45, 5]))
    assert compute(encoder, twice, tmp_path)[0].equal(compute(encoder, twice, tmp_path)[1])


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


def test_other_weights_or_precisions_have_files_of_their_own_and_changed_images_their_own_rows(
    encoder: Encoder, images: ImageRows, small_backbone: str, tmp_path: Path, lowered: list[int]
) -> None:
    changed = ImageRows(images.images.copy(), images.rows)
    changed.images[images.rows[-1], -1, -1, -1] ^= 1
    other = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone=small_backbone, seed=1)
    compute(encoder, images, tmp_path)
    lowered.clear()
    assert compute(encoder, changed, tmp_path).equal(compute(encoder, changed, None))
    assert lowered[:2] == [1, 1]
    assert len(list(tmp_path.glob("*.bin"))) == 1
    compute(encoder, images, tmp_path, "bfloat16")
    compute(other, images, tmp_path)
    assert len(list(tmp_path.glob("*.bin"))) == 3


def test_two_runs_at_once_compute_them_once(
    encoder: Encoder, images: ImageRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compute(encoder, images, None)
    lower = activations._lower
    calls: list[int] = []

    def slow(encoder: Encoder, pixels: Pixels, *rest: Any) -> Tensor:
        time.sleep(0.02)
        calls.append(len(pixels))
        return lower(encoder, pixels, *rest)

    monkeypatch.setattr(activations, "_lower", slow)
    found: list[Tensor] = []
    threads = [threading.Thread(target=lambda: found.append(compute(encoder, images, tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.equal(whole) for one in found] == [True, True, True]
    assert sum(calls) == 3 + 40


def test_a_folder_that_cannot_be_written_to_is_named(encoder: Encoder, images: ImageRows, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="file/activations/"):
        compute(encoder, images, tmp_path / "file/activations")


def test_fewer_images_than_a_batch(encoder: Encoder, images: ImageRows, tmp_path: Path) -> None:
    few = images.take(np.arange(BATCH_SIZE - 3))
    assert compute(encoder, few, tmp_path).equal(compute(encoder, few, None))
