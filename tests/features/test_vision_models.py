"""Vision models of transformers as backbones, made on the spot: from a folder to an answer."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mappable.arrays import Pixels
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.learning.settings import load_settings
from mappable.learning.trainer import train
from mappable.localization.build import build_map
from mappable.places.frames import Frame
from mappable.places.table import Places

transformers = pytest.importorskip("transformers", reason="install the extra transformers")
pytestmark = pytest.mark.medium
SIZE = (64, 48)
NORMALIZATION = {"do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.3]}


def saved(
    folder: Path, kind: str = "Dinov2", preprocessor: Any = NORMALIZATION, **values: Any
) -> str:
    """A random model in a folder, as transformers saves it; its name as a backbone."""
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2}
    small |= {"intermediate_size": 32} if kind in ("ViT", "Bert") else {}
    small |= {"patch_size": 8, "image_size": 32} if kind != "Bert" else {"vocab_size": 30}
    torch.manual_seed(0)
    configuration = getattr(transformers, f"{kind}Config")(**small | values)
    transformers.AutoModel.from_config(configuration).save_pretrained(folder)
    if preprocessor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return f"transformers:{folder}"


def created(backbone: str, pictures: Pixels, **options: Any) -> Encoder:
    encoder = Encoder.create(**{"backbone": backbone, "size": SIZE, "clusters": 3} | options)
    encoder.initialize(pictures)
    return encoder


@pytest.mark.parametrize(
    ("kind", "values"),
    [("Dinov2", {}), ("Dinov2WithRegisters", {"num_register_tokens": 3}), ("ViT", {})],
)
def test_patch_tokens_become_maps_without_class_and_register_tokens(
    kind: str, values: dict[str, Any], pictures: Pixels, tmp_path: Path
) -> None:
    encoder = created(saved(tmp_path / "model", kind, **values), pictures)
    assert (encoder.about.mean, encoder.about.std) == ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
    model = transformers.AutoModel.from_pretrained(tmp_path / "model").eval()
    mean, std = (np.array(NORMALIZATION[name]) for name in ("image_mean", "image_std"))
    images = torch.from_numpy((pictures[:2] / 255 - mean) / std).float().permute(0, 3, 1, 2)
    options = {"interpolate_pos_encoding": True} if kind == "ViT" else {}
    with torch.no_grad():
        tokens = model(pixel_values=images, **options).last_hidden_state[:, -48:]
        maps = encoder.backbone.upper(encoder.lower(torch.from_numpy(pictures[:2])))
    assert maps.shape == (2, 16, 6, 8)
    torch.testing.assert_close(maps.flatten(2).transpose(1, 2), tokens, atol=1e-4, rtol=0)


def test_a_saved_encoder_needs_neither_the_folder_nor_a_network(
    pictures: Pixels, tmp_path: Path
) -> None:
    backbone = saved(tmp_path / "model")
    encoder = created(backbone, pictures, dimensions=7)
    encoder.save(tmp_path / "encoder.safetensors")
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    loaded = Encoder.load(tmp_path / "encoder.safetensors")
    assert (loaded.embed(pictures) == encoder.embed(pictures)).all()
    same = created(f"transformers:{tmp_path / 'elsewhere'}", pictures, dimensions=7)
    assert loaded.fingerprint == encoder.fingerprint == same.fingerprint
    assert created(
        f"transformers:{tmp_path / 'elsewhere'}", pictures, dimensions=7, weights="random"
    ).about.model
    other = created(saved(tmp_path / "other", layer_norm_eps=1e-3), pictures, dimensions=7)
    assert other.fingerprint != encoder.fingerprint


@pytest.mark.parametrize("trainable", ["all", "last"])
def test_it_trains_as_a_whole_or_frozen_and_locates(
    trainable: str, pictures: Pixels, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    noisy = np.clip(
        pictures.astype(int)[np.repeat(np.arange(10), 3)] + random.integers(-9, 9, (30, 48, 64, 3)),
        0,
        255,
    )
    pixels, x = (
        noisy.astype(np.uint8),
        np.repeat(np.arange(10) * 10.0, 3) + np.tile([0.0, 1.0, 2.0], 10),
    )
    names = [f"{row}.jpg" for row in range(30)]
    places = Places(
        path=names, x=x.tolist(), y=[0.0] * 30, sequence=["a"] * 30, frames=Frame("toy")
    )
    chosen = load_settings(
        overrides={
            "backbone": saved(tmp_path / "model"),
            "trainable": trainable,
            "size": SIZE,
            "clusters": 3,
            "dimensions": 7,
            "positive_radius": 3,
            "negative_radius": 8,
            "positives": 2,
            "negatives": 3,
            "hard_negatives": 1,
            "iterations": 3,
            "init_images": 10,
            "learning_rate": 1e-4,
            "landmarks": 0,
        }
    )
    assert chosen.weights == "pretrained"
    before = train(places, pixels, chosen.model_copy(update={"iterations": 0})).state_dict()
    encoder = train(places, pixels, chosen, out=tmp_path / "run")
    changed = {
        name for name, tensor in encoder.state_dict().items() if not tensor.equal(before[name])
    }
    assert any(name.startswith("backbone.") for name in changed) == (trainable == "all")
    assert {"reduction.projection", "aggregator.centres"} <= changed
    loaded = Encoder.load(tmp_path / "run/encoder.safetensors")
    built = build_map(places, pixels, encoder=loaded, every=True)
    found = built.locate_all(loaded.embed(pixels[:5]))
    apart = [
        np.linalg.norm(location.coordinates[:2] - at)
        for location, at in zip(found, places.positions, strict=False)
    ]
    # The three images of a picture are at most 2 m apart, those of others 8 m or more.
    assert max(apart) < 3


def test_code_of_a_model_never_runs(tmp_path: Path) -> None:
    backbone, folder = saved(tmp_path / "model"), tmp_path / "model"
    configuration = json.loads((folder / "config.json").read_text())
    configuration |= {
        "model_type": "foreign",
        "auto_map": {"AutoConfig": "code.Own", "AutoModel": "code.Own"},
    }
    (folder / "config.json").write_text(json.dumps(configuration))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n")
    with pytest.raises(BadInputError, match="transformers cannot open it"):
        Encoder.create(backbone=backbone, size=SIZE)
    assert not (tmp_path / "ran").exists()
