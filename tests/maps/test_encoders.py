"""Encoders of maps: the one that a map keeps, or the same from elsewhere."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.embedding import Precision
from mappable.features.encoder import Encoder
from mappable.features.opening import OPENERS
from mappable.localization.build import build_map
from mappable.maps.encoders import encoder_of, open_encoder
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places


def made(backbone: str, seed: int, file: Path) -> Encoder:
    encoder = Encoder.create(
        weights="random", size=(32, 24), clusters=2, backbone=backbone, seed=seed
    )
    encoder.initialize(np.random.default_rng(0).integers(0, 256, (8, 24, 32, 3), dtype=np.uint8))
    encoder.save(file)
    return encoder


def test_a_maps_folder_opens_its_encoder_and_no_other_is_taken_for_it(
    small_backbone: str, tmp_path: Path
) -> None:
    own, other = tmp_path / "run/encoder.safetensors", tmp_path / "other.safetensors"
    encoder = made(small_backbone, 0, own)
    made(small_backbone, 1, other)
    places = Places(path=["a.png", "b.png"], x=[0.0, 1.0], y=[0.0, 0.0], frames=Frame("town"))
    built = Landmarks.build(
        places, np.eye(2, encoder.dimensions), encoder.fingerprint, about=encoder.about
    )
    bare, kept = built.save(tmp_path / "bare"), built.save(tmp_path / "kept", encoder)
    assert open_encoder(tmp_path / "kept", "cpu").fingerprint == encoder.fingerprint
    for opened, source in (
        (kept, None),
        (bare, own),
        (bare, own.parent),
        (bare, tmp_path / "kept"),
    ):
        assert encoder_of(opened, source, "cpu").fingerprint == encoder.fingerprint
    with pytest.raises(BadInputError, match=r"other\.safetensors.*map"):
        encoder_of(kept, other, "cpu")
    with pytest.raises(BadInputError, match=rf"encoder.*{encoder.fingerprint}"):
        encoder_of(bare)


class BrightnessEncoder:
    """An encoder of another kind, with nothing of ours: brightness of each column, in a file of its
    own format.
    """

    def __init__(self, file: Path) -> None:
        width, height = (int(side) for side in file.read_text().split())
        self.about = About(
            weights="none",
            size=(width, height),
            fit="crop",
            mean=(0, 0, 0),
            std=(1, 1, 1),
            unit="m",
        )
        self.dimensions, self.fingerprint, self.device = width, "brightness", torch.device("cpu")

    def copy(self) -> tuple[str, bytes]:
        return ".brightness", b"64 48"

    def actual_precision(self, precision: Precision) -> str:
        return "float64"

    def embed(
        self,
        images: AnyImages,
        *,
        batch_size: int | None = None,
        precision: Precision = "auto",
        progress: bool = True,
    ) -> Floats32:
        pixels = images_of(images, self.about.size, self.about.fit)
        columns = pixels.read(np.arange(len(pixels))).astype(np.float32).mean((1, 3))
        return columns / np.linalg.norm(columns, axis=1, keepdims=True)

    def for_queries(self) -> Callable[[Pixels], Floats32]:
        return self.embed


def test_another_kind_of_encoder_is_one_class_and_one_line(
    toy: tuple[Places, Pixels], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPENERS, ".brightness", lambda file, *options: BrightnessEncoder(file))
    file = tmp_path / "my.brightness"
    file.write_text("64 48")
    places, pixels = toy
    built = (
        build_map(places, pixels, encoder=open_encoder(file), landmarks=20)
        .save(tmp_path / "map")
        .landmarks
    )
    kept = encoder_of(built)
    assert (kept.fingerprint, built.encoder) == ("brightness", "brightness")
    queries = np.flatnonzero(places.split == "test")
    rows, _ = built.store.nearest(kept.embed(pixels[queries]), 1)
    off = np.abs(built.places.x[rows[:, 0]] - places.x[queries])
    assert np.median(off) < 4
