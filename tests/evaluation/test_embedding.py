"""Descriptors of a model are computed once; damaged ones are computed again."""

from pathlib import Path

import numpy as np
import pytest

from mappable.arrays import Pixels
from mappable.evaluation.embedding import image_digest, load_descriptors
from mappable.features.encoder import Encoder
from mappable.places.pixels import ImageRows
from mappable.places.table import Places


def test_damaged_descriptors_are_computed_again(
    toy: tuple[Places, Pixels],
    small_backbone: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    images, rows = ImageRows(toy[1], np.arange(60)), np.arange(5)
    encoder = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone=small_backbone)
    encoder.initialize(toy[1][:10])

    def load() -> np.ndarray:
        return np.array(
            load_descriptors(encoder, images, rows, image_digest(images), tmp_path).values
        )

    first = load()
    for damage in ("content", "no checksum"):
        (file,) = tmp_path.glob("*.npy")
        if damage == "content":
            content = bytearray(file.read_bytes())
            content[200] ^= 4
            file.write_bytes(content)
        else:
            file.with_suffix(".xxh3").unlink()
        capsys.readouterr()
        np.testing.assert_array_equal(load(), first)
        assert f"{file}: damaged" in capsys.readouterr().err
    (tmp_path / "other.npy").touch()
    np.testing.assert_array_equal(load(), first)
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".npy", ".xxh3"]
    assert "damaged" not in capsys.readouterr().err
