"""A full round with each kind of foreign encoder: build, locate, drives, evaluate, recover, and changes of the map.

`tests/service/test_descriptors.py` serves a map of each kind.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import Result

from mappable.features.export import write_hloc
from mappable.features.foreign import hub
from mappable.maps.landmarks import Landmarks
from mappable.places.files import load_places, save_places
from refusals import refused

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("own_cache")]
Run = Callable[..., Result]
RADII = ("--positive-radius", "5", "--negative-radius", "15", "--protocols", "table1,localization")


def succeeded(result: Result) -> Result:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def share_found(result: Result, places: Path) -> float:
    """Share of images of the wall that are located within 5 m."""
    table = load_places(places)
    true = {
        str(file): position for file, position in zip(table.files, table.positions, strict=True)
    }
    true |= dict(zip(table.place_id, table.positions, strict=True))
    found = json.loads(succeeded(result).stdout)
    return float(
        np.mean([np.linalg.norm(true[one["image"]] - one["coordinates"]) < 5 for one in found])
    )


def whole_round(
    mappable: Run, wall: Path, folder: Path, encoder: object, *, numbers: int = 144
) -> None:
    """Build a map with an encoder, and use it with nothing but its folder."""
    shown = succeeded(
        mappable("map", "build", wall, folder / "map", "--encoder", encoder, "--landmarks", 60)
    )
    assert Landmarks.open(folder / "map").store.dimensions == numbers, shown.output
    assert share_found(mappable("locate", folder / "map", wall / "fog", "--json"), wall) > 0.9
    assert (
        share_found(mappable("locate", folder / "map", wall / "fog", "--sequence", "--json"), wall)
        > 0.9
    )
    evaluated = succeeded(
        mappable("evaluate", folder / "map", wall, folder / "evaluated", *RADII, "--json")
    )
    assert json.loads(evaluated.stdout)
    succeeded(mappable("recover", folder / "map", wall / "fog", folder / "recovered"))
    embedded = succeeded(
        mappable("embed", folder / "map", wall, folder / "embedded", "--split", "test", "--json")
    )
    assert json.loads(embedded.stdout)["encoder"] == Landmarks.open(folder / "map").encoder
    by_file = mappable("locate", folder / "map", "--descriptors", folder / "embedded", "--json")
    assert share_found(by_file, wall) > 0.9
    shutil.copytree(folder / "map", folder / "grown")
    succeeded(mappable("densify", folder / "grown", wall / "fog"))
    succeeded(
        mappable("map", "add", folder / "grown", wall, "--sequence", "rain", "--spacing", 100)
    )


def foreign_round(mappable: Run, wall: Path, folder: Path, encoder: object) -> None:
    """A whole round with a network of others, which has a license and is not exported."""
    whole_round(mappable, wall, folder, encoder)
    assert "MIT" in succeeded(mappable("map", "show", folder / "map")).stdout
    for source in (folder / "map", encoder):
        refused(
            mappable("export", source, folder / "out.onnx"),
            "is a foreign encoder; export writes only",
        )


def test_an_onnx_file_of_others(
    mappable: Run, wall: Path, foreign_onnx: Callable[..., Path], tmp_path: Path
) -> None:
    file = foreign_onnx(
        "apart", batch=1, save_as_external_data=True, location="apart.onnx.data", size_threshold=0
    )
    foreign_round(mappable, wall, tmp_path, file)
    file.with_suffix(".yaml").write_text(
        file.with_suffix(".yaml").read_text().replace("RGB", "BGR")
    )
    refused(
        mappable("locate", tmp_path / "map", wall / "fog", "--encoder", file),
        "but the map needs encoder",
    )


def test_a_model_of_torch_hub(mappable: Run, wall: Path, foreign_hub: Path, tmp_path: Path) -> None:
    refused(
        mappable("map", "build", wall, tmp_path / "map", "--encoder", foreign_hub), "--trust-code"
    )
    assert not (tmp_path / "map").exists()
    succeeded(
        mappable(
            "embed", foreign_hub, wall, tmp_path / "trusted", "--split", "test", "--trust-code"
        )
    )
    foreign_round(mappable, wall, tmp_path, foreign_hub)
    code = Landmarks.open(tmp_path / "map").about.foreign["code"]  # type: ignore[union-attr]
    assert code == hub.digest_of_code(tmp_path / "repository")
    (tmp_path / "repository/more.py").write_text("# changed\n")
    refused(
        mappable("locate", tmp_path / "map", wall / "fog"), code[:16], "restore the earlier code"
    )


def test_a_model_of_transformers_is_trained(mappable: Run, wall: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="install the extra transformers")
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2}
    model = transformers.Dinov2Config(**small, patch_size=8, image_size=32)
    transformers.AutoModel.from_config(model).save_pretrained(tmp_path / "model")
    normalization = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.3]}
    (tmp_path / "model/preprocessor_config.json").write_text(json.dumps(normalization))
    backbone = f"transformers:{tmp_path / 'model'}"
    values = {
        "backbone": backbone,
        "size": "64x48",
        "clusters": 4,
        "positive_radius": 5,
        "negative_radius": 15,
    }
    values |= {"anchors": 1, "positives": 2, "negatives": 2, "hard_negatives": 1, "init_images": 20}
    options = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    train = ("train", wall, tmp_path / "trained", "--preset", "street", "--set", "iterations=2")
    succeeded(mappable(*train, *options, "--set", "landmarks=0"))
    shutil.rmtree(tmp_path / "model")  # the encoder has all that it needs
    whole_round(mappable, wall, tmp_path, tmp_path / "trained", numbers=128)
    refused(
        mappable("embed", backbone, wall, tmp_path / "out"),
        "is a backbone",
        f"--set backbone={backbone}",
    )


def test_the_map_of_a_stranger_runs_no_code(
    mappable: Run, wall: Path, foreign_hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeeded(
        mappable(
            "map",
            "build",
            wall,
            tmp_path / "map",
            "--encoder",
            foreign_hub,
            "--landmarks",
            20,
            "--trust-code",
        )
    )
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "another machine"))
    hub._trusted.clear()
    for command in (
        ("locate", tmp_path / "map", wall / "fog"),
        ("serve", tmp_path / "map", "--port", 0),
        ("evaluate", tmp_path / "map", wall, tmp_path / "out", *RADII),
        ("recover", tmp_path / "map", wall / "fog", tmp_path / "out"),
        ("embed", tmp_path / "map", wall, tmp_path / "out"),
        ("densify", tmp_path / "map", wall / "fog"),
    ):
        refused(mappable(*command), "runs foreign code", "--trust-code")


@pytest.mark.parametrize("kind", ["npy", "hloc"])
def test_descriptors_in_a_file(
    mappable: Run, wall: Path, foreign_onnx: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    places = load_places(wall)
    succeeded(mappable("embed", foreign_onnx(), wall, tmp_path / "embedded"))
    # Others do not scale to length one.
    numbers = 3 * np.load(tmp_path / "embedded/descriptors.npy")
    file = tmp_path / ("others.npy" if kind == "npy" else "others.h5")
    np.save(file, numbers) if kind == "npy" else write_hloc(file, places, numbers)
    others = ("--descriptors", file, "--fingerprint", "others")
    built = succeeded(mappable("map", "build", wall, tmp_path / "map", *others, "--landmarks", 60))
    assert "scaled to it" in built.stderr
    for options in ((), ("--sequence",)):
        assert (
            share_found(
                mappable("locate", tmp_path / "map", wall, *others, *options, "--json"), wall
            )
            > 0.9
        )
    if kind == "hloc":
        return
    succeeded(mappable("evaluate", tmp_path / "map", wall, tmp_path / "out", *RADII, *others))
    save_places(places.where(split="test"), tmp_path / "fog.parquet")
    rows = np.flatnonzero(places.split == "test")
    np.save(file, numbers[rows])
    numbered = json.loads(succeeded(mappable("locate", tmp_path / "map", *others, "--json")).stdout)
    assert [one["image"] for one in numbered] == [str(row) for row in range(len(rows))]
    fog = tmp_path / "fog.parquet"
    succeeded(mappable("recover", tmp_path / "map", fog, tmp_path / "recovered", *others))
    succeeded(mappable("densify", tmp_path / "map", fog, *others))
