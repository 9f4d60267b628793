"""A full round with each kind of foreign encoder: build, locate, drives, evaluate, recover, and changes of the map."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from mappable.errors import BadInputError
from mappable.features.export import write_hloc
from mappable.features.foreign import hub
from mappable.maps.map import Map
from mappable.places.files import load_places, save_places

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("own_cache")]
Run = Callable[..., Result]
RADII = ("--positive-radius", "5", "--negative-radius", "15", "--protocols", "table1,localization")


def succeeded(result: Result) -> Result:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(result: Result, *parts: str) -> None:
    assert isinstance(result.exception, BadInputError), (result.output, result.exception)
    for part in parts:
        assert part in str(result.exception)
    assert "\n" not in str(result.exception)


def share_found(result: Result, places: Path) -> float:
    """Share of images of the wall that are located within 5 m."""
    table = load_places(places)
    true = {str(file): position for file, position in zip(table.files, table.positions, strict=True)}
    true |= dict(zip(table.place_id, table.positions, strict=True))
    found = json.loads(succeeded(result).stdout)
    return float(np.mean([np.linalg.norm(true[one["image"]] - one["coordinates"]) < 5 for one in found]))


def whole_round(mappable: Run, wall: Path, folder: Path, encoder: object) -> None:
    """Build a map with an encoder, and use it with nothing but its folder."""
    shown = succeeded(mappable("map", "build", wall, folder / "map", "--encoder", encoder, "--landmarks", 60))
    assert "kept with the map; 144 numbers" in shown.stdout
    assert "license: MIT" in succeeded(mappable("map", "show", folder / "map")).stdout
    assert share_found(mappable("locate", folder / "map", wall / "fog", "--json"), wall) > 0.9
    assert share_found(mappable("locate", folder / "map", wall / "fog", "--sequence", "--json"), wall) > 0.9
    evaluated = succeeded(mappable("evaluate", folder / "map", wall, folder / "evaluated", *RADII, "--json"))
    assert json.loads(evaluated.stdout)
    succeeded(mappable("recover", "images", folder / "map", wall / "fog", folder / "recovered"))
    embedded = succeeded(mappable("embed", folder / "map", wall, folder / "embedded", "--split", "test", "--json"))
    assert json.loads(embedded.stdout)["encoder"] == Map.open(folder / "map").encoder
    by_file = mappable("locate", folder / "map", "--descriptors", folder / "embedded", "--json")
    assert share_found(by_file, wall) > 0.9
    shutil.copytree(folder / "map", folder / "grown")
    assert "images added" in succeeded(mappable("densify", folder / "grown", wall / "fog")).stdout
    succeeded(mappable("map", "add", folder / "grown", wall, "--sequence", "rain", "--landmarks", 3))
    refused(mappable("export", folder / "map", folder / "out.onnx"), "is a foreign encoder; export writes only")
    refused(mappable("export", encoder, folder / "out.onnx"), "is a foreign encoder; export writes only")


def test_an_onnx_file_of_others(mappable: Run, wall: Path, foreign_onnx: Callable[..., Path], tmp_path: Path) -> None:
    file = foreign_onnx("apart", batch=1, save_as_external_data=True, location="apart.onnx.data", size_threshold=0)
    whole_round(mappable, wall, tmp_path, file)
    file.with_suffix(".yaml").write_text(file.with_suffix(".yaml").read_text().replace("RGB", "BGR"))
    refused(mappable("locate", tmp_path / "map", wall / "fog", "--encoder", file), "but the map needs encoder")


def test_a_model_of_torch_hub(mappable: Run, wall: Path, foreign_hub: Path, tmp_path: Path) -> None:
    refused(mappable("map", "build", wall, tmp_path / "map", "--encoder", foreign_hub), "--trust-code")
    assert not (tmp_path / "map").exists()
    succeeded(mappable("embed", foreign_hub, wall, tmp_path / "trusted", "--split", "test", "--trust-code"))
    whole_round(mappable, wall, tmp_path, foreign_hub)
    code = Map.open(tmp_path / "map").about.foreign["code"]  # type: ignore[union-attr]
    assert code == hub.digest_of_code(tmp_path / "repository")
    (tmp_path / "repository/more.py").write_text("# changed\n")
    refused(mappable("locate", tmp_path / "map", wall / "fog"), code[:16], "restore the earlier code")


def test_the_map_of_a_stranger_runs_no_code(
    mappable: Run, wall: Path, foreign_hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeeded(
        mappable("map", "build", wall, tmp_path / "map", "--encoder", foreign_hub, "--landmarks", 20, "--trust-code")
    )
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "another machine"))
    hub._trusted.clear()
    for command in (
        ("locate", tmp_path / "map", wall / "fog"),
        ("serve", tmp_path / "map", "--port", 0),
        ("evaluate", tmp_path / "map", wall, tmp_path / "out", *RADII),
        ("recover", "images", tmp_path / "map", wall / "fog", tmp_path / "out"),
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
    numbers = 3 * np.load(tmp_path / "embedded/descriptors.npy")  # others do not scale to length one
    file = tmp_path / ("others.npy" if kind == "npy" else "others.h5")
    np.save(file, numbers) if kind == "npy" else write_hloc(file, places, numbers)
    others = ("--descriptors", file, "--fingerprint", "others")
    built = succeeded(mappable("map", "build", wall, tmp_path / "map", *others, "--landmarks", 60))
    assert "scaled to it" in built.stderr
    for options in ((), ("--sequence",)):
        assert share_found(mappable("locate", tmp_path / "map", wall, *others, *options, "--json"), wall) > 0.9
    if kind == "hloc":
        return
    succeeded(mappable("evaluate", tmp_path / "map", wall, tmp_path / "out", *RADII, *others))
    save_places(places.where(split="test"), tmp_path / "fog.parquet")
    rows = np.flatnonzero(places.split == "test")
    np.save(file, numbers[rows])
    numbered = json.loads(succeeded(mappable("locate", tmp_path / "map", *others, "--json")).stdout)
    assert [one["image"] for one in numbered] == [str(row) for row in range(len(rows))]
    fog = tmp_path / "fog.parquet"
    succeeded(mappable("recover", "images", tmp_path / "map", fog, tmp_path / "recovered", *others))
    succeeded(mappable("map", "reliability", tmp_path / "map", fog, tmp_path / "out.png", *others))
    succeeded(mappable("densify", tmp_path / "map", fog, *others))


def test_descriptors_that_do_not_fit_are_refused(mappable: Run, wall: Path, wall_map: Path, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(359, 192)).astype(np.float32)
    np.save(tmp_path / "some.npy", numbers)
    some = ("locate", wall_map, "--descriptors", tmp_path / "some.npy")
    refused(mappable(*some), "some.npy", "--fingerprint")
    refused(mappable(*some, "--fingerprint", "others"), "others", Map.open(wall_map).encoder)
    own = ("--fingerprint", Map.open(wall_map).encoder)
    succeeded(mappable(*some, wall, *own))
    refused(mappable(*some, wall / "fog", *own), "359 descriptors, expected one per place (119 places)")
    refused(mappable(*some, *own, "--pairs", tmp_path / "pairs.txt"), "give IMAGES too")
    refused(mappable(*some, *own, "--encoder", wall_map), "exclude each other")
    refused(mappable("locate", wall_map, wall / "fog", *own), "--fingerprint needs --descriptors")
    np.save(tmp_path / "some.npy", numbers[:, :7])
    refused(mappable(*some, wall, *own), "some.npy: descriptors have 7 numbers, but those of the map have 192")
    refused(mappable("locate", wall_map, "--descriptors", tmp_path / "none.h5", *own), "none.h5")


def test_encoders_are_listed_with_size_license_and_time(
    mappable: Run, foreign_hub: Path, foreign_onnx: Callable[..., Path], wall_map: Path
) -> None:
    listed = succeeded(mappable("encoders")).stdout
    assert all(word in listed for word in ("vgg16-v1", "netvlad", "hub:OWNER/REPO:ENTRY"))
    assert json.loads(succeeded(mappable("encoders", "--json")).stdout)["backbones"]
    sources = (foreign_hub, foreign_onnx(), wall_map)
    shown = json.loads(succeeded(mappable("encoders", *sources, "--time", "--trust-code", "--json")).stdout)
    assert [one["dimensions"] for one in shown] == [144, 144, 192]
    assert [one["license"] for one in shown[:2]] == ["MIT", "MIT"]
    assert all(one["megabytes"] > 0 and one["milliseconds"] > 0 for one in shown)
    assert "64x48" in succeeded(mappable("encoders", wall_map)).stdout
    refused(mappable("encoders", "--time"), "give ENCODER")
