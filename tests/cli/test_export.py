"""`mappable export`, and encoders by onnxruntime on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from mappable.features.encoder import Encoder
from mappable.features.onnx_encoder import OnnxEncoder
from mappable.features.onnx_export import TOLERANCE
from mappable.places.files import load_places
from refusals import refused

pytestmark = pytest.mark.medium

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def exported(mappable: Run, wall_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "wall.onnx"
    result = mappable("export", wall_encoder, out, "--json")
    assert result.exit_code == 0, result.output
    encoder = Encoder.load(wall_encoder)
    facts = json.loads(result.stdout)
    assert 0 < facts["difference"] < 1e-5 < TOLERANCE
    assert (facts["encoder"], facts["precision"], facts["dimensions"]) == (
        encoder.fingerprint,
        "float32",
        192,
    )
    assert (facts["file"], result.stderr) == (str(out), "")
    return out


@pytest.fixture(scope="module")
def in_int8(mappable: Run, wall: Path, exported: Path) -> Path:
    out = exported.with_name("int8.onnx")
    result = mappable("export", exported, out, "--int8", wall, "--positive-radius", 10)
    assert result.exit_code == 0, result.output
    assert "int8: radius     10" in result.stdout
    assert "80 references and 160 calibration images; 119 queries left out" in result.stderr
    return out


def test_images_are_described_by_onnxruntime(
    mappable: Run, exported: Path, wall: Path, wall_encoder: Path, tmp_path: Path
) -> None:
    result = mappable("embed", exported, wall, tmp_path / "out", "--split", "test")
    assert result.exit_code == 0, result.output
    places, encoder = load_places(wall).where(split="test"), Encoder.load(wall_encoder)
    ours = encoder.embed(places, precision="float32")
    np.testing.assert_allclose(np.load(tmp_path / "out/descriptors.npy"), ours, atol=1e-5)
    about = json.loads((tmp_path / "out/descriptors.json").read_text())
    assert (about["encoder"], about["precision"]) == (encoder.fingerprint, "float32")


def test_int8_says_how_well_it_locates_and_has_maps_of_its_own(
    mappable: Run, in_int8: Path, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    accuracy = OnnxEncoder(in_int8).facts.accuracy
    assert accuracy["float32"] > 50
    assert accuracy["float32"] - accuracy["int8"] <= 1
    assert (accuracy["queries"], accuracy["landmarks"], accuracy["radius"], accuracy["images"]) == (
        160,
        80,
        10,
        64,
    )
    refused(
        mappable("locate", wall_map, wall / "fog", "--encoder", in_int8),
        "but the map needs encoder",
    )
    built = mappable(
        "map", "build", wall, tmp_path / "map", "--encoder", in_int8, "--landmarks", 60
    )
    assert built.exit_code == 0, built.output
    more = mappable("map", "add", tmp_path / "map", wall, "--split", "test", "--spacing", 100)
    assert more.exit_code == 0, more.output
    found = mappable("locate", tmp_path / "map", wall / "fog", "--json")
    truth = load_places(wall).where(sequence="fog").positions
    off = [
        np.linalg.norm(np.subtract(one["coordinates"], at))
        for one, at in zip(json.loads(found.stdout), truth, strict=True)
    ]
    assert np.median(off) < 2


def test_what_cannot_be_exported_or_measured_is_refused(
    mappable: Run, exported: Path, in_int8: Path, wall: Path, wall_encoder: Path, tmp_path: Path
) -> None:
    out, int8 = tmp_path / "wall.onnx", ("--int8", wall)
    refused(mappable("export", exported, out, *int8), "positive radius", "--positive-radius")
    refused(mappable("export", in_int8, out, *int8), "int8.onnx: is an int8 file")
    again = mappable("export", exported, exported, *int8, "--overwrite")
    refused(again, "wall.onnx: is both the source and the target", "another file name")
    for radius, problem in (
        (-1, "expected a number above 0"),
        (1e-6, "no query finds a landmark within"),
    ):
        refused(mappable("export", exported, out, *int8, "--positive-radius", radius), problem)
    refused(mappable("export", exported, out), "wall.onnx: is an ONNX file already")
    refused(mappable("export", tmp_path / "none.safetensors", out), "no such encoder file")
    refused(mappable("export", wall_encoder, tmp_path / "wall.pt"), "end in .onnx")
    assert not list(tmp_path.iterdir())
