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
from mappable.features.activations import BATCH, frozen_activations
from mappable.features.encoder import Encoder
from mappable.places.cache import ImageRows

CPU = torch.device("cpu")


@pytest.fixture
def images(pictures: Pixels) -> ImageRows:
    """Forty images, two whole batches and a half."""
    shifted = np.concatenate([np.roll(pictures, 5 * step, axis=2) for step in range(4)])
    return ImageRows(shifted, np.random.default_rng(0).permutation(40))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Which images go through the frozen layers."""
    ranges: list[tuple[int, int]] = []
    lower = activations._lower

    def watched(encoder: Encoder, images: ImageRows, start: int, stop: int, *rest: Any) -> Tensor:
        ranges.append((start, stop))
        return lower(encoder, images, start, stop, *rest)

    monkeypatch.setattr(activations, "_lower", watched)
    return ranges


def compute(encoder: Encoder, images: ImageRows, folder: Path | None, precision: Any = "float32") -> Tensor:
    return frozen_activations(encoder, images, device=CPU, precision=precision, folder=folder)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_in_memory_and_in_a_file_they_are_what_the_encoder_computes(
    precision: str, encoder: Encoder, images: ImageRows, tmp_path: Path
) -> None:
    found = compute(encoder, images, None, precision)
    assert found.shape == (40, 5, 12, 16)
    assert found.dtype == getattr(torch, precision)
    assert compute(encoder, images, tmp_path / "new", precision).equal(found)
    with torch.no_grad():
        expected = encoder.lower(torch.from_numpy(images[:]))
    error = (found.float() - expected).norm() / expected.norm()
    assert error < {"float32": 1e-6, "bfloat16": 0.01}[precision]


def test_a_second_run_finds_them(
    encoder: Encoder, images: ImageRows, tmp_path: Path, lowered: list[tuple[int, int]]
) -> None:
    first = compute(encoder, images, tmp_path)
    (file,) = tmp_path.glob("*.bin")
    modified = file.stat().st_mtime_ns
    lowered.clear()
    assert compute(encoder, images, tmp_path).equal(first)
    assert lowered == [(0, 16)]  # to know the weights again
    assert file.stat().st_mtime_ns == modified
    file.chmod(0o400)
    assert compute(encoder, images, tmp_path).equal(first)


def test_what_a_stopped_run_computed_is_completed(
    encoder: Encoder, images: ImageRows, tmp_path: Path, lowered: list[tuple[int, int]]
) -> None:
    whole = compute(encoder, images, tmp_path)
    (file,) = tmp_path.glob("*.bin")
    size = file.stat().st_size
    partial = file.with_suffix(".part")
    for kept, expected in ((0, [0, 16, 32]), (100, [0, 16, 32]), (size // 40 * 16, [16, 32]), (size - 3, [32])):
        partial.write_bytes(file.read_bytes()[:kept])
        file.unlink()
        lowered.clear()
        assert compute(encoder, images, tmp_path).equal(whole)
        assert [start for start, _ in lowered[1:]] == expected  # after the one to know the weights by
        assert not partial.exists()


def test_other_images_weights_or_precisions_have_files_of_their_own(
    encoder: Encoder, images: ImageRows, pictures: Pixels, small_backbone: str, tmp_path: Path
) -> None:
    changed = ImageRows(images.images.copy(), images.rows)
    changed.images[images.rows[-1], -1, -1, -1] ^= 1
    other = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone=small_backbone, seed=1)
    compute(encoder, images, tmp_path)
    compute(encoder, changed, tmp_path)
    compute(encoder, ImageRows(images.images, images.rows[:39]), tmp_path)
    compute(encoder, images, tmp_path, "bfloat16")
    compute(other, images, tmp_path)
    assert len(list(tmp_path.glob("*.bin"))) == 5


def test_a_damaged_file_is_called_so(encoder: Encoder, images: ImageRows, tmp_path: Path) -> None:
    compute(encoder, images, tmp_path)
    (file,) = tmp_path.glob("*.bin")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadInputError, match=rf"{file}: damaged; delete it, and it is computed again"):
        compute(encoder, images, tmp_path)
    file.unlink()
    assert compute(encoder, images, tmp_path).equal(compute(encoder, images, None))


def test_two_runs_at_once_compute_them_once(
    encoder: Encoder, images: ImageRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compute(encoder, images, None)
    lower, appended = activations._lower, activations._append
    calls: list[Path] = []

    def slow(*arguments: Any) -> Tensor:
        time.sleep(0.02)
        return lower(*arguments)

    def counting(partial: Path, *rest: Any) -> None:
        calls.append(partial)
        appended(partial, *rest)

    monkeypatch.setattr(activations, "_lower", slow)
    monkeypatch.setattr(activations, "_append", counting)
    found: list[Tensor] = []
    threads = [threading.Thread(target=lambda: found.append(compute(encoder, images, tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.equal(whole) for one in found] == [True, True, True]
    assert len(calls) == 1


def test_a_folder_that_cannot_be_written_to_is_named(encoder: Encoder, images: ImageRows, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match=r"file/activations/.*\.part: cannot be written"):
        compute(encoder, images, tmp_path / "file/activations")


def test_fewer_images_than_a_batch(encoder: Encoder, images: ImageRows, tmp_path: Path) -> None:
    few = ImageRows(images.images, images.rows[: BATCH - 3])
    assert compute(encoder, few, tmp_path).equal(compute(encoder, few, None))
