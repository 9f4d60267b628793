"""The encoder: what it is made of, its one file, and files that must be refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from mappable.arrays import Pixels
from mappable.checksums import UNSEALED, seal
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.encoder import Encoder


@pytest.fixture
def file(encoder: Encoder, tmp_path: Path) -> Path:
    encoder.save(tmp_path / "encoder.safetensors")
    return tmp_path / "encoder.safetensors"


def rewritten(file: Path, change: Callable[[dict[str, Tensor], dict[str, Any]], None]) -> Path:
    """The file with its tensors and its description changed, with a correct checksum."""
    with safe_open(file, "pt") as opened:
        header = json.loads(opened.metadata()["mappable"])
    tensors = load_file(file)
    change(tensors, header)
    file.write_bytes(seal(save(tensors, {"mappable": json.dumps(header | {"checksum": UNSEALED})})))
    return file


@pytest.mark.medium
def test_what_is_saved_and_loaded_gives_the_same_descriptors_to_the_last_bit(
    pictures: Pixels, tmp_path: Path
) -> None:
    encoder = Encoder.create(weights="random", size=(64, 48), clusters=8)  # with VGG-16
    encoder.initialize(pictures)
    encoder.save(tmp_path / "encoder.safetensors")
    loaded = Encoder.load(tmp_path / "encoder.safetensors")
    assert encoder.dimensions == 8 * 512
    for precision in ("float32", "bfloat16"):
        before = encoder.embed(pictures, precision=precision)  # type: ignore[arg-type]
        after = loaded.embed(pictures, precision=precision)  # type: ignore[arg-type]
        assert (before == after).all()
    assert (loaded.fingerprint, loaded.about) == (encoder.fingerprint, encoder.about)


def test_a_reduction_travels_along(small_backbone: str, pictures: Pixels, tmp_path: Path) -> None:
    chosen = {"backbone": small_backbone, "clusters": 4}
    encoder = Encoder.create(weights="random", size=(64, 48), dimensions=5, **chosen)  # type: ignore[arg-type]
    whole = Encoder.create(weights="random", size=(64, 48), **chosen)  # type: ignore[arg-type]
    encoder.initialize(pictures)
    whole.initialize(pictures)
    encoder.save(tmp_path / "encoder.safetensors")
    loaded = Encoder.load(tmp_path / "encoder.safetensors")
    descriptors = loaded.embed(pictures)
    assert descriptors.shape == (10, 5)
    assert (descriptors == encoder.embed(pictures)).all()
    np.testing.assert_allclose(np.linalg.norm(descriptors, axis=1), 1, rtol=1e-6)
    assert loaded.about.dimensions == loaded.dimensions == 5
    assert encoder.fingerprint == loaded.fingerprint != whole.fingerprint


@pytest.mark.medium
def test_the_file_has_torchvisions_names_and_says_what_it_is(tmp_path: Path) -> None:
    encoder = Encoder.create(weights="random", size=(32, 32), clusters=2)
    about = replace(
        encoder.about,
        positive_radius=10.0,
        negative_radius=25.0,
        feature_scale_squared=2.0,
        unit="m",
    )
    about = replace(about, settings={"loss": "huber"}, seed=3, data="abc", init_source="train")
    encoder.about = replace(about, proportional=True)
    encoder.save(tmp_path / "encoder.safetensors")
    with safe_open(tmp_path / "encoder.safetensors", "pt") as opened:
        names = set(opened.keys())
        header = json.loads(opened.metadata()["mappable"])
    assert {
        "features.0.weight",
        "features.28.bias",
        "aggregator.assignment",
        "aggregator.centres",
    } <= names
    assert len(names) == 28
    assert header["about"]["squared_distance_per_squared_feature"] == 50.0
    assert Encoder.load(tmp_path / "encoder.safetensors").about == encoder.about


def test_lambda_is_known_where_training_made_distances_proportional_alone() -> None:
    about = About(weights="random", size=(32, 32), fit="crop", mean=(0, 0, 0), std=(1, 1, 1))
    assert about.squared_distance_per_squared_feature is None
    visual = replace(about, positive_radius=1.0, feature_scale_squared=2.0)
    assert visual.squared_distance_per_squared_feature is None
    geometric = replace(visual, proportional=True)
    assert geometric.squared_distance_per_squared_feature == 0.5
    assert About.from_json(geometric.to_json()) == geometric
    assert (
        replace(geometric, feature_scale_squared=None).squared_distance_per_squared_feature is None
    )


def test_images_are_normalized_by_the_mean_and_std_of_the_weights(encoder: Encoder) -> None:
    seen: list[Tensor] = []
    encoder.backbone.lower = lambda images: seen.append(images) or images  # type: ignore[method-assign, func-returns-value]
    pixels = torch.randint(0, 256, (2, 48, 64, 3), dtype=torch.uint8)
    encoder.lower(pixels)
    expected = (pixels.double() / 255 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor(
        [0.229, 0.224, 0.225]
    )
    torch.testing.assert_close(seen[0].double(), expected.permute(0, 3, 1, 2), atol=1e-5, rtol=0)
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


def test_lower_and_upper_are_the_whole_also_with_activations_kept_in_bfloat16(
    encoder: Encoder, pictures: Pixels
) -> None:
    pixels = torch.from_numpy(pictures)
    with torch.no_grad():
        whole = encoder(pixels)
        assert torch.equal(encoder.upper(encoder.lower(pixels)), whole)
        torch.testing.assert_close(
            encoder.upper(encoder.lower(pixels).bfloat16()), whole, atol=0.02, rtol=0
        )
        local = encoder.local(encoder.lower(pixels))
    assert local.shape == (10, 6 * 8, 6)
    length = local.norm(dim=2)
    torch.testing.assert_close(length[length > 0], torch.ones(int((length > 0).sum())))


def test_the_fingerprint_changes_with_what_changes_descriptors_alone(encoder: Encoder) -> None:
    before = encoder.fingerprint
    assert len(before) == 16
    encoder.about = replace(
        encoder.about, seed=9, data="other", settings={"loss": "triplet"}, init_source="elsewhere"
    )
    assert encoder.fingerprint == before
    found = {before}
    for change in ({"size": (32, 24)}, {"fit": "pad"}, {"mean": (0.5, 0.5, 0.5)}):
        kept = encoder.about
        encoder.about = replace(kept, **change)  # type: ignore[arg-type]
        found.add(encoder.fingerprint)
        encoder.about = kept
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter[0] += 1e-3
            found.add(encoder.fingerprint)
    assert len(found) == 1 + 3 + len(list(encoder.parameters()))


def test_initialization_is_the_same_each_time_and_says_whose_images_it_used(
    small_backbone: str, pictures: Pixels
) -> None:
    def initialized(seed: int) -> Encoder:
        encoder = Encoder.create(
            weights="random", size=(64, 48), clusters=4, backbone=small_backbone
        )
        encoder.initialize(pictures, source="/data/pittsburgh", seed=seed)
        return encoder

    assert initialized(0).fingerprint == initialized(0).fingerprint
    assert initialized(0).fingerprint != initialized(1).fingerprint
    assert initialized(0).about.init_source == "/data/pittsburgh"


def _set(*keys: str, to: Any) -> Callable[[dict[str, Tensor], dict[str, Any]], None]:
    def change(tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = to

    return change


def _replace(
    name: str, tensor: Tensor | None
) -> Callable[[dict[str, Tensor], dict[str, Any]], None]:
    def change(tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
        tensors.pop(name, None)
        if tensor is not None:
            tensors[name] = tensor

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_set("about", to={}), "damaged.*'backbone'"),
        (_set("about", "size", to="big"), "damaged.*'b'"),
        (_set("about", "mean", to=[0.5]), "damaged.*mean and std"),
        (_set("about", "backbone", to="vgg19"), "unknown backbone 'vgg19'"),
        (
            _set("about", "clusters", to=5),
            "aggregator.assignment is 4 x 6 float32, expected 5 x 6 float32",
        ),
        (_replace("first.weight", None), "first.weight is missing"),
        (_replace("third.weight", torch.zeros(1)), "third.weight does not belong"),
        (_replace("second.bias", torch.zeros(7)), "second.bias is 7 float32, expected 6 float32"),
        (
            _replace("second.bias", torch.zeros(6).half()),
            "second.bias is 6 float16, expected 6 float32",
        ),
    ],
)
def test_a_file_that_does_not_fit_says_where(
    file: Path, change: Callable[[dict[str, Tensor], dict[str, Any]], None], problem: str
) -> None:
    with pytest.raises(BadInputError, match=rf"encoder\.safetensors: .*{problem}"):
        Encoder.load(rewritten(file, change))


def test_a_flipped_bit_is_found_anywhere_in_the_file(file: Path) -> None:
    whole = file.read_bytes()
    for position in np.linspace(0, len(whole) - 1, 40).astype(int):
        damaged = bytearray(whole)
        damaged[position] ^= 16
        file.write_bytes(damaged)
        with pytest.raises(BadInputError, match=r"encoder\.safetensors: "):
            Encoder.load(file)


@pytest.mark.medium
def test_the_file_leaves_out_what_the_weight_set_has(
    vgg16_v1: dict[str, Tensor], pictures: Pixels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.create(weights="vgg16-v1", size=(64, 48), clusters=4)
    encoder.initialize(pictures)
    with torch.no_grad():
        encoder.backbone.state_dict()["features.28.bias"][0] += 1  # learned
    encoder.save(tmp_path / "encoder.safetensors")
    assert (tmp_path / "encoder.safetensors").stat().st_size < 50_000
    assert set(load_file(tmp_path / "encoder.safetensors")) == {
        "aggregator.assignment",
        "aggregator.centres",
        "features.28.bias",
    }
    assert Encoder.load(tmp_path / "encoder.safetensors").fingerprint == encoder.fingerprint
    other = {name: tensor + 1 for name, tensor in vgg16_v1.items()}
    for source in ("stored_weights", "load_weights"):
        monkeypatch.setattr(f"mappable.features.files.{source}", lambda name: other)
    with pytest.raises(BadInputError, match=r"encoder\.safetensors: needs weights vgg16-v1"):
        Encoder.load(tmp_path / "encoder.safetensors")
