"""`mappable embed`: from an encoder and a converted set to descriptors on disk."""

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from mappable.cli.embed import embed
from mappable.errors import BadImageError, BadInputError
from mappable.features.encoder import Encoder
from mappable.places import find_pack, load_places, pack_images
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


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_images_of_a_converted_set_are_described(encoder_file: Path, collection: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(encoder_file, collection, out, "--precision", "float32", "--batch-size", 4)
    assert result.exit_code == 0, result.output
    encoder = Encoder.load(encoder_file)
    for text in ("6 descriptors of 1,024 numbers", encoder.fingerprint, "from image files on cpu", f"written to {out}"):
        assert text in result.stdout
    descriptors = np.load(out / "descriptors.npy")
    np.testing.assert_array_equal(descriptors, encoder.embed(load_places(collection), precision="float32"))
    assert load_places(out) == load_places(collection)
    assert json.loads((out / "descriptors.json").read_text())["encoder"] == encoder.fingerprint


def test_packed_pixels_are_used_where_they_are_of_the_encoders_size(
    encoder_file: Path, collection: Path, tmp_path: Path
) -> None:
    run(encoder_file.parent, collection, tmp_path / "files")  # the folder of a run will do
    convert("manifest", tmp_path / "set", collection, size=(24, 24))
    assert "from image files" in run(encoder_file, collection, tmp_path / "others").stdout
    convert("manifest", tmp_path / "set", collection, size=(32, 32))
    assert len(find_pack(collection, (32, 32))) == 6
    (tmp_path / "set/day/3.jpg").unlink()
    assert "from packed pixels" in run(encoder_file, collection, tmp_path / "pack").stdout
    assert contents(tmp_path / "pack") == contents(tmp_path / "files")


def test_a_pack_that_lacks_an_image_is_passed_over(encoder_file: Path, collection: Path, tmp_path: Path) -> None:
    places = load_places(collection)
    pack_images(places[:4], collection, size=(32, 32))
    assert "from image files" in run(encoder_file, collection, tmp_path / "all").stdout
    assert load_places(tmp_path / "all") == places
    assert "from packed pixels" in run(encoder_file, collection, tmp_path / "train", "--split", "train").stdout
    descriptors = np.load(tmp_path / "all/descriptors.npy")
    np.testing.assert_array_equal(descriptors[:4], np.load(tmp_path / "train/descriptors.npy"))


def test_one_split_alone_from_a_table(encoder_file: Path, collection: Path, tmp_path: Path) -> None:
    result = run(encoder_file, collection / "places.parquet", tmp_path / "out", "--split", "test")
    assert result.exit_code == 0, result.output
    assert load_places(tmp_path / "out").path.tolist() == ["day/4.jpg", "day/5.jpg"]
    assert len(np.load(tmp_path / "out/descriptors.npy")) == 2


def test_hloc_gets_its_file(encoder_file: Path, collection: Path, tmp_path: Path) -> None:
    result = run(encoder_file, collection, tmp_path / "global.h5", "--format", "hloc")
    assert result.exit_code == 0, result.output
    with h5py.File(tmp_path / "global.h5", "r") as opened:
        assert opened["day/5.jpg"]["global_descriptor"].shape == (1024,)


def test_an_image_that_is_gone_is_named_and_older_descriptors_stay(
    encoder_file: Path, collection: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run(encoder_file, collection, out).exit_code == 0
    before = contents(out)
    (tmp_path / "set/day/3.jpg").unlink()
    refused = run(encoder_file, collection, out).exception
    assert "descriptors.npy: exists" in str(refused)
    error = run(encoder_file, collection, out, "--overwrite").exception
    assert isinstance(error, BadImageError)
    assert "day/3.jpg: no such file" in str(error)
    assert contents(out) == before


def test_mistakes_are_found_before_any_image_is_described(
    encoder_file: Path, collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out, foreign = tmp_path / "out", tmp_path / "foreign.safetensors"
    foreign.write_bytes(b"nothing")
    for arguments, problem in (
        ((encoder_file, collection, collection), "already contains a table of places"),
        ((encoder_file, collection, out, "--format", "hloc"), "ends in .h5"),
        ((encoder_file, collection, out, "--split", "calibration"), "no place has the split 'calibration'"),
        ((encoder_file, collection, out, "--device", "cuda"), "cuda"),
        ((encoder_file, tmp_path / "nowhere", out), "no such table of places"),
        ((tmp_path / "nowhere", collection, out), "no such encoder file"),
        ((foreign, collection, out), "foreign.safetensors: damaged"),
    ):
        error = run(*arguments).exception
        assert isinstance(error, BadInputError)
        assert problem in str(error)
    assert not out.exists()
