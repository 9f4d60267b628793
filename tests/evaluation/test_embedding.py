"""Descriptors of a model are computed once; damaged ones are computed again."""

from pathlib import Path

import numpy as np
import pytest

from mappable.arrays import Pixels
from mappable.evaluation import embedding
from mappable.evaluation.embedding import image_digest, load_descriptors
from mappable.features.encoder import Encoder
from mappable.places.pixels import ImageRows
from mappable.places.table import Places


def test_damaged_descriptors_are_computed_again(
    toy: tuple[Places, Pixels], small_backbone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images, rows = ImageRows(toy[1], np.arange(60)), np.arange(5)
    encoder = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone=small_backbone)
    encoder.initialize(toy[1][:10])

    def load() -> np.ndarray:
        return np.array(load_descriptors(encoder, images, rows, image_digest(images, rows), tmp_path).values)

    first = load()
    (file,) = tmp_path.glob("*.f16")
    damaged = bytearray(file.read_bytes())
    damaged[100] ^= 4
    file.write_bytes(damaged)
    capsys.readouterr()
    np.testing.assert_array_equal(load(), first)
    assert f"{file}: damaged" in capsys.readouterr().err
    (checksum,) = tmp_path.glob("*.f16.xxh3")
    checksum.unlink()  # as in earlier versions
    np.testing.assert_array_equal(load(), first)
    assert "damaged" not in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["none", "first block", "last block", "no checksums"])
def test_a_stopped_computation_continues_after_the_undamaged_blocks(
    toy: tuple[Places, Pixels], small_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(embedding, "AT_ONCE", 8)
    images, rows = ImageRows(toy[1], np.arange(60)), np.arange(60)
    encoder = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone=small_backbone)
    encoder.initialize(toy[1][:10])
    computed: list[int] = []
    describe = embedding.describe

    def counting(network: object, inputs: object, some: np.ndarray, **options: object) -> object:
        if len(computed) == 5 and not tmp_path.joinpath("again").exists():
            raise KeyboardInterrupt
        computed.append(int(some[0]))
        return describe(network, inputs, some, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(embedding, "describe", counting)
    with pytest.raises(KeyboardInterrupt):
        load_descriptors(encoder, images, rows, "digest", tmp_path)
    (tmp_path / "again").touch()
    (partial,) = tmp_path.glob("*.part")
    content = bytearray(partial.read_bytes())
    content[{"first block": 10, "last block": -10}.get(damage, 0)] ^= 0 if damage in ("none", "no checksums") else 4
    partial.write_bytes(content)
    if damage == "no checksums":  # as in earlier versions
        Path(f"{partial}.xxh3").unlink()
    computed.clear()
    found = np.array(load_descriptors(encoder, images, rows, "digest", tmp_path).values)
    assert computed[0] == {"none": 40, "last block": 32}.get(damage, 0)
    again = np.array(load_descriptors(encoder, images, rows, "digest", tmp_path / "new").values)
    np.testing.assert_array_equal(found, again)
    assert sorted(file.suffix for file in tmp_path.glob("*.f16*")) == [".f16", ".xxh3"]
