"""Encoders of maps: the one that a map keeps, or the same from elsewhere."""

from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.maps.encoders import encoder_of, open_encoder
from mappable.maps.map import Map
from mappable.places.frames import Frame
from mappable.places.table import Places


def made(backbone: str, seed: int, file: Path) -> Encoder:
    encoder = Encoder.create(weights="random", size=(32, 24), clusters=2, backbone=backbone, seed=seed)
    encoder.initialise(np.random.default_rng(0).integers(0, 256, (8, 24, 32, 3), dtype=np.uint8))
    encoder.save(file)
    return encoder


def test_a_maps_folder_opens_its_encoder_and_no_other_is_taken_for_it(small_backbone: str, tmp_path: Path) -> None:
    own, other = tmp_path / "run/encoder.safetensors", tmp_path / "other.safetensors"
    encoder = made(small_backbone, 0, own)
    made(small_backbone, 1, other)
    places = Places(path=["a.png", "b.png"], x=[0.0, 1.0], y=[0.0, 0.0], frames=Frame("town"))
    built = Map.build(places, np.eye(2, encoder.dimensions), encoder.fingerprint, about=encoder.about)
    bare, kept = built.save(tmp_path / "bare"), built.save(tmp_path / "kept", own)
    assert open_encoder(tmp_path / "kept", "cpu").fingerprint == encoder.fingerprint
    for opened, source in ((kept, None), (bare, own), (bare, own.parent), (bare, tmp_path / "kept")):
        assert encoder_of(opened, source, "cpu").fingerprint == encoder.fingerprint
    with pytest.raises(BadInputError, match=r"other\.safetensors: is encoder .* but the map is of encoder"):
        encoder_of(kept, other, "cpu")
    with pytest.raises(BadInputError, match=f"keeps no encoder.*{encoder.fingerprint}"):
        encoder_of(bare)
