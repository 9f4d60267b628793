"""Checkpoints come back as they were saved, and a damaged one is called so."""

from pathlib import Path

import pytest
import torch

from mappable.errors import BadInputError
from mappable.learning.checkpoint import Checkpoint


@pytest.fixture
def saved() -> Checkpoint:
    learner = {"encoder.a/b": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)}
    tuples = {"rows": torch.arange(6).view(2, 3), "valid": torch.tensor([True, False])}
    about = {"settings": {"margin": 0.1 + 0.2, "size": [64, 48]}, "seconds": 1.5}
    return Checkpoint(12, learner | {"optimiser.0.step": torch.tensor(12.0)}, tuples, about)


def test_what_is_saved_comes_back_bit_by_bit(saved: Checkpoint, tmp_path: Path) -> None:
    saved.save(tmp_path / "out/checkpoint.safetensors")
    found = Checkpoint.load(tmp_path / "out/checkpoint.safetensors")
    assert (found.iteration, found.about) == (12, saved.about)
    for part in ("learner", "tuples"):
        one, other = getattr(found, part), getattr(saved, part)
        assert one.keys() == other.keys()
        assert all(
            one[name].equal(other[name]) and one[name].dtype == other[name].dtype for name in other
        )


def test_a_file_that_cannot_be_a_checkpoint_is_refused_in_one_sentence(
    saved: Checkpoint, tmp_path: Path
) -> None:
    file = tmp_path / "checkpoint.safetensors"
    problem = r"checkpoint\.safetensors: damaged"
    saved.save(file)
    whole = file.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], whole[:20], b"", b"not tensors at all"):
        file.write_bytes(content)
        with pytest.raises(BadInputError, match=problem):
            Checkpoint.load(file)
