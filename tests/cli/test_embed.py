"""`mappable embed`: from an encoder and a converted set to descriptors on disk."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from mappable.cli.embed import embed
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.places import load_places
from mappable.readers import convert

pytestmark = pytest.mark.medium

Draw = Callable[..., Path]


@pytest.fixture(scope="module")
def encoder_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VGG-16 with random weights, for images of 32x32."""
    file = tmp_path_factory.mktemp("model") / "encoder.safetensors"
    encoder = Encoder.create(weights="random", size=(32, 32), clusters=2)
    encoder.initialize(np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), dtype=np.uint8))
    encoder.save(file)
    return file


@pytest.fixture
def collection(tmp_path: Path, draw: Draw) -> Path:
    """A folder as `mappable convert` writes it, without packed pixels."""
    rows = []
    for number in range(6):
        draw(tmp_path / f"set/day/{number}.jpg")
        rows.append(f"day/{number}.jpg,{number},0,{'train' if number < 4 else 'test'}")
    (tmp_path / "set/places.csv").write_text("\n".join(["path,x,y,split", *rows]))
    convert("manifest", tmp_path / "set", tmp_path / "places", pixels=False)
    return tmp_path / "places"


def run(*arguments: object) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(embed)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_images_of_a_converted_set_are_described(
    encoder_file: Path, collection: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run(encoder_file, collection, out, "--json")
    assert result.exit_code == 0, result.output
    encoder = Encoder.load(encoder_file)
    facts = json.loads(result.stdout)
    assert (facts["descriptors"], facts["dimensions"], facts["packed"]) == (6, 1024, False)
    assert (facts["encoder"], facts["device"], facts["out"]) == (
        encoder.fingerprint,
        "cpu",
        str(out),
    )
    descriptors = np.load(out / "descriptors.npy")
    np.testing.assert_array_equal(descriptors, encoder.embed(load_places(collection)))
    assert load_places(out) == load_places(collection)
    assert json.loads((out / "descriptors.json").read_text())["encoder"] == encoder.fingerprint


def test_mistakes_are_found_before_any_image_is_described(
    encoder_file: Path, collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out, foreign = tmp_path / "out", tmp_path / "foreign.safetensors"
    foreign.write_bytes(b"nothing")
    for arguments, problem in (
        ((encoder_file, collection, collection), "already contains a table of places"),
        ((encoder_file, collection, tmp_path / "out.h5", "--on", "local"), "no hloc file"),
        (
            (encoder_file, collection, out, "--split", "calibration"),
            "no place has the split 'calibration'",
        ),
        ((encoder_file, collection, out, "--device", "cuda"), "cuda"),
        ((encoder_file, tmp_path / "nowhere", out), "no such table of places"),
        ((tmp_path / "nowhere", collection, out), "no such encoder file"),
        ((foreign, collection, out), "foreign.safetensors: damaged"),
    ):
        error = run(*arguments).exception
        assert isinstance(error, BadInputError)
        assert problem in str(error)
    assert not out.exists()
